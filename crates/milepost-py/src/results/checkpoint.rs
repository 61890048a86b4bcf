//! Checkpoints and what they contain.

use std::path::PathBuf;

use milepost::model::{self, Message as ModelMessage};
use milepost::store::{CheckpointEntry, Damage as StoreDamage};
use milepost::{Error, ListedCheckpoint, ShownCheckpoint};
use pyo3::prelude::*;

use super::{Time, optional_text, result, text};
use crate::json::decode_state;

result! {
    /// A checkpoint that was saved, or the one that the save was folded into.
    pub(crate) struct Saved shows reference, status, coalesced {
        /// The id of the checkpoint.
        id: String,
        run_id: String,
        sequence: u64,
        /// `RUN@N`.
        reference: String,
        /// Whether the save was folded into an earlier checkpoint without changes.
        coalesced: bool,
        source: String,
        status: String,
        /// Number of secrets that were replaced.
        replaced: u64,
        /// Ids of the checkpoints that retention removed.
        pruned: Vec<String>,
        /// The checkpoint's file, in stores that have one.
        file: Option<PathBuf>,
    }
}

impl From<&milepost::Saved> for Saved {
    fn from(saved: &milepost::Saved) -> Self {
        Self {
            id: text(saved.snapshot_id()),
            run_id: text(saved.run_id()),
            sequence: saved.sequence(),
            reference: format!("{}@{}", saved.run_id(), saved.sequence()),
            coalesced: saved.coalesced(),
            source: text(saved.source()),
            status: text(saved.status()),
            replaced: saved.replaced(),
            pruned: saved.pruned().iter().map(ToString::to_string).collect(),
            file: saved.file().clone(),
        }
    }
}

result! {
    /// A checkpoint in a list.
    pub(crate) struct CheckpointSummary shows reference, status, summary {
        id: String,
        run_id: String,
        sequence: u64,
        /// `RUN@N`.
        reference: String,
        created_at: Time,
        /// What triggered the save.
        source: String,
        status: String,
        /// The first 120 characters of the summary.
        summary: Option<String>,
        /// The checkpoint before it.
        parent: Option<String>,
        completed: bool,
        pinned: bool,
        tags: Vec<String>,
        has_state: bool,
    }
}

impl CheckpointSummary {
    fn of(entry: &CheckpointEntry, completed: bool) -> Self {
        let header = &entry.header;
        Self {
            id: text(header.snapshot_id()),
            run_id: text(header.run_id()),
            sequence: header.sequence(),
            reference: format!("{}@{}", header.run_id(), header.sequence()),
            created_at: Time(header.created_at()),
            source: text(header.source()),
            status: text(header.status()),
            summary: header.summary().clone(),
            parent: optional_text(header.parent().as_ref()),
            completed,
            pinned: entry.marks.pinned,
            tags: entry.marks.tags.clone(),
            has_state: header.holds_state(),
        }
    }
}

impl From<&ListedCheckpoint> for CheckpointSummary {
    fn from(listed: &ListedCheckpoint) -> Self {
        Self::of(listed.entry(), listed.completed())
    }
}

result! {
    /// A task of a run.
    pub(crate) struct Task shows id, status, title {
        id: String,
        status: String,
        title: Option<String>,
        is_done: bool,
    }
}

impl From<&model::Task> for Task {
    fn from(task: &model::Task) -> Self {
        Self {
            id: task.id().to_owned(),
            status: task.status().to_owned(),
            title: task.title(),
            is_done: task.is_completed(),
        }
    }
}

result! {
    /// A decision.
    pub(crate) struct Decision shows text {
        at: Time,
        text: String,
        /// The decision that this one replaces.
        supersedes: Option<String>,
    }
}

impl From<&model::Decision> for Decision {
    fn from(decision: &model::Decision) -> Self {
        Self { at: Time(decision.at), text: decision.text.clone(), supersedes: decision.supersedes.clone() }
    }
}

