//! Start: opens a run, or a new session of a run whose owner is gone. Saves no checkpoint, except before a
//! new round, for what is pending.

use std::time::Duration;

use serde_json::json;

use super::Milepost;
use super::bookkeeping::{NO_SESSION, begin_session, commit_with_token, event, is_committed, open_record};
use super::prune::last_write;
use super::{ContinueOptions, RunOptions, Save, SaveCondition};
use crate::Error;
use crate::clock;
use crate::model::{EventType, Owner, RunId, RunRecord, Status, WriteToken};
use crate::owner::{self, Liveness};
use crate::store::{RunRow, WriteDecision};

/// The options for opening a run, including its session.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// The run id; generated if not set.
    pub run_id: Option<RunId>,
    /// The session id.
    pub session_id: Option<String>,
    /// The options that the run is opened with.
    pub run_options: RunOptions,
    /// Refuses a run that already exists.
    pub only_new: bool,
    /// What happens to a run that is completed.
    pub if_completed: IfCompleted,
    /// What a new run takes over from the run that it continues.
    pub continuing: Option<Box<ContinueOptions>>,
}

/// What opening a completed run does to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IfCompleted {
    /// Reopens the run. Its tasks, criteria and steps stay as they are.
    #[default]
    Reopen,
    /// Keeps the run completed, until a task begins or a checkpoint is saved in it.
    Keep,
    /// Starts a new round: reopens the run, and removes its tasks, criteria and steps.
    NewRound,
}

/// A run that was opened.
#[derive(Debug, Clone)]
pub struct StartedRun {
    /// The run's record.
    pub record: RunRecord,
    /// Whether the run already existed.
    pub rejoined: bool,
}

