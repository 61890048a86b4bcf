//! Lets a process fork only while no thread of it works in the library. Otherwise the child would inherit locks that are
//! never released: those of the store's files, of SQLite and of Rust's own data.

use std::cell::{Cell, RefCell};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

static GATE: Mutex<Gate> = Mutex::new(Gate { working: 0, forking: 0 });
static CHANGED: Condvar = Condvar::new();
/// Maximum time that a fork waits for work to end. A save that waits for a lock ends after the configured wait.
const PATIENCE: Duration = Duration::from_secs(15);

/// Who uses the library.
struct Gate {
    /// The number of threads that work in the library.
    working: usize,
    /// The number of threads that fork, or wait to fork. They keep other threads out: if several threads use the library
    /// in turn, there may be no moment in which none of them does.
    forking: usize,
}

thread_local! {
    /// How many times the current thread has entered.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Keeps other threads out while the current thread forks.
    static FORKING: RefCell<Option<MutexGuard<'static, Gate>>> = const { RefCell::new(None) };
}

fn lock() -> MutexGuard<'static, Gate> {
    GATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this exists, no other thread forks.
pub(crate) struct Entered;

/// Enters the library. Waits while another thread forks or waits to fork.
pub(crate) fn enter() -> Entered {
    DEPTH.with(|depth| {
        // A callback inside a call must not wait: a fork would wait for the call.
        if depth.get() == 0 {
            let waited = CHANGED.wait_while(lock(), |gate| gate.forking > 0);
            waited.unwrap_or_else(PoisonError::into_inner).working += 1;
        }
        depth.set(depth.get() + 1);
    });
    Entered
}

impl Drop for Entered {
    fn drop(&mut self) {
        DEPTH.with(|depth| {
            depth.set(depth.get() - 1);
            if depth.get() == 0 {
                let mut gate = lock();
                gate.working = gate.working.saturating_sub(1);
                drop(gate);
                CHANGED.notify_all();
            }
        });
    }
}

/// Calls `work` in the library while the interpreter is released.
pub(crate) fn released<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(|| {
        let _entered = enter();
        work()
    })
}

/// Waits until no other thread works in the library, and keeps them out until the fork is over.
#[pyfunction]
pub(crate) fn before_fork(py: Python<'_>) {
    py.detach(|| {
        let own = usize::from(DEPTH.get() > 0);
        let mut gate = lock();
        gate.forking += 1;
        // After the timeout, the program forks as it would without this module.
        let waited = CHANGED.wait_timeout_while(gate, PATIENCE, |gate| gate.working > own);
        let guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        FORKING.set(Some(guard));
    });
}

/// Lets other threads continue.
#[pyfunction]
pub(crate) fn after_fork_in_parent() {
    if let Some(mut gate) = FORKING.take() {
        gate.forking -= 1;
    }
    CHANGED.notify_all();
}

/// Forgets the threads that only the parent has.
#[pyfunction]
pub(crate) fn after_fork_in_child() {
    if let Some(mut gate) = FORKING.take() {
        *gate = Gate { working: usize::from(DEPTH.get() > 0), forking: 0 };
    }
}
