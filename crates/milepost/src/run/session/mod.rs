//! A session that is captured every so often: a first checkpoint when it starts, one every interval, a last one when it
//! stops, each with git, watched folders, memory, and every file touched so far.
//! In: options. Out: checkpoints, events, a summary. What a tick fails with is told and survived; `start`, `capture` and
//! `stop` give their errors to the caller.

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

/// What happens in a session.
#[derive(Debug, Clone)]
pub enum SessionEvent {
    /// It was started.
    Started {
        /// How often it is captured.
        interval: Duration,
        /// The store's address.
        store: String,
    },
    /// A checkpoint was saved.
    Checkpoint(Box<Body>),
    /// A tick saved nothing, and the next one tries again; or the session is stopped and could not be summed up.
    Failed {
        /// Why.
        message: String,
    },
    /// It was stopped.
    Stopped {
        /// The last checkpoint.
        final_checkpoint: Box<Body>,
        /// All of it.
        summary: Box<Summary>,
    },
}

type Callback = Box<dyn Fn(&SessionEvent) + Send + Sync>;

/// Who is told.
#[derive(Default)]
struct Listeners {
    callbacks: Vec<Callback>,
    channels: Mutex<Vec<Sender<SessionEvent>>>,
}

impl Listeners {
    /// Tells everybody. A callback that panics keeps nobody else from hearing it.
    fn tell(&self, event: &SessionEvent) {
        for callback in &self.callbacks {
            let _ = catch_unwind(AssertUnwindSafe(|| callback(event)));
        }
        lock(&self.channels).retain(|channel| channel.send(event.clone()).is_ok());
    }
}

