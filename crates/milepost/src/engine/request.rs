//! A request to save: the checkpoint's content, the changes that go with it, and the conditions for saving
//! at all. Checks and redacts its own content. Must not touch the store.

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

/// The run status that a timer save requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SaveCondition {
    /// The run has not ended: an auto-save must not reopen it.
    Open,
    /// The run is in progress: a heartbeat does not apply to idle work.
    InProgress,
    /// The run is completed.
    Completed,
}

impl SaveCondition {
    pub(super) fn holds(self, status: Status) -> bool {
        match self {
            Self::Open => !status.is_terminal(),
            Self::InProgress => status == Status::InProgress,
            Self::Completed => status == Status::Completed,
        }
    }
}

/// A checkpoint to save.
#[must_use]
#[derive(Debug, Clone, Default)]
pub struct Save {
    /// The checkpoint's content.
    pub(crate) draft: Draft,
    /// Changes to the run in the same transaction.
    pub(crate) changes: Vec<Change>,
    /// The options that the run is opened with.
    pub(crate) run_options: RunOptions,
    pub(crate) pin: bool,
    pub(crate) tags: Vec<String>,
    /// Whether this is the last checkpoint of its session, which is never coalesced.
    pub(crate) last_of_session: bool,
    /// Whether the owner stops working on the run, although its process may go on.
    pub(crate) releases_owner: bool,
    /// Why the work stops at this checkpoint.
    pub(crate) interruption: Option<Interruption>,
    /// The workspace capture that `draft.workspace` is built from.
    pub(crate) capture: Option<Box<WorkspaceCapture>>,
    /// Whether to fill in the missing name or number of a phase of the `pai` profile.
    pub(crate) complete_phase: bool,
    pub(crate) redaction: Option<Redaction>,
    /// Saves only if the run does not exist yet.
    pub(crate) only_new: bool,
    /// Saves only if this condition holds for the run. The run then keeps its status unless the draft sets
    /// one.
    pub(crate) condition: Option<SaveCondition>,
    /// The id and time that were promised when the save was queued in an outbox.
    pub(super) promised: Option<(CheckpointId, Timestamp)>,
}

impl Save {
    /// Creates an empty save: a checkpoint of the run's current working state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Checks what can be checked without the run: sizes, tags, the run id in the draft, and the phase if a
    /// profile is requested.
    pub fn check(&self, run: Option<&RunId>, settings: &Settings) -> Result<(), Error> {
        if let (Some(given), Some(run)) = (&self.draft.run_id, run)
            && given != run
        {
            let message = format!("{given} does not match the run being saved to, {run}");
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

    /// The draft for a run of this profile, with its phase completed if requested.
    pub(super) fn draft_for(&self, profile: Profile) -> Cow<'_, Draft> {
        match &self.draft.phase {
            Some(phase) if self.complete_phase => {
                Cow::Owned(Draft { phase: Some(phase.completed(profile)), ..self.draft.clone() })
            }
            _ => Cow::Borrowed(&self.draft),
        }
    }

    /// Replaces secrets in all parts of the save. Returns the number of replacements.
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

    /// Adds a reason, in addition to the source.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.draft.reasons.push(reason.into());
        self
    }

    /// Adds a change to the run, applied in the same transaction.
    pub fn change(mut self, change: impl Into<Change>) -> Self {
        self.changes.push(change.into());
        self
    }

    /// Adds changes. The first boundary among them sets the checkpoint's source, unless it is already set,
    /// and adds a reason.
    pub fn with_changes(mut self, changes: Vec<Change>) -> Self {
        if let Some(boundary) = changes.iter().find_map(trigger::boundary) {
            self.draft.source.get_or_insert(boundary.source);
            self.draft.reasons.push(boundary.reason.to_owned());
        }
        self.changes.extend(changes);
        self
    }

