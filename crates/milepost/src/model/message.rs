//! Messages: what the user and the agent said in a run. A run only ever adds messages. They are stored apart
//! from its checkpoints, so that the cost of a checkpoint does not grow with the conversation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Something that the user or the agent said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Message {
    /// The user's prompt to the agent.
    Prompt {
        /// When the user sent it.
        at: Timestamp,
        /// The prompt.
        text: String,
    },
    /// The user's answer to a question of the agent.
    Answer {
        /// When the user answered.
        at: Timestamp,
        /// The agent's question.
        question: String,
        /// The user's answer.
        text: String,
    },
    /// A plan of the agent.
    Plan {
        /// When the user approved it, or when the agent made it.
        at: Timestamp,
        /// The plan.
        text: String,
        /// Whether the user approved it.
        is_approved: bool,
    },
    /// The agent's last message of a turn.
    Reply {
        /// When the turn ended.
        at: Timestamp,
        /// The message.
        text: String,
    },
}

impl Message {
    /// Returns the time of the message.
    pub fn at(&self) -> Timestamp {
        match self {
            Self::Prompt { at, .. }
            | Self::Answer { at, .. }
            | Self::Plan { at, .. }
            | Self::Reply { at, .. } => *at,
        }
    }

    /// Returns the text of the message: the prompt, the answer, the plan or the reply.
    pub fn text(&self) -> &str {
        match self {
            Self::Prompt { text, .. }
            | Self::Answer { text, .. }
            | Self::Plan { text, .. }
            | Self::Reply { text, .. } => text,
        }
    }

    /// Returns true if a checkpoint of this time includes the message. Checkpoints count milliseconds.
    #[cfg(feature = "internal")]
    pub fn is_before(&self, checkpoint: Timestamp) -> bool {
        self.at().as_millisecond() <= checkpoint.as_millisecond()
    }

    /// Returns true for the user's own words.
    pub fn is_from_user(&self) -> bool {
        matches!(self, Self::Prompt { .. } | Self::Answer { .. })
    }
}
