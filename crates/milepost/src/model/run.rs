//! Run records: a run is one piece of long-running work. The record stores its owner, its sessions and the
//! state of the work between checkpoints.

use derive_getters::Getters;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    CheckpointId, ContextDigest, Criterion, Decision, FileRef, Interruption, LogLine, Outcome, Phase,
    Profile, RawObject, RestorePoint, RunId, Status, StepState, Task, WriteToken,
};

/// The process that owns a run, described precisely enough to detect a reused pid.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The process id.
    pub(crate) pid: u32,
    /// The start time of the process: in clock ticks since boot on Linux, in seconds since 1970 elsewhere.
    #[getter(copy)]
    pub(crate) start_ticks: Option<u64>,
    /// The id of the boot that the process belongs to.
    pub(crate) boot_id: Option<String>,
    /// The pid namespace in which the process id is valid.
    pub(crate) pid_namespace: Option<String>,
    /// The id of the machine.
    pub(crate) machine_id: Option<String>,
    /// The name of the process, for display.
    pub(crate) name: Option<String>,
}

/// The claim of a run that continues a stopped run. The claim is in force once the continuing run has a
/// checkpoint, and before that as long as that run can still create one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The continuing run.
    pub(crate) by_run: RunId,
    /// The time of the claim.
    pub(crate) at: Timestamp,
}

/// An instant, in wall-clock time and in monotonic time since boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockReading {
    /// The wall-clock time.
    pub(crate) at: Timestamp,
    /// The boot that `uptime_ms` counts from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) boot_id: Option<String>,
    /// Milliseconds since that boot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) uptime_ms: Option<u64>,
}

/// One session of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The caller's id for the session.
    pub(crate) id: String,
    /// When the session began.
    pub(crate) started: ClockReading,
    /// The duration of the session at its last write, in milliseconds.
    pub(crate) elapsed_ms: u64,
    /// The number of checkpoints so far.
    pub(crate) checkpoints: u64,
}

/// A recent commit. A writer whose reply was lost finds its commit here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecentCommit {
    /// The writer's token.
    pub(crate) token: WriteToken,
    /// The sequence number of the checkpoint that was written or folded into, or 0 if there is none.
    pub(crate) sequence: u64,
    /// Whether the trigger was folded into an existing checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) coalesced: bool,
}

/// The last maintenance write. Lists of runs ignore it and sort by the last write that was part of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MaintenanceState {
    /// The stamp of the maintenance write.
    pub(crate) stamp: u64,
    /// The stamp of the last earlier write that was part of the work.
    pub(crate) written: u64,
}

/// What a server has of a run that is recorded on this machine and sent later. Both records contain it: the one on
/// the server says what was received, the one on this machine what is known to have been received.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SyncState {
    /// The id of the store on the sending machine.
    pub(crate) from: String,
    /// The stamp, in that store, of the last write that was sent.
    pub(crate) stamp: u64,
    /// The highest sequence number that was sent.
    pub(crate) sequence: u64,
    /// The digest of the record as it was sent. If the server's record has another one, someone else continued the
    /// run there.
    pub(crate) digest: String,
    /// The number of messages that were sent.
    pub(crate) messages: u64,
    /// The cursor, in the sending store, of the last event that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<String>,
    /// The number of changes to marks that were sent.
    pub(crate) marks: u64,
    /// The id of the run on the server, if it is not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<RunId>,
}

/// Facts about earlier captures. With them, the cost of a capture does not grow with the number of captures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CaptureHistory {
    /// The sequence number of the newest checkpoint with a workspace, or 0 if there is none. The next capture
    /// extends its list of touched files.
    pub(crate) latest: u64,
    /// The sequence number of the newest checkpoint with restore points, or 0 if there is none.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) restore_points: u64,
    /// The time of the last capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Timestamp>,
    /// The commit at which the run began; empty if the repository had no commit yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<String>,
    /// The commit up to which the touched files are recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<String>,
    /// The largest resident set observed so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_rss: Option<u64>,
    /// Folders that this run watches in addition to the configured ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) watch: Vec<String>,
}

