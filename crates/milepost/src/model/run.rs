//! A run: one piece of long work, who does it, and how it stands between checkpoints.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    CheckpointId, ContextDigest, Criterion, Decision, FileRef, Interruption, LogLine, Phase, Profile,
    RawObject, RunId, Status, StepState, Task, WriteToken,
};

/// Who runs the work, in terms that tell a live process from a recycled pid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The process.
    pub pid: u32,
    /// Its start time in clock ticks after boot.
    pub start_ticks: Option<u64>,
    /// The boot it belongs to.
    pub boot_id: Option<String>,
    /// The pid namespace it was seen in.
    pub pid_namespace: Option<String>,
    /// The machine.
    pub machine_id: Option<String>,
    /// What it is called, for people.
    pub name: Option<String>,
}

/// Who has taken a stopped run over. It holds from the continuing run's first checkpoint on, and before that as long as
/// that run may still make one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The continuing run.
    pub by_run: RunId,
    /// When.
    pub at: Timestamp,
}

/// An instant in wall time and, within one boot, in a time that never jumps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockReading {
    /// Wall time.
    pub at: Timestamp,
    /// Which boot `uptime_ms` counts from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub boot_id: Option<String>,
    /// Milliseconds since that boot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uptime_ms: Option<u64>,
}

/// One session of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The caller's name for it.
    pub id: String,
    /// When it began.
    pub started: ClockReading,
    /// How long it had lasted at its last write.
    pub elapsed_ms: u64,
    /// Its checkpoints so far.
    pub checkpoints: u64,
}

/// A commit that was made, so that a writer whose reply was lost finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentCommit {
    /// The writer's token.
    pub token: WriteToken,
    /// The checkpoint it wrote or folded into; 0 for none.
    pub sequence: u64,
    /// Whether it was folded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub coalesced: bool,
}

/// A write that only kept house, so that lists of runs go on by the last one that did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceState {
    /// The stamp of that write.
    pub stamp: u64,
    /// The stamp of the last write before it that was part of the work.
    pub written: u64,
}

/// What a run remembers of its captures, so that the next one costs no more than the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureHistory {
    /// Sequence of the newest checkpoint that holds a workspace; 0 for none. Its list of touched files is the one to add to.
    pub latest: u64,
    /// When the workspace was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The commit the run began at; empty where there was none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The commit up to which the touched files are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The largest resident set seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss: Option<u64>,
    /// Folders that are watched in this run, beside those of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub watch: Vec<String>,
}

impl CaptureHistory {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How the work stands between checkpoints; the next one starts from here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkingState {
    /// The phase.
    pub phase: Option<Phase>,
    /// What the work is about.
    pub task_summary: Option<String>,
    /// What has to be true in the end.
    pub criteria: Vec<Criterion>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Files that were written, as far as somebody said so; the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRef>,
    /// The step of the plan.
    pub step_state: Option<StepState>,
    /// The agent's context.
    pub context_digest: Option<ContextDigest>,
    /// Decisions, none ever dropped.
    pub decisions: Vec<Decision>,
    /// The newest lines of the log.
    pub log: Vec<LogLine>,
    /// Steps that have begun and not ended, as they began.
    pub open_steps: Vec<StepState>,
    /// Outcomes that were let go before the next checkpoint could hold them.
    pub outcomes_dropped: u64,
}

/// Where a run came from, if it was not recorded in this store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOrigin {
    /// How it came: `import`, `bundle` or `copy`.
    pub kind: String,
    /// The file, folder or store that it came from.
    pub from: String,
    /// When.
    pub at: Timestamp,
}

/// The record of one run, rewritten by every write to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub run_id: RunId,
    /// What people call it.
    pub title: Option<String>,
    /// The plan it follows.
    pub plan: Option<String>,
    /// The checkpoint it continues.
    pub parent: Option<CheckpointId>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was last written.
    pub updated_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// How it stands.
    pub status: Status,
    /// Its profile.
    pub profile: Profile,
    /// Who runs it; none for runs kept by hand.
    pub owner: Option<Owner>,
    /// The last sign of life.
    pub heartbeat: Option<Timestamp>,
    /// Who has taken it over.
    pub claim: Option<Claim>,
    /// How often it was resumed.
    pub attempts: u64,
    /// When it was last resumed.
    pub attempted_at: Option<Timestamp>,
    /// Whether it is no longer offered for resuming.
    pub dismissed: bool,
    /// Why it does not go on, where that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruption: Option<Interruption>,
    /// The agent that does the work, by the name that its hooks use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where it came from, if not from work that this store has seen. Such a run is foreign: it is not given to an agent
    /// unless a person asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<RunOrigin>,
    /// The project's root.
    pub project: Option<String>,
    /// The worktree.
    pub worktree: Option<String>,
    /// The branch at the start of the newest session.
    pub branch: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The command, where Milepost started one.
    pub command: Option<Vec<String>>,
    /// The newest session; earlier ones are summed up below.
    pub session: Option<Session>,
    /// How many sessions there were.
    pub sessions: u64,
    /// How long the earlier sessions lasted together.
    pub earlier_ms: u64,
    /// Checkpoints up to this sequence are completed; 0 for none.
    pub completed_through: u64,
    /// Sequence of the newest failed checkpoint; 0 for none.
    pub latest_failed: u64,
    /// Sequence of the newest completed checkpoint; 0 for none.
    pub latest_completed: u64,
    /// Sequence of the newest checkpoint that holds a state; 0 for none.
    pub latest_state: u64,
    /// What it remembers of its captures.
    #[serde(default, skip_serializing_if = "CaptureHistory::is_empty")]
    pub captures: CaptureHistory,
    /// How often pins and tags of checkpoints were changed, so that pruning notices a pin that came meanwhile.
    #[serde(default)]
    pub marks_changed: u64,
    /// The last write that only kept house.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceState>,
    /// The newest commits.
    pub recent: Vec<RecentCommit>,
    /// How the work stands.
    pub working: WorkingState,
    /// Members of a newer version.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub extra: RawObject,
}

impl RunRecord {
    /// Whether it came from elsewhere: such a run is given to an agent only if a person asks for it.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_some()
    }

    /// A record of a run that begins now.
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
            origin: None,
            project: None,
            worktree: None,
            branch: None,
            user: None,
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
            recent: Vec::new(),
            working: WorkingState::default(),
            extra: RawObject::default(),
        }
    }

    /// Where it works: its worktree, or the project's root outside repositories.
    pub fn place(&self) -> Option<&String> {
        self.worktree.as_ref().or(self.project.as_ref())
    }

    /// Whether the run has not ended.
    pub fn is_open(&self) -> bool {
        !self.status.is_terminal()
    }

    /// Milliseconds over all sessions.
    pub fn total_ms(&self) -> u64 {
        self.earlier_ms.saturating_add(self.session.as_ref().map_or(0, |s| s.elapsed_ms))
    }
}
