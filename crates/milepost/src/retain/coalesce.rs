//! Coalescing: a trigger without a material change is folded into the newest checkpoint if that checkpoint is
//! very recent, or if the trigger is a timer and the profile does not keep every tick. Takes the newest
//! checkpoint and a trigger, returns a decision, and updates the checkpoint's marks.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock;
use crate::model::{Marks, MemoryUsage, Profile, Source, Status};
use crate::seal::Material;
use crate::store::CheckpointEntry;

/// If the newest checkpoint is at most this old, a trigger without a change is folded into it, whatever the
/// trigger's source.
pub(crate) const WINDOW: Duration = Duration::from_secs(3);

/// A save that may be coalesced.
#[derive(Debug, Clone)]
pub(crate) struct Trigger<'a> {
    /// The source of the save.
    pub source: Source,
    /// The reasons of the save.
    pub reasons: &'a [String],
    /// The status it would write.
    pub status: Status,
    /// Digests of the content that counts as a change.
    pub material: &'a Material,
    /// Whether it contains outcomes.
    pub outcomes: bool,
    /// The run's profile.
    pub profile: Profile,
    /// Whether it always creates a new checkpoint, like the first and the last save of a session.
    pub never_coalesce: bool,
}

/// What to do with a save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoalesceDecision {
    /// Create a new checkpoint.
    NewCheckpoint,
    /// Append its source to the marks of the newest checkpoint.
    AppendSource,
    /// Confirm the newest checkpoint without appending a source.
    ConfirmLatest,
}

/// Decides whether a trigger is coalesced into the newest checkpoint.
pub(crate) fn coalesce(latest: &CheckpointEntry, trigger: &Trigger<'_>, now: Timestamp) -> CoalesceDecision {
    let header = &latest.header;
    // A trigger without a capture is compared without the workspace.
    let comparable = match (&header.unseen, &trigger.material.unseen) {
        (Some(unseen), None) => unseen,
        _ => &header.quiet,
    };
    let unchanged = header.material == trigger.material.all
        || (!trigger.outcomes && *comparable == trigger.material.quiet);
    if !unchanged || trigger.never_coalesce || trigger.status.is_terminal() {
        return CoalesceDecision::NewCheckpoint;
    }
    // If the clock went backwards, the age of the newest checkpoint is unknown.
    let Some(age) = clock::age(latest.header.created_at, now) else { return CoalesceDecision::NewCheckpoint };
    if age <= WINDOW {
        CoalesceDecision::AppendSource
    } else if trigger.source == Source::Timer && !trigger.profile.keeps_every_tick() {
        CoalesceDecision::ConfirmLatest
    } else {
        CoalesceDecision::NewCheckpoint
    }
}

/// Adds a trigger to the marks of the checkpoint that it is coalesced into.
pub(crate) fn coalesce_into(
    marks: &mut Marks,
    decision: CoalesceDecision,
    trigger: &Trigger<'_>,
    memory: Option<MemoryUsage>,
    now: Timestamp,
) {
    marks.revision = marks.revision.saturating_add(1);
    marks.folded = marks.folded.saturating_add(1);
    marks.refreshed_at = Some(now);
    if memory.is_some() {
        marks.memory = memory;
    }
    if decision == CoalesceDecision::AppendSource {
        if marks.sources.len() < Marks::LISTED {
            marks.sources.push(trigger.source.as_str().to_owned());
        }
        for reason in trigger.reasons {
            if marks.reasons.len() < Marks::LISTED && !marks.reasons.contains(reason) {
                marks.reasons.push(reason.clone());
            }
        }
    }
}
