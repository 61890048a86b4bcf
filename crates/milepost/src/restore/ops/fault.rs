//! Faults for tests: the Nth file operation fails, or the restore stops there as a killed process would.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What happens at an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::restore) enum FaultKind {
    /// This operation fails with this error.
    Error(io::ErrorKind),
    /// This operation and all later ones fail with this error.
    ErrorsFrom(io::ErrorKind),
    /// The restore stops, and nothing is cleaned up. Operations that only read are not counted: a process
    /// that is killed before one leaves the same as if it were killed after it.
    Stop,
}

/// The payload of the unwinding that stands for a killed process.
#[derive(Debug)]
pub(in crate::restore) struct Stopped;

/// Counts operations. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(in crate::restore) struct Faults(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    count: AtomicUsize,
    /// One more than the number of the operation, or zero for none.
    at: AtomicUsize,
    kind: std::sync::Mutex<Option<FaultKind>>,
    no_exchange: AtomicBool,
    elsewhere: AtomicBool,
}

impl Faults {
    /// Restarts the count and sets the fault at operation `n`.
    pub(in crate::restore) fn set(&self, n: usize, kind: FaultKind) {
        self.clear();
        *self.0.kind.lock().unwrap() = Some(kind);
        self.0.at.store(n + 1, Relaxed);
    }

    /// Restarts the count without a fault.
    pub(in crate::restore) fn clear(&self) {
        self.0.at.store(0, Relaxed);
        self.0.count.store(0, Relaxed);
    }

    /// The number of operations since the count was restarted.
    pub(in crate::restore) fn count(&self) -> usize {
        self.0.count.load(Relaxed)
    }

    /// Pretends that the file system cannot exchange files.
    pub(in crate::restore) fn set_no_exchange(&self, unsupported: bool) {
        self.0.no_exchange.store(unsupported, Relaxed);
    }

    /// Pretends that the aside folder is on another file system.
    pub(in crate::restore) fn set_aside_elsewhere(&self, elsewhere: bool) {
        self.0.elsewhere.store(elsewhere, Relaxed);
    }

    pub(super) fn exchange_is_unsupported(&self) -> bool {
        self.0.no_exchange.load(Relaxed)
    }

    pub(super) fn aside_is_elsewhere(&self) -> bool {
        self.0.elsewhere.load(Relaxed)
    }

    pub(super) fn next(&self, is_change: bool) -> io::Result<()> {
        let kind = *self.0.kind.lock().unwrap();
        if kind == Some(FaultKind::Stop) && !is_change {
            return Ok(());
        }
        let n = self.0.count.fetch_add(1, Relaxed) + 1;
        let at = self.0.at.load(Relaxed);
        if at == 0 || n < at {
            return Ok(());
        }
        match kind {
            Some(FaultKind::Error(kind)) if n == at => Err(kind.into()),
            Some(FaultKind::ErrorsFrom(kind)) => Err(kind.into()),
            Some(FaultKind::Stop) if n == at => std::panic::resume_unwind(Box::new(Stopped)),
            _ => Ok(()),
        }
    }
}
