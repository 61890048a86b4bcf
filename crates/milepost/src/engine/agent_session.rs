//! The run of an agent's session: which interrupted runs it is offered, when it saves checkpoints, and how
//! it ends. Takes what the agent's hooks report and changes the run. The decisions are pure functions in
//! `resume::session`.

use super::{Due, Milepost, Save};
use crate::Error;
use crate::capture::WorkspaceCapture;
use crate::model::{
    Change, Interruption, InterruptionKind, Item, RestorePoint, RunId, RunRecord, Source, Status,
};
use crate::resume::rank::ResumeRank;
use crate::resume::session::{InterruptionStep, SessionOffer, end_status, interruption_step, offer};

/// Maximum length of the prompt in a restore point, in characters.
const PROMPT_CHARS: usize = 120;

/// The run of an agent's session, which may not exist yet.
#[derive(Debug)]
pub struct AgentSession<'m> {
    milepost: &'m Milepost,
    run: RunId,
}

/// Interrupted runs of the project.
#[derive(Debug, Clone, Default)]
pub struct InterruptedRuns {
    /// Runs of this worktree and branch that stopped recently.
    same_worktree: Vec<RunId>,
    all: Vec<(ResumeRank, RunRecord)>,
}

impl InterruptedRuns {
    /// The run to continue without asking the user; `None` if there is no candidate or more than one.
    pub fn sole_candidate(&self) -> Option<&RunId> {
        match &self.same_worktree[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// All runs that may be continued, in the order in which they are offered.
    pub fn all(&self) -> impl ExactSizeIterator<Item = &RunRecord> {
        self.all.iter().map(|(_, record)| record)
    }
}

impl<'m> AgentSession<'m> {
    /// Creates a handle for a session's run.
    pub fn new(milepost: &'m Milepost, run: RunId) -> Self {
        Self { milepost, run }
    }

    /// Whether the run exists.
    pub fn exists(&self) -> Result<bool, Error> {
        Ok(self.milepost.store.run(&self.run)?.is_some())
    }

    /// Whether the run has a checkpoint or continues another one. In both cases it was already offered the
    /// interrupted runs.
    pub fn has_begun(&self) -> Result<bool, Error> {
        let Some(state) = self.milepost.store.run(&self.run)? else { return Ok(false) };
        let continues = state.row.record.as_ref().is_ok_and(|record| record.parent.is_some());
        Ok(state.row.count > 0 || continues)
    }

    /// Finds the project's other interrupted runs for a session in a worktree and on a branch. Removes the
    /// ones in which nothing happened. Ignores runs that `may_show` rejects.
    pub fn interrupted_runs(
        &self,
        worktree: &str,
        branch: Option<&str>,
        may_show: impl Fn(&RunRecord) -> bool,
    ) -> Result<InterruptedRuns, Error> {
        let mut found = InterruptedRuns::default();
        let mut older = Vec::new();
        let now = self.milepost.now();
        let host = crate::owner::host_name();
        for candidate in self.milepost.candidates()? {
            let Ok(record) = candidate.summary.record else { continue };
            if record.run_id == self.run || !may_show(&record) {
                continue;
            }
            let location = (worktree, branch, host.as_deref());
            match offer(&record, candidate.summary.checkpoints, &candidate.decision, location, now) {
                SessionOffer::Ignore => continue,
                SessionOffer::Remove => {
                    self.milepost.abandon(&record.run_id)?;
                    continue;
                }
                SessionOffer::List => {}
                SessionOffer::Continue => found.same_worktree.push(record.run_id.clone()),
                SessionOffer::ContinueIfNoneNewer => older.push(record.run_id.clone()),
            }
            let rank = ResumeRank::of(&record, &candidate.decision, (Some(worktree), host.as_deref()), now);
            found.all.push((rank, *record));
        }
        if found.same_worktree.is_empty() {
            found.same_worktree = older;
        }
        found.all.sort_by_key(|(rank, _)| *rank);
        Ok(found)
    }

    /// Records changes with the capture that was taken after them, if there is one, and saves a checkpoint if
    /// one is due. `complete` adds what a timer checkpoint needs without a capture; the first checkpoint is
    /// saved without it. Before a prompt is recorded, the files become a restore point.
    pub fn record(
        &self,
        mut changes: Vec<Change>,
        mut save: Save,
        capture: Option<Box<WorkspaceCapture>>,
        complete: impl FnOnce(Save) -> Result<Save, Error>,
    ) -> Result<(), Error> {
        let snapshot = capture.as_ref().and_then(|capture| capture.snapshot.as_ref());
        let prompt = changes.iter().find_map(|change| match change {
            Change::Prompt(text) => Some(text),
            _ => None,
        });
        if let (Some(taken), Some(prompt)) = (snapshot, prompt) {
            let line = prompt.lines().find(|line| !line.trim().is_empty());
            let point = RestorePoint {
                at: self.milepost.now(),
                manifest: taken.manifest,
                prompt: line.map(|line| line.trim().chars().take(PROMPT_CHARS).collect()),
                extra: Default::default(),
            };
            changes.push(Change::Item(Item::RestorePoint(point)));
        }
        match self.milepost.record_changes(&self.run, &changes, &save.run_options, snapshot)? {
            // The first recorded change makes a session worth resuming.
            Due::First => {
                self.milepost.save(&self.run, save.reason("session_start").capture(capture))?;
            }
            Due::Yes => {
                save.draft.source = Some(Source::Timer);
                let save = if capture.is_some() { save.capture(capture) } else { complete(save)? };
                self.milepost.save(&self.run, save)?;
            }
            Due::No => {}
        }
        Ok(())
    }

    /// Records why the session was interrupted and what the agent said last, and saves a checkpoint if the
    /// interruption calls for one.
    pub fn interrupt(
        &self,
        kind: InterruptionKind,
        detail: Option<String>,
        said: &[Change],
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
                if kind == InterruptionKind::WaitingForUser {
                    save = save.reason("turn_end");
                } else {
                    save.draft.source = Some(Source::ErrorBoundary);
                }
                save.interruption = Some(interruption);
                self.milepost.save(&self.run, complete(save.with_changes(said.to_vec()))?).map(|_| ())
            }
            InterruptionStep::Nothing if said.is_empty() => Ok(()),
            InterruptionStep::Record | InterruptionStep::Nothing => {
                // The files at the end of a turn are the run's own, whoever changes them next.
                let capture = complete(save)?.capture;
                let snapshot = capture.as_ref().and_then(|capture| capture.snapshot.as_ref());
                self.milepost.interrupt(&self.run, &interruption, said, snapshot)
            }
        }
    }

    /// Ends the session. Removes the run if nothing happened in it, and pauses it if work is still open.
    pub fn end(&self, save: Save, complete: impl FnOnce(Save) -> Result<Save, Error>) -> Result<(), Error> {
        let Some(state) = self.milepost.store.run(&self.run)? else { return Ok(()) };
        if self.milepost.abandon_if_empty(&self.run, &state)? {
            return Ok(());
        }
        // A task may have been opened since the newest checkpoint, so the pending items count as well.
        let detail = self.milepost.detail_of(state);
        let mut save = complete(save)?;
        let git = save.capture.as_ref().map(|capture| &capture.git);
        let uncommitted: Vec<_> = git
            .map(|git| git.modified.iter().chain(&git.staged).chain(&git.untracked).cloned().collect())
            .unwrap_or_default();
        let newest = self.milepost.messages_of(&self.run)?.pop();
        let status = match detail.summary.intact() {
            Some(record) => end_status(record, newest.as_ref(), &uncommitted),
            None => Status::Paused,
        };
        // The process may go on with another session.
        save.releases_owner = true;
        self.milepost.finish(&self.run, status, save)?;
        Ok(())
    }
}
