//! Handles on a run for programs that do long work: what an orchestrator's code calls.
//! In: the engine, and what the program puts. Out: the same verbs without ids, guards for tasks, timers that save by
//! themselves. Holds no rule of its own about checkpoints: those are the engine's.

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

/// A run that this process works on. Cheap to clone, safe to share between threads; dropping it never finishes the run.
#[derive(Clone)]
pub struct Run {
    inner: Arc<Inner>,
}

struct Inner {
    mp: Milepost,
    id: RunId,
    pid: u32,
    rejoined: bool,
    /// What was last put; goes into every checkpoint that this handle makes.
    state: Mutex<Option<RawJson>>,
    /// Tasks that are known to be done, for when the store cannot be asked.
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

/// Bytes of an error's text that the log keeps.
const REASON: usize = 1024;

/// What an error says, and not without end.
fn shortened(why: &(impl Display + ?Sized)) -> String {
    let mut why = why.to_string();
    if why.len() > REASON {
        why.truncate(why.floor_char_boundary(REASON));
        why.push('…');
    }
    why
}

/// A value behind a lock; one that a panic left is as good as any, since values are replaced whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

impl Run {
    /// Its id.
    pub fn id(&self) -> &RunId {
        &self.inner.id
    }

    /// Whether it was there before this handle.
    pub fn rejoined(&self) -> bool {
        self.inner.rejoined
    }

    /// The engine, for everything that a handle has no word for.
    pub fn milepost(&self) -> &Milepost {
        &self.inner.mp
    }

    /// The engine, unless a fork has copied this handle into another process.
    fn engine(&self) -> Result<&Milepost, Error> {
        let (run, pid) = (&self.inner.id, self.inner.pid);
        if pid == std::process::id() {
            Ok(&self.inner.mp)
        } else {
            Err(Error::Forked { run: run.clone(), pid })
        }
    }

    /// The newest state of the run, read into a type of the caller's: the saved one, else what was last put or what the
    /// run that it continues had. `None` if there is none yet.
    pub fn state<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let saved = self.engine()?.newest_state(&self.inner.id)?;
        saved.or_else(|| lock(&self.inner.state).clone()).as_ref().map(parse_state).transpose()
    }

    /// Says how the caller's state is now. Costs no write: the next checkpoint of this handle holds it.
    pub fn put<T: Serialize + ?Sized>(&self, state: &T) -> Result<(), Error> {
        self.put_raw(state).map(|_| ())
    }

    fn put_raw<T: Serialize + ?Sized>(&self, state: &T) -> Result<RawJson, Error> {
        self.engine()?;
        let raw = RawJson::of(state)?;
        *lock(&self.inner.state) = Some(raw.clone());
        Ok(raw)
    }

    /// A save that holds what was last put, unless it holds a state of its own.
    fn with_state(&self, mut save: Save) -> Save {
        if save.draft.state.is_none() {
            save.draft.state.clone_from(&lock(&self.inner.state));
        }
        save
    }

    /// Saves a checkpoint, durable when it returns.
    pub fn save(&self, save: Save) -> Result<Saved, Error> {
        self.engine()?.save(&self.inner.id, self.with_state(save))
    }

    /// Saves as a timer does: the run's status stays as it is, and one that has ended is left alone (`None`).
    pub fn save_by_timer(&self, save: Save) -> Result<Option<Saved>, Error> {
        self.save_if(save, SaveCondition::Open)
    }

    fn save_if(&self, save: Save, only: SaveCondition) -> Result<Option<Saved>, Error> {
        let mut save = self.with_state(save);
        save.draft.source.get_or_insert(Source::Timer);
        save.condition = Some(only);
        self.engine()?.save_if(&self.inner.id, save)
    }

    /// An error that the work survives: a checkpoint at once, with the reason in the log. Before a stop that cannot be
    /// helped, `finish(Status::Failed)`.
    pub fn save_after_error(&self, why: &(impl Display + ?Sized)) -> Result<Saved, Error> {
        let note = Change::Note(format!("recoverable error: {}", shortened(why)));
        self.save(Save::new().source(Source::ErrorBoundary).reason("recoverable_error").change(note))
    }

