//! Why work does not go on, as far as anybody has said so.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::closed_enum;

closed_enum! {
    /// Kinds of interruption.
    pub enum InterruptionKind {
        /// The process that did the work is gone without a word.
        ProcessCrash = "process_crash",
        /// A command or tool failed, and the work ended with it.
        ToolFailure = "tool_failure",
        /// Something took too long.
        Timeout = "timeout",
        /// The agent's context was cleared or compacted.
        ContextReset = "context_reset",
        /// A limit of use was reached.
        UsageLimit = "usage_limit",
        /// The model could not be reached, or refused.
        ApiError = "api_error",
        /// It waits for a person.
        WaitingForUser = "waiting_for_user",
        /// Its process lives and has done nothing for long.
        Stalled = "stalled",
        /// It was set aside, or kept by hand.
        CleanStop = "clean_stop",
        /// Nobody can tell.
        Unknown = "unknown",
    }
}

/// Something that was noted about work that does not go on; work that goes on takes it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interruption {
    /// Of what kind.
    pub class: InterruptionKind,
    /// Since when.
    pub at: Timestamp,
    /// In whose words, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
