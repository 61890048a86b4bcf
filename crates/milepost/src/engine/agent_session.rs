//! The run of an agent's session: what it is offered when it begins, when it makes checkpoints, and how it ends.
//! In: what the agent's hook reports. Out: changes of the run. The decisions are pure functions in `resume::session`.

use super::{Due, Milepost, Save};
use crate::Error;
use crate::model::{Change, Interruption, InterruptionKind, RunId, RunRecord, Source};
use crate::resume::session::{InterruptionStep, SessionOffer, end_status, interruption_step, offer};

/// The run of an agent's session, which may not exist yet.
#[derive(Debug)]
pub struct AgentSession<'m> {
    milepost: &'m Milepost,
    run: RunId,
}

/// Interrupted runs of the project, the last written first.
#[derive(Debug, Clone, Default)]
pub struct InterruptedRuns {
    /// Those of this worktree and branch that stopped not long ago.
    same_worktree: Vec<RunId>,
    all: Vec<RunRecord>,
}

impl InterruptedRuns {
    /// The run to continue without asking; `None` if there is none, or a doubt which.
    pub fn sole_candidate(&self) -> Option<&RunId> {
        match &self.same_worktree[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Every run that may be continued.
    pub fn all(&self) -> &[RunRecord] {
        &self.all
    }
}

impl<'m> AgentSession<'m> {
    /// Refers to a session's run.
    pub fn new(milepost: &'m Milepost, run: RunId) -> Self {
        Self { milepost, run }
    }

    /// Whether the run exists.
    pub fn exists(&self) -> Result<bool, Error> {
        Ok(self.milepost.store.run(&self.run)?.is_some())
    }

    /// Whether the run has a checkpoint or continues another one: then it was offered what there was.
    pub fn has_begun(&self) -> Result<bool, Error> {
        let Some(state) = self.milepost.store.run(&self.run)? else { return Ok(false) };
        let continues = state.row.record.as_ref().is_ok_and(|record| record.parent.is_some());
        Ok(state.row.count > 0 || continues)
    }

    /// Finds other interrupted runs of the project for a session in a worktree and on a branch. Removes those in which
    /// nothing happened. `may_show` leaves runs out.
    pub fn interrupted_runs(
        &self,
        worktree: &str,
        branch: Option<&str>,
        may_show: impl Fn(&RunRecord) -> bool,
    ) -> Result<InterruptedRuns, Error> {
        let mut found = InterruptedRuns::default();
        for candidate in self.milepost.candidates()? {
            let Ok(record) = candidate.summary.record else { continue };
            if record.run_id == self.run || !may_show(&record) {
                continue;
            }
            let (location, now) = ((worktree, branch), self.milepost.now());
            match offer(&record, candidate.summary.checkpoints, &candidate.decision, location, now) {
                SessionOffer::Ignore => continue,
                SessionOffer::Remove => {
                    self.milepost.abandon(&record.run_id)?;
                    continue;
                }
                SessionOffer::List => {}
                SessionOffer::Continue => found.same_worktree.push(record.run_id.clone()),
            }
            found.all.push(*record);
        }
        Ok(found)
    }

    /// Records changes, and saves a checkpoint if one is due. `complete` adds what only a checkpoint needs.
    pub fn record(
        &self,
        changes: &[Change],
        mut save: Save,
        complete: impl FnOnce(Save) -> Result<Save, Error>,
    ) -> Result<(), Error> {
        match self.milepost.record_changes(&self.run, changes, &save.run_options)? {
            // The first thing that happens makes a session worth resuming.
            Due::First => {
                self.milepost.save(&self.run, save.reason("session_start"))?;
            }
            Due::Yes => {
                save.draft.source = Some(Source::Timer);
                self.milepost.save(&self.run, complete(save)?)?;
            }
            Due::No => {}
        }
        Ok(())
    }

    /// Records why the session does not go on, with a checkpoint where that is worth one.
    pub fn interrupt(
        &self,
        kind: InterruptionKind,
        detail: Option<String>,
        mut save: Save,
        complete: impl FnOnce(Save) -> Result<Save, Error>,
    ) -> Result<(), Error> {
        let Some(state) = self.milepost.store.run(&self.run)? else { return Ok(()) };
        let recorded = state.row.record.as_ref().ok().and_then(|record| record.interruption.as_ref());
        let recorded = recorded.map(|interruption| interruption.class);
        let has_checkpoint = state.row.count > 0;
        let is_due = has_checkpoint
            && kind == InterruptionKind::WaitingForUser
            && self.milepost.due_for(Some(&state), None) != Due::No;
        let interruption = Interruption { class: kind, at: self.milepost.now(), detail };
        match interruption_step(kind, recorded, has_checkpoint, is_due) {
            InterruptionStep::Save => {
                save.draft.source =
                    (kind != InterruptionKind::WaitingForUser).then_some(Source::ErrorBoundary);
                save.interruption = Some(interruption);
                self.milepost.save(&self.run, complete(save)?).map(|_| ())
            }
            InterruptionStep::Record => self.milepost.interrupt(&self.run, &interruption),
            InterruptionStep::Nothing => Ok(()),
        }
    }

    /// Ends the session. A run in which nothing happened is removed; one with open tasks is paused.
    pub fn end(&self, save: Save, complete: impl FnOnce(Save) -> Result<Save, Error>) -> Result<(), Error> {
        let Some(state) = self.milepost.store.run(&self.run)? else { return Ok(()) };
        if self.milepost.abandon_if_empty(&self.run, &state)? {
            return Ok(());
        }
        // A task may have been opened since the newest checkpoint.
        let detail = self.milepost.detail_of(state);
        let status = end_status(detail.summary.intact());
        self.milepost.finish(&self.run, status, complete(save)?)?;
        Ok(())
    }
}
