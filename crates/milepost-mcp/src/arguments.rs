//! Arguments of the tools: the flags of the commands in snake_case, optional if the flag is. The model reads
//! the doc comments as descriptions. `schemas/` contains a copy of each.

use milepost::SearchKind;
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

/// Search what earlier work in this project recorded: prompts of the user, decisions, failed commands with their output,
/// briefs, summaries, notes and file names. Call it before you try an approach, to learn whether it was tried before and
/// why it was rejected, and when an error looks familiar. Hits come best first, with the reference for show. Read-only.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Only this run
    pub run: Option<String>,
    /// Words in any language. Texts with all of them come first. "A phrase" in quotation marks must occur as it is,
    /// prefix* finds words that start with it, -word leaves out what contains it
    pub query: String,
    /// Only this kind of text
    pub kind: Option<SearchKind>,
    /// Only what was recorded within this time, such as 12h, 14d or 2w
    pub since: Option<String>,
    /// Maximum number of hits. Default: 10
    pub limit: Option<usize>,
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

/// Bring files back to an earlier checkpoint, or to before a prompt. The first call changes nothing: it returns
/// the plan, with what would happen to each file, and a token. To apply the plan, call again with the same
/// arguments and the token. Show the user the plan first, unless the user asked for exactly this. By default
/// only files that the run changed are restored, and a file that someone else changed since is kept. The undo
/// tool reverts a restore.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// Run in which the checkpoint is looked up first
    pub run: Option<String>,
    /// Checkpoint in any form that show accepts, or prompt for the files before the newest prompt (the one that
    /// you are answering), prompt~1 for those before the previous prompt
    pub r#ref: String,
    /// Files and folders to restore, relative to the root of the project. Default: all files that the run
    /// changed
    #[serde(default)]
    pub paths: Vec<String>,
    /// Include files that differ but that the run did not change
    #[serde(default)]
    pub all: bool,
    /// Replace files that someone else changed. Their present content is kept for undo. Only after the user
    /// has agreed
    #[serde(default)]
    pub force: bool,
    /// Token of the plan to apply. The call is refused if the plan is no longer the same. Omit it to get the
    /// plan
    pub token: Option<String>,
}

/// Undo a restore, or list the restores that can be undone. Files that changed since the restore are kept. An
/// undo can itself be undone: call it again.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    /// Run that you work in. Default: as for save
    pub run: Option<String>,
    /// Id of the restore to undo. Default: the newest
    pub id: Option<String>,
    /// Only list the restores that can be undone
    #[serde(default)]
    pub list: bool,
}

/// Read a file as it was at a checkpoint, or before a prompt. Returns at most 64 KiB; next_offset says where to
/// continue. Secrets are replaced, so do not write the content back: use restore. Read-only.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Run in which the checkpoint is looked up first
    pub run: Option<String>,
    /// Checkpoint or prompt, in any form that restore accepts
    pub r#ref: String,
    /// Path of the file, relative to the root of the project
    pub path: String,
    /// First line to return, counted from 1. Default: 1
    pub offset: Option<usize>,
    /// Maximum number of lines to return. Default: as many as fit
    pub limit: Option<usize>,
}

/// Compare the files of two checkpoints or prompts, or of one with the current files, as a unified diff.
/// Returns at most 64 KiB: use stat for an overview, and paths to select files. Secrets are replaced, so do not
/// apply the diff: use restore. Read-only.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Run in which the checkpoints are looked up first
    pub run: Option<String>,
    /// Checkpoint or prompt to start from, in any form that restore accepts
    pub from: String,
    /// Checkpoint or prompt to compare with. Default: the current files
    pub to: Option<String>,
    /// Files and folders to compare, relative to the root of the project. Default: all
    #[serde(default)]
    pub paths: Vec<String>,
    /// Return only the number of changed lines in each file
    #[serde(default)]
    pub stat: bool,
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
