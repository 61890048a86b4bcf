//! Changes to a run. Some depend on the run's current state: a changed task keeps its other members, and a
//! step must have begun before it can end. The write that makes a change durable resolves it to an [`Item`].

use serde::{Deserialize, Serialize};

use super::{CriterionStatus, Item, Outcome, Phase, Pressure, StepStatus, TaskStatus};

/// One change to a run, such as a task that ends or a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "change", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant)]
pub enum Change {
    /// Records the item as given. An item such as a task replaces its previous value.
    Item(Item),
    /// Sets the status of a task and keeps its other members.
    Task(TaskChange),
    /// Sets the status of a criterion and keeps its other members.
    Criterion(CriterionChange),
    /// Sets the status of a step: it begins, ends or is skipped.
    Step(StepChange),
    /// Updates the given members of the context digest and keeps the rest.
    Context(ContextChange),
    /// Adds a line to the log.
    Note(String),
    /// Adds the user's prompt to the run's messages.
    Prompt(String),
    /// Adds the user's answer to a question of the agent to the run's messages.
    Answer {
        /// The agent's question.
        question: String,
        /// The user's answer.
        text: String,
    },
    /// Adds a plan of the agent to the run's messages.
    Plan {
        /// The plan.
        text: String,
        /// Whether the user approved it.
        is_approved: bool,
    },
    /// Adds the agent's last message of a turn to the run's messages.
    Reply(String),
    /// Records a decision.
    Decision {
        /// What was decided.
        text: String,
        /// The text of the decision that this one replaces.
        supersedes: Option<String>,
    },
}

/// A new status for a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskChange {
    /// The task's id, or `PARENT/CHILD` for a subtask.
    pub id: String,
    /// The new status.
    pub status: TaskStatus,
    /// A new title; `None` keeps the current one.
    pub title: Option<String>,
}

/// A new status for a criterion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionChange {
    /// The criterion's id.
    pub id: String,
    /// The new status.
    pub status: CriterionStatus,
    /// A new description of the condition to meet; `None` keeps the current one.
    pub subject: Option<String>,
}

/// A new status for a step of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepChange {
    /// The step's id.
    pub id: String,
    /// The new status.
    pub status: StepStatus,
    /// A new plan file; `None` keeps the current one.
    pub plan: Option<String>,
    /// A new step number; `None` keeps the current one.
    pub ordinal: Option<u64>,
    /// A new title; `None` keeps the current one.
    pub title: Option<String>,
}

/// Changes to the context digest. Members that are `None` or empty keep their value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextChange {
    /// How full the context window is.
    pub pressure: Option<Pressure>,
    /// The number of items dropped from the context.
    pub dropped: Option<u64>,
    /// Paths or ids that must stay in the context, in addition to those already recorded.
    pub protect: Vec<String>,
    /// The name of the active resilience profile.
    pub policy: Option<String>,
}

impl TaskChange {
    /// Creates a change that sets the status of the task `id`.
    pub fn new(id: impl Into<String>, status: TaskStatus) -> Self {
        Self { id: id.into(), status, title: None }
    }
}

impl CriterionChange {
    /// Creates a change that sets the status of the criterion `id`.
    pub fn new(id: impl Into<String>, status: CriterionStatus) -> Self {
        Self { id: id.into(), status, subject: None }
    }
}

impl StepChange {
    /// Creates a change that sets the status of the step `id`.
    pub fn new(id: impl Into<String>, status: StepStatus) -> Self {
        Self { id: id.into(), status, plan: None, ordinal: None, title: None }
    }
}

macro_rules! into_change {
    ($($from:ty, $value:ident => $change:expr),* $(,)?) => { $(
        impl From<$from> for Change {
            fn from($value: $from) -> Self {
                $change
            }
        }
    )* };
}

into_change! {
    Item, item => Self::Item(item),
    TaskChange, change => Self::Task(change),
    CriterionChange, change => Self::Criterion(change),
    StepChange, change => Self::Step(change),
    ContextChange, change => Self::Context(change),
    Outcome, outcome => Self::Item(Item::Outcome(outcome)),
    Phase, phase => Self::Item(Item::Phase(phase)),
}
