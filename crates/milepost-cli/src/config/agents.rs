//! The settings in `[resume]` and `[hooks]`.

use milepost::internal::engine::ResumePolicy;

use super::Settings;
use super::value::{RawValue, Seconds, SettingValue};
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

/// Settings for resuming and for hooks.
#[derive(Debug)]
pub(crate) struct Agents {
    pub(crate) resume: ResumePolicy,
    pub(crate) prompts: PromptDetail,
}

impl Agents {
    pub(super) fn load(settings: &mut Settings<'_>) -> Result<Self> {
        let usual = ResumePolicy::default();
        Ok(Self {
            resume: ResumePolicy {
                attempts: settings.value("resume.attempts", usual.attempts)?,
                cooldown: settings.value("resume.cooldown", Seconds(usual.cooldown))?.0,
                ..usual
            },
            prompts: settings.value("hooks.prompts", PromptDetail::Full)?,
        })
    }
}
