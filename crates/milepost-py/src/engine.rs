//! The open store of a project: opens runs, lists, shows, searches, restores and verifies. Must not decide anything: the
//! library does, with the settings that the command line would use.

use std::path::PathBuf;
use std::sync::Arc;

use milepost::brief::{Brief, FitOptions, Overflow};
use milepost::internal::brief::BriefLimit;
use milepost::store::CheckpointEntry;
use milepost::{
    Error, ListQuery, MarkChange, Milepost, Reference, RestoreScope, RunsQuery, SearchQuery, VerifyScope,
    Worktree,
};
use milepost_cli::{Project, open_project};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::error::{OrRaise as _, open_exception};
use crate::gate::released;
use crate::handle::Handle;
use crate::results::checkpoint::{Checkpoint, CheckpointSummary, Damage, Message, Task};
use crate::results::files::{RestorePlanData, RestoreReport, UndoPoint};
use crate::results::run::RunSummary;
use crate::results::search::SearchResults;
use crate::results::store::{SyncReport, VerifyReport};
use crate::run::RunHandle;
use crate::text::{choice, optional_choice, reference, run_id, timestamp};
use crate::threads::{Threads, thread_key};

/// The open store of a project.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct Engine {
    project: Handle<Arc<Project>>,
}

impl Engine {
    /// Calls `work` with the project while the interpreter is released.
    fn released<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Project, &Milepost) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let project = self.project.get()?;
        released(py, move || work(&project, &project.milepost)).or_raise()
    }
}

#[pymethods]
impl Engine {
    /// Opens the store of the project that contains a folder.
    #[staticmethod]
    fn open(
        py: Python<'_>,
        folder: PathBuf,
        store: Option<String>,
        project: Option<String>,
    ) -> PyResult<Self> {
        let opened = released(py, || open_project(&folder, store, project));
        let project = opened.map_err(|e| open_exception(&e))?;
        Ok(Self { project: Handle::new("the store", Arc::new(project)) })
    }

    /// Fails in a process that a fork created.
    fn check_process(&self) -> PyResult<()> {
        self.project.check_process()
    }

