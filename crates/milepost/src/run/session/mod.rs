//! A session that is captured at an interval: a first checkpoint when it starts, one per interval, and a last
//! one when it stops. Each contains git, watched folders, memory and every file touched so far. Takes
//! options; produces checkpoints, events and a summary. A failed tick is reported as an event and the next
//! tick tries again; `start`, `capture` and `stop` return their errors.

mod options;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub use options::SessionOptions;

use super::{Run, lock};
use crate::Error;
use crate::capture::{CaptureOptions, Process};
use crate::engine::{Milepost, Reference, Save, Saved, Summary};
use crate::error::error_chain;
use crate::model::{Body, Profile, RunId, Status};
use crate::store::StoreError;
use crate::trigger::{Timer, TimerError};

/// An event of a session.
#[derive(Debug, Clone)]
pub enum SessionEvent {
    /// The session was started.
    Started {
        /// The capture interval.
        interval: Duration,
        /// The store's address.
        store: String,
    },
    /// A checkpoint was saved.
    Checkpoint(Box<Body>),
    /// A tick failed, and the next one tries again; or the session stopped, but its summary failed.
    Failed {
        /// The error.
        message: String,
    },
    /// The session was stopped.
    Stopped {
        /// The last checkpoint.
        final_checkpoint: Box<Body>,
        /// The summary of the session.
        summary: Box<Summary>,
    },
}

type Callback = Box<dyn Fn(&SessionEvent) + Send + Sync>;

/// The receivers of events.
#[derive(Default)]
struct Listeners {
    callbacks: Vec<Callback>,
    channels: Mutex<Vec<Sender<SessionEvent>>>,
}

impl Listeners {
    /// Sends an event to every receiver, even if a callback panics.
    fn notify(&self, event: &SessionEvent) {
        for callback in &self.callbacks {
            let _ = catch_unwind(AssertUnwindSafe(|| callback(event)));
        }
        lock(&self.channels).retain(|channel| channel.send(event.clone()).is_ok());
    }
}

/// A session of a run that is captured at an interval. Cheap to clone and safe to share between threads.
/// Dropping the last handle stops the timer without a last checkpoint.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

struct Shared {
    mp: Milepost,
    run: RunId,
    url: String,
    title: Option<String>,
    scope: CaptureOptions,
    heap: Option<Box<dyn Fn() -> u64 + Send + Sync>>,
    interval: Duration,
    session_id: Option<String>,
    listeners: Listeners,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The run, once it is open.
    run: Option<Run>,
    /// Number of the session's first checkpoint; 0 if there is none yet.
    first: u64,
    started: bool,
    timer: Option<Timer>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("run", &self.shared.run).finish_non_exhaustive()
    }
}

impl Session {
    /// Options for building a session.
    pub fn options() -> SessionOptions {
        SessionOptions::default()
    }

    /// The id of the session's run.
    pub fn run_id(&self) -> &RunId {
        &self.shared.run
    }

    /// A receiver of all events from now on.
    pub fn events(&self) -> Receiver<SessionEvent> {
        let (send, receive) = mpsc::channel();
        lock(&self.shared.listeners.channels).push(send);
        receive
    }

    /// Starts the session: saves a first checkpoint immediately, then one per interval. Can be called again
    /// after an error.
    pub fn start(&self) -> Result<&Self, Error> {
        self.start_with(None, None)
    }

    /// Like `start`, with a different interval or session id if given.
    pub fn start_with(&self, interval: Option<Duration>, session_id: Option<String>) -> Result<&Self, Error> {
        let shared = &self.shared;
        let interval = interval.unwrap_or(shared.interval);
        if interval.is_zero() {
            return Err(TimerError::Interval.into());
        }
        let run = {
            let mut state = lock(&shared.state);
            if std::mem::replace(&mut state.started, true) {
                return Err(Error::SessionRunning);
            }
            if state.run.is_none() {
                state.first = 0;
            }
            shared.open_run(&mut state, session_id.or_else(|| shared.session_id.clone()))
        };
        let first = run.and_then(|run| {
            let saved = shared.save(&run, "session_start", |run, save| run.save(save).map(Some))?;
            shared.note_first(saved.as_ref().map(|(saved, _)| saved));
            // Sent before the timer starts, so that no event of a tick precedes it.
            shared.listeners.notify(&SessionEvent::Started { interval, store: shared.url.clone() });
            shared.report_checkpoint(saved);
            let weak = Arc::downgrade(shared);
            Ok(Timer::every(interval, move || Shared::tick(&weak))?)
        });
        let mut state = lock(&shared.state);
        match first {
            Ok(timer) => state.timer = Some(timer),
            Err(e) => {
                state.started = false;
                return Err(e);
            }
        }
        drop(state);
        Ok(self)
    }

    /// Captures a checkpoint now.
    pub fn capture(&self) -> Result<Body, Error> {
        let shared = &self.shared;
        let run = shared.open_run(&mut lock(&shared.state), shared.session_id.clone())?;
        let saved = shared.save(&run, "captured_by_hand", |run, save| run.save(save).map(Some))?;
        let (saved, body) = saved.ok_or_else(|| Error::NoRun(shared.run.to_string()))?;
        shared.note_first(Some(&saved));
        let sequence = saved.sequence;
        shared.report_checkpoint(Some((saved, body.clone())));
        body.ok_or_else(|| StoreError::NoCheckpoint(shared.run.clone(), sequence).into())
    }

    /// Stops the session: saves the last checkpoint, completes the run and returns the summary. If the
    /// session was not started, only returns the summary.
    pub fn stop(&self) -> Result<Summary, Error> {
        self.stop_as(Status::Completed)
    }

