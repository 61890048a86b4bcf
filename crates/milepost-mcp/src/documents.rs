//! What the tools answer, as far as programs can rely on it: the documents that the commands give with `--json`, which may
//! hold more.

use schemars::JsonSchema;
use serde_json::Value;

/// The answer to `save`, `decide`, `record` and `step`, and to `tasks` that changes some. The checkpoint's members are
/// null where none was made.
#[derive(Debug, JsonSchema)]
pub struct Saved {
    /// `milepost.<tool>/1`
    pub schema: String,
    /// The checkpoint's id; of one that it was folded into, if coalesced
    pub snapshot_id: Option<String>,
    /// The run
    pub run_id: String,
    /// Its number in the run
    pub sequence: Option<u64>,
    /// Whether nothing had changed, so that it was folded into the one before
    pub coalesced: bool,
    /// What made it happen
    pub source: Option<String>,
    /// How the work stands
    pub status: Option<String>,
    /// The file it is in, where it has one of its own
    pub file: Option<String>,
}

/// The answer to `tasks`.
#[derive(Debug, JsonSchema)]
pub struct Tasks {
    /// `milepost.tasks/1`
    pub schema: String,
    /// The run
    pub run_id: String,
    /// All tasks of the run as they stand
    pub tasks: Vec<Task>,
    /// The checkpoint that was made, if a task has ended
    pub snapshot_id: Option<String>,
}

/// One task; it may hold more.
#[derive(Debug, JsonSchema)]
pub struct Task {
    /// Its id
    pub id: String,
    /// How it stands
    pub status: String,
    /// What people call it
    #[schemars(default)]
    pub title: Option<String>,
}

/// The answer to `list`.
#[derive(Debug, JsonSchema)]
pub struct List {
    /// `milepost.list/1`
    pub schema: String,
    /// Newest first
    pub checkpoints: Vec<Listed>,
}

/// One checkpoint in a list.
#[derive(Debug, JsonSchema)]
pub struct Listed {
    /// Its id
    pub snapshot_id: String,
    /// Its run
    pub run_id: String,
    /// Its number in the run
    pub sequence: u64,
    /// When it was made
    pub created_at: String,
    /// What made it happen
    pub source: String,
    /// Every source and reason
    pub source_details: Vec<String>,
    /// How the work stood
    pub status: String,
    /// What the work was about
    pub task_summary: Option<String>,
    /// Whether it is completed
    pub completed: bool,
    /// Whether it is kept whatever its age
    pub pinned: bool,
    /// Its names
    pub tags: Vec<String>,
}

/// The answer to `show`.
#[derive(Debug, JsonSchema)]
pub struct Show {
    /// `milepost.show/1`
    pub schema: String,
    /// The document as it was sealed
    pub checkpoint: serde_json::Map<String, Value>,
    /// What may change about it afterwards
    pub marks: serde_json::Map<String, Value>,
}

/// The answer to `diff`.
#[derive(Debug, JsonSchema)]
pub struct Diff {
    /// `milepost.diff/1`
    pub schema: String,
    /// The one
    pub from: String,
    /// The other
    pub to: String,
    /// Whether they differ
    pub differs: bool,
    /// What changed, by path
    pub changed: Vec<Changed>,
    /// Files that came and went
    pub files: serde_json::Map<String, Value>,
}

/// One change.
#[derive(Debug, JsonSchema)]
pub struct Changed {
    /// A JSON pointer
    pub path: String,
    /// The value before
    pub before: Value,
    /// The value after
    pub after: Value,
}

/// The answer to `resume`.
#[derive(Debug, JsonSchema)]
pub struct Resume {
    /// `milepost.resume/1`
    pub schema: String,
    /// Whether it may be continued, and why; absent after a dismissal
    pub decision: Option<Decision>,
    /// The brief, in Markdown
    pub brief: Option<String>,
    /// How long it is
    pub tokens: Option<u64>,
    /// The run that was opened, with start
    pub started: Option<Started>,
    /// The run that is no longer offered, with dismiss
    pub dismissed: Option<String>,
}

/// Whether a run may be continued.
#[derive(Debug, JsonSchema)]
pub struct Decision {
    /// `resume_allowed`, or what stands against it
    pub reason_code: String,
    /// Why the run does not go on
    pub class: String,
    /// Whether it may be continued
    pub eligible: bool,
    /// The run; null where there is nothing to resume
    pub run_id: Option<String>,
    /// Its newest checkpoint that is intact
    pub snapshot_id: Option<String>,
    /// What comes next
    pub next_actions: Vec<String>,
}

/// A run that continues another.
#[derive(Debug, JsonSchema)]
pub struct Started {
    /// The new run
    pub run_id: String,
    /// The run it continues
    pub continues: String,
}

/// The answer to `complete`.
#[derive(Debug, JsonSchema)]
pub struct Complete {
    /// `milepost.complete/1`
    pub schema: String,
    /// The run
    pub run_id: String,
    /// Those that were not completed yet
    pub completed: Vec<String>,
}
