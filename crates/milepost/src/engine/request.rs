//! What is asked of a save: what it holds, what changes with it, and when it is to happen at all.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;

use super::{RunOptions, Settings, compose};
use crate::capture::WorkspaceCapture;
use crate::model::{
    Change, CheckpointId, Draft, Interruption, Item, Outcome, Profile, RawJson, RunId, Source, Status,
    ValidationError,
};
use crate::redact::{AllowList, Redaction};
use crate::{Error, seal, trigger};

/// How a run has to stand for a timer to save it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveCondition {
    /// Not ended: an auto-save must not open it again.
    Open,
    /// Under way: a heartbeat has nothing to say about work that rests.
    InProgress,
}

impl SaveCondition {
    pub(super) fn holds(self, status: Status) -> bool {
        match self {
            Self::Open => !status.is_terminal(),
            Self::InProgress => status == Status::InProgress,
        }
    }
}

/// A checkpoint to be saved.
#[derive(Debug, Clone, Default)]
pub struct Save {
    /// What it holds.
    pub draft: Draft,
    /// What changes with it, in the same transaction.
    pub changes: Vec<Change>,
    /// What its run is opened with.
    pub run_options: RunOptions,
    /// Whether to pin it.
    pub pin: bool,
    /// Tags to give it.
    pub tags: Vec<String>,
    /// Whether it is the last of its session, and so always kept.
    pub last_of_session: bool,
    /// Why the work does not go on from here.
    pub interruption: Option<Interruption>,
    /// What was seen of the workspace; `draft.workspace` is made of it.
    pub capture: Option<Box<WorkspaceCapture>>,
    /// Whether a phase of the profile `pai` that is given by its name alone or its number alone gets the other.
    pub complete_phase: bool,
    /// Whether secrets are replaced; as the settings say unless given.
    pub redaction: Option<Redaction>,
    /// Only if the run is not there yet.
    pub(crate) only_new: bool,
    /// Only while the run stands so; its status then stays as it is.
    pub(crate) condition: Option<SaveCondition>,
    /// The id and time it was promised under, where it waited in an outbox.
    pub(super) promised: Option<(CheckpointId, Timestamp)>,
}

impl Save {
    /// A checkpoint of the run as it stands.
    pub fn new() -> Self {
        Self::default()
    }

    /// Refuses what no run could make valid: sizes, tags, another run's input, and a phase that the asked-for profile
    /// does not have.
    pub fn check(&self, run: Option<&RunId>, settings: &Settings) -> Result<(), Error> {
        if let (Some(given), Some(run)) = (&self.draft.run_id, run)
            && given != run
        {
            let message = format!("{given} is not the run that is saved to, {run}");
            return Err(ValidationError { path: "/run_id".into(), message }.into());
        }
        compose::check_limits(&self.draft, &settings.limits)?;
        if let Some(profile) = self.run_options.profile
            && let Some(phase) = &self.draft_for(profile).phase
        {
            compose::check_phase(phase, profile)?;
        }
        self.tags.iter().try_for_each(|tag| super::mark::check_tag(tag))
    }

    /// The draft as a run of this profile takes it.
    pub(super) fn draft_for(&self, profile: Profile) -> Cow<'_, Draft> {
        match &self.draft.phase {
            Some(phase) if self.complete_phase => {
                Cow::Owned(Draft { phase: Some(phase.completed(profile)), ..self.draft.clone() })
            }
            _ => Cow::Borrowed(&self.draft),
        }
    }

    /// Replaces the secrets in everything that it brings; says how many there were.
    pub(super) fn redact(&mut self, allow: &AllowList) -> Result<u64, Error> {
        let (draft, mut replaced) = allow.redact_draft(std::mem::take(&mut self.draft))?;
        self.draft = draft;
        self.draft.command_outcomes.iter_mut().for_each(trim_summary);
        if !self.changes.is_empty() {
            replaced += redact_changes(&mut self.changes, allow)?;
        }
        if !self.tags.is_empty() {
            let (tags, more) = allow.redact_value(std::mem::take(&mut self.tags), "tags")?;
            self.tags = tags;
            replaced += more;
        }
        let (interruption, more) = allow.redact_value(self.interruption.take(), "interruption")?;
        (self.interruption, replaced) = (interruption, replaced + more);
        let (run_options, more) = allow.redact_value(std::mem::take(&mut self.run_options), "run_options")?;
        self.run_options = run_options;
        Ok(replaced + more)
    }

    /// Says what the work is about.
    #[must_use]
    pub fn summary(mut self, text: impl Into<String>) -> Self {
        self.draft.task_summary = Some(text.into());
        self
    }

    /// Says how the work stands.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.draft.status = Some(status);
        self
    }

    /// Says what made it happen.
    #[must_use]
    pub fn source(mut self, source: Source) -> Self {
        self.draft.source = Some(source);
        self
    }

    /// Says why, beside the source.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.draft.reasons.push(reason.into());
        self
    }

    /// Changes the run in the same transaction.
    #[must_use]
    pub fn change(mut self, change: impl Into<Change>) -> Self {
        self.changes.push(change.into());
        self
    }

    /// Adds changes, and says of the first boundary among them that it is what made the checkpoint happen.
    #[must_use]
    pub fn with_changes(mut self, changes: Vec<Change>) -> Self {
        if let Some(boundary) = changes.iter().find_map(trigger::boundary) {
            self.draft.source.get_or_insert(boundary.source);
            self.draft.reasons.push(boundary.reason.to_owned());
        }
        self.changes.extend(changes);
        self
    }

    /// Adds what was seen of the workspace.
    #[must_use]
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn capture(mut self, capture: WorkspaceCapture) -> Self {
        self.capture = Some(Box::new(capture));
        self
    }

    /// Sets the profile of the run.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.run_options.profile = Some(profile);
        self
    }

    /// Adds the caller's own state.
    pub fn state<T: Serialize + ?Sized>(mut self, state: &T) -> Result<Self, Error> {
        self.draft.state = Some(RawJson::of(state)?);
        Ok(self)
    }

    /// Adds the caller's own state as its exact text, which must be strict JSON.
    pub fn state_text(mut self, text: &str) -> Result<Self, Error> {
        self.draft.state = Some(seal::strict::raw(text.as_bytes())?);
        Ok(self)
    }
}

/// Replaces the secrets in changes; says how many there were.
pub(super) fn redact_changes(changes: &mut Vec<Change>, allow: &AllowList) -> Result<u64, Error> {
    let (mut new, replaced) = allow.redact_value(std::mem::take(changes), "changes")?;
    for change in &mut new {
        if let Change::Item(Item::Outcome(outcome)) = change {
            trim_summary(outcome);
        }
    }
    *changes = new;
    Ok(replaced)
}

/// What stands for a secret may be longer than it was: the end of a summary, where it says how it went, still fits.
fn trim_summary(outcome: &mut Outcome) {
    let surplus = outcome.summary.len().saturating_sub(compose::OUTCOME_SUMMARY);
    if surplus > 0 && outcome.summary.contains("[redacted:") {
        let start = outcome.summary.ceil_char_boundary(surplus);
        outcome.summary.drain(..start);
    }
}
