//! Retention settings: the keys of `[retain]`, and the flags of `prune` that override them.

use std::time::Duration;

use milepost::internal::model::KeepCount;
use milepost::internal::model::StoreLimits;
use milepost::model::Profile;

use super::Settings;
use super::value::{Age, RawValue, SettingValue, Size};
use crate::error::{CommandError, Result};

/// Retention settings. The profile decides `keep_last` and `max_age` if they are not set.
#[derive(Debug, Clone, Default)]
pub(crate) struct Retain {
    pub(crate) keep_last: Option<KeepCount>,
    pub(crate) max_age: Option<Option<Duration>>,
    /// Minimums from a project's file that need no trust, because they never reduce what is kept.
    pub(crate) keep_last_at_least: Option<KeepCount>,
    pub(crate) max_age_at_least: Option<Option<Duration>>,
    pub(crate) keep_hourly: u64,
    pub(crate) keep_daily: u64,
    pub(crate) keep_weekly: u64,
    pub(crate) keep_within: Option<Duration>,
    pub(crate) store_limits: StoreLimits,
}

/// Retention flags of `prune`, unparsed.
#[derive(Debug, clap::Args)]
pub(crate) struct RetainFlags {
    /// Keep this many of each run's newest checkpoints: 1 or more, or all [default: by profile, 50]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_last: Option<String>,
    /// Keep the newest checkpoint of each of the last N hours that have one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_hourly: Option<String>,
    /// Keep the newest checkpoint of each of the last N days that have one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_daily: Option<String>,
    /// Keep the newest checkpoint of each of the last N weeks that have one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_weekly: Option<String>,
    /// Keep all checkpoints newer than this, such as 36h or 2d
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    keep_within: Option<String>,
    /// Remove checkpoints older than this unless another rule keeps them: a duration, or none [default: by
    /// profile, 14d]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    max_age: Option<String>,
    /// Compress documents older than this in a files: store (off unless set here or in milepost.toml)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub(crate) compress_after: Option<String>,
}

impl Retain {
    pub(super) fn load(settings: &mut Settings<'_>, profile: Profile) -> Result<Self> {
        let (retention, usual) = (profile.retention(), StoreLimits::default());
        let max_age = Age(retention.max_age);
        Ok(Self {
            keep_last: settings.by_profile("retain.keep_last", retention.keep_last, profile)?,
            max_age: settings.by_profile("retain.max_age", max_age, profile)?.map(|age| age.0),
            keep_last_at_least: None,
            max_age_at_least: None,
            keep_hourly: settings.value("retain.keep_hourly", 0)?,
            keep_daily: settings.value("retain.keep_daily", 0)?,
            keep_weekly: settings.value("retain.keep_weekly", 0)?,
            keep_within: settings.value("retain.keep_within", Age(None))?.0,
            store_limits: StoreLimits {
                ended_after: settings.value("retain.ended_runs", Age(usual.ended_after))?.0,
                compress_after: settings.value("retain.compress_after", Age(usual.compress_after))?.0,
                max_bytes: settings.value("retain.max_store", Size(usual.max_bytes))?.0,
                max_file_bytes: settings.value("retain.max_files", Size(usual.max_file_bytes))?.0,
            },
        })
    }

    /// Returns these settings with the flags of `prune` applied.
    pub(crate) fn with(&self, flags: &RetainFlags) -> Result<Self> {
        let mut retain = self.clone();
        if let Some(keep) = parse("--keep-last", &flags.keep_last)? {
            retain.keep_last = Some(keep);
            retain.keep_last_at_least = None;
        }
        for (name, flag, count) in [
            ("--keep-hourly", &flags.keep_hourly, &mut retain.keep_hourly),
            ("--keep-daily", &flags.keep_daily, &mut retain.keep_daily),
            ("--keep-weekly", &flags.keep_weekly, &mut retain.keep_weekly),
        ] {
            *count = parse(name, flag)?.unwrap_or(*count);
        }
        if let Some(Age(age)) = parse("--max-age", &flags.max_age)? {
            retain.max_age = Some(age);
            retain.max_age_at_least = None;
        }
        for (name, flag, span) in [
            ("--keep-within", &flags.keep_within, &mut retain.keep_within),
            ("--compress-after", &flags.compress_after, &mut retain.store_limits.compress_after),
        ] {
            *span = parse(name, flag)?.map_or(*span, |Age(age)| age);
        }
        Ok(retain)
    }
}

fn parse<T: SettingValue>(name: &str, flag: &Option<String>) -> Result<Option<T>> {
    let value = flag.clone().map(|text| T::parse(RawValue::Text(text))).transpose();
    value.map_err(|why| CommandError::usage(format!("{name}: {why}")))
}
