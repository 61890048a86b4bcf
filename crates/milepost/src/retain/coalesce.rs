//! Coalescing: a trigger right after a checkpoint, without a material change, is folded into it. In: the newest checkpoint
//! and a trigger. Out: a decision, and the changed marks.

use std::time::Duration;

use jiff::Timestamp;

use crate::clock;
use crate::model::{Marks, MemoryUsage, Profile, Source, Status};
use crate::seal::Material;
use crate::store::CheckpointEntry;

/// How long after a checkpoint a trigger without a change is folded into it.
pub(crate) const WINDOW: Duration = Duration::from_secs(3);

/// A save that may be coalesced.
#[derive(Debug, Clone)]
pub(crate) struct Trigger<'a> {
    /// Its source.
    pub source: Source,
    /// Its reasons.
    pub reasons: &'a [String],
    /// The status it would write.
    pub status: Status,
    /// Digests of what counts as a change.
    pub material: &'a Material,
    /// Whether it brings outcomes.
    pub outcomes: bool,
    /// The run's profile.
    pub profile: Profile,
    /// Whether it always makes a checkpoint of its own, as the first and the last save of a session do.
    pub never_coalesce: bool,
}

/// What a save does to the newest checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CoalesceDecision {
    /// A checkpoint of its own.
    NewCheckpoint,
    /// Its source is appended to the marks of the checkpoint before.
    AppendSource,
    /// The checkpoint before is confirmed; nothing is appended.
    ConfirmLatest,
}

/// Decides whether a trigger is coalesced into the newest checkpoint.
pub(crate) fn coalesce(latest: &CheckpointEntry, trigger: &Trigger<'_>, now: Timestamp) -> CoalesceDecision {
    let header = &latest.header;
    // Without a capture of its own, the trigger is compared without the workspace.
    let comparable = match (&header.unseen, &trigger.material.unseen) {
        (Some(unseen), None) => unseen,
        _ => &header.quiet,
    };
    let unchanged = header.material == trigger.material.all
        || (!trigger.outcomes && *comparable == trigger.material.quiet);
    if !unchanged || trigger.never_coalesce || trigger.status.is_terminal() {
        return CoalesceDecision::NewCheckpoint;
    }
    // A clock that went back says nothing about how far apart two triggers are.
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