impl Milepost {
    /// Opens a run. An existing run gets a new session, unless its owner is alive.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn start(&self, start: StartOptions) -> Result<StartedRun, Error> {
        self.start_with_lock(start, false)
    }

    /// Opens a run. `locked` means that the caller holds the run's lock file, so the lock says nothing
    /// about the owner.
    pub(crate) fn start_with_lock(&self, mut start: StartOptions, locked: bool) -> Result<StartedRun, Error> {
        if let Some(run) = &start.run_id {
            self.check_run_name(run, self.settings.redaction)?;
        }
        start.run_options = self.redact(start.run_options, "run_options")?;
        start.session_id = self.redact(start.session_id, "session_id")?;
        let moment = self.read_clock();
        let run = start.run_id.clone().unwrap_or_else(|| RunId::generate(moment.at));
        let token = WriteToken::generate();
        loop {
            // The owner's liveness is checked before the write. The write then requires the owner to be
            // unchanged.
            let expected_owner = self.owner_unless_alive(&run, locked)?;
            if start.if_completed == IfCompleted::NewRound {
                self.save_pending_of_completed(&run)?;
            }
            let mut started = None;
            self.write(&run, &mut |view| {
                started = None;
                let mut events = Vec::new();
                let mut record =
                    open_record(view, &run, &start.run_options, &self.settings, moment.at, &mut events);
                if is_committed(&record, &token) {
                    started = Some(Ok(StartedRun { record, rejoined: view.count > 0 }));
                    return WriteDecision::NoChange;
                }
                let rejoined = view.record.is_some();
                if start.only_new && rejoined {
                    started = Some(Err(Error::RunExists(run.clone())));
                    return WriteDecision::NoChange;
                }
                if view.record.as_ref().and_then(|r| r.owner.as_ref()) != expected_owner.as_ref() {
                    return WriteDecision::NoChange;
                }
                let completed = view.record.as_ref().is_some_and(|r| r.status == Status::Completed);
                let new_round = completed && start.if_completed == IfCompleted::NewRound;
                if new_round && view.waiting > 0 {
                    return WriteDecision::NoChange;
                }
                if let (0, Some(from)) = (view.count, &start.continuing) {
                    record.parent = Some(from.parent.clone());
                    record.working = from.working.clone();
                    record.attempts = from.attempts;
                    if let Some((base, worktree)) = &from.base
                        && record.worktree.as_ref() == Some(worktree)
                    {
                        record.captures.base = Some(base.clone());
                    }
                }
                record.owner.clone_from(&start.run_options.owner);
                if rejoined {
                    let branch = &start.run_options.location.branch;
                    if branch.is_some() {
                        record.branch.clone_from(branch);
                    }
                    if !completed || start.if_completed != IfCompleted::Keep {
                        record.reopen();
                    }
                    record.dismissed = false;
                    record.interruption = None;
                    record.claim = None;
                }
                if new_round {
                    let (tasks, criteria) = record.start_round();
                    let about = view.latest.as_ref().map(|entry| &entry.header.snapshot_id);
                    let data = json!({ "tasks": tasks, "criteria": criteria });
                    events.push(event(&run, moment.at, EventType::RoundStarted, about, &data));
                }
                let session = start.session_id.as_deref().filter(|id| !id.is_empty());
                begin_session(&mut record, session.unwrap_or(NO_SESSION), &moment, &mut events);
                record.updated_at = moment.at;
                record.heartbeat = Some(moment.at);
                let mut commit = commit_with_token(record, &token);
                started = Some(Ok(StartedRun { record: commit.record.clone(), rejoined }));
                commit.events = events;
                WriteDecision::Commit(Box::new(commit))
            })?;
            // `started` is empty if the owner changed before the write, or if items were recorded that the
            // last checkpoint of the earlier round must contain.
            if let Some(started) = started {
                return started;
            }
        }
    }

    /// Saves the pending items of a completed run, so that they belong to the round that ends. The run stays
    /// completed.
    fn save_pending_of_completed(&self, run: &RunId) -> Result<(), Error> {
        if self.store.run(run)?.is_some_and(|state| !state.items.is_empty()) {
            let mut save = Save::new().reason("round_end");
            save.condition = Some(SaveCondition::Completed);
            self.save_if(run, save)?;
        }
        Ok(())
    }

    /// The recorded owner of a run; an error if that process is alive and is not this one.
    fn owner_unless_alive(&self, run: &RunId, locked: bool) -> Result<Option<Owner>, Error> {
        let Some(state) = self.store.run(run)? else { return Ok(None) };
        let age = age_of_work(&state.row);
        let Ok(record) = state.row.record else { return Ok(None) };
        let Some(owner) = record.owner.clone() else { return Ok(None) };
        let liveness =
            if locked { self.liveness_by_process(&record, age) } else { self.liveness(&record, age) };
        let alive = liveness == Some(Liveness::Alive);
        // A process may reopen its own run after it has released it.
        if record.is_open() && alive && !owner::is_this_process(&owner) {
            return Err(self.owned_by(run, &owner));
        }
        Ok(Some(owner))
    }

    /// The error that names a live owner.
    pub(crate) fn owned_by(&self, run: &RunId, owner: &Owner) -> Error {
        let name = owner.name.as_deref().unwrap_or("a process");
        Error::OwnerAlive { run: run.clone(), owner: format!("{name} (pid {})", owner.pid) }
    }

    /// Whether a run's owner is alive; `None` for a run without an owner. Checks the lock file if the
    /// process is not visible. `age` is the run's `age_of_work`.
    pub(crate) fn liveness(&self, record: &RunRecord, age: Option<Duration>) -> Option<Liveness> {
        let by_process = self.liveness_by_process(record, age)?;
        let held = || self.owners.as_ref().is_some_and(|folder| owner::lock::is_held(folder, &record.run_id));
        Some(match by_process {
            Liveness::Unknown | Liveness::PresumedDead if held() => Liveness::Alive,
            other => other,
        })
    }

    pub(super) fn liveness_by_process(&self, record: &RunRecord, age: Option<Duration>) -> Option<Liveness> {
        let owner = record.owner.as_ref()?;
        let silence = age.or_else(|| clock::age(record.heartbeat?, self.now()));
        Some(owner::liveness(owner, silence, record.profile.interval()))
    }
}

/// Time since the last write that was part of the work, by the store's clock; `None` if the store has no clock, or
/// if the last write was maintenance.
pub(super) fn age_of_work(row: &RunRow) -> Option<Duration> {
    row.age.filter(|_| last_write(row) == row.stamp)
}
