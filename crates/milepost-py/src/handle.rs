//! A value of the library inside a Python object. It is used and dropped while the interpreter is released, because both
//! can do I/O, and it is never used in a process that a fork created.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::error::{closed, forked};
use crate::gate::released;

/// A value that belongs to the process that created it.
#[derive(Debug)]
pub(crate) struct Handle<T: Send> {
    value: Mutex<Option<T>>,
    /// What the value is, for messages.
    what: &'static str,
    pid: u32,
}

impl<T: Send> Handle<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self { value: Mutex::new(Some(value)), what, pid: std::process::id() }
    }

    /// Fails in a process that a fork created.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        if self.is_forked() { Err(forked(self.pid)) } else { Ok(()) }
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.pid != std::process::id()
    }

    /// Whether the value was taken.
    pub(crate) fn is_closed(&self) -> bool {
        !self.is_forked() && self.lock().is_none()
    }

    /// A clone of the value.
    pub(crate) fn get(&self) -> PyResult<T>
    where
        T: Clone,
    {
        self.check_process()?;
        self.lock().clone().ok_or_else(|| closed(self.what))
    }

    /// Takes the value out; later uses fail.
    pub(crate) fn take(&self) -> PyResult<T> {
        self.check_process()?;
        self.lock().take().ok_or_else(|| closed(self.what))
    }

    /// Takes the value out of a handle in any process. Returns `None` if another thread uses it, which in a process that
    /// a fork created no longer exists.
    pub(crate) fn try_take(&self) -> Option<T> {
        self.value.try_lock().ok()?.take()
    }

    // The lock is held only to copy or move the value, so a thread that waits for it does not block others.
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> Drop for Handle<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.get_mut().unwrap_or_else(PoisonError::into_inner).take() else { return };
        if self.is_forked() {
            // Closing a database that the parent uses would damage its locks.
            std::mem::forget(value);
        } else {
            drop_released(value);
        }
    }
}

/// Drops a value while the interpreter is released.
pub(crate) fn drop_released<T: Send>(value: T) {
    let mut value = Some(value);
    // If the interpreter is shutting down, the value is dropped below.
    let _ = Python::try_attach(|py| {
        let value = value.take();
        released(py, || drop(value));
    });
}
