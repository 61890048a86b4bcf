//! A run that this process works on, and its tasks. Adds to the library's handle what a Python program expects: the
//! state that was set last is the one that is read.

use std::sync::{Arc, Mutex, PoisonError};

use milepost::internal::model::RawObject;
use milepost::model::{
    Change, CriterionStatus, Interruption, InterruptionKind, Outcome, OutcomeKind, OutcomeResult, RawJson,
    StepChange, StepStatus, TaskChange,
};
use milepost::{Error, Run, Save, Status, TaskGuard};
use milepost_cli::Project;
use pyo3::prelude::*;

use crate::error::{OrRaise as _, invalid};
use crate::gate::released;
use crate::handle::Handle;
use crate::json::raw;
use crate::results::checkpoint::{Saved, Task};
use crate::text::{choice, optional_choice, seconds};
use crate::timer::{TimerHandle, TimerOptions};

/// Maximum number of bytes of a command's output that an outcome keeps.
const SUMMARY: usize = 2000;
/// Number of bytes of it to search for secrets. More than is kept, because a part of a secret is not recognised.
const SEARCHED: usize = 64 * 1024;

/// The text of the state that this handle set last.
pub(crate) type LastState = Arc<Mutex<Option<String>>>;

/// A run that this process works on.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct RunHandle {
    run: Handle<Run>,
    project: Arc<Project>,
    state: LastState,
    #[pyo3(get)]
    id: String,
    #[pyo3(get)]
    rejoined: bool,
}

impl RunHandle {
    pub(crate) fn new(project: Arc<Project>, run: Run) -> Self {
        let (id, rejoined) = (run.id().to_string(), run.rejoined());
        Self { run: Handle::new("the run", run), project, state: LastState::default(), id, rejoined }
    }

    /// Calls `work` with the run while the interpreter is released.
    fn released<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Run) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let run = self.run.get()?;
        released(py, move || work(&run)).or_raise()
    }

    fn change(&self, py: Python<'_>, change: Change) -> PyResult<Option<Saved>> {
        let saved = self.released(py, |run| run.change(change))?;
        Ok(saved.as_ref().map(Saved::from))
    }
}

/// Sets the state of a run, which its next checkpoint contains.
fn put(run: &Run, last: &LastState, state: &RawJson) -> Result<(), Error> {
    run.put(state)?;
    *last.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.get().to_owned());
    Ok(())
}

/// The content of a checkpoint, as Python passes it.
#[derive(FromPyObject)]
struct Content {
    #[pyo3(item)]
    summary: Option<String>,
    #[pyo3(item)]
    state: Option<String>,
    #[pyo3(item)]
    tags: Vec<String>,
    #[pyo3(item)]
    pin: bool,
    #[pyo3(item)]
    reason: Option<String>,
}

impl Content {
    /// The save, and the state that it contains.
    fn parse(self) -> PyResult<(Save, Option<RawJson>)> {
        let mut save = self.tags.into_iter().fold(Save::new().pin(self.pin), Save::tag);
        if let Some(summary) = self.summary {
            save = save.summary(summary);
        }
        if let Some(reason) = self.reason {
            save = save.reason(reason);
        }
        let state = self.state.as_deref().map(raw).transpose()?;
        if let Some(state) = &state {
            save = save.state_text(state.get()).or_raise()?;
        }
        Ok((save, state))
    }
}

#[pymethods]
impl RunHandle {
    #[getter]
    fn is_closed(&self) -> bool {
        self.run.is_closed()
    }

    /// Fails in a process that a fork created.
    fn check_process(&self) -> PyResult<()> {
        self.run.check_process()
    }

