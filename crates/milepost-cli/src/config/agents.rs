//! Settings of resuming and of hooks: `[resume]` and `[hooks]`.

use milepost::internal::engine::ResumePolicy;

use super::{ConfigFiles, RawValue, Settings, value};
use crate::error::CommandError;

/// How much of what a person says to an agent is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PromptDetail {
    /// Nothing.
    None,
    /// Its first line.
    FirstLine,
    /// All of it, up to a bound.
    Full,
}

impl PromptDetail {
    pub(super) fn parse(raw: RawValue) -> Result<Self, String> {
        match value::text(raw)?.as_str() {
            "full" => Ok(Self::Full),
            "first_line" => Ok(Self::FirstLine),
            "none" => Ok(Self::None),
            _ => Err("full, first_line or none is needed".into()),
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

/// What resuming and hooks go by.
#[derive(Debug)]
pub(crate) struct Agents {
    pub(crate) resume: ResumePolicy,
    pub(crate) prompts: PromptDetail,
}

impl Agents {
    pub(super) fn load(files: &ConfigFiles<'_>, settings: &mut Settings) -> Result<Self, CommandError> {
        let usual = ResumePolicy::default();
        let attempts = settings.resolve(
            "resume.attempts",
            files.find("resume.attempts"),
            usual.attempts.to_string(),
            |raw, _| value::count(raw),
        )?;
        let cooldown =
            settings.resolve("resume.cooldown", files.find("resume.cooldown"), "0".into(), |raw, _| {
                value::seconds(raw).map(value::Seconds)
            })?;
        let prompts = settings.resolve(
            "hooks.prompts",
            files.find("hooks.prompts"),
            PromptDetail::Full.to_string(),
            |raw, _| PromptDetail::parse(raw),
        )?;
        Ok(Self {
            resume: ResumePolicy {
                attempts: attempts.unwrap_or(usual.attempts),
                cooldown: cooldown.map_or(usual.cooldown, |cooldown| cooldown.0),
                ..usual
            },
            prompts: prompts.unwrap_or(PromptDetail::Full),
        })
    }
}
