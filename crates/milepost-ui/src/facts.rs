//! Keeps the facts about a run's checkpoints that only their documents contain, for the plots of its timeline. A page
//! that is updated live then reads only the newest documents.

use std::sync::{Arc, Mutex, MutexGuard};

use milepost::model::RunId;
use milepost::{Error, RunFacts};

use crate::projects::Project;

/// Maximum number of runs whose facts are kept.
const MAX_RUNS: usize = 8;

/// The facts about one run. The lock is held while documents are read, so that each is read once.
type Entry = Arc<Mutex<RunFacts>>;

/// The facts about the runs that were shown last, the most recent one last.
#[derive(Default)]
pub(crate) struct FactsCache(Mutex<Vec<((String, RunId), Entry)>>);

impl FactsCache {
    /// Whether the facts about a run were read before.
    pub(crate) fn contains(&self, project: &Project, run: &RunId) -> bool {
        let runs = lock(&self.0);
        let found = runs.iter().find(|((key, id), _)| *key == project.key && id == run);
        found.is_some_and(|(_, entry)| entry.try_lock().is_ok_and(|facts| facts.newest().is_some()))
    }

    /// Calls `work` with the facts about a run, after reading those of new checkpoints.
    pub(crate) fn with<T>(
        &self,
        project: &Project,
        run: &RunId,
        work: impl FnOnce(&RunFacts) -> T,
    ) -> Result<T, Error> {
        let entry = self.entry(project, run);
        let mut facts = lock(&entry);
        let newer = project.milepost.checkpoint_facts(run, facts.newest(), 0)?;
        facts.append(newer);
        Ok(work(&facts))
    }

    fn entry(&self, project: &Project, run: &RunId) -> Entry {
        let mut runs = lock(&self.0);
        let at = runs.iter().position(|((key, id), _)| *key == project.key && id == run);
        let found = match at {
            Some(at) => runs.remove(at),
            None => ((project.key.clone(), run.clone()), Entry::default()),
        };
        if runs.len() >= MAX_RUNS {
            runs.remove(0);
        }
        let entry = Arc::clone(&found.1);
        runs.push(found);
        entry
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}
