//! The fallback of every save: where the store cannot be written, the save waits in the outbox.
//! In: the result of writing to the store. Out: where the save ended up. The store's error stays the one that is reported.

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

/// Enqueues what `save` gives if the store could not be written and there is an outbox.
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
        // What is wrong with the save is wrong in every store.
        Err(invalid @ Error::Schema(_)) => Err(invalid),
        // The store is what the person has to look at.
        Err(_) => Err(error),
    }
}
