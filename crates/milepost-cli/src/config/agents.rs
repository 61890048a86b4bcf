//! The settings in `[resume]`, `[hooks]` and `[agents]`.

use milepost::internal::engine::ResumePolicy;

use super::file::File;
use super::value::{RawValue, Seconds, SettingValue};
use super::{Origin, Settings, find_in};
use crate::error::Result;

/// How much of a prompt is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PromptDetail {
    /// Nothing.
    None,
    /// The first line.
    FirstLine,
    /// The whole prompt, up to a size limit.
    Full,
}

impl SettingValue for PromptDetail {
    fn parse(raw: RawValue) -> Result<Self, String> {
        match String::parse(raw)?.as_str() {
            "full" => Ok(Self::Full),
            "first_line" => Ok(Self::FirstLine),
            "none" => Ok(Self::None),
            _ => Err("expected full, first_line or none".into()),
        }
    }
}

impl std::fmt::Display for PromptDetail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::FirstLine => "first_line",
            Self::None => "none",
        })
    }
}

/// The key that sets where hooks record. Only the user's file may set it: a project must not turn on
/// recording in other projects.
pub(crate) const RECORD: &str = "agents.record";

/// In which projects hooks record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RecordScope {
    /// Every git repository
    All,
    /// Only projects where `milepost init` was run
    Initialised,
}

impl SettingValue for RecordScope {
    fn parse(raw: RawValue) -> Result<Self, String> {
        match String::parse(raw)?.as_str() {
            "all" => Ok(Self::All),
            "initialised" => Ok(Self::Initialised),
            _ => Err("expected all or initialised".into()),
        }
    }
}

impl std::fmt::Display for RecordScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::All => "all",
            Self::Initialised => "initialised",
        })
    }
}

/// Settings for resuming and for hooks.
#[derive(Debug)]
pub(crate) struct Agents {
    pub(crate) resume: ResumePolicy,
    pub(crate) prompts: PromptDetail,
    /// Where hooks record, if the user has set it.
    pub(crate) chosen_record: Option<RecordScope>,
}

impl Agents {
    pub(super) fn load(settings: &mut Settings<'_>, user: Option<&File>) -> Result<Self> {
        let usual = ResumePolicy::default();
        Ok(Self {
            resume: ResumePolicy {
                attempts: settings.value("resume.attempts", usual.attempts)?,
                cooldown: settings.value("resume.cooldown", Seconds(usual.cooldown))?.0,
                ..usual
            },
            prompts: settings.value("hooks.prompts", PromptDetail::Full)?,
            chosen_record: settings.resolve(
                RECORD,
                find_in(user, RECORD),
                (RecordScope::Initialised.to_string(), Origin::Default),
                |raw, _| RecordScope::parse(raw),
            )?,
        })
    }

    /// Where hooks record.
    pub(crate) fn record(&self) -> RecordScope {
        self.chosen_record.unwrap_or(RecordScope::Initialised)
    }
}
