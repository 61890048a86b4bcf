//! Which run a command means when it does not say: never "the newest".

use super::Milepost;
use crate::Error;
use crate::model::{RunId, RunRecord};
use crate::owner::{self, Liveness};
use crate::store::RunQuery;

/// What is known about who asks.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// `--run`, or the environment's.
    pub named: Option<RunId>,
    /// The agent's own session id.
    pub session: Option<String>,
    /// The worktree, or the project's root outside repositories.
    pub worktree: Option<String>,
}

/// Which run is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunResolution {
    /// This one.
    Run(RunId),
    /// None that is clear; these are open here.
    Unclear(Vec<RunId>),
}

impl Milepost {
    /// Decides which run is meant: named; of the agent's session; owned by an ancestor; the only open one here. A run that
    /// came from elsewhere is meant only by its name: what it says of its session and folder is a stranger's.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn current_run(&self, caller: &Caller) -> Result<RunResolution, Error> {
        if let Some(run) = &caller.named {
            return Ok(RunResolution::Run(run.clone()));
        }
        let rows = self.store.runs(&RunQuery::default())?;
        let open: Vec<RunRecord> = rows
            .into_iter()
            .filter_map(|row| row.record.ok())
            .map(|r| *r)
            // What came from elsewhere is joined only by name.
            .filter(|record| record.is_open() && !record.is_foreign())
            .collect();
        if let Some(session) = caller.session.as_deref().filter(|s| !s.is_empty()) {
            let of_session = open.iter().find(|r| r.session.as_ref().is_some_and(|s| s.id == session));
            if let Some(record) = of_session {
                return Ok(RunResolution::Run(record.run_id.clone()));
            }
        }
        if open.iter().any(|r| r.owner.is_some()) {
            let ancestors = owner::ancestors();
            let nearest = open
                .iter()
                .filter_map(|r| {
                    let pid = r.owner.as_ref()?.pid;
                    let distance = ancestors.iter().position(|ancestor| *ancestor == pid)?;
                    (self.liveness(r)? == Liveness::Alive).then_some((distance, &r.run_id))
                })
                .min_by_key(|(distance, _)| *distance);
            if let Some((_, run)) = nearest {
                return Ok(RunResolution::Run(run.clone()));
            }
        }
        // A run whose owner is dead was interrupted: it is resumed, not joined by accident.
        let gone = |r: &RunRecord| matches!(self.liveness(r), Some(Liveness::Dead | Liveness::PresumedDead));
        let open_here: Vec<RunId> = open
            .iter()
            .filter(|r| r.folder() == caller.worktree.as_ref() && !gone(r))
            .map(|r| r.run_id.clone())
            .collect();
        match open_here.as_slice() {
            [only] => Ok(RunResolution::Run(only.clone())),
            _ => Ok(RunResolution::Unclear(open_here)),
        }
    }
}
