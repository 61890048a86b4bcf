//! Decides which runs a command may show. An agent is never shown runs that came from elsewhere (an import,
//! a bundle or a copy), whether it uses a hook, the MCP server or a shell. Every command that lists or names
//! runs must check here.

use milepost::internal::engine::RunResolution;
use milepost::model::{RunId, RunRecord};
use milepost::{Error, Files, Milepost, ReasonCode, Reference, RunSummary, RunsQuery, Worktree};

use super::Context;
use crate::config::agent_variable;
use crate::error::{CommandError, Result};
use crate::present::format::counted;

impl Context<'_> {
    /// Whether the output goes to an agent: through a hook, the MCP server, or a shell that an agent started.
    pub(crate) fn is_for_agent(&self) -> bool {
        !self.audience.is_person() || agent_variable().is_some()
    }

    /// Whether a run with this record may be shown. Without a record, the run's origin is unknown.
    pub(crate) fn may_show(&self, record: Option<&RunRecord>) -> bool {
        !self.is_for_agent() || record.is_some_and(|record| !record.is_foreign())
    }

    /// The runs to omit from every listing. Reports how many there are, without any of their text.
    pub(crate) fn hidden_runs(&self, mp: &Milepost) -> Result<Vec<RunId>, Error> {
        if !self.is_for_agent() {
            return Ok(Vec::new());
        }
        let is_hidden = |run: &RunSummary| !self.may_show(run.intact());
        let hidden: Vec<RunSummary> = mp.runs(&RunsQuery::default())?.into_iter().filter(is_hidden).collect();
        if !hidden.is_empty() && !self.noted_hidden.replace(true) {
            let damaged = hidden.iter().filter(|run| run.intact().is_none()).count();
            self.note_hidden_runs(hidden.len() - damaged, "that came from elsewhere");
            self.note_hidden_runs(damaged, "with a damaged record");
        }
        Ok(hidden.into_iter().map(|run| run.run_id().clone()).collect())
    }

    fn note_hidden_runs(&self, n: usize, which: &str) {
        if n > 0 {
            let runs = counted(n as u64, "run");
            let are = if n == 1 { "is" } else { "are" };
            self.output.message(&format!(
                "{runs} {which} {are} not shown to agents; the user can see all runs in a terminal outside the agent"
            ));
        }
    }

    /// Refuses to show a hidden run. Accepts a run that does not exist, because the caller reports that.
    pub(crate) fn ensure_visible(&self, mp: &Milepost, run: &RunId) -> Result<()> {
        if !self.is_for_agent() {
            return Ok(());
        }
        let Some(state) = mp.store().run(run)? else { return Ok(()) };
        let record = state.row.record.as_deref().ok();
        if self.may_show(record) {
            return Ok(());
        }
        let why = match record {
            Some(_) => "came from elsewhere and is not shown to agents",
            None => "has a damaged record, so its origin is unknown and it is not shown to agents",
        };
        Err(CommandError::new(ReasonCode::ConfirmationNeeded, format!("run {run} {why}"))
            .with_hint("the user can view it in a terminal outside the agent"))
    }

    /// Refuses a reference to a checkpoint of a hidden run, before anything is read from the checkpoint.
    pub(crate) fn ensure_visible_reference(
        &self,
        mp: &Milepost,
        reference: &Reference,
        run: Option<&RunId>,
    ) -> Result<()> {
        if !self.is_for_agent() || matches!(reference, Reference::Prompt(_)) {
            return Ok(());
        }
        self.ensure_visible(mp, mp.find(reference, run)?.header.run_id())
    }

    /// The run with this id, or the unique start of its id or short id. It must exist, and may be shown.
    pub(crate) fn visible_run(&self, mp: &Milepost, name: &RunId) -> Result<RunId> {
        let run = mp.find_run(name.as_str())?;
        self.ensure_visible(mp, &run)?;
        Ok(run)
    }

    /// The run that --run or the environment names, by the same rules.
    pub(crate) fn visible_named_run(&self, mp: &Milepost) -> Result<Option<RunId>> {
        self.config.run.as_ref().map(|run| self.visible_run(mp, run)).transpose()
    }

    /// The files that a reference names. `prompt` belongs to the current run, or else to the latest one.
    pub(crate) fn visible_files<'m>(
        &self,
        mp: &'m Milepost,
        worktree: &Worktree<'m>,
        reference: &Reference,
    ) -> Result<Files<'m>> {
        let run = self.run_of_files(mp, reference)?;
        let files = worktree.files(reference, run.as_ref())?;
        if let Some(run) = files.run_id() {
            self.ensure_visible(mp, run)?;
        }
        Ok(files)
    }

    /// The run in which to resolve a reference to files, which may be shown.
    pub(crate) fn run_of_files(&self, mp: &Milepost, reference: &Reference) -> Result<Option<RunId>> {
        if let (Reference::Prompt(_), None, RunResolution::Run(current)) =
            (reference, &self.config.run, self.current_run(mp)?)
        {
            self.ensure_visible(mp, &current)?;
            return Ok(Some(current));
        }
        let run = self.run_of_reference(mp, reference)?;
        self.ensure_visible_reference(mp, reference, run.as_ref())?;
        Ok(run)
    }

    /// The worktree whose files are shown, compared or restored.
    pub(crate) fn open_worktree<'m>(&self, mp: &'m Milepost) -> Result<Worktree<'m>> {
        Ok(match self.capture_options() {
            Some(options) => mp.worktree_with(options)?,
            None => mp.worktree(&self.config.paths.root)?,
        })
    }

    /// The run in which to resolve a reference. If an agent names no run, `latest` skips hidden runs.
    pub(crate) fn run_of_reference(&self, mp: &Milepost, reference: &Reference) -> Result<Option<RunId>> {
        let named = self.visible_named_run(mp)?;
        if named.is_some() || !matches!(reference, Reference::Latest(_) | Reference::Prompt(_)) {
            return Ok(named);
        }
        let hidden = self.hidden_runs(mp)?;
        if hidden.is_empty() {
            return Ok(None);
        }
        let runs = mp.runs(&RunsQuery::default())?;
        let own = runs.iter().find(|run| run.checkpoints() > 0 && !hidden.contains(run.run_id()));
        match own {
            Some(run) => Ok(Some(run.run_id().clone())),
            None => Err(Error::NotFound { reference: "latest".to_owned() }.into()),
        }
    }
}
