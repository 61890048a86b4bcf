//! Resolves the run that a command operates on when it names none. Takes what is known about the caller;
//! returns a run, or the open runs to choose from. Must not fall back to the newest run.

use std::time::Duration;

use super::Milepost;
use super::start::age_of_work;
use crate::Error;
use crate::model::{RunId, RunRecord};
use crate::owner::{self, Liveness};
use crate::store::RunQuery;

/// What is known about the caller.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The run named by `--run` or by the environment.
    pub named: Option<RunId>,
    /// The id of the agent's session.
    pub session: Option<String>,
    /// The worktree, or the project root outside a repository.
    pub worktree: Option<String>,
}

/// The result of resolving the current run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunResolution {
    /// The run to operate on.
    Run(RunId),
    /// No single run qualifies; these runs are open here.
    Unclear(Vec<RunId>),
}

impl Milepost {
    /// Resolves the current run, in this order: the named run, the run of the agent's session, the run
    /// owned by the nearest ancestor process, the only open run here. A foreign run must be named, because
    /// its session and folder come from elsewhere.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn current_run(&self, caller: &Caller) -> Result<RunResolution, Error> {
        if let Some(run) = &caller.named {
            return Ok(RunResolution::Run(run.clone()));
        }
        let rows = self.store.runs(&RunQuery::default())?;
        let open: Vec<(RunRecord, Option<Duration>)> = rows
            .into_iter()
            .filter_map(|row| {
                let age = age_of_work(&row);
                Some((*row.record.ok()?, age))
            })
            // A foreign run is used only if it is named.
            .filter(|(record, _)| record.is_open() && !record.is_foreign())
            .collect();
        if let Some(session) = caller.session.as_deref().filter(|s| !s.is_empty()) {
            let of_session = open.iter().find(|(r, _)| r.session.as_ref().is_some_and(|s| s.id == session));
            if let Some((record, _)) = of_session {
                return Ok(RunResolution::Run(record.run_id.clone()));
            }
        }
        if open.iter().any(|(r, _)| r.owner.is_some()) {
            let ancestors = owner::ancestors();
            let nearest = open
                .iter()
                .filter_map(|(r, age)| {
                    let pid = r.owner.as_ref()?.pid;
                    let distance = ancestors.iter().position(|ancestor| *ancestor == pid)?;
                    (self.liveness(r, *age)? == Liveness::Alive).then_some((distance, &r.run_id))
                })
                .min_by_key(|(distance, _)| *distance);
            if let Some((_, run)) = nearest {
                return Ok(RunResolution::Run(run.clone()));
            }
        }
        // A run whose owner is dead was interrupted. It must be resumed, not joined by accident.
        let gone = |(record, age): &(RunRecord, Option<Duration>)| {
            matches!(self.liveness(record, *age), Some(Liveness::Dead | Liveness::PresumedDead))
        };
        let open_here: Vec<RunId> = open
            .iter()
            .filter(|run| run.0.folder() == caller.worktree.as_ref() && !gone(run))
            .map(|(r, _)| r.run_id.clone())
            .collect();
        match open_here.as_slice() {
            [only] => Ok(RunResolution::Run(only.clone())),
            _ => Ok(RunResolution::Unclear(open_here)),
        }
    }
}
