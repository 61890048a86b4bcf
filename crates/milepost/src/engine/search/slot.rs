//! The index of an engine: where its file is, and the connection that is kept open between searches. Handles that are
//! clones of each other share it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::search::index::{self, IndexError, SearchIndex, UpdateLock};

/// How long a search waits for a process that updates the index, before it uses what is there.
const LOCK_WAIT: Duration = Duration::from_millis(300);

/// The index of an engine. Cheap to clone.
#[derive(Clone, Default)]
pub(in crate::engine) struct SearchSlot(Arc<State>);

#[derive(Default)]
struct State {
    /// The file; `None` if the index is kept in memory, because the store has no folder or must not be written.
    path: Option<PathBuf>,
    open: Mutex<Option<SearchIndex>>,
}

impl SearchSlot {
    /// An index in this file, or in memory.
    pub(in crate::engine) fn at(path: Option<PathBuf>) -> Self {
        Self(Arc::new(State { path, open: Mutex::new(None) }))
    }

    pub(super) fn lock(&self) -> OpenSlot<'_> {
        let open = self.0.open.lock().unwrap_or_else(|e| e.into_inner());
        OpenSlot { path: self.0.path.as_deref(), open }
    }
}

/// Exclusive use of an engine's index.
pub(super) struct OpenSlot<'a> {
    path: Option<&'a Path>,
    open: MutexGuard<'a, Option<SearchIndex>>,
}

impl OpenSlot<'_> {
    pub(super) fn index(&mut self) -> Option<&mut SearchIndex> {
        self.open.as_mut()
    }

    /// Opens the index of this engine, or creates it. Returns the lock for updates, or `None` if another process updates
    /// it, in which case there may be no index yet. If no file can be used, the index is in memory.
    pub(super) fn open(&mut self, fingerprint: &str) -> Result<Access, IndexError> {
        if self.open.as_ref().is_some_and(|index| !index.is_in_place()) {
            *self.open = None;
        }
        let in_memory = |open: &mut Option<SearchIndex>| {
            if open.as_ref().is_none_or(SearchIndex::has_file) {
                *open = Some(SearchIndex::in_memory(fingerprint)?);
            }
            Ok(Access::Exclusive(None))
        };
        let Some(path) = self.path.filter(|_| self.open.as_ref().is_none_or(SearchIndex::has_file)) else {
            return in_memory(&mut self.open);
        };
        let lock = match UpdateLock::acquire(path, Duration::ZERO) {
            Ok(None) if self.open.is_none() => UpdateLock::acquire(path, LOCK_WAIT),
            other => other,
        };
        let Ok(lock) = lock else { return in_memory(&mut self.open) };
        if self.open.is_none() {
            match SearchIndex::open(path, fingerprint) {
                Ok(index) => *self.open = Some(index),
                Err(_) if lock.is_none() => return Ok(Access::Shared),
                Err(IndexError::NoFullText) => return Err(IndexError::NoFullText),
                Err(_) => match SearchIndex::create(path, fingerprint) {
                    Ok(index) => *self.open = Some(index),
                    Err(IndexError::NoFullText) => return Err(IndexError::NoFullText),
                    Err(_) => return in_memory(&mut self.open),
                },
            }
        }
        Ok(lock.map_or(Access::Shared, |lock| Access::Exclusive(Some(lock))))
    }

    /// The index, if it exists and has a file. A handle that keeps it in memory forgets it.
    pub(super) fn open_existing(
        &mut self,
        fingerprint: &str,
    ) -> Result<Option<&mut SearchIndex>, IndexError> {
        let Some(path) = self.path else {
            *self.open = None;
            return Ok(None);
        };
        if self.open.as_ref().is_some_and(|index| !index.has_file() || !index.is_in_place()) {
            *self.open = None;
        }
        if self.open.is_none() && std::fs::symlink_metadata(path).is_ok() {
            *self.open = Some(SearchIndex::open(path, fingerprint)?);
        }
        Ok(self.open.as_mut())
    }

    /// Removes the index. The next search creates it anew.
    pub(super) fn discard(&mut self) {
        let had_file = self.open.take().is_none_or(|index| index.has_file());
        if let (true, Some(path)) = (had_file, self.path) {
            // If the file cannot be removed, the next search uses memory.
            let _ = index::remove(path);
        }
    }
}

/// What an engine may do with its index.
pub(super) enum Access {
    /// Update it. An index in memory needs no lock.
    Exclusive(#[allow(dead_code, reason = "held until the update is complete")] Option<UpdateLock>),
    /// Only read it, because another process updates it.
    Shared,
}
