//! Diff: compares two checkpoints, of the same run or of different runs.

use super::Milepost;
use super::reference::Reference;
use crate::Error;
use crate::diff::{self, Difference};
use crate::model::{Outcome, RunId};
use crate::store::{CheckpointEntry, Cursor, HeaderQuery, Row};
use derive_getters::Getters;

/// What changed between two checkpoints.
#[derive(Getters, Debug, Clone, serde::Serialize)]
pub struct Diff {
    /// The first checkpoint.
    #[serde(skip)]
    pub(crate) from: CheckpointEntry,
    /// The checkpoint that it is compared with.
    #[serde(skip)]
    pub(crate) to: CheckpointEntry,
    /// The differences between their contents.
    #[serde(flatten)]
    pub(crate) difference: Difference,
    /// Outcomes since `from`, oldest first. If `to` is not a later checkpoint of the same run, these are
    /// the outcomes of `to`, if they differ from those of `from`.
    pub(crate) outcomes: Vec<Outcome>,
    /// Number of older outcomes that were omitted.
    pub(crate) outcomes_left_out: u64,
}

impl Diff {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        let files = &self.difference.files;
        self.difference.changed.is_empty()
            && files.added.is_empty()
            && files.removed.is_empty()
            && self.outcomes.is_empty()
    }
}

/// Maximum number of collected outcomes.
const OUTCOMES: usize = 100;
/// Maximum number of checkpoints between the two that are read for their outcomes.
const BETWEEN: usize = 200;

impl Milepost {
    /// Compares two checkpoints. Without `to`, compares with the newest checkpoint of the first one's run.
    /// A damaged checkpoint is an error that names it; there is no fallback to another one.
    pub fn diff(&self, from: &Reference, to: Option<&Reference>, run: Option<&RunId>) -> Result<Diff, Error> {
        let (from, before, to, after) = self.retry_if_removed(|| {
            let from = self.find(from, run)?;
            let to = match to {
                Some(to) => self.find(to, run)?,
                None => self.find(&Reference::Latest(0), Some(&from.header.run_id))?,
            };
            let (before, after) = (self.body(&from)?, self.body(&to)?);
            Ok((from, before, to, after))
        })?;
        let difference = diff::compare(&before, &after)?;
        let (mut outcomes, mut outcomes_left_out) = (Vec::new(), 0);
        let (a, b) = (&from.header, &to.header);
        if a.run_id == b.run_id && a.sequence < b.sequence {
            outcomes.extend(after.command_outcomes);
            outcomes_left_out += after.outcomes_dropped;
            self.outcomes_between(&from, &to, &mut outcomes, &mut outcomes_left_out)?;
        } else if before.command_outcomes != after.command_outcomes {
            outcomes = after.command_outcomes;
            outcomes_left_out = after.outcomes_dropped;
        }
        Ok(Diff { from, to, difference, outcomes, outcomes_left_out })
    }

    /// Inserts the outcomes of the checkpoints between two before those of the later one. Skips checkpoints
    /// that are damaged or that were removed in the meantime.
    fn outcomes_between(
        &self,
        from: &CheckpointEntry,
        to: &CheckpointEntry,
        outcomes: &mut Vec<Outcome>,
        left_out: &mut u64,
    ) -> Result<(), Error> {
        let after = Some(Cursor { sequence: to.header.sequence, stamp: to.header.stamp });
        let query = HeaderQuery::default().run(&to.header.run_id).after(after).limit(BETWEEN);
        let rows = self.store.headers(&query)?;
        let between = rows.into_iter().filter_map(Row::intact);
        for entry in between.take_while(|entry| entry.header.sequence > from.header.sequence) {
            let body = match self.body_if_there(&entry) {
                Ok(Some(body)) => body,
                Ok(None) | Err(Error::Damaged(_) | Error::Newer { .. }) => continue,
                Err(e) => return Err(e),
            };
            *left_out += body.outcomes_dropped;
            outcomes.splice(0..0, body.command_outcomes);
            if outcomes.len() >= OUTCOMES {
                break;
            }
        }
        let surplus = outcomes.len().saturating_sub(OUTCOMES);
        outcomes.drain(..surplus);
        *left_out += surplus as u64;
        Ok(())
    }
}
