//! A run: one piece of long work, who does it, and how it stands between checkpoints.

use derive_getters::Getters;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    CheckpointId, ContextDigest, Criterion, Decision, FileRef, Interruption, LogLine, Phase, Profile,
    RawObject, RunId, Status, StepState, Task, WriteToken,
};

/// Who runs the work, in terms that tell a live process from a recycled pid.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The process.
    pub(crate) pid: u32,
    /// Its start time in clock ticks after boot.
    #[getter(copy)]
    pub(crate) start_ticks: Option<u64>,
    /// The boot it belongs to.
    pub(crate) boot_id: Option<String>,
    /// The pid namespace it was seen in.
    pub(crate) pid_namespace: Option<String>,
    /// The machine.
    pub(crate) machine_id: Option<String>,
    /// What it is called, for people.
    pub(crate) name: Option<String>,
}

/// Who has taken a stopped run over. It holds from the continuing run's first checkpoint on, and before that as long as
/// that run may still make one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    /// The continuing run.
    pub(crate) by_run: RunId,
    /// When.
    pub(crate) at: Timestamp,
}

/// An instant in wall time and, within one boot, in a time that never jumps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClockReading {
    /// Wall time.
    pub(crate) at: Timestamp,
    /// Which boot `uptime_ms` counts from.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) boot_id: Option<String>,
    /// Milliseconds since that boot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(crate) uptime_ms: Option<u64>,
}

/// One session of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The caller's name for it.
    pub(crate) id: String,
    /// When it began.
    pub(crate) started: ClockReading,
    /// How long it had lasted at its last write.
    pub(crate) elapsed_ms: u64,
    /// Its checkpoints so far.
    pub(crate) checkpoints: u64,
}

/// A commit that was made, so that a writer whose reply was lost finds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecentCommit {
    /// The writer's token.
    pub(crate) token: WriteToken,
    /// The checkpoint it wrote or folded into; 0 for none.
    pub(crate) sequence: u64,
    /// Whether it was folded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) coalesced: bool,
}

/// A write that only kept house, so that lists of runs go on by the last one that did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MaintenanceState {
    /// The stamp of that write.
    pub(crate) stamp: u64,
    /// The stamp of the last write before it that was part of the work.
    pub(crate) written: u64,
}

/// What a run remembers of its captures, so that the next one costs no more than the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CaptureHistory {
    /// Sequence of the newest checkpoint that holds a workspace; 0 for none. Its list of touched files is the one to add to.
    pub(crate) latest: u64,
    /// When the workspace was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Timestamp>,
    /// The commit the run began at; empty where there was none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base: Option<String>,
    /// The commit up to which the touched files are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) head: Option<String>,
    /// The largest resident set seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peak_rss: Option<u64>,
    /// Folders that are watched in this run, beside those of the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) watch: Vec<String>,
}

