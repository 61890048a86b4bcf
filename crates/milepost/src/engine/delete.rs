//! Delete: a run with all it has, or nothing of it.

use super::Milepost;
use crate::Error;
use crate::model::RunId;
use crate::owner::lock;
use derive_getters::Getters;

/// What a deletion removed.
#[derive(Getters, Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteReport {
    /// How many checkpoints.
    #[getter(copy)]
    pub(crate) checkpoints: u64,
    /// How many bytes the store gave back.
    #[getter(copy)]
    pub(crate) bytes_freed: u64,
}

impl Milepost {
    /// Removes a run. A run whose owner is alive is removed too: asking is the caller's part.
    pub fn delete(&self, run: &RunId) -> Result<DeleteReport, Error> {
        let state = self.stored_run(run)?;
        let before = self.store.info()?.bytes;
        let ours = self.points_into(run);
        self.store.delete_run(run, None)?;
        if ours {
            self.clear_dangling_pointer();
        }
        // A lock that a killed owner left; one that is held goes with its holder.
        if let Some(folder) = self.owners.as_ref().filter(|folder| !lock::is_held(folder, run)) {
            lock::remove_lock_file(folder, run);
        }
        let bytes_freed = before.saturating_sub(self.store.info()?.bytes);
        Ok(DeleteReport { checkpoints: state.row.count, bytes_freed })
    }
}