    /// Releases the run without ending it. Timers of the run must be stopped before.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if !self.run.is_closed() {
            let run = self.run.take()?;
            released(py, || drop(run));
        }
        Ok(())
    }

    /// Closes the inherited file of the lock in a process that a fork created, so that the lock ends with the parent.
    fn leave_to_parent(&self) {
        if self.run.is_forked()
            && let Some(run) = self.run.try_take()
        {
            // The store stays open: closing it would release locks of the parent.
            std::mem::forget(run.milepost().clone());
            drop(run);
        }
    }

    /// The text of the newest state.
    fn state_text(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.run.check_process()?;
        let last = self.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if last.is_some() {
            return Ok(last);
        }
        let state: Option<RawJson> = self.released(py, Run::state)?;
        Ok(state.map(|raw| raw.get().to_owned()))
    }

    /// Sets the state that the next checkpoint contains. Writes nothing.
    fn put(&self, text: &str) -> PyResult<()> {
        let run = self.run.get()?;
        let state = raw(text)?;
        put(&run, &self.state, &state).or_raise()
    }

    fn save(&self, py: Python<'_>, content: Content) -> PyResult<Saved> {
        let (save, state) = content.parse()?;
        let saved = self.released(py, |run| {
            let saved = run.save(save)?;
            state.map_or(Ok(()), |state| put(run, &self.state, &state))?;
            Ok(saved)
        })?;
        Ok(Saved::from(&saved))
    }

    /// Saves a checkpoint with the files of the worktree.
    fn snapshot(&self, py: Python<'_>, content: Content) -> PyResult<Saved> {
        let (save, state) = content.parse()?;
        let saved = self.released(py, |run| {
            let mp = run.milepost();
            let saved = match self.project.capture.as_ref().filter(|options| options.files.is_some()) {
                Some(options) => run.save(save.capture(Box::new(mp.capture_workspace(run.id(), options)?))),
                None => run.snapshot(save),
            }?;
            state.map_or(Ok(()), |state| put(run, &self.state, &state))?;
            Ok(saved)
        })?;
        Ok(Saved::from(&saved))
    }

    /// Saves a checkpoint after an error that does not end the work.
    fn save_after_error(&self, py: Python<'_>, why: &str) -> PyResult<Saved> {
        Ok(Saved::from(&self.released(py, |run| run.save_after_error(why))?))
    }

    /// Ends the run. `failure` is why it failed, `interrupted` that the user stopped it.
    fn finish(
        &self,
        py: Python<'_>,
        status: &str,
        content: Content,
        failure: Option<String>,
        interrupted: Option<String>,
    ) -> PyResult<Saved> {
        let status: Status = choice("status", status)?;
        let (mut save, state) = content.parse()?;
        let saved = self.released(py, |run| {
            let allow = &self.project.allow;
            let shown = |text: String| {
                let clean = allow.redact_text(&text).unwrap_or(text);
                clean.get(..clean.floor_char_boundary(1024)).unwrap_or_default().to_owned()
            };
            let noted = match (failure, interrupted) {
                (Some(why), _) => Some((InterruptionKind::ToolFailure, shown(why))),
                (_, Some(why)) => Some((InterruptionKind::Interrupted, shown(why))),
                _ => None,
            };
            if let Some((class, detail)) = noted {
                let at = run.milepost().now();
                save = save.change(Change::Note(format!("{class}: {detail}")));
                save = save.interruption(Some(Interruption { class, at, detail: Some(detail) }));
            }
            let saved = run.finish_with(status, save)?;
            state.map_or(Ok(()), |state| put(run, &self.state, &state))?;
            Ok(saved)
        })?;
        Ok(Saved::from(&saved))
    }

    fn is_done(&self, py: Python<'_>, task: &str) -> PyResult<bool> {
        // The library answers in a forked process too, from memory.
        self.released(py, |run| Ok(run.is_done(task)))
    }

    fn tasks(&self, py: Python<'_>) -> PyResult<Vec<Task>> {
        Ok(self.released(py, Run::tasks)?.iter().map(Task::from).collect())
    }

    fn begin_task(&self, py: Python<'_>, task: &str) -> PyResult<TaskHandle> {
        let guard = self.released(py, |run| run.begin_task(task))?;
        Ok(TaskHandle {
            guard: Handle::new("the task", guard),
            state: self.state.clone(),
            id: task.to_owned(),
        })
    }

    fn set_task(
        &self,
        py: Python<'_>,
        task: &str,
        status: &str,
        title: Option<String>,
    ) -> PyResult<Option<Saved>> {
        let status = choice("status", status)?;
        self.change(py, Change::Task(TaskChange { title, ..TaskChange::new(task, status) }))
    }

    fn step(&self, py: Python<'_>, id: &str, status: &str, title: Option<String>) -> PyResult<Option<Saved>> {
        let status: StepStatus = choice("status", status)?;
        self.change(py, Change::Step(StepChange { title, ..StepChange::new(id, status) }))
    }

    fn criterion(&self, py: Python<'_>, id: &str, status: &str, subject: &str) -> PyResult<()> {
        let status: CriterionStatus = choice("status", status)?;
        self.released(py, |run| run.criterion(id, status, subject))
    }

    fn phase(&self, py: Python<'_>, number: u64, name: &str) -> PyResult<()> {
        self.released(py, |run| run.phase(number, name))
    }

    fn note(&self, py: Python<'_>, text: String) -> PyResult<()> {
        self.released(py, |run| run.note(text))
    }

    fn decide(&self, py: Python<'_>, text: String, instead_of: Option<String>) -> PyResult<()> {
        self.change(py, Change::Decision { text, supersedes: instead_of }).map(|_| ())
    }

    fn prompt(&self, py: Python<'_>, text: String) -> PyResult<()> {
        self.change(py, Change::Prompt(text)).map(|_| ())
    }

    fn answer(&self, py: Python<'_>, question: String, text: String) -> PyResult<()> {
        self.change(py, Change::Answer { question, text }).map(|_| ())
    }

    fn plan(&self, py: Python<'_>, text: String, is_approved: bool) -> PyResult<()> {
        self.change(py, Change::Plan { text, is_approved }).map(|_| ())
    }

    fn reply(&self, py: Python<'_>, text: String) -> PyResult<()> {
        self.change(py, Change::Reply(text)).map(|_| ())
    }

    /// Records the outcome of a command.
    #[allow(clippy::too_many_arguments, reason = "keyword arguments in Python")]
    #[pyo3(signature = (command, *, exit_code, result, output, duration, kind, reason))]
    fn record(
        &self,
        py: Python<'_>,
        command: String,
        exit_code: Option<i64>,
        result: Option<&str>,
        output: &str,
        duration: f64,
        kind: &str,
        reason: Option<String>,
    ) -> PyResult<()> {
        let given: Option<OutcomeResult> = optional_choice("result", result)?;
        let kind: OutcomeKind = choice("kind", kind)?;
        let result = match (given, exit_code) {
            (Some(result), _) => result,
            (None, Some(0)) => OutcomeResult::Pass,
            (None, Some(_)) => OutcomeResult::Fail,
            (None, None) => return Err(invalid("record needs exit_code or result")),
        };
        let failed = exit_code.filter(|code| *code != 0).map(|code| match code {
            ..0 => format!("signal_{}", code.unsigned_abs()),
            code => format!("exit_{code}"),
        });
        let duration = seconds("duration", duration)?;
        let output = output.get(output.ceil_char_boundary(output.len().saturating_sub(SEARCHED))..);
        let output = output.unwrap_or_default().to_owned();
        self.released(py, |run| {
            run.outcome(Outcome {
                duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
                kind,
                name: command,
                reason_code: reason.or(failed),
                result,
                summary: end_of(&output, &self.project),
                extra: RawObject::default(),
            })
        })
    }

    /// A timer that saves the state at an interval.
    fn autosave(&self, options: TimerOptions) -> PyResult<TimerHandle> {
        let run = self.run.get()?;
        let interval = seconds("interval", options.interval)?;
        TimerHandle::start(run.autosave(interval), interval, options, self.state.clone())
    }

    /// A timer that records that the work is in progress.
    fn heartbeat(&self, options: TimerOptions) -> PyResult<TimerHandle> {
        let run = self.run.get()?;
        let interval = seconds("interval", options.interval)?;
        TimerHandle::start(run.heartbeat(interval), interval, options, self.state.clone())
    }
}

