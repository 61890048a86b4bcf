//! Where time comes from, so that tests can hold it still.
//! In: nothing. Out: wall time, and a time since boot that never jumps.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use jiff::Timestamp;

use crate::fs::proc;
use crate::model::ClockReading;

/// A source of time.
pub trait Clock: Send + Sync {
    /// Wall time.
    fn now(&self) -> Timestamp;

    /// An id of the current boot and the milliseconds since then, where they are known. Durations within one boot are
    /// measured by them, whatever happens to wall time.
    fn since_boot(&self) -> Option<(String, u64)> {
        None
    }
}

/// The system's clock.
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

/// Wall time and time since boot.
pub(crate) fn read(clock: &dyn Clock) -> ClockReading {
    let (boot_id, uptime_ms) = clock.since_boot().unzip();
    ClockReading { at: clock.now(), boot_id, uptime_ms }
}

/// Names the current boot.
pub(crate) fn boot_id() -> Option<&'static str> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    BOOT.get_or_init(|| {
        let text = proc::read_file("/proc/sys/kernel/random/boot_id")?;
        Some(text.trim().to_owned())
    })
    .as_deref()
}

#[cfg(target_os = "linux")]
fn uptime_ms() -> Option<u64> {
    let since_boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(since_boot.tv_sec).ok()?, u64::try_from(since_boot.tv_nsec).ok()?);
    Some(seconds * 1000 + nanos / 1_000_000)
}

#[cfg(not(target_os = "linux"))]
fn uptime_ms() -> Option<u64> {
    None
}

/// Milliseconds from `start` to `end`: by the time since boot within one boot, else by wall time, never negative.
pub(crate) fn elapsed_ms(start: &ClockReading, end: &ClockReading) -> u64 {
    match (start.uptime_ms, end.uptime_ms) {
        (Some(a), Some(b)) if start.boot_id == end.boot_id => b.saturating_sub(a),
        _ => u64::try_from(end.at.duration_since(start.at).as_millis()).unwrap_or(0),
    }
}

/// How long ago `then` was at `now`; `None` where the clock has gone back.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(now.duration_since(then)).ok()
}

/// A clock that stands still until it is moved.
#[derive(Debug, Clone)]
pub struct FrozenClock(Arc<Mutex<Timestamp>>);

impl FrozenClock {
    /// A clock that stands at `at`.
    pub fn at(at: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(at)))
    }

    /// Moves the clock, backwards too.
    pub fn set(&self, at: Timestamp) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = at;
    }

    /// Moves the clock forwards.
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
