//! Arguments of the tools: the flags of the commands in snake_case, optional if the flag is. The model reads
//! the doc comments as descriptions. `schemas/` contains a copy of each.

use milepost::model::{OutcomeKind, OutcomeResult, Source, Status, StepStatus, TaskStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

/// Save a checkpoint of the current work. Call it when a step, task or phase ends, before a risky action, and
/// before you stop. Fields that you omit are carried over from the run. The checkpoint is durable when the
/// call returns.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Save {
    /// Run to save to. Default: the run of this session, the only open run of this worktree, or a new run
    pub run: Option<String>,
    /// What triggered the checkpoint. Default: manual
    pub source: Option<Source>,
    /// Reasons in addition to the source, such as phase_completed, major_decision, context_shift
    #[serde(default)]
    pub reason: Vec<String>,
    /// Status of the work. Default: in_progress. failed and completed end the run
    pub status: Option<Status>,
    /// Name of the phase
    pub phase: Option<String>,
    /// Number of the phase
    pub phase_number: Option<u64>,
    /// What the work is about and its current state, in one or two sentences
    pub summary: Option<String>,
    /// More checkpoint fields: state, tasks, criteria, decisions, files, metadata. Pass a string of JSON text
    /// to preserve every digit of numbers
    pub input: Option<Input>,
    /// Markdown brief for the next session, stored byte for byte
    pub brief: Option<String>,
    /// Do not capture the workspace: git, watched folders, memory
    #[serde(default)]
    pub no_capture: bool,
    /// Save only if the profile's interval has passed
    #[serde(default)]
    pub if_due: bool,
    /// Keep the checkpoint regardless of its age
    #[serde(default)]
    pub pin: bool,
    /// Tags for the checkpoint
    #[serde(default)]
    pub tag: Vec<String>,
}

/// List checkpoints, newest first. Read-only.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Only checkpoints of this run
    pub run: Option<String>,
    /// Maximum number of checkpoints (0 = no limit). Default: 20
    pub limit: Option<usize>,
    /// Only completed checkpoints
    #[serde(default)]
    pub completed: bool,
    /// Only checkpoints that are not completed
    #[serde(default)]
    pub incomplete: bool,
    /// Only checkpoints with this source
    pub source: Option<Source>,
    /// Only checkpoints with this status
    pub status: Option<Status>,
    /// Only checkpoints with this tag
    pub tag: Option<String>,
    /// List checkpoints below their parents instead of newest first
    #[serde(default)]
    pub tree: bool,
}

/// Show one complete checkpoint, verified before it is returned. Read-only.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// Run in which the checkpoint is looked up first
    pub run: Option<String>,
    /// Checkpoint id, id prefix, latest, latest~2, RUN@12 or a tag. Default: latest
    pub r#ref: Option<String>,
}

/// Show what changed from one checkpoint to another, in the same run or in different runs. Read-only.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Diff {
    /// Run in which the checkpoints are looked up first
    pub run: Option<String>,
    /// Checkpoint to start from, in any form that show accepts
    pub from: String,
    /// Checkpoint to compare with. Default: the newest of the same run
    pub to: Option<String>,
}

/// Get the brief of the work that was interrupted here: what it was doing, why it stopped, what was decided,
/// what failed last and what comes next. Call it first, before you do anything else, and again after your
/// context was truncated. Read-only unless start or dismiss is true.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resume {
    /// Run to resume. Default: the run that was interrupted last in this worktree, otherwise the run of this
    /// session
    pub run: Option<String>,
    /// Maximum length of the brief in tokens. Default: 2000
    pub budget: Option<u64>,
    /// Only report whether the run can be resumed, without the brief
    #[serde(default)]
    pub check: bool,
    /// Start a run that continues it. Everything you save, record, decide and plan afterwards goes to the new
    /// run
    #[serde(default)]
    pub start: bool,
    /// Do not offer the run again
    #[serde(default)]
    pub dismiss: bool,
    /// Resume even if the owner is alive but waiting or silent
    #[serde(default)]
    pub take_over: bool,
    /// Use a brief from this file in the project instead. Needs no store
    pub from: Option<String>,
}

/// Record a decision, so that it is not discussed again. It is part of every later checkpoint and brief and
/// is never dropped.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Decide {
    /// Run to use. Default: as for save
    pub run: Option<String>,
    /// The decision and its reason, in one sentence
    pub text: String,
    /// Exact text of the decision that it replaces
    pub supersedes: Option<String>,
}

/// Record the result of a command or tool. It is part of the next checkpoint.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Run to use. Default: as for save
    pub run: Option<String>,
    /// Kind of command or tool
    pub kind: OutcomeKind,
    /// Name, such as the command line
    pub name: String,
    /// Result of the command or tool
    pub result: OutcomeResult,
    /// Duration in milliseconds
    pub duration_ms: u64,
    /// What it did, or its last output, in at most 2,048 bytes
    pub summary: Option<String>,
    /// Code that explains the result
    pub reason_code: Option<String>,
}

/// Update tasks of your plan, several in one call, or list them. Without `tasks` it only reads. A task that
/// ends creates a checkpoint immediately. Tasks that you omit do not change.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// Run to use. Default: as for save
    pub run: Option<String>,
    /// New and changed tasks
    pub tasks: Option<Vec<Task>>,
}

/// One task.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Short, stable id. A subtask is PARENT/CHILD
    pub id: String,
    /// Status of the task
    pub status: TaskStatus,
    /// Title of the task. Unchanged if omitted
    pub title: Option<String>,
}

/// Report that a step of a plan starts or ends. This creates a checkpoint immediately. done and fail require
/// a step that has started.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Run to use. Default: as for save
    pub run: Option<String>,
    /// What happens to the step
    pub what: StepVerb,
    /// Id of the step
    pub id: String,
    /// Path of the plan file
    pub plan: Option<String>,
    /// Number of the step in the plan
    pub ordinal: Option<u64>,
    /// Title of the step
    pub title: Option<String>,
}

/// What can happen to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepVerb {
    /// The step starts.
    Begin,
    /// The step succeeds.
    Done,
    /// The step fails.
    Fail,
    /// The step is skipped.
    Skip,
}

impl From<StepVerb> for StepStatus {
    fn from(verb: StepVerb) -> Self {
        match verb {
            StepVerb::Begin => Self::InProgress,
            StepVerb::Done => Self::Done,
            StepVerb::Fail => Self::Failed,
            StepVerb::Skip => Self::Skipped,
        }
    }
}

/// Mark a checkpoint and the earlier ones of its run as completed. Completing the newest checkpoint ends the
/// run.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Complete {
    /// Run in which the checkpoint is looked up first
    pub run: Option<String>,
    /// Checkpoint to complete, in any form that show accepts
    pub r#ref: String,
}

/// A JSON object as text. Accepts an object, or a string that contains one.
#[derive(Debug, Clone)]
pub struct Input(pub String);

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }))
    }
}

impl JsonSchema for Input {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Input".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        // Some agents reject a choice of types. The description states that a string is accepted too.
        schemars::json_schema!({ "type": "object" })
    }
}
