//! A fair lock between processes: lock `next`, lock `write`, unlock `next`, work, unlock `write`. Threads that share a
//! store first wait for each other in memory, which is faster than waiting for a file.
//! The kernel wakes waiters in no particular order, so writers that wait for `next` form a queue: each locks
//! its own ticket file and waits for the previous ticket.
//! A dead process releases its locks. Waits have a deadline, so a stopped holder blocks no writer forever.

use std::cell::RefCell;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};

use crate::fs::atomic;

/// Number of threads that wait for locks. Limited, so that they do not accumulate behind a stopped holder.
static WAITERS: AtomicUsize = AtomicUsize::new(0);
const MOST_WAITERS: usize = 32;

/// A thread that waits for locks on behalf of another thread, which reuses it.
struct Waiter {
    pid: u32,
    jobs: mpsc::Sender<Job>,
}

/// A file to lock, and the channel for the result. If the receiver is gone, the lock is released.
type Job = (File, mpsc::SyncSender<io::Result<File>>);

thread_local! {
    static WAITER: RefCell<Option<Waiter>> = const { RefCell::new(None) };
}

impl Waiter {
    /// Returns this thread's waiter or a new one; `None` if there are too many.
    fn get() -> io::Result<Option<Self>> {
        let pid = std::process::id();
        // After a fork, the waiter's thread exists only in the parent process.
        if let Some(waiter) = WAITER.take().filter(|waiter| waiter.pid == pid) {
            return Ok(Some(waiter));
        }
        if WAITERS.fetch_add(1, Ordering::Relaxed) >= MOST_WAITERS {
            WAITERS.fetch_sub(1, Ordering::Relaxed);
            return Ok(None);
        }
        let (jobs, todo) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("milepost-lock".into()).stack_size(64 * 1024);
        let spawned = thread.spawn(move || {
            for (file, answer) in todo {
                let locked = file.lock().map(|()| file);
                let _ = answer.send(locked);
            }
            WAITERS.fetch_sub(1, Ordering::Relaxed);
        });
        match spawned {
            Ok(_) => Ok(Some(Self { pid, jobs })),
            Err(e) => {
                WAITERS.fetch_sub(1, Ordering::Relaxed);
                Err(e)
            }
        }
    }

    /// Waits for a lock for at most `left`. After that the thread is abandoned; it ends once it has the lock.
    fn wait(self, file: File, left: Duration) -> Option<io::Result<File>> {
        let (sender, receiver) = mpsc::sync_channel(0);
        self.jobs.send((file, sender)).ok()?;
        let locked = receiver.recv_timeout(left).ok()?;
        WAITER.set(Some(self));
        Some(locked)
    }
}

/// The lock files of a store.
#[derive(Debug, Clone)]
pub(crate) struct FairLock {
    next: PathBuf,
    write: PathBuf,
    /// Held by the thread of this process that holds the lock files or waits for them.
    threads: Arc<Mutex<()>>,
}

/// Holds the write lock until it is dropped.
pub(crate) struct FairLockGuard {
    write: Option<File>,
    thread: Option<ArcMutexGuard<RawMutex, ()>>,
}

impl Drop for FairLockGuard {
    fn drop(&mut self) {
        // The file first, so that the next thread finds it unlocked.
        self.write = None;
        if let Some(thread) = self.thread.take() {
            ArcMutexGuard::unlock_fair(thread);
        }
    }
}

/// Why the lock was not acquired.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Other writers held the lock for too long.
    Busy(Duration),
    /// A lock file cannot be opened or locked.
    Io(PathBuf, io::Error),
}

impl FairLock {
    /// Sets the paths of the lock files, which are created on first use.
    pub(crate) fn new(next: PathBuf, write: PathBuf) -> Self {
        Self { next, write, threads: Arc::default() }
    }

    /// Waits for the lock for at most `wait`.
    pub(crate) fn acquire(&self, wait: Duration) -> Result<FairLockGuard, LockError> {
        let start = Instant::now();
        let thread = self.threads.try_lock_arc_for(wait).ok_or_else(|| LockError::Busy(start.elapsed()))?;
        let mut file = open(&self.next)?;
        let next = if tail_ticket(&mut file) == 0 && try_lock(&file, &self.next)? {
            file
        } else {
            self.wait_in_queue(start, wait)?
        };
        let write = lock(&self.write, start, wait)?;
        drop(next);
        Ok(FairLockGuard { write: Some(write), thread: Some(thread) })
    }

