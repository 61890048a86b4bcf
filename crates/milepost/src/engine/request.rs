//! What is asked of a save: what it holds, what changes with it, and when it is to happen at all.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

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
#[must_use]
#[derive(Debug, Clone, Default)]
pub struct Save {
    /// What it holds.
    pub(crate) draft: Draft,
    /// What changes with it, in the same transaction.
    pub(crate) changes: Vec<Change>,
    /// What its run is opened with.
    pub(crate) run_options: RunOptions,
    pub(crate) pin: bool,
    pub(crate) tags: Vec<String>,
    /// Whether it is the last of its session, and so always kept.
    pub(crate) last_of_session: bool,
    /// Why the work stops at this checkpoint.
    pub(crate) interruption: Option<Interruption>,
    /// What was seen of the workspace; `draft.workspace` is made of it.
    pub(crate) capture: Option<Box<WorkspaceCapture>>,
    /// Whether a phase of the profile `pai` that is given by its name alone or its number alone gets the other.
    pub(crate) complete_phase: bool,
    pub(crate) redaction: Option<Redaction>,
    /// Saves only if the run does not exist yet.
    pub(crate) only_new: bool,
    /// Saves only while this holds for the run, whose status then stays as it is.
    pub(crate) condition: Option<SaveCondition>,
    /// The id and time that were promised for a save that waited in an outbox.
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
            replaced += redact_in_place(&mut self.tags, "tags", allow)?;
        }
        replaced += redact_in_place(&mut self.interruption, "interruption", allow)?;
        replaced += redact_in_place(&mut self.run_options, "run_options", allow)?;
        Ok(replaced)
    }

    /// Says why, beside the source.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.draft.reasons.push(reason.into());
        self
    }

    /// Changes the run in the same transaction.
    pub fn change(mut self, change: impl Into<Change>) -> Self {
        self.changes.push(change.into());
        self
    }

    /// Adds changes, and says of the first boundary among them that it is what made the checkpoint happen.
    pub fn with_changes(mut self, changes: Vec<Change>) -> Self {
        if let Some(boundary) = changes.iter().find_map(trigger::boundary) {
            self.draft.source.get_or_insert(boundary.source);
            self.draft.reasons.push(boundary.reason.to_owned());
        }
        self.changes.extend(changes);
        self
    }

    /// Gives the checkpoint a tag, by which it can be found and which protects it from retention.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
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

setters! {
    impl Save {
        /// Says what the work is about.
        pub fn summary(text: impl Into<String>) => draft.task_summary = Some(text.into());

        /// Says how the work stands.
        pub fn status(status: Status) => draft.status = Some(status);

        /// Says what made it happen.
        pub fn source(source: Source) => draft.source = Some(source);

        /// Pins the checkpoint, so that retention keeps it.
        pub fn pin(pin: bool) => pin = pin;

        /// Names the session that the checkpoint belongs to.
        pub fn session(id: impl Into<String>) => draft.session_id = Some(id.into());

        /// Chooses whether secrets are replaced in this checkpoint, whatever the settings say.
        pub fn redaction(redaction: impl Into<Option<Redaction>>) => redaction = redaction.into();

        /// Adds what was seen of the workspace.
        #[cfg_attr(feature = "internal", visibility::make(pub))]
        pub(crate) fn capture(capture: impl Into<Option<Box<WorkspaceCapture>>>) => capture = capture.into();

        /// Sets the profile of the run.
        pub fn profile(profile: Profile) => run_options.profile = Some(profile);

        /// Sets what its run is opened with.
        #[cfg(feature = "internal")]
        pub fn run_options(run_options: RunOptions) => run_options = run_options;

        /// Completes a phase of the profile `pai` that is given by its name alone or its number alone.
        #[cfg(feature = "internal")]
        pub fn complete_phase(complete_phase: bool) => complete_phase = complete_phase;
    }
}

/// What the command line sets beyond the public methods.
#[cfg(feature = "internal")]
impl Save {
    /// What the checkpoint holds.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// What the checkpoint holds, to be changed.
    pub fn draft_mut(&mut self) -> &mut Draft {
        &mut self.draft
    }

    /// Keeps it as the last of its session.
    pub fn last_of_session(mut self) -> Self {
        self.last_of_session = true;
        self
    }
}

/// Replaces the secrets in changes; says how many there were.
pub(super) fn redact_changes(changes: &mut Vec<Change>, allow: &AllowList) -> Result<u64, Error> {
    let replaced = redact_in_place(changes, "changes", allow)?;
    for change in changes {
        if let Change::Item(Item::Outcome(outcome)) = change {
            trim_summary(outcome);
        }
    }
    Ok(replaced)
}

/// Replaces the secrets in a value; says how many there were.
pub(super) fn redact_in_place<T: Serialize + DeserializeOwned + Default>(
    value: &mut T,
    name: &str,
    allow: &AllowList,
) -> Result<u64, Error> {
    let (clean, replaced) = allow.redact_value(std::mem::take(value), name)?;
    *value = clean;
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
