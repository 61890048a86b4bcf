//! What is kept: the keys of `[retain]`, and the flags of `prune` that go over them.

use std::time::Duration;

use milepost::internal::model::StoreLimits;
use milepost::model::{KeepCount, Profile};

use super::{ConfigFiles, Origin, RawValue, Settings, value};
use crate::error::CommandError;

/// What is kept, as far as anybody said.
#[derive(Debug, Clone, Default)]
pub(crate) struct Retain {
    pub(crate) keep_last: Option<KeepCount>,
    pub(crate) max_age: Option<Option<Duration>>,
    /// What a project adds that the user has not trusted: at least this much is kept.
    pub(crate) keep_last_at_least: Option<KeepCount>,
    pub(crate) max_age_at_least: Option<Option<Duration>>,
    pub(crate) keep_hourly: u64,
    pub(crate) keep_daily: u64,
    pub(crate) keep_weekly: u64,
    pub(crate) keep_within: Option<Duration>,
    pub(crate) store_limits: StoreLimits,
}

/// Flags of `prune` as they were typed.
#[derive(Debug, clap::Args)]
pub(crate) struct RetainFlags {
    /// Keep so many of a run's newest checkpoints: a number of 1 or more, or all [default: by profile, 50]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_last: Option<String>,
    /// Keep the newest of so many hours that have one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_hourly: Option<String>,
    /// Keep the newest of so many days that have one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_daily: Option<String>,
    /// Keep the newest of so many weeks that have one
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keep_weekly: Option<String>,
    /// Keep everything younger than this, such as 36h or 2d
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    keep_within: Option<String>,
    /// Remove what is older, unless something else keeps it: a duration or none [default: by profile, 14d]
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    max_age: Option<String>,
    /// Compress documents older than this, in a files: store; off unless given here or in milepost.toml
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    pub(crate) compress_after: Option<String>,
}

impl Retain {
    pub(super) fn load(
        files: &ConfigFiles<'_>,
        settings: &mut Settings,
        profile: Profile,
    ) -> Result<Self, CommandError> {
        let by_profile = Origin::Profile(profile);
        let retention = profile.retention();
        let store_limits = StoreLimits::default();
        let mut retain = Self {
            keep_last: settings.resolve_or(
                "retain.keep_last",
                files.find("retain.keep_last"),
                (retention.keep_last.to_string(), by_profile.clone()),
                |raw, _| value::keep(raw),
            )?,
            max_age: settings
                .resolve_or(
                    "retain.max_age",
                    files.find("retain.max_age"),
                    (value::Age(retention.max_age).to_string(), by_profile),
                    |raw, _| value::age(raw).map(value::Age),
                )?
                .map(|age| age.0),
            store_limits,
            ..Self::default()
        };
        for (key, count) in [
            ("retain.keep_hourly", &mut retain.keep_hourly),
            ("retain.keep_daily", &mut retain.keep_daily),
            ("retain.keep_weekly", &mut retain.keep_weekly),
        ] {
            let found = settings.resolve(key, files.find(key), "0".into(), |raw, _| value::count(raw))?;
            *count = found.unwrap_or_default();
        }
        for (key, span) in [
            ("retain.keep_within", &mut retain.keep_within),
            ("retain.ended_runs", &mut retain.store_limits.ended_after),
            ("retain.compress_after", &mut retain.store_limits.compress_after),
        ] {
            let default = value::Age(*span).to_string();
            let found =
                settings.resolve(key, files.find(key), default, |raw, _| value::age(raw).map(value::Age))?;
            *span = found.map_or(*span, |age| age.0);
        }
        let key = "retain.max_store";
        let found = settings.resolve(
            key,
            files.find(key),
            value::Size(store_limits.max_bytes).to_string(),
            |raw, _| value::raw_size(raw).map(value::Size),
        )?;
        retain.store_limits.max_bytes = found.map_or(store_limits.max_bytes, |size| size.0);
        Ok(retain)
    }

    /// What is kept where flags go over the rest.
    pub(crate) fn with(&self, flags: &RetainFlags) -> Result<Self, CommandError> {
        let mut retain = self.clone();
        if let Some(keep) = parsed("--keep-last", &flags.keep_last, value::keep)? {
            retain.keep_last = Some(keep);
            retain.keep_last_at_least = None;
        }
        for (name, flag, count) in [
            ("--keep-hourly", &flags.keep_hourly, &mut retain.keep_hourly),
            ("--keep-daily", &flags.keep_daily, &mut retain.keep_daily),
            ("--keep-weekly", &flags.keep_weekly, &mut retain.keep_weekly),
        ] {
            *count = parsed(name, flag, value::count)?.unwrap_or(*count);
        }
        if let Some(age) = parsed("--max-age", &flags.max_age, value::age)? {
            retain.max_age = Some(age);
            retain.max_age_at_least = None;
        }
        for (name, flag, span) in [
            ("--keep-within", &flags.keep_within, &mut retain.keep_within),
            ("--compress-after", &flags.compress_after, &mut retain.store_limits.compress_after),
        ] {
            *span = parsed(name, flag, value::age)?.unwrap_or(*span);
        }
        Ok(retain)
    }
}

fn parsed<T>(
    name: &str,
    flag: &Option<String>,
    parse: fn(RawValue) -> Result<T, String>,
) -> Result<Option<T>, CommandError> {
    let text = flag.as_ref().map(|text| parse(RawValue::Text(text.clone())));
    text.transpose().map_err(|why| CommandError::usage(format!("{name}: {why}")))
}
