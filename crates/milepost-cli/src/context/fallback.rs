//! The fallback for saves: if the store cannot be written, the save is queued in the outbox. Takes the result
//! of writing to the store and returns where the save ended up. If the outbox fails too, the store's error is
//! the one that is reported.

use milepost::internal::clock::SystemClock;
use milepost::internal::engine::{Outbox, QueuedSave};
use milepost::model::RunId;
use milepost::store::StoreError;
use milepost::{Error, Save, Settings};

/// Where a save ended up.
#[derive(Debug)]
pub(crate) enum SaveResult<T> {
    /// In the store.
    Stored(T),
    /// In the outbox, for this run.
    Queued(RunId, QueuedSave),
}

/// Queues the result of `save` in the outbox, if there is one and the store could not be written.
pub(crate) fn save_or_enqueue<T>(
    stored: Result<T, Error>,
    outbox: Option<&Outbox>,
    settings: &Settings,
    save: impl FnOnce() -> (RunId, Save),
) -> Result<SaveResult<T>, Error> {
    let (error, outbox) = match (stored, outbox) {
        (Ok(stored), _) => return Ok(SaveResult::Stored(stored)),
        (Err(error @ Error::Store(StoreError::ReadOnly { .. })), Some(outbox)) => (error, outbox),
        (Err(error), _) => return Err(error),
    };
    let (run, save) = save();
    match outbox.enqueue(&run, save, settings, &SystemClock) {
        Ok(queued) => Ok(SaveResult::Queued(run, queued)),
        // An invalid save is invalid in every store.
        Err(invalid @ Error::Schema(_)) => Err(invalid),
        // The store is what the user has to fix.
        Err(_) => Err(error),
    }
}
