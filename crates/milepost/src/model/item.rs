//! What was recorded since the last checkpoint: durable on its own, folded into the next one.

use serde::{Deserialize, Serialize};

use super::{ContextDigest, Criterion, Decision, FileRef, LogLine, Outcome, Phase, StepState, Task};

/// One change between two checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "item", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant)]
pub enum Item {
    /// How a command ended.
    Outcome(Outcome),
    /// A line for the log.
    Note(LogLine),
    /// A decision.
    Decision(Decision),
    /// A task as it now is.
    Task(Task),
    /// An agent's whole to-do list as it now is: what it had before goes.
    Todo(Vec<Task>),
    /// A file that was written.
    File(FileRef),
    /// A criterion as it now is.
    Criterion(Criterion),
    /// The step as it now is.
    Step(StepState),
    /// The phase as it now is.
    Phase(Phase),
    /// The context digest as it now is.
    Context(ContextDigest),
}
