//! Runs in a list.

use milepost::Liveness;
use milepost::internal::engine::ResumeCandidate;

use super::{Time, optional_text, result, text};

result! {
    /// A run in a list.
    pub(crate) struct RunSummary shows run_id, state, title {
        run_id: String,
        title: Option<String>,
        /// `live`, `stopped`, `presumed dead`, `paused`, `failed`, `completed`, `open` or `damaged`.
        state: &'static str,
        /// `in_progress`, `paused`, `completed` or `failed`; `None` if the record is damaged.
        status: Option<String>,
        profile: Option<String>,
        checkpoints: u64,
        /// The newest checkpoint as `RUN@N`.
        latest: Option<String>,
        started_at: Option<Time>,
        updated_at: Option<Time>,
        owner_pid: Option<u32>,
        /// Whether the owner is alive, if that is known.
        owner_alive: Option<bool>,
        plan: Option<String>,
        worktree: Option<String>,
        branch: Option<String>,
        /// The checkpoint of another run that this run continues.
        parent: Option<String>,
        /// What the run is about.
        about: Option<String>,
        /// Why the run stopped, such as `process_crash` or `interrupted`. Only for runs that can be continued.
        why: Option<String>,
        /// More about why it stopped, such as the text of an exception.
        detail: Option<String>,
        /// Whether the run was recorded elsewhere and imported, or copied from another store.
        is_foreign: bool,
    }
}

impl From<&milepost::RunSummary> for RunSummary {
    fn from(run: &milepost::RunSummary) -> Self {
        let record = run.intact();
        let latest = run.latest().as_ref();
        Self {
            run_id: text(run.run_id()),
            title: record.and_then(|record| record.title().clone()),
            state: run.state_name(),
            status: record.map(|record| text(record.status())),
            profile: record.map(|record| text(record.profile())),
            checkpoints: run.checkpoints(),
            latest: latest.map(|entry| format!("{}@{}", run.run_id(), entry.header.sequence())),
            started_at: record.map(|record| Time(record.started_at())),
            updated_at: record.map(|record| Time(record.updated_at())),
            owner_pid: record.and_then(|record| record.owner().as_ref()).map(|owner| owner.pid()),
            owner_alive: run.owner().and_then(Liveness::as_bool),
            plan: record.and_then(|record| record.plan().clone()),
            worktree: record.and_then(|record| record.worktree().clone()),
            branch: record.and_then(|record| record.branch().clone()),
            parent: record.and_then(|record| optional_text(record.parent().as_ref())),
            about: record.and_then(|record| record.about()),
            why: None,
            detail: record
                .and_then(|record| record.interruption().as_ref())
                .and_then(|interruption| interruption.detail.clone()),
            is_foreign: record.is_some_and(|record| record.is_foreign()),
        }
    }
}

impl From<&ResumeCandidate> for RunSummary {
    fn from(candidate: &ResumeCandidate) -> Self {
        Self { why: Some(text(candidate.decision.class)), ..Self::from(&candidate.summary) }
    }
}
