//! Conversation: what the user and the agents said in a run and in the runs that it continues. Follows the
//! chain of runs back to its start and changes nothing.

use super::{Milepost, Reference};
use crate::Error;
use crate::model::{Message, RunId, RunRecord};

/// Maximum number of runs in a chain. A longer chain loses its oldest messages.
const MAX_RUNS: usize = 200;

impl Milepost {
    /// The messages of a run and of the runs that it continues, oldest first. Damaged messages are skipped;
    /// `verify` reports them.
    pub fn conversation(&self, run: &RunId) -> Result<Vec<Message>, Error> {
        let mut parts = Vec::new();
        for run in self.chain(run)? {
            parts.push(self.messages_of(&run)?);
        }
        Ok(parts.into_iter().rev().flatten().collect())
    }

    /// A run and the runs that it continues, newest first. Ends at a run that was deleted or imported.
    pub(super) fn chain(&self, run: &RunId) -> Result<Vec<RunId>, Error> {
        let mut chain = vec![run.clone()];
        let mut record = self.record_of(run)?;
        let is_foreign = record.as_deref().is_some_and(RunRecord::is_foreign);
        while let Some(parent) = record.and_then(|record| record.parent.clone())
            && chain.len() < MAX_RUNS
        {
            let entry = match self.find(&Reference::Name(parent.to_string()), None) {
                Ok(entry) => entry,
                Err(Error::NotFound { .. } | Error::Damaged(_)) => break,
                Err(e) => return Err(e),
            };
            let run = entry.header.run_id;
            record = self.record_of(&run)?;
            // What an imported run contains was not said in this project.
            let turns_foreign = record.as_deref().is_some_and(RunRecord::is_foreign) && !is_foreign;
            if chain.contains(&run) || turns_foreign {
                break;
            }
            chain.push(run);
        }
        Ok(chain)
    }
}
