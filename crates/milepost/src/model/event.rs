//! What happened, for people and programs that follow along.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{CheckpointId, RawJson, RunId, closed_enum};

closed_enum! {
    /// What kind of thing happened.
    pub enum EventType {
        /// A run was opened.
        RunStarted = "run_started",
        /// A session of a run began.
        SessionStarted = "session_started",
        /// A checkpoint was written.
        CheckpointCreated = "checkpoint_created",
        /// A trigger was folded into the checkpoint before it.
        CheckpointCoalesced = "checkpoint_coalesced",
        /// Checkpoints were completed.
        CheckpointCompleted = "checkpoint_completed",
        /// Marks were changed by hand.
        CheckpointMarked = "checkpoint_marked",
        /// Checkpoints were removed by retention.
        Pruned = "pruned",
        /// A stopped run was continued.
        Resumed = "resumed",
        /// A stopped run was to be continued and was not.
        ResumeRefused = "resume_refused",
        /// A stopped run is no longer offered.
        Dismissed = "dismissed",
        /// Why work does not go on was noted.
        Interrupted = "interrupted",
        /// A session of a run ended.
        SessionStopped = "session_stopped",
        /// A run ended.
        RunFinished = "run_finished",
        /// A record was rebuilt from what was intact.
        RunRebuilt = "run_rebuilt",
        /// Something that another tool had written down.
        Imported = "imported",
        /// Something failed.
        Error = "error",
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened.
    pub at: Timestamp,
    /// What kind of thing.
    #[serde(rename = "type")]
    pub kind: EventType,
    /// In which run.
    pub run_id: RunId,
    /// About which checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<CheckpointId>,
    /// More about it.
    pub data: RawJson,
}
