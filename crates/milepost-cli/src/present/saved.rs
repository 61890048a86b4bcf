//! What a save says: the id for people, the whole answer for programs.

use milepost::Saved;
use milepost::internal::engine::QueuedSave;
use milepost::model::{CheckpointId, RunId, Source, Status};
use serde::Serialize;

use super::{Output, format};
use crate::context::Applied;
use crate::error::CommandError;

/// The answer to a save.
#[derive(Debug, Serialize)]
pub(super) struct SavedDocument<'a> {
    schema: &'static str,
    snapshot_id: Option<&'a CheckpointId>,
    run_id: Option<&'a RunId>,
    sequence: Option<u64>,
    coalesced: bool,
    source: Option<Source>,
    status: Option<Status>,
    file: Option<String>,
    pruned: &'a [CheckpointId],
    due: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    queued: bool,
    /// Whether it waits for somebody to accept it, because it could not be signed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unsigned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer_error: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    replaced: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl<'a> SavedDocument<'a> {
    pub(super) fn of(schema: &'static str, saved: &'a Saved) -> Self {
        Self {
            schema,
            snapshot_id: Some(&saved.snapshot_id),
            run_id: Some(&saved.run_id),
            sequence: Some(saved.sequence),
            coalesced: saved.coalesced,
            source: Some(saved.source),
            status: Some(saved.status),
            file: saved.file.as_ref().map(|path| path.display().to_string()),
            pruned: &saved.pruned,
            due: true,
            queued: false,
            unsigned: false,
            pointer_error: saved.pointer_error.as_deref(),
            replaced: saved.replaced,
        }
    }

    /// A checkpoint that waits in the outbox.
    pub(super) fn waiting(schema: &'static str, queued: &'a QueuedSave, run: &'a RunId) -> Self {
        Self {
            snapshot_id: Some(&queued.snapshot_id),
            file: Some(queued.file.display().to_string()),
            queued: true,
            unsigned: !queued.signed,
            ..Self::none(schema, run, true)
        }
    }

    /// No checkpoint: `due` says whether one was asked for.
    pub(super) fn none(schema: &'static str, run: &'a RunId, due: bool) -> Self {
        Self {
            schema,
            snapshot_id: None,
            run_id: Some(run),
            sequence: None,
            coalesced: false,
            source: None,
            status: None,
            file: None,
            pruned: &[],
            due,
            queued: false,
            unsigned: false,
            pointer_error: None,
            replaced: 0,
        }
    }
}

/// The answer to a change, with what changed beside the checkpoint it made, if it made one.
#[derive(Serialize)]
struct ChangedDocument<'a, T: Serialize> {
    #[serde(flatten)]
    saved: SavedDocument<'a>,
    #[serde(flatten)]
    what: T,
}

/// Which answer a change gets, and about what.
pub(crate) struct Changed<'a, T: Serialize> {
    pub(crate) schema: &'static str,
    pub(crate) applied: &'a Applied,
    /// What changed.
    pub(crate) what: T,
}

impl<T: Serialize> Changed<'_, T> {
    fn document(&self) -> ChangedDocument<'_, &T> {
        let Applied { run, saved, queued, .. } = self.applied;
        let saved = match (saved, queued) {
            (Some(saved), _) => SavedDocument::of(self.schema, saved),
            (None, Some(queued)) => SavedDocument::waiting(self.schema, queued, run),
            (None, None) => SavedDocument::none(self.schema, run, true),
        };
        ChangedDocument { saved, what: &self.what }
    }

    /// Presents the id of its checkpoint, if there is one; the whole for programs.
    pub(crate) fn present(&self, output: &Output) -> Result<(), CommandError> {
        let id = match (&self.applied.saved, &self.applied.queued) {
            (Some(saved), _) => {
                talk(output, saved);
                Some(&saved.snapshot_id)
            }
            (None, Some(queued)) => {
                talk_of_waiting(output, queued);
                Some(&queued.snapshot_id)
            }
            (None, None) => {
                output.record_change(format!("the change to run {} was recorded", self.applied.run));
                None
            }
        };
        match id {
            _ if output.json => output.document(&self.document()),
            Some(id) => output.text(&format!("{id}\n")),
            None => Ok(()),
        }
    }

    /// Presents it beside a command whose stdout is its own: one line of stderr, for programs alone.
    pub(crate) fn present_aside(&self, output: &Output) {
        if let Some(queued) = &self.applied.queued {
            talk_of_waiting(output, queued);
        }
        if output.json {
            output.line(&self.document());
        }
    }
}

fn talk_of_waiting(output: &Output, queued: &QueuedSave) {
    output.record_change(format!("checkpoint {} waits in the outbox", queued.snapshot_id));
    output.message(&format!(
        "the store cannot be written: the checkpoint waits in {} for a command that can",
        queued.file.display()
    ));
    if !queued.signed {
        output.message(
            "Warning: your key could not be read, so the checkpoint is not signed: it waits until \
             `milepost trust --outbox` accepts it",
        );
    }
}

/// Presents a checkpoint that was saved.
pub(crate) fn present(output: &Output, schema: &'static str, saved: &Saved) -> Result<(), CommandError> {
    talk(output, saved);
    if !output.json {
        return output.text(&format!("{}\n", saved.snapshot_id));
    }
    output.document(&SavedDocument::of(schema, saved))
}

/// What a person should know about it.
fn talk(output: &Output, saved: &Saved) {
    output.record_change(match saved.coalesced {
        true => format!("nothing changed, and the save was folded into checkpoint {}", saved.snapshot_id),
        false => format!("checkpoint {} was saved", saved.snapshot_id),
    });
    if let Some(why) = &saved.pointer_error {
        output.message(&format!("Warning: the checkpoint is saved, its pointer is not: {why}"));
    }
    if saved.replaced > 0 {
        let n = format::counted(saved.replaced, "secret");
        output.message(&format!("{n} replaced before anything was written; `milepost show` says where and how to allow a false positive"));
    }
    if saved.coalesced {
        output.message(&format!("nothing changed: folded into {}@{}", saved.run_id, saved.sequence));
    } else {
        output.detail(&format!("saved as {}@{}", saved.run_id, saved.sequence));
    }
    if !saved.pruned.is_empty() {
        let n = format::counted(saved.pruned.len() as u64, "old checkpoint");
        output.detail(&format!("{n} removed, as the run's retention asks"));
    }
}

/// Presents a save that waits in the outbox.
pub(crate) fn queued(
    output: &Output,
    queued: &QueuedSave,
    run: &RunId,
    source: Source,
    status: Status,
) -> Result<(), CommandError> {
    talk_of_waiting(output, queued);
    if !output.json {
        return output.text(&format!("{}\n", queued.snapshot_id));
    }
    output.document(&SavedDocument {
        source: Some(source),
        status: Some(status),
        ..SavedDocument::waiting("milepost.save/1", queued, run)
    })
}

/// Presents that nothing was due.
pub(crate) fn not_due(output: &Output, run: &RunId) -> Result<(), CommandError> {
    output.detail(&format!("not due: the interval of {run} has not passed yet"));
    if !output.json {
        return Ok(());
    }
    output.document(&SavedDocument::none("milepost.save/1", run, false))
}