    /// Tags the checkpoint. A tag can be used as a reference and protects the checkpoint from retention.
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tags.push(tag.into());
        self
    }

    /// Sets the caller's state.
    pub fn state<T: Serialize + ?Sized>(mut self, state: &T) -> Result<Self, Error> {
        self.draft.state = Some(RawJson::of(state)?);
        Ok(self)
    }

    /// Sets the caller's state from its exact text, which must be strict JSON.
    pub fn state_text(mut self, text: &str) -> Result<Self, Error> {
        self.draft.state = Some(seal::strict::raw(text.as_bytes())?);
        Ok(self)
    }
}

setters! {
    impl Save {
        /// Sets the task summary.
        pub fn summary(text: impl Into<String>) => draft.task_summary = Some(text.into());

        /// Sets the status of the work.
        pub fn status(status: Status) => draft.status = Some(status);

        /// Sets the source that triggered the checkpoint.
        pub fn source(source: Source) => draft.source = Some(source);

        /// Sets whether the checkpoint is pinned. Retention keeps pinned checkpoints.
        pub fn pin(pin: bool) => pin = pin;

        /// Sets the id of the session that the checkpoint belongs to.
        pub fn session(id: impl Into<String>) => draft.session_id = Some(id.into());

        /// Sets whether secrets are replaced in this checkpoint. `None` uses the engine's setting.
        pub fn redaction(redaction: impl Into<Option<Redaction>>) => redaction = redaction.into();

        /// Adds a capture of the workspace.
        #[cfg_attr(feature = "internal", visibility::make(pub))]
        pub(crate) fn capture(capture: impl Into<Option<Box<WorkspaceCapture>>>) => capture = capture.into();

        /// Sets the profile of the run.
        pub fn profile(profile: Profile) => run_options.profile = Some(profile);

        /// Sets the options that the run is opened with.
        #[cfg(feature = "internal")]
        pub fn run_options(run_options: RunOptions) => run_options = run_options;

        /// Sets whether to fill in the missing name or number of a phase of the `pai` profile.
        #[cfg(feature = "internal")]
        pub fn complete_phase(complete_phase: bool) => complete_phase = complete_phase;
    }
}

/// Access for the command line, beyond the public methods.
#[cfg(feature = "internal")]
impl Save {
    /// The checkpoint's content.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Mutable access to the checkpoint's content.
    pub fn draft_mut(&mut self) -> &mut Draft {
        &mut self.draft
    }

    /// Sets why the work of the run stopped.
    pub fn interruption(mut self, interruption: Option<Interruption>) -> Self {
        self.interruption = interruption;
        self
    }

    /// Marks the checkpoint as the last of its session.
    pub fn last_of_session(mut self) -> Self {
        self.last_of_session = true;
        self
    }
}

/// Replaces secrets in changes. Returns the number of replacements.
pub(super) fn redact_changes(changes: &mut Vec<Change>, allow: &AllowList) -> Result<u64, Error> {
    let replaced = redact_in_place(changes, "changes", allow)?;
    for change in changes {
        if let Change::Item(Item::Outcome(outcome)) = change {
            trim_summary(outcome);
        }
    }
    Ok(replaced)
}

/// Replaces secrets in a value. Returns the number of replacements.
pub(super) fn redact_in_place<T: Serialize + DeserializeOwned + Default>(
    value: &mut T,
    name: &str,
    allow: &AllowList,
) -> Result<u64, Error> {
    let (clean, replaced) = allow.redact_value(std::mem::take(value), name)?;
    *value = clean;
    Ok(replaced)
}

/// Trims a redacted summary to the limit, because a placeholder may be longer than the secret it replaces.
/// The end of the summary stays: it describes the result.
fn trim_summary(outcome: &mut Outcome) {
    let surplus = outcome.summary.len().saturating_sub(compose::OUTCOME_SUMMARY);
    if surplus > 0 && outcome.summary.contains("[redacted:") {
        let start = outcome.summary.ceil_char_boundary(surplus);
        outcome.summary.drain(..start);
    }
}
