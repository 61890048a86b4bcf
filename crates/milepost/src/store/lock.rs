//! Turn-taking between writers of any process: lock `turn`, lock `write`, unlock `turn`, work, unlock `write`.
//! The one who waits for `write` holds `turn`, so nobody overtakes. A stopped holder ends in a deadline, not in a hang.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::atomic;

/// Threads that wait for a lock. Behind a holder that was stopped for hours they must not pile up without end.
static WAITERS: AtomicUsize = AtomicUsize::new(0);
const MOST_WAITERS: usize = 32;

/// The two lock files of a store.
#[derive(Debug, Clone)]
pub(crate) struct Turnstile {
    turn: PathBuf,
    write: PathBuf,
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _write: File,
}

/// Why there is no turn.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Somebody held it too long.
    Busy(Duration),
    /// The lock files cannot be used.
    Io(PathBuf, io::Error),
}

impl Turnstile {
    /// Names the lock files; they are made when first needed.
    pub(crate) fn new(turn: PathBuf, write: PathBuf) -> Self {
        Self { turn, write }
    }

    /// Waits for its turn, at most `wait`.
    pub(crate) fn enter(&self, wait: Duration) -> Result<Turn, LockError> {
        let start = Instant::now();
        let turn = lock(&self.turn, start, wait)?;
        let write = lock(&self.write, start, wait)?;
        drop(turn);
        Ok(Turn { _write: write })
    }

    /// Takes the turn only if nobody else wants it.
    pub(crate) fn try_enter(&self) -> Option<Turn> {
        self.enter(Duration::ZERO).ok()
    }
}

/// Locks one file before `start + wait`. The kernel queues waiters in order, so the wait is a blocking lock in a thread
/// of its own; if the deadline passes, that thread lets go of the lock as soon as it gets it.
fn lock(path: &Path, start: Instant, wait: Duration) -> Result<File, LockError> {
    let io = |e| LockError::Io(path.to_owned(), e);
    let mut options = OpenOptions::new();
    let file = atomic::open_private(path, options.write(true).create(true).truncate(false)).map_err(io)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(e)) => return Err(io(e)),
    }
    let left = wait.saturating_sub(start.elapsed());
    if left.is_zero() {
        return Err(LockError::Busy(start.elapsed()));
    }
    if WAITERS.fetch_add(1, Ordering::Relaxed) >= MOST_WAITERS {
        WAITERS.fetch_sub(1, Ordering::Relaxed);
        return poll(file, path, start, wait);
    }
    let (sender, receiver) = mpsc::sync_channel(0);
    let waiter =
        std::thread::Builder::new().name("milepost-lock".into()).stack_size(64 * 1024).spawn(move || {
            let locked = file.lock().map(|()| file);
            let _ = sender.send(locked);
            WAITERS.fetch_sub(1, Ordering::Relaxed);
        });
    if let Err(e) = waiter {
        WAITERS.fetch_sub(1, Ordering::Relaxed);
        return Err(io(e));
    }
    match receiver.recv_timeout(left) {
        Ok(locked) => locked.map_err(io),
        Err(_) => Err(LockError::Busy(start.elapsed())),
    }
}

/// For hosts that have too many waiting threads already.
fn poll(file: File, path: &Path, start: Instant, wait: Duration) -> Result<File, LockError> {
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(e)) => return Err(LockError::Io(path.to_owned(), e)),
            Err(TryLockError::WouldBlock) if start.elapsed() >= wait => {
                return Err(LockError::Busy(start.elapsed()));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_stays_makes_others_busy_and_then_free() {
        let dir = tempfile::tempdir().unwrap();
        let gate = Turnstile::new(dir.path().join("turn"), dir.path().join("write"));
        let held = gate.enter(Duration::ZERO).unwrap();
        let start = Instant::now();
        assert!(matches!(gate.enter(Duration::from_millis(50)), Err(LockError::Busy(_))));
        assert!(start.elapsed() >= Duration::from_millis(50));
        drop(held);
        // The thread that waited may hold the lock for an instant before it notices that nobody wants it.
        drop(gate.enter(Duration::from_secs(5)).unwrap());
        assert!(gate.enter(Duration::from_secs(5)).is_ok());
    }
}
