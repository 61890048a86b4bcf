//! Delete: a run with all it has, or nothing of it.

use super::Milepost;
use crate::Error;
use crate::model::RunId;
use crate::owner::lock;

impl Milepost {
    /// Removes a run with everything it has, even if its owner is alive: asking first is the caller's part. Returns how many
    /// bytes the store gave back.
    pub fn delete(&self, run: &RunId) -> Result<u64, Error> {
        self.stored_run(run)?;
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
        Ok(before.saturating_sub(self.store.info()?.bytes))
    }
}
