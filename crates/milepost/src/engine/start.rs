//! Start: opens a run, or a new session of one whose owner is gone. Saves no checkpoint.

use super::Milepost;
use super::bookkeeping::{NO_SESSION, begin_session, open, remember};
use super::save::Opening;
use crate::Error;
use crate::model::{Owner, Recent, RunId, RunRecord, Status, Token};
use crate::owner::{self, Liveness};
use crate::store::{Commit, Verdict};

/// A run to open.
#[derive(Debug, Clone, Default)]
pub struct Start {
    /// Its id; a new one unless given.
    pub run_id: Option<RunId>,
    /// The session.
    pub session_id: Option<String>,
    /// What it is opened with.
    pub opening: Opening,
}

/// A run that was opened.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its record.
    pub record: RunRecord,
    /// Whether it was there before.
    pub rejoined: bool,
}

impl Milepost {
    /// Opens a run. One that is there gets a new session, unless its owner is alive.
    pub fn start(&self, start: Start) -> Result<Started, Error> {
        let moment = self.clock.moment();
        let run = start.run_id.clone().unwrap_or_else(|| RunId::fresh(moment.at));
        let token = Token::fresh();
        loop {
            // Judging a process is not pure, so it happens before the write, which then insists on the same owner.
            let judged = self.judge_owner(&run)?;
            let mut moved = false;
            let mut done = None;
            self.write(&run, &mut |view| {
                let mut events = Vec::new();
                let mut record = open(view, &run, &start.opening, &self.settings, moment.at, &mut events);
                if record.recent.iter().any(|r| r.token == token) {
                    done = Some((record, view.count > 0));
                    return Verdict::Nothing;
                }
                if view.record.as_ref().and_then(|r| r.owner.as_ref()) != judged.as_ref() {
                    moved = true;
                    return Verdict::Nothing;
                }
                moved = false;
                let rejoined = view.record.is_some();
                record.owner.clone_from(&start.opening.owner);
                if rejoined {
                    let place = &start.opening.whereabouts;
                    if place.branch.is_some() {
                        record.branch.clone_from(&place.branch);
                    }
                    record.status = Status::InProgress;
                    record.ended_at = None;
                    record.dismissed = false;
                }
                let session = start.session_id.as_deref().filter(|id| !id.is_empty());
                begin_session(&mut record, session.unwrap_or(NO_SESSION), &moment, &mut events);
                record.updated_at = moment.at;
                record.heartbeat = Some(moment.at);
                remember(&mut record, Recent { token: token.clone(), sequence: 0, coalesced: false });
                done = Some((record.clone(), rejoined));
                let mut commit = Commit::of(record);
                commit.events = events;
                Verdict::Commit(Box::new(commit))
            })?;
            if let Some((record, rejoined)) = done.filter(|_| !moved) {
                return Ok(Started { record, rejoined });
            }
        }
    }

    /// The recorded owner of a run, unless it is alive.
    fn judge_owner(&self, run: &RunId) -> Result<Option<Owner>, Error> {
        let Some(state) = self.store.run(run)? else { return Ok(None) };
        let Ok(record) = state.row.record else { return Ok(None) };
        let Some(owner) = record.owner.clone() else { return Ok(None) };
        let open = record.is_open();
        let alive = owner::judge(&owner, record.heartbeat, record.profile.interval(), self.now());
        if open && alive == Liveness::Alive {
            let name = owner.name.as_deref().unwrap_or("a process");
            return Err(Error::OwnerAlive { run: run.clone(), owner: format!("{name} (pid {})", owner.pid) });
        }
        Ok(Some(owner))
    }
}
