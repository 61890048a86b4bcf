//! Interruptions: the recorded reason why the work of a run stopped.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::closed_enum;

closed_enum! {
    /// The kind of an interruption.
    pub enum InterruptionKind {
        /// The process that did the work died unexpectedly.
        ProcessCrash = "process_crash",
        /// The user interrupted the work, for example with Ctrl-C.
        Interrupted = "interrupted",
        /// A command or tool failed and ended the work.
        ToolFailure = "tool_failure",
        /// An operation exceeded its time limit.
        Timeout = "timeout",
        /// The agent's context was cleared or compacted.
        ContextReset = "context_reset",
        /// A usage limit was reached.
        UsageLimit = "usage_limit",
        /// The model could not be reached or returned an error.
        ApiError = "api_error",
        /// The work waits for the user.
        WaitingForUser = "waiting_for_user",
        /// The process is alive but has been idle for a long time.
        Stalled = "stalled",
        /// The run was paused or completed, or it is managed manually.
        CleanStop = "clean_stop",
        /// The reason is unknown.
        Unknown = "unknown",
    }
}

/// A recorded interruption of a run. It is cleared when the work continues.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruption {
    /// The kind of the interruption.
    pub class: InterruptionKind,
    /// When the interruption began.
    pub at: Timestamp,
    /// Details as text, if available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
