//! Events: the history of a run, for users and programs that follow it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{CheckpointId, RawJson, RunId, closed_enum};

closed_enum! {
    /// The type of an event.
    pub enum EventType {
        /// A run was opened.
        RunStarted = "run_started",
        /// A session of a run began.
        SessionStarted = "session_started",
        /// A new round of a completed run began: its tasks, criteria and steps start over.
        RoundStarted = "round_started",
        /// A checkpoint was written.
        CheckpointCreated = "checkpoint_created",
        /// A trigger was folded into the previous checkpoint.
        CheckpointCoalesced = "checkpoint_coalesced",
        /// Checkpoints were marked as completed.
        CheckpointCompleted = "checkpoint_completed",
        /// The pin or the tags of a checkpoint were changed.
        CheckpointMarked = "checkpoint_marked",
        /// Checkpoints were removed by retention.
        Pruned = "pruned",
        /// A stopped run was continued.
        Resumed = "resumed",
        /// An attempt to continue a stopped run was refused.
        ResumeRefused = "resume_refused",
        /// A stopped run was dismissed: it is no longer offered for resuming.
        Dismissed = "dismissed",
        /// The reason for an interruption was recorded.
        Interrupted = "interrupted",
        /// A session of a run ended.
        SessionStopped = "session_stopped",
        /// A run ended.
        RunFinished = "run_finished",
        /// A run's record was rebuilt from its intact checkpoints and events.
        RunRebuilt = "run_rebuilt",
        /// An event was imported from another tool.
        Imported = "imported",
        /// Files were restored from a checkpoint.
        FilesRestored = "files_restored",
        /// An operation failed.
        Error = "error",
    }
}

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The time of the event.
    pub at: Timestamp,
    /// The type of the event.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// The run that the event belongs to.
    pub run_id: RunId,
    /// The checkpoint that the event concerns, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<CheckpointId>,
    /// Details, as JSON that depends on the type.
    pub data: RawJson,
}