    /// Appends a ticket to the queue, waits for the tickets before it, and returns `next`, locked.
    fn wait_in_queue(&self, start: Instant, wait: Duration) -> Result<File, LockError> {
        let sibling = |suffix: &dyn std::fmt::Display| {
            let mut name = self.next.as_os_str().to_owned();
            name.push(format!(".{suffix}"));
            PathBuf::from(name)
        };
        let ticket_file = |ticket: u64| sibling(&(ticket % TICKET_FILES));
        let mut counter = open(&self.next)?;
        let queue = lock(&sibling(&"line"), start, wait)?;
        let ticket = tail_ticket(&mut counter) + 1;
        set_tail_ticket(&mut counter, ticket);
        let held = open(&ticket_file(ticket))?;
        // If the queue is longer than the number of ticket files, another ticket may hold the same file.
        let _ = try_lock(&held, &self.next)?;
        drop(queue);
        if ticket > 1 {
            let left = wait.saturating_sub(start.elapsed());
            match lock(&ticket_file(ticket - 1), Instant::now(), QUEUE_TIMEOUT.min(left)) {
                Ok(_) | Err(LockError::Busy(_)) => {}
                Err(e) => return Err(e),
            }
        }
        let next = lock(&self.next, start, wait)?;
        let queue = lock(&sibling(&"line"), start, wait)?;
        if tail_ticket(&mut counter) == ticket {
            set_tail_ticket(&mut counter, 0);
        }
        drop((queue, held));
        Ok(next)
    }

    /// Acquires the lock if that is possible without waiting.
    pub(crate) fn try_acquire(&self) -> Option<FairLockGuard> {
        self.acquire(Duration::ZERO).ok()
    }
}

/// Number of ticket files, which must be larger than the number of processes that wait at the same time. A process that
/// returns to the queue may lock its file before the waiter of an earlier ticket with the same file wakes up. That
/// waiter would then wait for a ticket behind its own, until `QUEUE_TIMEOUT`.
const TICKET_FILES: u64 = 64;

/// Maximum time to wait for the previous ticket, so that a stopped process delays the queue only briefly.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(1);

/// Reads the last ticket issued; 0 if the queue is empty. A stale number after a crash is harmless: the
/// next writer joins an empty queue.
fn tail_ticket(counter: &mut File) -> u64 {
    let mut bytes = [0; 8];
    let read = counter.rewind().and_then(|()| counter.read_exact(&mut bytes));
    read.map_or(0, |()| u64::from_le_bytes(bytes) % (u64::MAX / 2))
}

/// A failed write affects the order of the queue, but not the lock.
fn set_tail_ticket(counter: &mut File, ticket: u64) {
    let _ = counter.rewind().and_then(|()| counter.write_all(&ticket.to_le_bytes()));
}

fn open(path: &Path) -> Result<File, LockError> {
    let mut options = OpenOptions::new();
    atomic::open_private(path, options.read(true).write(true).create(true).truncate(false))
        .map_err(|e| LockError::Io(path.to_owned(), e))
}

fn try_lock(file: &File, path: &Path) -> Result<bool, LockError> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(LockError::Io(path.to_owned(), e)),
    }
}

/// Locks one file before `start + wait`. A waiter thread blocks on the lock. If the deadline passes, that
/// thread releases the lock as soon as it acquires it.
fn lock(path: &Path, start: Instant, wait: Duration) -> Result<File, LockError> {
    let io = |e| LockError::Io(path.to_owned(), e);
    let file = open(path)?;
    if try_lock(&file, path)? {
        return Ok(file);
    }
    let left = wait.saturating_sub(start.elapsed());
    if left.is_zero() {
        return Err(LockError::Busy(start.elapsed()));
    }
    match Waiter::get().map_err(io)? {
        Some(waiter) => match waiter.wait(file, left) {
            Some(locked) => locked.map_err(io),
            None => Err(LockError::Busy(start.elapsed())),
        },
        None => poll(file, path, start, wait),
    }
}