/// The end of a command's output, without secrets.
fn end_of(output: &str, project: &Project) -> String {
    let clean = project.allow.redact_text(output);
    let text = clean.as_deref().unwrap_or(output).trim_end();
    text.get(text.ceil_char_boundary(text.len().saturating_sub(SUMMARY))..).unwrap_or_default().to_owned()
}

/// A task in progress. If it is dropped before it ends, it counts as interrupted.
#[pyclass(frozen, module = "milepost._milepost")]
pub(crate) struct TaskHandle {
    guard: Handle<TaskGuard>,
    state: LastState,
    #[pyo3(get)]
    id: String,
}

#[pymethods]
impl TaskHandle {
    #[getter]
    fn has_ended(&self) -> bool {
        self.guard.is_closed()
    }

    fn complete(&self, py: Python<'_>, state: Option<&str>) -> PyResult<Saved> {
        let state = state.map(raw).transpose()?;
        let guard = self.guard.take()?;
        let saved = released(py, || match &state {
            Some(state) => guard.complete_with(state),
            None => guard.complete(),
        });
        let saved = saved.or_raise()?;
        if let Some(state) = state {
            *self.state.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.get().to_owned());
        }
        Ok(Saved::from(&saved))
    }

    fn fail(&self, py: Python<'_>, why: &str) -> PyResult<Saved> {
        let guard = self.guard.take()?;
        Ok(Saved::from(&released(py, || guard.fail(why)).or_raise()?))
    }

    fn skip(&self, py: Python<'_>) -> PyResult<Saved> {
        let guard = self.guard.take()?;
        Ok(Saved::from(&released(py, || guard.skip()).or_raise()?))
    }

    /// Marks the task as interrupted; it starts over the next time.
    fn interrupt(&self, py: Python<'_>) -> PyResult<()> {
        let guard = self.guard.take()?;
        released(py, || drop(guard));
        Ok(())
    }
}
