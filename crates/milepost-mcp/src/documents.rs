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

/// The result of `search`.
#[derive(Debug, JsonSchema)]
pub struct Search {
    /// `milepost.search/1`
    pub schema: String,
    /// The hits, best first
    pub hits: Vec<SearchHit>,
    /// Whether there are more hits than the limit
    pub more: bool,
    /// Whether the index was still being built, so that hits may be missing
    pub incomplete: bool,
}

/// A text that matches a query.
#[derive(Debug, JsonSchema)]
pub struct SearchHit {
    /// Id of the run
    pub run: String,
    /// Reference for show, or the id of the run if the text is not part of a checkpoint
    pub reference: String,
    /// Number of the checkpoint in the run
    pub sequence: Option<u64>,
    /// Kind of text
    pub kind: String,
    /// Where it was recorded, more precisely than the kind
    pub origin: String,
    /// When it was recorded
    pub at: String,
    /// The lines that match best
    pub excerpt: String,
    /// What the run is about
    pub about: Option<String>,
    /// How well it matches
    pub score: f64,
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

/// The result of `restore`: the plan, and what was done if it was applied.
#[derive(Debug, JsonSchema)]
pub struct Restore {
    /// `milepost.restore/1`
    pub schema: String,
    /// The reference that was given
    pub reference: String,
    /// Id of the run whose files are restored
    pub run_id: String,
    /// When the restored snapshot was taken
    pub taken_at: String,
    /// The files that differ, sorted by path
    pub files: Vec<PlannedFile>,
    /// Number of files that differ and are not listed, because there are too many
    pub files_left_out: u64,
    /// Number of files by action
    pub counts: serde_json::Map<String, Value>,
    /// Number of files that differ but that this run did not change. `all` includes them
    pub left_alone: u64,
    /// Token that applies this plan
    pub token: String,
    /// Whether this is only the plan, and no file was changed
    pub dry_run: bool,
    /// What was done; null if no file was changed
    pub report: Option<RestoreReport>,
}

/// A file in a plan.
#[derive(Debug, JsonSchema)]
pub struct PlannedFile {
    /// Path of the file, relative to the root of the project
    pub path: Value,
    /// restore, recreate, delete, keep, conflict or unavailable. The last three leave the file as it is
    pub action: String,
    /// Why the file is left, or what is special about it
    pub reason: Option<String>,
}

/// What a restore or an undo did.
#[derive(Debug, JsonSchema)]
pub struct RestoreReport {
    /// Id of the restore, for `undo`
    pub id: String,
    /// Id of the checkpoint with the files before the restore; null for an undo
    pub safety_checkpoint: Option<String>,
    /// Files that were changed
    pub restored: Vec<Value>,
    /// Files that were left, because they changed in the meantime
    pub kept: Vec<KeptFile>,
    /// Files whose previous content only `undo` has
    pub moved_aside: Vec<Value>,
    /// Number of files that are not listed, because there are too many
    pub left_out: u64,
}

/// A file that was left as it is.
#[derive(Debug, JsonSchema)]
pub struct KeptFile {
    /// Path of the file, relative to the root of the project
    pub path: Value,
    /// Why it was left
    pub reason: String,
}

/// The result of `undo`.
#[derive(Debug, JsonSchema)]
pub struct Undo {
    /// `milepost.undo/1`
    pub schema: String,
    /// The restores that can be undone, newest first. Empty if one was undone
    pub points: Vec<UndoPoint>,
    /// What was done; null if no file was changed
    pub report: Option<RestoreReport>,
}

/// A restore that can be undone.
#[derive(Debug, JsonSchema)]
pub struct UndoPoint {
    /// Id of the restore
    pub id: String,
    /// The reference that was restored
    pub reference: String,
    /// When it was restored
    pub at: String,
    /// Id of the restore that this one undid
    pub undoes: Option<String>,
    /// Number of files that were changed
    pub files: u64,
}

/// The result of `file`.
#[derive(Debug, JsonSchema)]
pub struct File {
    /// `milepost.file/1`
    pub schema: String,
    /// Path of the file, relative to the root of the project
    pub path: String,
    /// The reference that was given
    pub reference: String,
    /// Size of the file in bytes
    pub size: u64,
    /// Whether the file is executable
    pub executable: bool,
    /// Whether it is a symbolic link, whose content is the path that it points to
    pub symlink: bool,
    /// Whether secrets were replaced
    pub redacted: bool,
    /// Whether the file is binary. Its content is not returned
    pub binary: bool,
    /// utf-8; null if the file is binary
    pub encoding: Option<String>,
    /// The lines of the file; null if it is binary
    pub content: Option<String>,
    /// Number of the first returned line, counted from 1
    pub first_line: u64,
    /// Number of returned lines
    pub lines: u64,
    /// Number of lines of the file
    pub total_lines: u64,
    /// The offset that continues after these lines; null at the end of the file
    pub next_offset: Option<u64>,
}

/// The result of `patch`.
#[derive(Debug, JsonSchema)]
pub struct Patch {
    /// `milepost.patch/1`
    pub schema: String,
    /// Name of the files before
    pub from: String,
    /// Name of the files after
    pub to: String,
    /// Whether files differ
    pub differs: bool,
    /// The files that differ
    pub files: Vec<PatchedFile>,
    /// Number of added lines in all files
    pub added: u64,
    /// Number of removed lines in all files
    pub removed: u64,
    /// Number of files that differ and are not listed
    pub left_out: u64,
    /// Number of lines in which secrets were replaced
    pub redacted: u64,
}

/// A file that differs.
#[derive(Debug, JsonSchema)]
pub struct PatchedFile {
    /// Path of the file, relative to the root of the project
    pub path: Value,
    /// added, deleted, modified, mode_changed or unavailable
    pub status: String,
    /// Number of added lines
    pub added: u64,
    /// Number of removed lines
    pub removed: u64,
    /// Whether the file is binary
    pub binary: bool,
    /// Why its lines were not compared
    pub reason: Option<String>,
    /// The unified diff. Absent with `stat`, and beyond the limit of 64 KiB
    #[schemars(default)]
    pub patch: Option<String>,
    /// Whether the unified diff was cut or left out because of the limit
    #[schemars(default)]
    pub cut: Option<bool>,
}