    /// Closes the store. Runs that are open keep it open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.project.is_closed() {
            let project = self.project.take()?;
            released(py, || drop(project));
        }
        Ok(())
    }

    #[getter]
    fn root(&self) -> PyResult<PathBuf> {
        Ok(self.project.get()?.root.clone())
    }

    #[getter]
    fn store(&self) -> PyResult<String> {
        Ok(self.project.get()?.store.clone())
    }

    #[getter]
    fn untrusted(&self) -> PyResult<Option<String>> {
        Ok(self.project.get()?.untrusted.clone())
    }

    #[getter]
    fn messages(&self) -> PyResult<Vec<String>> {
        Ok(self.project.get()?.messages.clone())
    }

    /// Opens a run for this process.
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    #[pyo3(signature = (id, *, title, profile, plan, new_round, must_be_new, continues))]
    fn run(
        &self,
        py: Python<'_>,
        id: Option<&str>,
        title: Option<&str>,
        profile: Option<&str>,
        plan: Option<&str>,
        new_round: bool,
        must_be_new: bool,
        continues: Option<&str>,
    ) -> PyResult<RunHandle> {
        let project = self.project.get()?;
        let profile = optional_choice("profile", profile)?;
        let continues = continues.map(run_id).transpose()?;
        let mp = &project.milepost;
        let mut builder = id.map_or_else(|| mp.new_run(), |id| mp.run(id));
        builder = builder.run_options(project.run_options.clone());
        if let Some(profile) = profile {
            builder = builder.profile(profile);
        }
        if let Some(title) = title {
            builder = builder.title(title);
        }
        if let Some(plan) = plan {
            builder = builder.plan(plan);
        }
        if let Some(session) = &project.session {
            builder = builder.session(session.as_str());
        }
        if let Some(run) = &continues {
            builder = builder.continuing(run);
        }
        if new_round {
            builder = builder.new_round();
        }
        let run = released(py, || if must_be_new { builder.start() } else { builder.rejoin_or_start() });
        Ok(RunHandle::new(project, run.or_raise()?))
    }

    fn runs(&self, py: Python<'_>, status: Option<&str>, limit: usize) -> PyResult<Vec<RunSummary>> {
        let query = RunsQuery::default().status(optional_choice("status", status)?).limit(limit);
        let found = self.released(py, |_, mp| mp.runs(&query))?;
        Ok(found.iter().map(RunSummary::from).collect())
    }

    /// The runs that can be continued, best first.
    fn resumable_runs(&self, py: Python<'_>) -> PyResult<Vec<RunSummary>> {
        let found = self.released(py, |project, mp| {
            mp.offered_runs(Some(&project.worktree), |record| !record.is_foreign())
        })?;
        Ok(found.iter().map(RunSummary::from).collect())
    }

    fn dismiss(&self, py: Python<'_>, run: &str) -> PyResult<()> {
        self.released(py, |_, mp| mp.dismiss(&mp.find_run(run)?))
    }

    fn delete(&self, py: Python<'_>, run: &str) -> PyResult<u64> {
        self.released(py, |_, mp| mp.delete(&mp.find_run(run)?))
    }

    fn tasks(&self, py: Python<'_>, run: &str) -> PyResult<Vec<Task>> {
        self.released(py, |_, mp| {
            let detail = mp.run_detail(&mp.find_run(run)?)?;
            let record =
                detail.summary().record().clone().map_err(|damage| Error::Damaged(Box::new(damage)))?;
            Ok(record.working().tasks().iter().map(Task::from).collect())
        })
    }

    fn list_checkpoints(
        &self,
        py: Python<'_>,
        run: Option<&str>,
        limit: usize,
        status: Option<&str>,
        tag: Option<String>,
    ) -> PyResult<(Vec<CheckpointSummary>, Vec<Damage>)> {
        let query = ListQuery::default().limit(limit).status(optional_choice("status", status)?).tag(tag);
        let listed = self.released(py, |_, mp| {
            let run = run.map(|run| mp.find_run(run)).transpose()?;
            mp.list(&query.run(run))
        })?;
        let checkpoints = listed.checkpoints.iter().map(CheckpointSummary::from).collect();
        Ok((checkpoints, listed.damaged.iter().map(Damage::from).collect()))
    }

    fn show(&self, py: Python<'_>, name: &str, run: Option<&str>) -> PyResult<Checkpoint> {
        let reference = reference(name)?;
        self.released(py, |_, mp| {
            let run = run.map(|run| mp.find_run(run)).transpose()?;
            Checkpoint::of(&mp.show(&reference, run.as_ref())?)
        })
    }

    /// The text of the state as of a checkpoint.
    fn state_text(&self, py: Python<'_>, name: &str, run: Option<&str>) -> PyResult<String> {
        let reference = reference(name)?;
        self.released(py, |_, mp| {
            let run = run.map(|run| mp.find_run(run)).transpose()?;
            Ok(mp.state(&reference, run.as_ref())?.state().get().to_owned())
        })
    }

    fn conversation(&self, py: Python<'_>, run: &str) -> PyResult<Vec<Message>> {
        let said = self.released(py, |_, mp| mp.conversation(&mp.find_run(run)?))?;
        Ok(said.iter().map(Message::from).collect())
    }

    /// The brief of a run with what was recorded since its newest checkpoint, or of one checkpoint.
    fn brief(&self, py: Python<'_>, name: &str, budget: Option<u64>) -> PyResult<String> {
        let reference = reference(name)?;
        self.released(py, |project, mp| {
            let root = Some(project.root.as_path());
            let run = match &reference {
                Reference::Latest(0) => Some(mp.find(&reference, None)?.header.run_id().clone()),
                Reference::Name(name) => mp.find_run(name).ok(),
                _ => None,
            };
            let markdown = match run {
                Some(run) => {
                    let limit = BriefLimit { tokens: budget, ..BriefLimit::default() };
                    mp.current_brief(&mp.assess(&run, false)?, root, budget.map(|_| &limit))?
                }
                None => mp.brief(&reference, None, root)?.markdown,
            };
            let Some(budget) = budget else { return Ok(markdown) };
            let options = FitOptions::default().budget(budget).overflow(Overflow::Shrink);
            Ok(Brief::parse(markdown).fit(&options)?.markdown().to_owned())
        })
    }

    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    #[pyo3(signature = (text, *, kinds, run, agent, since, limit, prefix_last))]
    fn search(
        &self,
        py: Python<'_>,
        text: &str,
        kinds: Vec<String>,
        run: Option<&str>,
        agent: Option<String>,
        since: Option<f64>,
        limit: usize,
        prefix_last: bool,
    ) -> PyResult<SearchResults> {
        let kinds = kinds.iter().map(|kind| choice("kind", kind)).collect::<PyResult<Vec<_>>>()?;
        let query = SearchQuery::new(text)
            .kinds(kinds)
            .agent(agent)
            .since(since.map(timestamp).transpose()?)
            .limit(limit)
            .prefix_last(prefix_last);
        let found = self.released(py, |_, mp| {
            let run = run.map(|run| mp.find_run(run)).transpose()?;
            mp.search(&query.run(run))
        })?;
        Ok(SearchResults::from(&found))
    }

    /// Pins, unpins, tags or untags a checkpoint. Returns whether it is pinned, and its tags.
    fn mark(
        &self,
        py: Python<'_>,
        name: &str,
        pin: Option<bool>,
        tags: Vec<String>,
        untag: Vec<String>,
    ) -> PyResult<(bool, Vec<String>)> {
        let reference = reference(name)?;
        let change = MarkChange::default().pin(pin).tag(tags).untag(untag);
        let marks = self.released(py, |_, mp| {
            let entry: CheckpointEntry = mp.find(&reference, None)?;
            mp.mark(&entry, &change)
        })?;
        Ok((marks.pinned, marks.tags))
    }

    /// The threads of the store, for a saver.
    fn threads(&self, key: Option<PyBackedBytes>, keep_newest: Option<usize>) -> PyResult<Threads> {
        let mut threads = self.project.get()?.milepost.threads();
        if let Some(key) = key {
            threads = threads.with_key(thread_key(&key)?);
        }
        if let Some(keep_newest) = keep_newest {
            threads = threads.keep_newest(keep_newest);
        }
        Ok(Threads::new(threads))
    }

    fn verify(&self, py: Python<'_>, run: Option<&str>) -> PyResult<VerifyReport> {
        let report = self.released(py, |_, mp| {
            let scope = match run {
                Some(run) => VerifyScope::Run(mp.find_run(run)?),
                None => VerifyScope::Store,
            };
            mp.verify(&scope, &mut |_| {})
        })?;
        Ok(VerifyReport::from(&report))
    }

    fn plan_restore(&self, py: Python<'_>, name: &str, scope: Scope) -> PyResult<RestorePlanData> {
        let (reference, scope) = (reference(name)?, scope.parse()?);
        let plan =
            self.released(py, |project, mp| worktree(project, mp)?.plan_restore(&reference, None, &scope))?;
        Ok(RestorePlanData::from(&plan))
    }

    fn restore(
        &self,
        py: Python<'_>,
        name: &str,
        scope: Scope,
        token: Option<&str>,
    ) -> PyResult<RestoreReport> {
        let (reference, scope) = (reference(name)?, scope.parse()?);
        let report =
            self.released(py, |project, mp| worktree(project, mp)?.restore(&reference, None, &scope, token))?;
        Ok(RestoreReport::from(&report))
    }

    fn undo(&self, py: Python<'_>, id: Option<&str>, scope: Scope) -> PyResult<RestoreReport> {
        let scope = scope.parse()?;
        let report = self.released(py, |project, mp| worktree(project, mp)?.undo(id, &scope))?;
        Ok(RestoreReport::from(&report))
    }

    fn undo_points(&self, py: Python<'_>) -> PyResult<Vec<UndoPoint>> {
        let points = self.released(py, |project, mp| worktree(project, mp)?.undo_points())?;
        Ok(points.iter().map(UndoPoint::from).collect())
    }

    /// Sends what waits on this machine to the server of the store.
    fn sync(&self, py: Python<'_>) -> PyResult<SyncReport> {
        let report = self.released(py, |_, mp| mp.sync(None, &mut |_| {}))?;
        Ok(SyncReport::from(&report))
    }
}

/// Which files a restore may change.
#[derive(FromPyObject)]
struct Scope {
    #[pyo3(item)]
    paths: Vec<PathBuf>,
    #[pyo3(item)]
    all: bool,
    #[pyo3(item)]
    force: bool,
    #[pyo3(item)]
    current_run: Option<String>,
}

impl Scope {
    fn parse(self) -> PyResult<RestoreScope> {
        let run = self.current_run.as_deref().map(run_id).transpose()?;
        Ok(RestoreScope::default().paths(self.paths).all(self.all).force(self.force).current_run(run))
    }
}

/// The worktree of the project, with the configured limits on files.
fn worktree<'m>(project: &Project, mp: &'m Milepost) -> Result<Worktree<'m>, Error> {
    match &project.capture {
        Some(options) => mp.worktree_with(options.clone()),
        None => mp.worktree(&project.root),
    }
}
