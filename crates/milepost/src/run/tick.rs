//! Timers that save by themselves. A provider that fails or panics, a full disk, a busy store: each is reported, as an
//! event where the store can be written and to the callback always, and the next tick runs.

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

/// What every tick does.
struct Ticker {
    run: Run,
    what: &'static str,
    condition: SaveCondition,
    provider: Option<Provider>,
    on_error: Option<Callback>,
    /// Failures that no event tells of yet, oldest first: what, and how often in a row.
    untold: Vec<(String, u64)>,
}

/// How many failures wait to be told; of more, the last is counted with the one before it.
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
                // The callback is the host's code as well.
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

    /// Writes the events of what failed, once the store can be written.
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

/// A timer that runs. Dropping it ends it without waiting.
#[derive(Debug)]
#[must_use = "a timer ends with its guard"]
pub struct TimerGuard {
    timer: Timer,
}

impl TimerGuard {
    /// Ends the timer and waits for a tick that is under way. As often as one likes.
    pub fn stop(&self) {
        self.timer.stop();
    }
}

/// A timer that saves a run, to be started. `Run::autosave` makes one that saves what was last put, or what a provider
/// gives; `Run::heartbeat` one that says that the work is under way, and only while it is. An idle tick confirms the
/// checkpoint before it; a run that has ended stays as it is.
#[must_use = "a timer does nothing before it is started"]
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

    /// Asks for the state at every tick, instead of taking what was last put.
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

    /// Calls back with the error of every tick that fails, on the timer's thread.
    pub fn on_error(mut self, callback: impl FnMut(&Error) + Send + 'static) -> Self {
        self.ticker.on_error = Some(Box::new(callback));
        self
    }

    /// Does what one tick does, now and on this thread, for programs with a timer of their own. `None` if it failed,
    /// which the callback and the events report, or if the run has ended or is not under way.
    pub fn tick(&mut self) -> Option<Saved> {
        self.ticker.tick()
    }

    /// Starts the timer. An interval of 0 is refused.
    pub fn start(self) -> Result<TimerGuard, Error> {
        let Self { mut ticker, interval } = self;
        Ok(TimerGuard { timer: Timer::every(interval, move || drop(ticker.tick()))? })
    }
}