impl CaptureHistory {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How the work stands between checkpoints; the next one starts from here.
#[derive(Getters, Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WorkingState {
    /// The phase.
    pub(crate) phase: Option<Phase>,
    /// What the work is about.
    pub(crate) task_summary: Option<String>,
    /// What has to be true in the end.
    pub(crate) criteria: Vec<Criterion>,
    /// The tasks.
    pub(crate) tasks: Vec<Task>,
    /// Files that were written, as far as somebody said so; the newest last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<FileRef>,
    /// The step of the plan.
    pub(crate) step_state: Option<StepState>,
    /// The agent's context.
    pub(crate) context_digest: Option<ContextDigest>,
    /// Decisions, none ever dropped.
    pub(crate) decisions: Vec<Decision>,
    /// The newest lines of the log.
    pub(crate) log: Vec<LogLine>,
    /// Steps that have begun and not ended, as they began.
    pub(crate) open_steps: Vec<StepState>,
    /// Outcomes that were let go before the next checkpoint could hold them.
    pub(crate) outcomes_dropped: u64,
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
#[derive(Getters, Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Its id.
    pub(crate) run_id: RunId,
    /// What people call it.
    pub(crate) title: Option<String>,
    /// The plan it follows.
    pub(crate) plan: Option<String>,
    /// The checkpoint it continues.
    pub(crate) parent: Option<CheckpointId>,
    /// When it began.
    #[getter(copy)]
    pub(crate) started_at: Timestamp,
    /// When it was last written.
    #[getter(copy)]
    pub(crate) updated_at: Timestamp,
    /// When it ended.
    #[getter(copy)]
    pub(crate) ended_at: Option<Timestamp>,
    /// How it stands.
    #[getter(copy)]
    pub(crate) status: Status,
    /// Its profile.
    #[getter(copy)]
    pub(crate) profile: Profile,
    /// Who runs it; none for runs kept by hand.
    pub(crate) owner: Option<Owner>,
    /// The last sign of life.
    #[getter(copy)]
    pub(crate) heartbeat: Option<Timestamp>,
    /// Who has taken it over.
    #[getter(skip)]
    pub(crate) claim: Option<Claim>,
    /// How often it was resumed.
    pub(crate) attempts: u64,
    /// When it was last resumed.
    #[getter(skip)]
    pub(crate) attempted_at: Option<Timestamp>,
    /// Whether it is no longer offered for resuming.
    pub(crate) dismissed: bool,
    /// Why it does not go on, where that was noted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) interruption: Option<Interruption>,
    /// The agent that does the work, by the name that its hooks use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// Where it came from, if not from work that this store has seen. Such a run is foreign: it is not given to an agent
    /// unless a person asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[getter(skip)]
    pub(crate) origin: Option<RunOrigin>,
    /// The project's root.
    pub(crate) project: Option<String>,
    /// The worktree.
    pub(crate) worktree: Option<String>,
    /// The branch at the start of the newest session.
    pub(crate) branch: Option<String>,
    /// The user.
    pub(crate) user: Option<String>,
    /// The command, where Milepost started one.
    pub(crate) command: Option<Vec<String>>,
    /// The newest session; earlier ones are summed up below.
    #[getter(skip)]
    pub(crate) session: Option<Session>,
    /// How many sessions there were.
    pub(crate) sessions: u64,
    /// How long the earlier sessions lasted together.
    #[getter(skip)]
    pub(crate) earlier_ms: u64,
    /// Checkpoints up to this sequence are completed; 0 for none.
    #[getter(skip)]
    pub(crate) completed_through: u64,
    /// Sequence of the newest failed checkpoint; 0 for none.
    #[getter(skip)]
    pub(crate) latest_failed: u64,
    /// Sequence of the newest completed checkpoint; 0 for none.
    #[getter(skip)]
    pub(crate) latest_completed: u64,
    /// Sequence of the newest checkpoint that holds a state; 0 for none.
    #[getter(skip)]
    pub(crate) latest_state: u64,
    /// What it remembers of its captures.
    #[serde(default, skip_serializing_if = "CaptureHistory::is_empty")]
    #[getter(skip)]
    pub(crate) captures: CaptureHistory,
    /// How often pins and tags of checkpoints were changed, so that pruning notices a pin that came meanwhile.
    #[serde(default)]
    #[getter(skip)]
    pub(crate) marks_changed: u64,
    /// The last write that only kept house.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[getter(skip)]
    pub(crate) maintenance: Option<MaintenanceState>,
    /// The newest commits.
    #[getter(skip)]
    pub(crate) recent: Vec<RecentCommit>,
    /// How the work stands.
    pub(crate) working: WorkingState,
    /// Members of a newer version.
    #[serde(default, skip_serializing_if = "RawObject::is_empty")]
    pub(crate) extra: RawObject,
}

impl RunRecord {
    /// Whether it came from elsewhere: such a run is given to an agent only if a person asks for it.
    pub fn is_foreign(&self) -> bool {
        self.origin.is_some()
    }

    /// Where it came from, if it was not recorded in this store.
    #[cfg(feature = "internal")]
    pub fn origin(&self) -> Option<&RunOrigin> {
        self.origin.as_ref()
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

    /// The folder that it works in: its worktree, or the project's root outside repositories.
    pub fn folder(&self) -> Option<&String> {
        self.worktree.as_ref().or(self.project.as_ref())
    }

    /// Whether the run has not ended.
    pub fn is_open(&self) -> bool {
        !self.status.is_terminal()
    }

    /// The caller's name for the newest session.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id.as_str())
    }

    /// Milliseconds over all sessions.
    pub fn total_ms(&self) -> u64 {
        self.earlier_ms.saturating_add(self.session.as_ref().map_or(0, |s| s.elapsed_ms))
    }
}
