//! Record: what happened between two checkpoints, durable when it returns, folded into the next one.

use super::Milepost;
use super::bookkeeping::{enter_session, open, remember};
use super::save::Opening;
use crate::Error;
use crate::model::{Item, Recent, RunId, Token};
use crate::store::{Commit, Verdict};

impl Milepost {
    /// Adds items to a run, which is opened if it is not there.
    pub fn record(&self, run: &RunId, items: &[Item], opening: &Opening) -> Result<(), Error> {
        let moment = self.clock.moment();
        let token = Token::fresh();
        self.write(run, &mut |view| {
            let mut events = Vec::new();
            let mut record = open(view, run, opening, &self.settings, moment.at, &mut events);
            if record.recent.iter().any(|r| r.token == token) {
                return Verdict::Nothing;
            }
            enter_session(&mut record, None, &moment, &mut events);
            record.updated_at = moment.at;
            record.heartbeat = Some(moment.at);
            remember(&mut record, Recent { token: token.clone(), sequence: 0, coalesced: false });
            let mut commit = Commit::of(record);
            commit.push = items.to_vec();
            commit.events = events;
            Verdict::Commit(Box::new(commit))
        })?;
        Ok(())
    }
}
