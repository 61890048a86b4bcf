//! Delete: removes a run with everything in it, in one store operation.

use super::Milepost;
use crate::Error;
use crate::model::RunId;
use crate::owner::lock;

impl Milepost {
    /// Removes a run with everything in it, even if its owner is alive; confirmation is the caller's
    /// responsibility. Returns the number of bytes by which the store shrank.
    pub fn delete(&self, run: &RunId) -> Result<u64, Error> {
        self.stored_run(run)?;
        let before = self.store.info()?.bytes;
        let ours = self.points_into(run);
        self.store.delete_run(run, None)?;
        #[cfg(feature = "search")]
        self.forget_removed(std::slice::from_ref(run));
        // The run is already deleted. If its files cannot be removed now, `prune` does it.
        let _ = self.collect_files();
        if ours {
            self.clear_dangling_pointer();
        }
        // A killed owner leaves its lock file behind. A live owner removes its own.
        if let Some(folder) = self.owners.as_ref().filter(|folder| !lock::is_held(folder, run)) {
            lock::remove_lock_file(folder, run);
        }
        Ok(before.saturating_sub(self.store.info()?.bytes))
    }
}