/// A session of a run that is captured every so often. Cheap to clone, safe to share between threads; dropping the last
/// handle ends its timer without a last checkpoint.
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
    /// Number of the session's first checkpoint; 0 before that.
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
    /// Options to build one with.
    pub fn options() -> SessionOptions {
        SessionOptions::default()
    }

    /// The run that it is a session of.
    pub fn run_id(&self) -> &RunId {
        &self.shared.run
    }

    /// Everything that happens from now on.
    pub fn events(&self) -> Receiver<SessionEvent> {
        let (send, receive) = mpsc::channel();
        lock(&self.shared.listeners.channels).push(send);
        receive
    }

    /// Starts: a first checkpoint at once, then one every interval. One that failed may be tried again.
    pub fn start(&self) -> Result<&Self, Error> {
        self.start_with(None, None)
    }

    /// Starts with another interval or session id than it was built with, where given.
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
            shared.opened(&mut state, session_id.or_else(|| shared.session_id.clone()))
        };
        let first = run.and_then(|run| {
            let saved = shared.save(&run, "session_start", |run, save| run.save(save).map(Some))?;
            shared.begun_with(saved.as_ref().map(|(saved, _)| saved));
            // Before the timer, so that no tick is told of first.
            shared.listeners.tell(&SessionEvent::Started { interval, store: shared.url.clone() });
            shared.tell(saved);
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

    /// Captures a checkpoint by hand.
    pub fn capture(&self) -> Result<Body, Error> {
        let shared = &self.shared;
        let run = shared.opened(&mut lock(&shared.state), shared.session_id.clone())?;
        let saved = shared.save(&run, "captured_by_hand", |run, save| run.save(save).map(Some))?;
        let (saved, body) = saved.ok_or_else(|| Error::NoRun(shared.run.to_string()))?;
        shared.begun_with(Some(&saved));
        let sequence = saved.sequence;
        shared.tell(Some((saved, body.clone())));
        body.ok_or_else(|| StoreError::NoCheckpoint(shared.run.clone(), sequence).into())
    }

    /// Stops: the last checkpoint, and the run is completed. Gives the summary. Without a start it only summarises.
    pub fn stop(&self) -> Result<Summary, Error> {
        self.stop_as(Status::Completed)
    }

    /// Stops with the status that the work has: completed, failed or paused. Once the last checkpoint is saved, the session
    /// is stopped, whatever comes of the summary: an error then is about the summary alone, which `summary` gives later.
    pub fn stop_as(&self, status: Status) -> Result<Summary, Error> {
        let shared = &self.shared;
        let (timer, run) = {
            let mut state = lock(&shared.state);
            (state.timer.take(), state.run.clone().filter(|_| state.started))
        };
        // Not under the lock: a tick that is under way may need it.
        if let Some(timer) = timer {
            timer.stop();
        }
        let Some(run) = run else { return self.summary() };
        let save = shared.seen(&run, Save::new())?;
        let saved = run.finish_with(status, save)?;
        let mut state = lock(&shared.state);
        state.started = false;
        state.run = None;
        drop(state);
        let told = shared.body(saved.sequence).and_then(|body| {
            shared.listeners.tell(&SessionEvent::Checkpoint(Box::new(body.clone())));
            let summary = self.summary()?;
            shared.listeners.tell(&SessionEvent::Stopped {
                final_checkpoint: Box::new(body),
                summary: Box::new(summary.clone()),
            });
            Ok(summary)
        });
        told.inspect_err(|e| {
            let message = format!("stopped, but not summed up: {}", error_chain(e));
            shared.listeners.tell(&SessionEvent::Failed { message });
        })
    }

    /// The checkpoints of this session, oldest first; of the run, where it has not started yet.
    pub fn checkpoints(&self) -> Result<Vec<Body>, Error> {
        let shared = &self.shared;
        let first = lock(&shared.state).first;
        shared.mp.bodies(&shared.run, first)
    }

    /// What this session has captured; what the run has, where it has not started yet.
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

    /// The newest intact checkpoint of a run, or of a store: where a session that crashed was.
    pub fn latest_of(mp: &Milepost, run: Option<&RunId>) -> Result<Option<Body>, Error> {
        match mp.show(&Reference::Latest(0), run) {
            Ok(shown) => mp.body_of(&shown.entry, &shown.verified).map(Some),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

impl Shared {
    /// The run, opened if it is not yet.
    fn opened(&self, state: &mut State, session_id: Option<String>) -> Result<Run, Error> {
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

    /// A save with what the workspace looks like now.
    fn seen(&self, run: &Run, save: Save) -> Result<Save, Error> {
        let heap_used = self.heap.as_ref().and_then(|used| catch_unwind(AssertUnwindSafe(used)).ok());
        let scope = CaptureOptions { process: Process::Host { heap_used }, ..self.scope.clone() };
        Ok(save.capture(Box::new(run.engine()?.capture_workspace(&self.run, &scope)?)))
    }

    /// Saves, and reads what was saved; there is no body where others have removed it already.
    fn save(
        &self,
        run: &Run,
        reason: &str,
        how: impl Fn(&Run, Save) -> Result<Option<Saved>, Error>,
    ) -> Result<Option<(Saved, Option<Body>)>, Error> {
        let save = self.seen(run, Save::new().reason(reason))?;
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

    /// Notes the session's first checkpoint.
    fn begun_with(&self, saved: Option<&Saved>) {
        let mut state = lock(&self.state);
        if let (Some(saved), 0) = (saved, state.first) {
            state.first = saved.sequence;
        }
    }

    /// Tells of a checkpoint, unless it was folded into one that was told of before.
    fn tell(&self, saved: Option<(Saved, Option<Body>)>) {
        if let Some((_, Some(body))) = saved.filter(|(saved, _)| !saved.coalesced) {
            self.listeners.tell(&SessionEvent::Checkpoint(Box::new(body)));
        }
    }

    /// What the timer does. A session that nobody holds any more has nothing to say.
    fn tick(weak: &Weak<Self>) {
        let Some(shared) = weak.upgrade() else { return };
        let Some(run) = lock(&shared.state).run.clone() else { return };
        match shared.save(&run, "interval", Run::save_by_timer) {
            Ok(saved) => shared.tell(saved),
            Err(e) => {
                let message = error_chain(&e);
                // Where even that cannot be written, those who listen know.
                let _ = shared.mp.report(&shared.run, "session", &message, 1);
                shared.listeners.tell(&SessionEvent::Failed { message });
            }
        }
    }
}
