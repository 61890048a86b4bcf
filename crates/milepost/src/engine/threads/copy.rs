//! Copies a thread to another one of the same store, with all checkpoints and writes. Values are not copied: both
//! threads refer to the same chunks.

use super::put::PreparedCheckpoint;
use super::{Threads, context, encoding_error};
use crate::Error;
use crate::engine::lookup::PAGE;
use crate::store::HeaderQuery;

/// Number of checkpoints in one commit.
const BATCH: usize = 64;

impl Threads {
    /// Copies all checkpoints and writes of a thread to another one. They replace those with the same ids there. Returns
    /// the number of checkpoints.
    pub fn copy_thread(&self, from: &str, to: &str) -> Result<u64, Error> {
        let (run, target) = (Self::run_of(from)?, Self::run_of(to)?);
        if run == target {
            return Ok(0);
        }
        let mut copied = 0;
        let mut batch = Vec::new();
        for row in self.mp.rows(HeaderQuery::default().run(&run).oldest_first(true), PAGE) {
            batch.extend(self.entry(row?)?);
            if batch.len() == BATCH {
                copied += self.copy_batch(std::mem::take(&mut batch), to, &target)?;
            }
        }
        copied += self.copy_batch(batch, to, &target)?;
        self.copy_writes(&run, to, &target)?;
        Ok(copied)
    }

    fn copy_batch(
        &self,
        entries: Vec<super::ThreadEntry>,
        to: &str,
        target: &crate::model::RunId,
    ) -> Result<u64, Error> {
        if entries.is_empty() {
            return Ok(0);
        }
        let mut prepared = Vec::new();
        for entry in entries {
            let position = entry.position().clone();
            let bound = context(target, &position.namespace, &position.id);
            let (values, chunks) = entry.reader.for_thread(to, self.key(), &bound).map_err(encoding_error)?;
            prepared.push(PreparedCheckpoint { position, values, chunks, summary: None });
        }
        self.add(target, to, &prepared, &[])?;
        Ok(prepared.len() as u64)
    }
}
