//! Pending items: changes recorded since the last checkpoint. Each is durable on its own and becomes part of
//! the next checkpoint.

use serde::{Deserialize, Serialize};

use super::{
    ContextDigest, Criterion, Decision, FileRef, LogLine, Outcome, Phase, RestorePoint, StepState, Task,
};

/// One change that was recorded between two checkpoints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "item", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant)]
pub enum Item {
    /// The outcome of a command.
    Outcome(Outcome),
    /// A log line.
    Note(LogLine),
    /// A decision.
    Decision(Decision),
    /// The new state of a task.
    Task(Task),
    /// An agent's complete to-do list, which replaces the previous one.
    Todo(Vec<Task>),
    /// A file that was written.
    File(FileRef),
    /// The new state of a criterion.
    Criterion(Criterion),
    /// The new state of the current step.
    Step(StepState),
    /// The new phase.
    Phase(Phase),
    /// The new context digest.
    Context(ContextDigest),
    /// The files before a prompt.
    RestorePoint(RestorePoint),
}
