//! Handles to a run, for programs that do long work, such as orchestrators. Offers the engine's operations
//! for one run, guards for tasks, and timers that save automatically. Must not contain rules about
//! checkpoints: those belong to the engine.

mod interval;
mod open;
mod session;
mod task;
mod tick;

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use interval::{format_duration, recommended_interval};
pub use open::RunBuilder;
pub use session::{Session, SessionEvent, SessionOptions};
pub use task::TaskGuard;
pub use tick::{SaveTimer, TimerGuard};

use crate::Error;
use crate::engine::state::parse_state;
use crate::engine::{Milepost, Save, SaveCondition, Saved};
use crate::model::{
    Change, ContextChange, CriterionChange, CriterionStatus, Item, Outcome, Phase, RawJson, RunId, Source,
    Status, StepChange, Task, TaskChange, TaskStatus,
};
use crate::owner::lock::OwnerLock;

/// A run that this process works on. Cheap to clone and safe to share between threads. Dropping it does not
/// finish the run.
#[derive(Clone)]
pub struct Run {
    inner: Arc<Inner>,
}

struct Inner {
    mp: Milepost,
    id: RunId,
    pid: u32,
    rejoined: bool,
    /// The state last put, which every checkpoint of this handle includes.
    state: Mutex<Option<RawJson>>,
    /// Tasks known to be done, used if the store cannot be read.
    done: Mutex<HashSet<String>>,
    lock: Mutex<Option<OwnerLock>>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("id", &self.inner.id)
            .field("pid", &self.inner.pid)
            .finish_non_exhaustive()
    }
}

/// Maximum number of bytes of an error's text in the log.
const REASON: usize = 1024;

/// The text of an error, truncated to `REASON` bytes.
fn shortened(why: &(impl Display + ?Sized)) -> String {
    let mut why = why.to_string();
    if why.len() > REASON {
        why.truncate(why.floor_char_boundary(REASON));
        why.push('…');
    }
    why
}

