//! Finds the most recent failed outcome whose command has not passed since. Searches a run's newest
//! checkpoints and the runs that it continues.

use super::{Milepost, Reference};
use crate::Error;
use crate::model::{Outcome, OutcomeResult, RunId};
use crate::store::{HeaderQuery, Row};

/// Maximum number of checkpoints per run, and of runs, to search. Older failures are no longer relevant.
const CHECKPOINTS: usize = 10;
const RUNS: usize = 4;

impl Milepost {
    /// The most recent failed outcome, unless an outcome of the same name has passed since.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn last_failed_outcome(&self, run: &RunId) -> Result<Option<Outcome>, Error> {
        let mut passed = Vec::new();
        let mut run = run.clone();
        for _ in 0..RUNS {
            let detail = match self.run_detail(&run) {
                Ok(detail) => detail,
                // A deleted run ends the search.
                Err(Error::NoRun(_)) => return Ok(None),
                Err(e) => return Err(e),
            };
            if let Some(found) = newest_failure(detail.pending_outcomes, &mut passed) {
                return Ok(Some(found).filter(|outcome| !passed.contains(&outcome.name)));
            }
            let query = HeaderQuery::default().run(&run).limit(CHECKPOINTS);
            for entry in self.store.headers(&query)?.into_iter().filter_map(Row::intact) {
                let body = match self.body_if_there(&entry) {
                    Ok(Some(body)) => body,
                    Ok(None) | Err(Error::Damaged(_) | Error::Newer { .. }) => continue,
                    Err(e) => return Err(e),
                };
                if let Some(found) = newest_failure(body.command_outcomes, &mut passed) {
                    return Ok(Some(found).filter(|outcome| !passed.contains(&outcome.name)));
                }
            }
            let parent = detail.summary.record.ok().and_then(|record| record.parent.clone());
            let Some(parent) = parent else { return Ok(None) };
            match self.find(&Reference::Name(parent.to_string()), None) {
                Ok(entry) if entry.header.run_id != run => run = entry.header.run_id,
                Ok(_) | Err(Error::NotFound { .. } | Error::Damaged(_)) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}

/// The newest failure among some outcomes. Adds the names of outcomes that passed after it to `passed`.
fn newest_failure(outcomes: Vec<Outcome>, passed: &mut Vec<String>) -> Option<Outcome> {
    for outcome in outcomes.into_iter().rev() {
        match outcome.result {
            OutcomeResult::Fail => return Some(outcome),
            OutcomeResult::Pass => passed.push(outcome.name),
            OutcomeResult::Warn => {}
        }
    }
    None
}
