//! Results of the tools: the documents that the commands print with `--json`, limited to the members that
//! programs can rely on. A document may have further members.

use schemars::JsonSchema;
use serde_json::Value;

/// The result of `save`, `decide`, `record` and `step`, and of `tasks` if it changes tasks. The members of
/// the checkpoint are null if none was created.
#[derive(Debug, JsonSchema)]
pub struct Saved {
    /// `milepost.<tool>/1`
    pub schema: String,
    /// Id of the checkpoint, or of the one that it was coalesced into
    pub snapshot_id: Option<String>,
    /// Id of the run
    pub run_id: String,
    /// Number of the checkpoint in the run
    pub sequence: Option<u64>,
    /// Whether the checkpoint was folded into the previous one because nothing had changed
    pub coalesced: bool,
    /// What triggered the checkpoint
    pub source: Option<String>,
    /// Status of the work
    pub status: Option<String>,
    /// File of the checkpoint, if it has its own
    pub file: Option<String>,
}

/// The result of `tasks`.
#[derive(Debug, JsonSchema)]
pub struct Tasks {
    /// `milepost.tasks/1`
    pub schema: String,
    /// Id of the run
    pub run_id: String,
    /// All tasks of the run in their current state
    pub tasks: Vec<Task>,
    /// Id of the new checkpoint, if a task ended
    pub snapshot_id: Option<String>,
}

/// One task. It may have further members.
#[derive(Debug, JsonSchema)]
pub struct Task {
    /// Id of the task
    pub id: String,
    /// Status of the task
    pub status: String,
    /// Title of the task
    #[schemars(default)]
    pub title: Option<String>,
}

/// The result of `list`.
#[derive(Debug, JsonSchema)]
pub struct List {
    /// `milepost.list/1`
    pub schema: String,
    /// The checkpoints, newest first
    pub checkpoints: Vec<Listed>,
}

/// One checkpoint in a list.
#[derive(Debug, JsonSchema)]
pub struct Listed {
    /// Id of the checkpoint
    pub snapshot_id: String,
    /// Id of the run
    pub run_id: String,
    /// Number of the checkpoint in the run
    pub sequence: u64,
    /// Creation time
    pub created_at: String,
    /// What triggered the checkpoint
    pub source: String,
    /// All sources and reasons
    pub source_details: Vec<String>,
    /// Status of the work at that time
    pub status: String,
    /// Summary of the work
    pub task_summary: Option<String>,
    /// Whether the checkpoint is completed
    pub completed: bool,
    /// Whether the checkpoint is kept regardless of its age
    pub pinned: bool,
    /// Tags of the checkpoint
    pub tags: Vec<String>,
}

/// The result of `show`.
#[derive(Debug, JsonSchema)]
pub struct Show {
    /// `milepost.show/1`
    pub schema: String,
    /// The sealed document
    pub checkpoint: serde_json::Map<String, Value>,
    /// The marks, which can change after the checkpoint is sealed
    pub marks: serde_json::Map<String, Value>,
}

/// The result of `diff`.
#[derive(Debug, JsonSchema)]
pub struct Diff {
    /// `milepost.diff/1`
    pub schema: String,
    /// Id of the first checkpoint
    pub from: String,
    /// Id of the second checkpoint
    pub to: String,
    /// Whether the checkpoints differ
    pub differs: bool,
    /// The changes, by path
    pub changed: Vec<Changed>,
    /// Files that were added and removed
    pub files: serde_json::Map<String, Value>,
}

/// One change.
#[derive(Debug, JsonSchema)]
pub struct Changed {
    /// JSON pointer to the value
    pub path: String,
    /// Value in the first checkpoint
    pub before: Value,
    /// Value in the second checkpoint
    pub after: Value,
}

/// The result of `resume`.
#[derive(Debug, JsonSchema)]
pub struct Resume {
    /// `milepost.resume/1`
    pub schema: String,
    /// Whether the run can be resumed, and why. Absent after a dismissal
    pub decision: Option<Decision>,
    /// The brief, in Markdown
    pub brief: Option<String>,
    /// Length of the brief in tokens
    pub tokens: Option<u64>,
    /// The run that was started, if start was true
    pub started: Option<Started>,
    /// Id of the dismissed run, if dismiss was true
    pub dismissed: Option<String>,
}

/// Whether a run can be resumed.
#[derive(Debug, JsonSchema)]
pub struct Decision {
    /// `resume_allowed`, or the reason against it
    pub reason_code: String,
    /// Why the run stopped
    pub class: String,
    /// Whether the run can be resumed
    pub eligible: bool,
    /// Id of the run; null if there is nothing to resume
    pub run_id: Option<String>,
    /// Id of the newest intact checkpoint
    pub snapshot_id: Option<String>,
    /// What to do next
    pub next_actions: Vec<String>,
}

/// A run that continues another.
#[derive(Debug, JsonSchema)]
pub struct Started {
    /// Id of the new run
    pub run_id: String,
    /// Id of the run that it continues
    pub continues: String,
}

/// The result of `complete`.
#[derive(Debug, JsonSchema)]
pub struct Complete {
    /// `milepost.complete/1`
    pub schema: String,
    /// Id of the run
    pub run_id: String,
    /// Ids of the checkpoints that were not completed before
    pub completed: Vec<String>,
}