    /// Changes the run: durable when it returns, and a checkpoint at once where the change is a boundary.
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

    /// Begins a task: durable when it returns. The guard says how it ended; dropped, it was interrupted.
    pub fn begin_task(&self, task: &str) -> Result<TaskGuard, Error> {
        TaskGuard::begin(self.clone(), task)
    }

    /// Whether a task is done, by what the store says; by what this handle knows where the store cannot be read.
    pub fn is_done(&self, task: &str) -> bool {
        match self.find_task(task) {
            Ok(found) => found.is_some_and(|task| task.is_completed()),
            Err(_) => lock(&self.inner.done).contains(task),
        }
    }

    /// A task as it stands, or a subtask by `PARENT/CHILD`.
    pub fn find_task(&self, task: &str) -> Result<Option<Task>, Error> {
        Ok(Task::find(&self.tasks()?, task))
    }

    /// Every task as it stands.
    pub fn tasks(&self) -> Result<Vec<Task>, Error> {
        let detail = self.engine()?.run_detail(&self.inner.id)?;
        let record = detail.summary.record.map_err(|damage| Error::Damaged(Box::new(damage)))?;
        Ok(record.working.tasks)
    }

    /// Says how a task stands; its other members stay. One that ends is a checkpoint at once.
    pub fn task(&self, id: &str, status: TaskStatus) -> Result<Option<Saved>, Error> {
        self.change(TaskChange::new(id, status))
    }

    /// Adds a task, or replaces the one with its id, as the caller's own object.
    pub fn put_task(&self, task: Task) -> Result<Option<Saved>, Error> {
        self.change(Item::Task(task))
    }

    /// Says how a criterion stands, and what has to be true.
    pub fn criterion(&self, id: &str, status: CriterionStatus, subject: &str) -> Result<(), Error> {
        let subject = (!subject.is_empty()).then(|| subject.to_owned());
        self.change(CriterionChange { subject, ..CriterionChange::new(id, status) }).map(|_| ())
    }

    /// Says that a step begins or ends: a checkpoint at once.
    pub fn step(&self, step: StepChange) -> Result<Option<Saved>, Error> {
        self.change(step)
    }

    /// Says which phase the work is in.
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

    /// Adds a decision in the place of another, named by its text.
    pub fn decide_instead(&self, text: impl Into<String>, of: impl Into<String>) -> Result<(), Error> {
        self.change(Change::Decision { text: text.into(), supersedes: Some(of.into()) }).map(|_| ())
    }

    /// Adds how a command ended.
    pub fn outcome(&self, outcome: Outcome) -> Result<(), Error> {
        self.change(outcome).map(|_| ())
    }

    /// Says how healthy the agent's context is; what is not given stays.
    pub fn context(&self, context: ContextChange) -> Result<(), Error> {
        self.change(context).map(|_| ())
    }

    /// Saves the last checkpoint and ends the run; `paused` leaves it open for later. A failed one is durable when this
    /// returns, so that the process may go. The handle no longer holds the run's lock then.
    pub fn finish(&self, status: Status) -> Result<Saved, Error> {
        self.finish_with(status, Save::new())
    }

    /// As `finish`, with what else the last checkpoint holds.
    pub fn finish_with(&self, status: Status, save: Save) -> Result<Saved, Error> {
        let save = self.with_state(save);
        let saved = self.engine()?.finish(&self.inner.id, status, save)?;
        lock(&self.inner.lock).take();
        Ok(saved)
    }

    /// Saves what was last put, every `interval`: 30 s is usual. Nothing happens before `start`.
    pub fn autosave(&self, interval: std::time::Duration) -> SaveTimer {
        SaveTimer::autosave(self.clone(), interval)
    }

    /// Says every `interval` that the work is under way, and only while it is: 120 s is usual.
    pub fn heartbeat(&self, interval: std::time::Duration) -> SaveTimer {
        SaveTimer::heartbeat(self.clone(), interval)
    }
}

impl TaskChange {
    fn is_done(&self) -> bool {
        matches!(self.status, TaskStatus::Done | TaskStatus::Completed)
    }
}