    /// Like `stop`, with the status of the work: completed, failed or paused. The session is stopped once the
    /// last checkpoint is saved. A later error concerns only the summary, which `summary` can return
    /// afterwards.
    pub fn stop_as(&self, status: Status) -> Result<Summary, Error> {
        let shared = &self.shared;
        let (timer, run) = {
            let mut state = lock(&shared.state);
            (state.timer.take(), state.run.clone().filter(|_| state.started))
        };
        // Not under the lock, because a tick in progress may need it.
        if let Some(timer) = timer {
            timer.stop();
        }
        let Some(run) = run else { return self.summary() };
        let save = shared.with_capture(&run, Save::new())?;
        let saved = run.finish_with(status, save)?;
        let mut state = lock(&shared.state);
        state.started = false;
        state.run = None;
        drop(state);
        let summary = shared.body(saved.sequence).and_then(|body| {
            shared.listeners.notify(&SessionEvent::Checkpoint(Box::new(body.clone())));
            let summary = self.summary()?;
            shared.listeners.notify(&SessionEvent::Stopped {
                final_checkpoint: Box::new(body),
                summary: Box::new(summary.clone()),
            });
            Ok(summary)
        });
        summary.inspect_err(|e| {
            let message = format!("the session stopped, but its summary failed: {}", error_chain(e));
            shared.listeners.notify(&SessionEvent::Failed { message });
        })
    }

    /// The checkpoints of this session, oldest first, or of the whole run if the session has none yet.
    pub fn checkpoints(&self) -> Result<Vec<Body>, Error> {
        let shared = &self.shared;
        let first = lock(&shared.state).first;
        shared.mp.bodies(&shared.run, first)
    }

    /// The summary of this session, or of the whole run if the session has no checkpoint yet.
    pub fn summary(&self) -> Result<Summary, Error> {
        let shared = &self.shared;
        let first = lock(&shared.state).first;
        match shared.mp.summary(&shared.run) {
            Ok(summary) => Ok(summary.from(first)),
            Err(Error::NoRun(_)) => Ok(Summary::empty(&shared.run)),
            Err(e) => Err(e),
        }
    }

    /// The newest intact checkpoint of the run.
    pub fn latest(&self) -> Result<Option<Body>, Error> {
        Self::latest_of(&self.shared.mp, Some(&self.shared.run))
    }

    /// The newest intact checkpoint of a run, or of the whole store; shows where a crashed session was.
    pub fn latest_of(mp: &Milepost, run: Option<&RunId>) -> Result<Option<Body>, Error> {
        match mp.show(&Reference::Latest(0), run) {
            Ok(shown) => mp.body_of(&shown.entry, &shown.verified).map(Some),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Shared {
    /// Returns the run; opens it first if necessary.
    fn open_run(&self, state: &mut State, session_id: Option<String>) -> Result<Run, Error> {
        if let Some(run) = &state.run {
            return Ok(run.clone());
        }
        let mut builder = self.mp.run(self.run.as_str()).profile(Profile::Session);
        if let Some(id) = session_id {
            builder = builder.session(id);
        }
        if let Some(title) = &self.title {
            builder = builder.title(title);
        }
        let run = builder.rejoin_or_start()?;
        Ok(state.run.insert(run).clone())
    }

    /// Adds a capture of the workspace to a save.
    fn with_capture(&self, run: &Run, save: Save) -> Result<Save, Error> {
        let heap_used = self.heap.as_ref().and_then(|used| catch_unwind(AssertUnwindSafe(used)).ok());
        let scope = CaptureOptions { process: Process::Host { heap_used }, ..self.scope.clone() };
        Ok(save.capture(Box::new(run.engine()?.capture_workspace(&self.run, &scope)?)))
    }

    /// Saves a checkpoint and reads it back; the body is `None` if another process already removed it.
    fn save(
        &self,
        run: &Run,
        reason: &str,
        how: impl Fn(&Run, Save) -> Result<Option<Saved>, Error>,
    ) -> Result<Option<(Saved, Option<Body>)>, Error> {
        let save = self.with_capture(run, Save::new().reason(reason))?;
        let Some(saved) = how(run, save)? else { return Ok(None) };
        let body = match self.body(saved.sequence) {
            Err(Error::NotFound { .. } | Error::Store(StoreError::NoCheckpoint(..))) => None,
            body => Some(body?),
        };
        Ok(Some((saved, body)))
    }

    fn body(&self, sequence: u64) -> Result<Body, Error> {
        let entry = self.mp.find(&Reference::Numbered(self.run.clone(), sequence), None)?;
        self.mp.body(&entry)
    }

    /// Records the number of the session's first checkpoint.
    fn note_first(&self, saved: Option<&Saved>) {
        let mut state = lock(&self.state);
        if let (Some(saved), 0) = (saved, state.first) {
            state.first = saved.sequence;
        }
    }

    /// Sends the event of a checkpoint, unless the save was coalesced into an earlier one.
    fn report_checkpoint(&self, saved: Option<(Saved, Option<Body>)>) {
        if let Some((_, Some(body))) = saved.filter(|(saved, _)| !saved.coalesced) {
            self.listeners.notify(&SessionEvent::Checkpoint(Box::new(body)));
        }
    }

    /// One tick of the timer; does nothing once every handle of the session is dropped.
    fn tick(weak: &Weak<Self>) {
        let Some(shared) = weak.upgrade() else { return };
        let Some(run) = lock(&shared.state).run.clone() else { return };
        match shared.save(&run, "interval", Run::save_by_timer) {
            Ok(saved) => shared.report_checkpoint(saved),
            Err(e) => {
                let message = error_chain(&e);
                // If the failure cannot be recorded either, the event still reports it.
                let _ = shared.mp.report(&shared.run, "session", &message, 1);
                shared.listeners.notify(&SessionEvent::Failed { message });
            }
        }
    }
}