/// Polls for the lock, for processes that already have too many waiter threads.
fn poll(file: File, path: &Path, start: Instant, wait: Duration) -> Result<File, LockError> {
    loop {
        if try_lock(&file, path)? {
            return Ok(file);
        }
        if start.elapsed() >= wait {
            return Err(LockError::Busy(start.elapsed()));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_stays_makes_others_busy_and_then_free() {
        for is_same_process in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let lock = as_in_another_process(dir.path());
            let other = if is_same_process { lock.clone() } else { as_in_another_process(dir.path()) };
            check_busy_and_then_free(&lock, &other);
        }
    }

    fn as_in_another_process(folder: &Path) -> FairLock {
        FairLock::new(folder.join("turn"), folder.join("write"))
    }

    fn check_busy_and_then_free(other: &FairLock, lock: &FairLock) {
        let held = other.acquire(Duration::ZERO).unwrap();
        let start = Instant::now();
        assert!(matches!(lock.acquire(Duration::from_millis(50)), Err(LockError::Busy(_))));
        assert!(start.elapsed() >= Duration::from_millis(50));
        drop(held);
        // The abandoned waiter thread may hold the lock briefly before it notices that the receiver is gone.
        drop(lock.acquire(Duration::from_secs(5)).unwrap());
        assert!(lock.acquire(Duration::from_secs(5)).is_ok());
    }

    #[test]
    fn waiters_acquire_the_lock_in_order_of_arrival() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FairLock::new(dir.path().join("turn"), dir.path().join("write"));
        let held = lock.acquire(Duration::ZERO).unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiters: Vec<_> = (0..6)
            .map(|n| {
                let (queued, sender) = (as_in_another_process(dir.path()), sender.clone());
                let waiter = std::thread::spawn(move || {
                    let _guard = queued.acquire(Duration::from_secs(20)).unwrap();
                    sender.send(n).unwrap();
                });
                // Start one waiter at a time. The first one holds `next`, the others hold tickets.
                let is_waiting = || {
                    let mut file = open(&lock.next).unwrap();
                    let is_next_held = n > 0 || !try_lock(&file, &lock.next).unwrap();
                    is_next_held && tail_ticket(&mut file) == n
                };
                while !is_waiting() {
                    std::thread::yield_now();
                }
                waiter
            })
            .collect();
        drop(held);
        for waiter in waiters {
            waiter.join().unwrap();
        }
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(tail_ticket(&mut open(&lock.next).unwrap()), 0);
    }

    #[test]
    fn threads_of_a_process_acquire_the_lock_in_order_of_arrival() {
        let dir = tempfile::tempdir().unwrap();
        let lock = as_in_another_process(dir.path());
        let held = lock.acquire(Duration::ZERO).unwrap();
        let (sender, receiver) = mpsc::channel();
        let waiters: Vec<_> = (0..6)
            .map(|n| {
                let (lock, sender) = (lock.clone(), sender.clone());
                let waiter = std::thread::spawn(move || {
                    let _guard = lock.acquire(Duration::from_secs(20)).unwrap();
                    sender.send(n).unwrap();
                });
                // Nothing shows that a thread waits in memory.
                std::thread::sleep(Duration::from_millis(50));
                waiter
            })
            .collect();
        drop(held);
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        // None of them queued for the files.
        assert_eq!(tail_ticket(&mut open(&lock.next).unwrap()), 0);
    }

    #[test]
    fn many_processes_that_return_to_the_queue_do_not_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let workers: Vec<_> = (0..16)
            .map(|_| {
                let lock = as_in_another_process(dir.path());
                std::thread::spawn(move || {
                    let acquire = || {
                        let start = Instant::now();
                        drop(lock.acquire(Duration::from_secs(60)).unwrap());
                        start.elapsed()
                    };
                    (0..300).map(|_| acquire()).max().unwrap()
                })
            })
            .collect();
        let longest = workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap();
        assert!(longest < QUEUE_TIMEOUT, "a worker waited for {longest:?}");
    }

    #[test]
    fn a_stale_ticket_number_after_a_crash_blocks_no_writer() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FairLock::new(dir.path().join("turn"), dir.path().join("write"));
        for left in [1_u64, 7, u64::MAX] {
            set_tail_ticket(&mut open(&lock.next).unwrap(), left);
            drop(lock.acquire(Duration::from_secs(5)).unwrap());
            assert_eq!(tail_ticket(&mut open(&lock.next).unwrap()), 0);
        }
        open(&lock.next).unwrap().set_len(3).unwrap();
        drop(lock.acquire(Duration::ZERO).unwrap());
    }

    #[test]
    fn a_stopped_waiter_delays_the_queue_only_briefly() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FairLock::new(dir.path().join("turn"), dir.path().join("write"));
        set_tail_ticket(&mut open(&lock.next).unwrap(), 3);
        let asleep = open(&dir.path().join("turn.3")).unwrap();
        assert!(try_lock(&asleep, dir.path()).unwrap());
        let start = Instant::now();
        drop(lock.acquire(Duration::from_secs(20)).unwrap());
        assert!(start.elapsed() >= QUEUE_TIMEOUT && start.elapsed() < Duration::from_secs(10));
    }
}