/// Locks a mutex. A poisoned one is used anyway, because values are only replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Run {
    /// The id of the run.
    pub fn id(&self) -> &RunId {
        &self.inner.id
    }

    /// Whether the run existed before this handle opened it.
    pub fn rejoined(&self) -> bool {
        self.inner.rejoined
    }

    /// The engine, for operations that this handle does not offer.
    pub fn milepost(&self) -> &Milepost {
        &self.inner.mp
    }

    /// The engine; fails if a fork has copied this handle into another process.
    fn engine(&self) -> Result<&Milepost, Error> {
        let (run, pid) = (&self.inner.id, self.inner.pid);
        if pid == std::process::id() {
            Ok(&self.inner.mp)
        } else {
            Err(Error::Forked { run: run.clone(), pid })
        }
    }

    /// The newest state of the run, deserialised into a type of the caller. This is the saved state or, if
    /// there is none, the state last put or the state of the run that this one continues. `None` if there is
    /// no state yet.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let saved = self.engine()?.newest_state(&self.inner.id)?;
        saved.or_else(|| lock(&self.inner.state).clone()).as_ref().map(parse_state).transpose()
    }

    /// Sets the caller's current state. Writes nothing: the next checkpoint of this handle includes it.
    pub fn put<T: Serialize + ?Sized>(&self, state: &T) -> Result<(), Error> {
        self.put_raw(state).map(|_| ())
    }

    fn put_raw<T: Serialize + ?Sized>(&self, state: &T) -> Result<RawJson, Error> {
        self.engine()?;
        let raw = RawJson::of(state)?;
        *lock(&self.inner.state) = Some(raw.clone());
        Ok(raw)
    }

    /// Adds the state last put to a save that has no state.
    fn with_state(&self, mut save: Save) -> Save {
        if save.draft.state.is_none() {
            save.draft.state.clone_from(&lock(&self.inner.state));
        }
        save
    }

    /// Saves a checkpoint, which is durable when this returns.
    pub fn save(&self, save: Save) -> Result<Saved, Error> {
        self.engine()?.save(&self.inner.id, self.with_state(save))
    }

    /// Saves a checkpoint with the files of the run's worktree, which [`Milepost::worktree`] can restore.
    pub fn snapshot(&self, save: Save) -> Result<Saved, Error> {
        let mp = self.engine()?;
        let capture = mp.capture_workspace(&self.inner.id, &mp.capture_options(&self.inner.id)?)?;
        self.save(save.capture(Box::new(capture)))
    }

    /// Saves as a timer does: keeps the run's status, and returns `None` without saving anything if the run
    /// has ended.
    pub fn save_by_timer(&self, save: Save) -> Result<Option<Saved>, Error> {
        self.save_if(save, SaveCondition::Open)
    }

    fn save_if(&self, save: Save, only: SaveCondition) -> Result<Option<Saved>, Error> {
        let mut save = self.with_state(save);
        save.draft.source.get_or_insert(Source::Timer);
        save.condition = Some(only);
        self.engine()?.save_if(&self.inner.id, save)
    }

    /// Saves a checkpoint after a recoverable error, with the reason in the log. After a fatal error, call
    /// `finish(Status::Failed)` instead.
    pub fn save_after_error(&self, why: &(impl Display + ?Sized)) -> Result<Saved, Error> {
        let note = Change::Note(format!("recoverable error: {}", shortened(why)));
        self.save(Save::new().source(Source::ErrorBoundary).reason("recoverable_error").change(note))
    }

    /// Changes the run. The change is durable when this returns. A change that is a boundary also saves a
    /// checkpoint.
    pub fn change(&self, change: impl Into<Change>) -> Result<Option<Saved>, Error> {
        self.change_with(change.into(), Save::new())
    }

    fn change_with(&self, change: Change, save: Save) -> Result<Option<Saved>, Error> {
        let done = match &change {
            Change::Task(change) => Some((change.id.clone(), TaskChange::is_done(change))),
            Change::Item(Item::Task(task)) => Some((task.id().to_owned(), task.is_completed())),
            _ => None,
        };
        let saved = self.engine()?.apply(&self.inner.id, vec![change], self.with_state(save))?;
        match done {
            Some((id, true)) => drop(lock(&self.inner.done).insert(id)),
            Some((id, false)) => drop(lock(&self.inner.done).remove(&id)),
            None => {}
        }
        Ok(saved)
    }

    /// Starts a task; this is durable when the call returns. The guard records how the task ends; dropping it
    /// marks the task as interrupted.
    pub fn begin_task(&self, task: &str) -> Result<TaskGuard, Error> {
        TaskGuard::begin(self.clone(), task)
    }

    /// Whether a task is done according to the store, or to this handle if the store cannot be read.
    pub fn is_done(&self, task: &str) -> bool {
        match self.find_task(task) {
            Ok(found) => found.is_some_and(|task| task.is_completed()),
            Err(_) => lock(&self.inner.done).contains(task),
        }
    }

    /// Finds a task by its id, or a subtask by `PARENT/CHILD`.
    pub fn find_task(&self, task: &str) -> Result<Option<Task>, Error> {
        Ok(Task::find(&self.tasks()?, task))
    }

    /// All tasks of the run.
    pub fn tasks(&self) -> Result<Vec<Task>, Error> {
        let detail = self.engine()?.run_detail(&self.inner.id)?;
        let record = detail.summary.record.map_err(|damage| Error::Damaged(Box::new(damage)))?;
        Ok(record.working.tasks)
    }

    /// Sets the status of a task and keeps its other members. A task that ends saves a checkpoint.
    pub fn task(&self, id: &str, status: TaskStatus) -> Result<Option<Saved>, Error> {
        self.change(TaskChange::new(id, status))
    }

    /// Adds a task as the caller's own object, or replaces the task with the same id.
    pub fn put_task(&self, task: Task) -> Result<Option<Saved>, Error> {
        self.change(Item::Task(task))
    }

    /// Sets the status of a criterion and, unless it is empty, the subject.
    pub fn criterion(&self, id: &str, status: CriterionStatus, subject: &str) -> Result<(), Error> {
        let subject = (!subject.is_empty()).then(|| subject.to_owned());
        self.change(CriterionChange { subject, ..CriterionChange::new(id, status) }).map(|_| ())
    }

    /// Records that a step starts or ends, and saves a checkpoint.
    pub fn step(&self, step: StepChange) -> Result<Option<Saved>, Error> {
        self.change(step)
    }

    /// Sets the current phase.
    pub fn phase(&self, number: u64, name: &str) -> Result<(), Error> {
        let name = (!name.is_empty()).then(|| name.to_owned());
        self.change(Phase { name, number, ..Phase::default() }).map(|_| ())
    }

    /// Adds a line to the log.
    pub fn note(&self, text: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Note(text.into())).map(|_| ())
    }

    /// Adds a decision, which is never dropped.
    pub fn decide(&self, text: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Decision { text: text.into(), supersedes: None }).map(|_| ())
    }

    /// Adds a decision that replaces another one, identified by its text.
    pub fn decide_instead(&self, text: impl Into<String>, of: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Decision { text: text.into(), supersedes: Some(of.into()) }).map(|_| ())
    }

    /// Adds the outcome of a command.
    pub fn outcome(&self, outcome: Outcome) -> Result<(), Error> {
        self.change(outcome).map(|_| ())
    }

    /// Updates the health of the agent's context; values that are not set stay unchanged.
    pub fn context(&self, context: ContextChange) -> Result<(), Error> {
        self.change(context).map(|_| ())
    }

    /// Saves the last checkpoint and ends the run; `Status::Paused` leaves it open for later. The checkpoint
    /// is durable when this returns, so the process can exit. Releases the run's lock.
    pub fn finish(&self, status: Status) -> Result<Saved, Error> {
        self.finish_with(status, Save::new())
    }

    /// Like `finish`, with additional content for the last checkpoint.
    pub fn finish_with(&self, status: Status, save: Save) -> Result<Saved, Error> {
        let save = self.with_state(save);
        let saved = self.engine()?.finish(&self.inner.id, status, save)?;
        lock(&self.inner.lock).take();
        Ok(saved)
    }

    /// A timer that saves the state last put every `interval`, typically 30 s. `SaveTimer::start` starts it.
    pub fn autosave(&self, interval: std::time::Duration) -> SaveTimer {
        SaveTimer::autosave(self.clone(), interval)
    }

    /// A timer that saves every `interval`, typically 120 s, but only while the run is in progress.
    pub fn heartbeat(&self, interval: std::time::Duration) -> SaveTimer {
        SaveTimer::heartbeat(self.clone(), interval)
    }
}

impl TaskChange {
    fn is_done(&self) -> bool {
        matches!(self.status, TaskStatus::Done | TaskStatus::Completed)
    }
}