result! {
    /// Something that the user or the agent said.
    pub(crate) struct Message shows kind, text {
        /// `prompt`, `answer`, `plan` or `reply`.
        kind: &'static str,
        at: Time,
        text: String,
        /// The question that an answer belongs to.
        question: Option<String>,
        /// Whether the user approved a plan.
        is_approved: Option<bool>,
    }
}

impl From<&ModelMessage> for Message {
    fn from(message: &ModelMessage) -> Self {
        let (kind, question, is_approved) = match message {
            ModelMessage::Prompt { .. } => ("prompt", None, None),
            ModelMessage::Answer { question, .. } => ("answer", Some(question.clone()), None),
            ModelMessage::Plan { is_approved, .. } => ("plan", None, Some(*is_approved)),
            ModelMessage::Reply { .. } => ("reply", None, None),
            _ => ("other", None, None),
        };
        Self { kind, at: Time(message.at()), text: message.text().to_owned(), question, is_approved }
    }
}

result! {
    /// Damage to stored data.
    pub(crate) struct Damage shows reference, message {
        /// The checkpoint as `RUN@N`, or the run, if known.
        reference: Option<String>,
        message: String,
        reason: String,
    }
}

impl From<&StoreDamage> for Damage {
    fn from(damage: &StoreDamage) -> Self {
        let reference = damage.run_id().as_ref().map(|run| match damage.sequence() {
            Some(sequence) => format!("{run}@{sequence}"),
            None => run.to_string(),
        });
        Self { reference, message: text(damage), reason: text(damage.reason_code()) }
    }
}

/// A verified checkpoint.
#[pyclass(frozen, get_all, eq, module = "milepost")]
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    id: String,
    run_id: String,
    sequence: u64,
    /// `RUN@N`.
    reference: String,
    created_at: Time,
    source: String,
    status: String,
    summary: Option<String>,
    parent: Option<String>,
    completed: bool,
    pinned: bool,
    tags: Vec<String>,
    /// The checkpoint contains a state of its own.
    has_state: bool,
    tasks: Vec<Task>,
    decisions: Vec<Decision>,
    /// The lines of the log, oldest first.
    notes: Vec<String>,
    brief: Option<String>,
    /// The sealed document.
    document: String,
    /// The checksum of its seal.
    checksum: String,
    /// Newer checkpoints that were skipped because they are damaged.
    fell_back_from: Vec<Damage>,
    #[pyo3(name = "_state")]
    state_text: Option<String>,
}

#[pymethods]
impl Checkpoint {
    /// The state that the checkpoint contains; `None` if it contains none.
    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.state_text.as_deref().map(|text| decode_state(py, text)).transpose()
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        super::repr(slf.as_any(), "Checkpoint", &["reference", "status", "summary"])
    }
}

impl Checkpoint {
    pub(crate) fn of(shown: &ShownCheckpoint) -> Result<Self, Error> {
        let body = shown.body().map_err(|source| {
            let header = &shown.entry().header;
            Error::Newer { run: header.run_id().clone(), sequence: header.sequence(), source }
        })?;
        let short = CheckpointSummary::of(shown.entry(), shown.completed());
        Ok(Self {
            id: short.id,
            run_id: short.run_id,
            sequence: short.sequence,
            reference: short.reference,
            created_at: short.created_at,
            source: short.source,
            status: short.status,
            summary: body.task_summary.clone(),
            parent: short.parent,
            completed: short.completed,
            pinned: short.pinned,
            tags: short.tags,
            has_state: short.has_state,
            tasks: body.tasks.iter().map(Task::from).collect(),
            decisions: body.decisions.iter().map(Decision::from).collect(),
            notes: body.log.iter().map(|line| line.text.clone()).collect(),
            brief: body.brief.clone(),
            document: String::from_utf8_lossy(shown.bytes()).into_owned(),
            checksum: shown.checksum().to_owned(),
            fell_back_from: shown.fell_back_from().iter().map(Damage::from).collect(),
            state_text: short
                .has_state
                .then(|| body.state.as_ref().map(|raw| raw.get().to_owned()))
                .flatten(),
        })
    }
}