/// Whether a number is left out of a record.
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl CaptureHistory {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The state of the work between checkpoints. The next checkpoint starts from it.
#[derive(Getters, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkingState {
    /// The current phase.
    pub(crate) phase: Option<Phase>,
    /// A summary of the work.
    pub(crate) task_summary: Option<String>,
    /// The success criteria.
    pub(crate) criteria: Vec<Criterion>,
    /// The tasks of the plan.
    pub(crate) tasks: Vec<Task>,
    /// The files that were reported as written, newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<FileRef>,
    /// The current step of the plan.
    pub(crate) step_state: Option<StepState>,
    /// The state of the agent's context.
    pub(crate) context_digest: Option<ContextDigest>,
    /// All decisions; none is ever dropped.
    pub(crate) decisions: Vec<Decision>,
    /// The newest lines of the log.
    pub(crate) log: Vec<LogLine>,
    /// The steps that have begun and not ended.
    pub(crate) open_steps: Vec<StepState>,
    /// The number of outcomes that were dropped since the last checkpoint.
    pub(crate) outcomes_dropped: u64,
    /// The first line of the user's newest prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) latest_prompt: Option<String>,
    /// The files before each prompt since the newest checkpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[getter(skip)]
    pub(crate) restore_points: Vec<RestorePoint>,
    /// The commands that failed and were not seen to succeed since, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<Outcome>,
}

/// The origin of a run that was not recorded in this store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrigin {
    /// How the run got here: `import`, `bundle` or `copy`.
    pub kind: String,
    /// The file, folder or store that the run came from.
    pub from: String,
    /// When the run was added to this store.
    pub at: Timestamp,
}

/// The record of one run. Every write to the run rewrites it.
#[derive(Getters, Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The id of the run.
    pub(crate) run_id: RunId,
    /// The title of the run, for display.
    pub(crate) title: Option<String>,
    /// The plan that the run follows.
    pub(crate) plan: Option<String>,
    /// The checkpoint of another run that this run continues.
    pub(crate) parent: Option<CheckpointId>,
    /// When the run began.
    #[getter(copy)]
    pub(crate) started_at: Timestamp,
    /// When the run was last written.
    #[getter(copy)]
    pub(crate) updated_at: Timestamp,
    /// When the run ended; `None` while it is open.
    #[getter(copy)]
    pub(crate) ended_at: Option<Timestamp>,
    /// The status of the run.
    #[getter(copy)]
    pub(crate) status: Status,
    /// The profile of the run.
    #[getter(copy)]
    pub(crate) profile: Profile,
    /// The process that owns the run; `None` for a run that is managed manually.
    pub(crate) owner: Option<Owner>,
    /// The time of the owner's last sign of life.
    #[getter(copy)]
    pub(crate) heartbeat: Option<Timestamp>,
    /// The claim of the run that continues this one.
    #[getter(skip)]
    pub(crate) claim: Option<Claim>,
    /// The number of resume attempts.
    pub(crate) attempts: u64,
    /// The time of the last resume attempt.
    #[getter(skip)]
    pub(crate) attempted_at: Option<Timestamp>,
    /// Whether the run was dismissed: it is no longer offered for resuming.
    pub(crate) dismissed: bool,
    /// Why the work stopped, if that was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interruption: Option<Interruption>,
    /// The agent that does the work, under the name that its hooks use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// The agent's transcript of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[getter(skip)]
    pub(crate) transcript: Option<String>,
    /// The origin of a run that was not recorded in this store. Such a run is foreign: its content is passed
    /// to an agent only if a user requests it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[getter(skip)]
    pub(crate) origin: Option<RunOrigin>,
    /// The root folder of the project.
    pub(crate) project: Option<String>,
    /// The id of the project, the same in every clone of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) project_id: Option<String>,
    /// The git worktree.
    pub(crate) worktree: Option<String>,
    /// The git branch at the start of the newest session.
    pub(crate) branch: Option<String>,
    /// The name of the user.
    pub(crate) user: Option<String>,
    /// The name of the machine that worked on the run last. Recorded only in stores on servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// The command that Milepost started, if any.
    pub(crate) command: Option<Vec<String>>,
    /// The newest session. `sessions` and `earlier_ms` summarise the earlier ones.
    #[getter(skip)]
    pub(crate) session: Option<Session>,
    /// The number of sessions.
    pub(crate) sessions: u64,
    /// The total duration of the earlier sessions, in milliseconds.
    #[getter(skip)]
    pub(crate) earlier_ms: u64,
    /// Checkpoints up to this sequence number are completed; 0 if there are none.
    #[getter(skip)]
    pub(crate) completed_through: u64,
    /// The sequence number of the newest failed checkpoint, or 0 if there is none.
    #[getter(skip)]
    pub(crate) latest_failed: u64,
    /// The sequence number of the newest completed checkpoint, or 0 if there is none.
    #[getter(skip)]
    pub(crate) latest_completed: u64,
    /// The sequence number of the newest checkpoint with a state, or 0 if there is none.
    #[getter(skip)]
    pub(crate) latest_state: u64,
    /// Facts about the earlier captures.
    #[serde(default, skip_serializing_if = "CaptureHistory::is_empty")]
    #[getter(skip)]
    pub(crate) captures: CaptureHistory,
    /// The number of changes to pins and tags. Pruning compares it to detect a pin added while it runs.
    #[serde(default)]
    #[getter(skip)]
    pub(crate) marks_changed: u64,
    /// The last maintenance write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[getter(skip)]
    pub(crate) maintenance: Option<MaintenanceState>,
    /// What a server has of the run, if the run is recorded on one machine and sent later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[getter(skip)]
    pub(crate) sync: Option<SyncState>,
    /// The most recent commits.
    #[getter(skip)]
    pub(crate) recent: Vec<RecentCommit>,
    /// The state of the work between checkpoints.
    pub(crate) working: WorkingState,
    /// Members that a newer version wrote.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(crate) extra: RawObject,
}

