//! What a save says: the id for people, the whole answer for programs.

use milepost::Saved;
use milepost::engine::outbox::Queued;
use milepost::model::{CheckpointId, RunId, Source, Status};
use serde::Serialize;

use super::{Screen, words};
use crate::failure::Failure;

/// The answer to a save.
#[derive(Debug, Serialize)]
struct SavedDocument<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pointer_error: Option<&'a str>,
}

/// Presents a checkpoint that was saved.
pub(crate) fn present(screen: &Screen, schema: &'static str, saved: &Saved) -> Result<(), Failure> {
    if let Some(why) = &saved.pointer_error {
        screen.talk(&format!("Warning: the checkpoint is saved, its pointer is not: {why}"));
    }
    if saved.coalesced {
        screen.talk(&format!("nothing changed: folded into {}@{}", saved.run_id, saved.sequence));
    } else {
        screen.detail(&format!("saved as {}@{}", saved.run_id, saved.sequence));
    }
    if !saved.pruned.is_empty() {
        let n = words::counted(saved.pruned.len() as u64, "old checkpoint");
        screen.detail(&format!("{n} removed, as the run's retention asks"));
    }
    if !screen.json {
        return screen.text(&format!("{}\n", saved.snapshot_id));
    }
    screen.document(&SavedDocument {
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
        pointer_error: saved.pointer_error.as_deref(),
    })
}

/// Presents a save that waits in the outbox.
pub(crate) fn queued(
    screen: &Screen,
    queued: &Queued,
    run: &RunId,
    source: Source,
    status: Status,
) -> Result<(), Failure> {
    screen.talk(&format!(
        "the store cannot be written: the checkpoint waits in {} for a command that can",
        queued.file.display()
    ));
    if !screen.json {
        return screen.text(&format!("{}\n", queued.snapshot_id));
    }
    screen.document(&SavedDocument {
        schema: "milepost.save/1",
        snapshot_id: Some(&queued.snapshot_id),
        run_id: Some(run),
        sequence: None,
        coalesced: false,
        source: Some(source),
        status: Some(status),
        file: Some(queued.file.display().to_string()),
        pruned: &[],
        due: true,
        queued: true,
        pointer_error: None,
    })
}

/// Presents that nothing was due.
pub(crate) fn not_due(screen: &Screen, run: &RunId) -> Result<(), Failure> {
    screen.detail(&format!("not due: the interval of {run} has not passed yet"));
    if !screen.json {
        return Ok(());
    }
    screen.document(&SavedDocument {
        schema: "milepost.save/1",
        snapshot_id: None,
        run_id: Some(run),
        sequence: None,
        coalesced: false,
        source: None,
        status: None,
        file: None,
        pruned: &[],
        due: false,
        queued: false,
        pointer_error: None,
    })
}
