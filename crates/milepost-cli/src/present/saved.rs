//! The results of saves and other changes to a run. Text output is the id of the checkpoint, JSON has all
//! fields.

use milepost::Saved;
use milepost::internal::engine::QueuedSave;
use milepost::model::{CheckpointId, RunId, Source, Status};
use serde::Serialize;

use super::{Document, Note, Output, Stream, format};
use crate::context::Applied;
use crate::error::{CommandError, Result};
use crate::supervise::ProgramExit;

/// The result of a save.
#[derive(Debug, Serialize)]
pub(crate) struct SavedDocument {
    schema: &'static str,
    snapshot_id: Option<CheckpointId>,
    run_id: RunId,
    sequence: Option<u64>,
    coalesced: bool,
    source: Option<Source>,
    status: Option<Status>,
    file: Option<String>,
    pruned: Vec<CheckpointId>,
    due: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    queued: bool,
    /// Whether it could not be signed, so the user must accept it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unsigned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer_error: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    replaced: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl SavedDocument {
    /// The result of a checkpoint saved in the store.
    pub(crate) fn saved(schema: &'static str, saved: &Saved) -> Self {
        Self {
            snapshot_id: Some(saved.snapshot_id().clone()),
            sequence: Some(saved.sequence()),
            coalesced: saved.coalesced(),
            source: Some(saved.source()),
            status: Some(saved.status()),
            file: saved.file().as_ref().map(|path| path.display().to_string()),
            pruned: saved.pruned().clone(),
            pointer_error: saved.pointer_error().clone(),
            replaced: saved.replaced(),
            ..Self::none(schema, saved.run_id())
        }
    }

    /// The result of a checkpoint queued in the outbox.
    pub(crate) fn queued(schema: &'static str, queued: &QueuedSave, run: &RunId) -> Self {
        Self {
            snapshot_id: Some(queued.snapshot_id.clone()),
            file: Some(queued.file.display().to_string()),
            queued: true,
            unsigned: !queued.signed,
            ..Self::none(schema, run)
        }
    }

    /// Sets the source and the status.
    pub(crate) fn with_work(self, source: Source, status: Status) -> Self {
        Self { source: Some(source), status: Some(status), ..self }
    }

    /// Sets the status.
    pub(crate) fn with_status(self, status: Status) -> Self {
        Self { status: Some(status), ..self }
    }

    /// The result without a checkpoint.
    pub(crate) fn none(schema: &'static str, run: &RunId) -> Self {
        Self {
            schema,
            snapshot_id: None,
            run_id: run.clone(),
            sequence: None,
            coalesced: false,
            source: None,
            status: None,
            file: None,
            pruned: Vec::new(),
            due: true,
            queued: false,
            unsigned: false,
            pointer_error: None,
            replaced: 0,
        }
    }

    /// The result without a checkpoint, because the interval has not passed.
    pub(crate) fn not_due(schema: &'static str, run: &RunId) -> Self {
        Self { due: false, ..Self::none(schema, run) }
    }

    fn queued_notes(&self) -> Vec<Note> {
        let Some(file) = self.file.as_ref().filter(|_| self.queued) else { return Vec::new() };
        let waits = format!("The store cannot be written; the checkpoint waits in {file} until it can");
        let unsigned =
            "Warning: the checkpoint is unsigned: cannot read your key; run `milepost trust --outbox`";
        let unsigned = self.unsigned.then(|| Note::Message(unsigned.to_owned()));
        std::iter::once(Note::Message(waits)).chain(unsigned).collect()
    }
}

impl Document for SavedDocument {
    fn render(&self, output: &Output) -> Result<()> {
        self.snapshot_id.as_ref().map_or(Ok(()), |id| output.write_text(&format!("{id}\n")))
    }

    fn notes(&self) -> Vec<Note> {
        if self.queued {
            return self.queued_notes();
        }
        if !self.due {
            let line = format!("Not due: the interval of {} has not passed yet", self.run_id);
            return vec![Note::Detail(line)];
        }
        let Some(sequence) = self.sequence else { return Vec::new() };
        let mut notes = Vec::new();
        if let Some(why) = &self.pointer_error {
            let line = format!("Warning: the checkpoint was saved, but the pointer was not updated: {why}");
            notes.push(Note::Message(line));
        }
        if self.replaced > 0 {
            let n = format::counted(self.replaced, "secret");
            notes.push(Note::Message(format!("{n} redacted before saving; run `milepost show` for details")));
        }
        let at = format!("{}@{sequence}", self.run_id);
        notes.push(match self.coalesced {
            true => Note::Message(format!("Nothing changed; folded into {at}")),
            false => Note::Detail(format!("Saved as {at}")),
        });
        if !self.pruned.is_empty() {
            let n = format::counted(self.pruned.len() as u64, "old checkpoint");
            notes.push(Note::Detail(format!("{n} removed by retention")));
        }
        notes
    }

    fn change(&self) -> Option<String> {
        let id = self.snapshot_id.as_ref()?;
        Some(match (self.queued, self.coalesced) {
            (true, _) => format!("checkpoint {id} waits in the outbox"),
            (_, true) => format!("nothing changed, so the save was folded into checkpoint {id}"),
            _ => format!("checkpoint {id} was saved"),
        })
    }
}

/// A change to a run, with its checkpoint if it saved one.
#[derive(Debug, Serialize)]
pub(crate) struct ChangeDocument<T: Serialize> {
    #[serde(flatten)]
    saved: SavedDocument,
    /// The fields of the change.
    #[serde(flatten)]
    fields: T,
    /// How the program that the command ran ended. Stdout and the exit code belong to that program.
    #[serde(skip)]
    program: Option<ProgramExit>,
}

/// The result of a command that changes a run.
pub(crate) type ChangeResult<T> = Result<ChangeDocument<T>>;

impl<T: Serialize> ChangeDocument<T> {
    pub(crate) fn new(schema: &'static str, applied: &Applied, fields: T) -> Self {
        let Applied { run, saved, queued, .. } = applied;
        let saved = match (saved, queued) {
            (Some(saved), _) => SavedDocument::saved(schema, saved),
            (None, Some(queued)) => SavedDocument::queued(schema, queued, run),
            (None, None) => SavedDocument::none(schema, run),
        };
        Self { saved, fields, program: None }
    }

    /// Sets how the program ended.
    pub(crate) fn with_program_exit(self, ending: ProgramExit) -> Self {
        Self { program: Some(ending), ..self }
    }
}

impl<T: Serialize> Document for ChangeDocument<T> {
    fn render(&self, output: &Output) -> Result<()> {
        if self.program.is_some() { Ok(()) } else { self.saved.render(output) }
    }

    fn notes(&self) -> Vec<Note> {
        if self.program.is_some() { self.saved.queued_notes() } else { self.saved.notes() }
    }

    fn change(&self) -> Option<String> {
        let recorded = || format!("the change to run {} was recorded", self.saved.run_id);
        Some(self.saved.change().unwrap_or_else(recorded))
    }

    fn error(&self) -> Option<CommandError> {
        self.program.and_then(|ending| ending.pass_through().err())
    }

    fn stream(&self) -> Stream {
        if self.program.is_some() { Stream::Stderr } else { Stream::Stdout }
    }
}
