//! A timer thread that calls a function at an interval until it is stopped or dropped. It waits
//! on a condition variable, so that a stop takes effect immediately. A panic in a tick is
//! caught, and later ticks still run.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// Why a timer did not start.
#[derive(Debug)]
pub enum TimerError {
    /// The interval is 0.
    Interval,
    /// The system could not start a thread.
    Thread(io::Error),
}

/// Tells the timer thread to stop.
#[derive(Debug, Default)]
struct StopFlag {
    flag: Mutex<bool>,
    changed: Condvar,
}

impl StopFlag {
    fn set(&self) {
        *self.flag.lock().unwrap_or_else(|e| e.into_inner()) = true;
        self.changed.notify_all();
    }

    /// Waits until `next`, or indefinitely if the clock cannot represent that time.
    /// Returns whether the timer must stop.
    fn wait_until(&self, next: Option<Instant>) -> bool {
        let mut flag = self.flag.lock().unwrap_or_else(|e| e.into_inner());
        while !*flag {
            flag = match next.map(|next| next.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(flag).unwrap_or_else(|e| e.into_inner()),
                Some(Duration::ZERO) => return false,
                Some(left) => self.changed.wait_timeout(flag, left).unwrap_or_else(|e| e.into_inner()).0,
            };
        }
        true
    }
}

/// A running timer. Dropping it tells the thread to stop; `stop` also waits for the thread to end.
#[derive(Debug)]
pub struct Timer {
    stop_flag: Arc<StopFlag>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: ThreadId,
    pid: u32,
}

impl Timer {
    /// Calls `tick` every `interval`, first after one interval. A tick that takes longer
    /// than that delays the next one.
    pub fn every(interval: Duration, mut tick: impl FnMut() + Send + 'static) -> Result<Self, TimerError> {
        if interval.is_zero() {
            return Err(TimerError::Interval);
        }
        let stop_flag = Arc::new(StopFlag::default());
        let stopped = stop_flag.clone();
        let work = move || {
            let mut next = Instant::now().checked_add(interval);
            while !stopped.wait_until(next) {
                // The tick is the caller's code, which may panic.
                let _ = catch_unwind(AssertUnwindSafe(&mut tick));
                let now = Instant::now();
                next = next.and_then(|at| at.checked_add(interval));
                if next.is_some_and(|at| at <= now) {
                    next = now.checked_add(interval);
                }
            }
        };
        let thread = std::thread::Builder::new().name("milepost-timer".into()).spawn(work);
        let thread = thread.map_err(TimerError::Thread)?;
        let id = thread.thread().id();
        Ok(Self { stop_flag, thread: Mutex::new(Some(thread)), id, pid: std::process::id() })
    }

    /// Stops the timer and waits for a running tick to end. May be called repeatedly. From
    /// inside a tick it does not wait.
    pub fn stop(&self) {
        // A forked child does not have this thread, and its mutexes may stay locked forever.
        if self.pid != std::process::id() {
            return;
        }
        self.stop_flag.set();
        if std::thread::current().id() == self.id {
            return;
        }
        let mut thread = self.thread.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(thread) = thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if self.pid == std::process::id() {
            self.stop_flag.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn an_interval_of_zero_is_refused() {
        assert!(matches!(Timer::every(Duration::ZERO, || {}), Err(TimerError::Interval)));
    }

    #[test]
    fn a_timer_with_the_longest_interval_stops_at_once() {
        for interval in [Duration::from_secs(30 * 86_400), Duration::MAX] {
            let ticks = Arc::new(AtomicU32::new(0));
            let seen = ticks.clone();
            let count = move || {
                seen.fetch_add(1, Ordering::Relaxed);
            };
            let timer = Timer::every(interval, count).unwrap();
            let start = Instant::now();
            timer.stop();
            timer.stop();
            assert!(start.elapsed() < Duration::from_secs(5));
            assert_eq!(ticks.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn ticks_go_on_after_a_panic_and_end_with_stop() {
        let (sender, ticks) = mpsc::channel();
        let mut n = 0;
        let timer = Timer::every(Duration::from_millis(1), move || {
            n += 1;
            sender.send(n).unwrap();
            assert!(n % 2 == 0, "every second tick");
        });
        let timer = timer.unwrap();
        let seen: Vec<i32> = ticks.iter().take(5).collect();
        assert_eq!(seen, [1, 2, 3, 4, 5]);
        timer.stop();
        // The sender was dropped with the thread, so the channel is closed.
        assert!(ticks.iter().all(|n| n > 5));
    }

    #[test]
    fn stop_waits_for_a_tick_and_drop_does_not() {
        let (begun, has_begun) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let ended = Arc::new(AtomicU32::new(0));
        let tick_ended = Arc::clone(&ended);
        let timer = Timer::every(Duration::from_millis(1), move || {
            let _ = begun.send(());
            let _ = released.recv();
            tick_ended.store(1, Ordering::Release);
        });
        let timer = timer.unwrap();
        has_begun.recv().unwrap();
        std::thread::scope(|scope| {
            let stopped = scope.spawn(|| {
                timer.stop();
                ended.load(Ordering::Acquire)
            });
            drop(release);
            assert_eq!(stopped.join().unwrap(), 1, "stop returned before the tick had ended");
        });
        let (begun, has_begun) = mpsc::channel();
        let timer = Timer::every(Duration::from_millis(1), move || {
            let _ = begun.send(());
            std::thread::sleep(Duration::from_secs(3600));
        });
        let timer = timer.unwrap();
        has_begun.recv().unwrap();
        let start = Instant::now();
        drop(timer);
        assert!(start.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn a_tick_may_stop_its_own_timer() {
        let slot: Arc<Mutex<Option<Timer>>> = Arc::default();
        let inside = slot.clone();
        let (sender, ticked) = mpsc::channel();
        let mut held = slot.lock().unwrap();
        let timer = Timer::every(Duration::from_millis(1), move || {
            if let Some(timer) = inside.lock().unwrap().as_ref() {
                timer.stop();
            }
            sender.send(()).unwrap();
        });
        *held = Some(timer.unwrap());
        drop(held);
        ticked.recv().unwrap();
        assert!(ticked.recv().is_err(), "no tick after the one that stopped the timer");
    }
}
