//! Changes that depend on how a run stands: a task that keeps its other members, a step that must have begun.
//! They become items inside the write that makes them durable.

use serde::{Deserialize, Serialize};

use super::{CriterionStatus, Item, Outcome, Phase, Pressure, StepStatus, TaskStatus};

/// One change to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "change", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant)]
pub enum Change {
    /// Exactly this, whatever was there.
    Item(Item),
    /// A task stands so; its other members stay.
    Task(TaskChange),
    /// A criterion stands so; its other members stay.
    Criterion(CriterionChange),
    /// A step begins or ends.
    Step(StepChange),
    /// What is given of the context digest changes, the rest stays.
    Context(ContextChange),
    /// A line for the log.
    Note(String),
    /// What the user said to an agent: a line for the log that counts as the user's word.
    Prompt(String),
    /// A decision.
    Decision {
        /// What was decided.
        text: String,
        /// The text of the decision it replaces.
        supersedes: Option<String>,
    },
}

/// How a task stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskChange {
    /// Its id, or `PARENT/CHILD` for a subtask.
    pub id: String,
    /// How it stands.
    pub status: TaskStatus,
    /// What people call it; stays unless given.
    pub title: Option<String>,
}

/// How a criterion stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CriterionChange {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub status: CriterionStatus,
    /// What has to be true; stays unless given.
    pub subject: Option<String>,
}

/// How a step stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepChange {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub status: StepStatus,
    /// The plan's file; stays unless given.
    pub plan: Option<String>,
    /// Its number; stays unless given.
    pub ordinal: Option<u64>,
    /// What people call it; stays unless given.
    pub title: Option<String>,
}

/// What changes of the context digest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextChange {
    /// How full the window is.
    pub pressure: Option<Pressure>,
    /// How many items were dropped.
    pub dropped: Option<u64>,
    /// Paths or ids that must stay, beside those known.
    pub protect: Vec<String>,
    /// The active resilience profile.
    pub policy: Option<String>,
}

impl TaskChange {
    /// A task that now stands so.
    pub fn new(id: impl Into<String>, status: TaskStatus) -> Self {
        Self { id: id.into(), status, title: None }
    }
}

impl CriterionChange {
    /// A criterion that now stands so.
    pub fn new(id: impl Into<String>, status: CriterionStatus) -> Self {
        Self { id: id.into(), status, subject: None }
    }
}

impl StepChange {
    /// A step that now stands so.
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
