//! Timers that save automatically. A tick can fail because of the provider, a full disk or a busy store. The
//! callback always receives the error, an event records it once the store can be written, and the next tick
//! runs as usual.

use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;

use super::{Run, lock};
use crate::Error;
use crate::engine::{Save, SaveCondition, Saved};
use crate::error::error_chain;
use crate::model::RawJson;
use crate::trigger::Timer;

type Provider = Box<dyn FnMut() -> Result<RawJson, Error> + Send>;
type Callback = Box<dyn FnMut(&Error) + Send>;

/// The work of one timer, done at every tick.
struct Ticker {
    run: Run,
    what: &'static str,
    condition: SaveCondition,
    provider: Option<Provider>,
    on_error: Option<Callback>,
    /// Failures without an event yet, oldest first: the message and the number of times in a row.
    untold: Vec<(String, u64)>,
}

/// Maximum number of entries in `untold`; further failures are counted in the last entry.
const UNTOLD: usize = 16;

impl Ticker {
    fn new(run: Run, what: &'static str, condition: SaveCondition) -> Self {
        Self { run, what, condition, provider: None, on_error: None, untold: Vec::new() }
    }

    fn tick(&mut self) -> Option<Saved> {
        let result = self.save();
        if let Err(e) = &result {
            self.remember(error_chain(e));
            if let Some(on_error) = &mut self.on_error {
                // The callback is host code too and may panic.
                let _ = catch_unwind(AssertUnwindSafe(|| on_error(e)));
            }
        }
        self.tell();
        result.ok().flatten()
    }

    fn save(&mut self) -> Result<Option<Saved>, Error> {
        self.run.engine()?;
        if let Some(provider) = &mut self.provider {
            let given = catch_unwind(AssertUnwindSafe(provider));
            let state = given.map_err(|panic| Error::ProviderPanicked(panic_message(&*panic)))??;
            *lock(&self.run.inner.state) = Some(state);
        }
        self.run.save_if(Save::new().reason(self.what), self.condition)
    }

    fn remember(&mut self, message: String) {
        let full = self.untold.len() >= UNTOLD;
        match self.untold.last_mut() {
            Some((last, times)) if *last == message || full => {
                *last = message;
                *times += 1;
            }
            _ => self.untold.push((message, 1)),
        }
    }

    /// Writes the events of the failures; stops if the store cannot be written.
    fn tell(&mut self) {
        let Ok(mp) = self.run.engine() else { return };
        while let Some((message, times)) = self.untold.first() {
            if mp.report(&self.run.inner.id, self.what, message, *times).is_err() {
                return;
            }
            self.untold.remove(0);
        }
    }
}

/// The message of a panic.
fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

/// A running timer. Dropping it stops the timer without waiting.
#[derive(Debug)]
#[must_use = "dropping the guard stops the timer"]
pub struct TimerGuard {
    timer: Timer,
}

impl TimerGuard {
    /// Stops the timer and waits for a tick in progress. Can be called more than once.
    pub fn stop(&self) {
        self.timer.stop();
    }
}

/// A timer that saves a run, once it is started. `Run::autosave` creates one that saves the state last put,
/// or the state that a provider returns. `Run::heartbeat` creates one that saves only while the run is in
/// progress. A tick without changes confirms the newest checkpoint, unless the profile keeps every tick. A
/// run that has ended stays unchanged.
#[must_use = "a timer does nothing until it is started"]
pub struct SaveTimer {
    ticker: Ticker,
    interval: Duration,
}

impl SaveTimer {
    pub(super) fn autosave(run: Run, interval: Duration) -> Self {
        Self { ticker: Ticker::new(run, "autosave", SaveCondition::Open), interval }
    }

    pub(super) fn heartbeat(run: Run, interval: Duration) -> Self {
        Self { ticker: Ticker::new(run, "heartbeat", SaveCondition::InProgress), interval }
    }

    /// Calls `state` at every tick, instead of using the state last put.
    pub fn provider<T: Serialize, E: Display>(
        mut self,
        mut state: impl FnMut() -> Result<T, E> + Send + 'static,
    ) -> Self {
        self.ticker.provider = Some(Box::new(move || {
            let state = state().map_err(|e| Error::Provider(e.to_string()))?;
            RawJson::of(&state).map_err(|e| Error::Provider(e.to_string()))
        }));
        self
    }

    /// Calls `callback` with the error of every failed tick, on the timer's thread.
    pub fn on_error(mut self, callback: impl FnMut(&Error) + Send + 'static) -> Self {
        self.ticker.on_error = Some(Box::new(callback));
        self
    }

    /// Runs one tick now on this thread, for programs with their own timer. Returns `None` if the tick
    /// failed, which the callback and the events report. Also returns `None` if the run has ended or, for a
    /// heartbeat, is not in progress.
    pub fn tick(&mut self) -> Option<Saved> {
        self.ticker.tick()
    }

    /// Starts the timer; fails if the interval is 0.
    pub fn start(self) -> Result<TimerGuard, Error> {
        let Self { mut ticker, interval } = self;
        Ok(TimerGuard { timer: Timer::every(interval, move || drop(ticker.tick()))? })
    }
}
