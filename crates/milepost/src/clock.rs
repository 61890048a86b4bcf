//! The source of time, which tests can replace. Provides wall time, and time since boot that never jumps.
//! Other modules get timestamps only through `Clock`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;

use crate::model::ClockReading;
pub(crate) use crate::platform::boot_id;
use crate::platform::uptime_ms;

/// A source of time.
pub trait Clock: Send + Sync {
    /// Returns the wall time.
    fn now(&self) -> Timestamp;

    /// Returns the id of the current boot and the milliseconds since then, if known. Durations within one
    /// boot use these, so that changes to the wall time do not affect them.
    fn since_boot(&self) -> Option<(String, u64)> {
        None
    }
}

/// The system clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods)]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn since_boot(&self) -> Option<(String, u64)> {
        Some((boot_id()?.to_owned(), uptime_ms()?))
    }
}

/// Reads the wall time and the time since boot.
pub(crate) fn read(clock: &dyn Clock) -> ClockReading {
    let (boot_id, uptime_ms) = clock.since_boot().unzip();
    ClockReading { at: clock.now(), boot_id, uptime_ms }
}

/// Milliseconds from `start` to `end`, never negative. Uses the time since boot within
/// one boot, otherwise wall time.
pub(crate) fn elapsed_ms(start: &ClockReading, end: &ClockReading) -> u64 {
    match (start.uptime_ms, end.uptime_ms) {
        (Some(a), Some(b)) if start.boot_id == end.boot_id => b.saturating_sub(a),
        _ => u64::try_from(end.at.duration_since(start.at).as_millis()).unwrap_or(0),
    }
}

/// Time from `then` to `now`; `None` if the clock went backwards.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(then)).ok()
}

/// A clock that changes only when it is set or advanced.
#[derive(Debug, Clone)]
pub struct FrozenClock(Arc<Mutex<Timestamp>>);

impl FrozenClock {
    /// Creates a clock that is set to `at`.
    pub fn at(at: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(at)))
    }

    /// Sets the clock, forwards or backwards.
    pub fn set(&self, at: Timestamp) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = at;
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let mut at = self.0.lock().unwrap_or_else(|e| e.into_inner());
        *at = at.checked_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Clock for FrozenClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}