impl RunRecord {
    /// Returns true if the run was not recorded in this store. The content of such a run is passed to an
    /// agent only if a user requests it.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_some()
    }

    /// Returns the origin of a run that was not recorded in this store.
    #[cfg(feature = "internal")]
    pub fn origin(&self) -> Option<&RunOrigin> {
        self.origin.as_ref()
    }

    /// Returns the path of the agent's transcript of the conversation.
    #[cfg(feature = "internal")]
    pub fn transcript(&self) -> Option<&str> {
        self.transcript.as_deref()
    }

    /// Creates the record of a run that begins at `now`.
    pub fn new(run_id: RunId, profile: Profile, now: Timestamp) -> Self {
        Self {
            run_id,
            title: None,
            plan: None,
            parent: None,
            started_at: now,
            updated_at: now,
            ended_at: None,
            status: Status::InProgress,
            profile,
            owner: None,
            heartbeat: None,
            claim: None,
            attempts: 0,
            attempted_at: None,
            dismissed: false,
            interruption: None,
            agent: None,
            transcript: None,
            origin: None,
            project: None,
            project_id: None,
            worktree: None,
            branch: None,
            user: None,
            host: None,
            command: None,
            session: None,
            sessions: 0,
            earlier_ms: 0,
            completed_through: 0,
            latest_failed: 0,
            latest_completed: 0,
            latest_state: 0,
            captures: CaptureHistory::default(),
            marks_changed: 0,
            maintenance: None,
            sync: None,
            recent: Vec::new(),
            working: WorkingState::default(),
            extra: RawObject::default(),
        }
    }

    /// Returns the folder that the run works in: its worktree, or the project root outside git.
    pub fn folder(&self) -> Option<&String> {
        self.worktree.as_ref().or(self.project.as_ref())
    }

    /// Returns true if the run works in this folder of this machine, or in a clone of the same project on another
    /// machine, whose folders mean nothing here.
    pub fn works_in(&self, folder: &str, host: Option<&str>) -> bool {
        let is_elsewhere = self.host.is_some() && self.host.as_deref() != host;
        is_elsewhere || self.folder().is_some_and(|own| own == folder)
    }

    /// Returns what the run is about, for a checkpoint without a summary: the title of the run, the user's
    /// newest prompt, or the command.
    pub fn about(&self) -> Option<String> {
        let command = || Some(self.command.as_ref()?.join(" "));
        self.title.clone().or_else(|| self.working.latest_prompt.clone()).or_else(command)
    }

    /// Returns true if the run has not ended.
    pub fn is_open(&self) -> bool {
        !self.status.is_terminal()
    }

    /// Sets the status of a run whose work continues.
    pub(crate) fn reopen(&mut self) {
        self.status = Status::InProgress;
        self.ended_at = None;
    }

    /// Removes tasks, criteria and steps, which start over in a new round. Returns the numbers of tasks and
    /// criteria.
    pub(crate) fn start_round(&mut self) -> (usize, usize) {
        let working = &mut self.working;
        let removed = (working.tasks.len(), working.criteria.len());
        working.tasks.clear();
        working.criteria.clear();
        working.step_state = None;
        working.open_steps.clear();
        self.attempts = 0;
        self.attempted_at = None;
        removed
    }

    /// Returns the caller's id for the newest session.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id.as_str())
    }

    /// Returns the number of checkpoints of the newest session.
    #[cfg(feature = "internal")]
    pub fn session_checkpoints(&self) -> u64 {
        self.session.as_ref().map_or(0, |session| session.checkpoints)
    }

    /// Returns the total duration of all sessions, in milliseconds.
    pub fn total_ms(&self) -> u64 {
        self.earlier_ms.saturating_add(self.session.as_ref().map_or(0, |s| s.elapsed_ms))
    }
}
