//! Writes the sealed documents of a bundle or a JSONL file into the store. A conflict with the store stops
//! a bundle; in a JSONL file, only the conflicting lines are skipped. Takes documents whose seals were
//! checked; returns what was written and what was skipped.

use std::collections::BTreeMap;

use super::super::bookkeeping::record_checkpoint;
use super::super::transfer::{CopyProgress, portable, validation_error};
use super::super::{Milepost, RunLocation};
use crate::Error;
use crate::interop::SkippedFile;
use crate::interop::sealed::{SealedCheckpoint, SealedRun};
use crate::model::{Marks, RunId, RunOrigin, RunRecord};
use crate::seal::Verified;

/// Maximum number of checkpoints in one transaction.
const BATCH: usize = 64;

/// What was written from a bundle or a JSONL file.
#[derive(Default)]
pub(super) struct Written {
    pub(super) count: CopyProgress,
    pub(super) runs: Vec<RunId>,
    /// Lines of a JSONL file whose checkpoint conflicts with the store.
    pub(super) skipped: Vec<SkippedFile>,
}

/// Writes the documents of a file into the store. A conflict is an error for a bundle; in a JSONL file, the
/// conflicting lines are skipped.
pub(super) fn write_sealed(
    engine: &Milepost,
    sealed: SealedRun,
    origin: &RunOrigin,
    location: &RunLocation,
) -> Result<Written, Error> {
    let mut written = Written::default();
    let mut by_run: BTreeMap<RunId, Vec<SealedCheckpoint>> = BTreeMap::new();
    for one in sealed.checkpoints {
        by_run.entry(one.body.run_id.clone()).or_default().push(one);
    }
    if let Some(head) = &sealed.head {
        by_run.entry(head.run.run_id.clone()).or_default();
    }
    for (run, mut all) in by_run {
        all.sort_by_key(|one| one.body.sequence);
        let existing = engine.store.run(&run)?;
        let mut record = match &sealed.head {
            Some(head) if head.run.run_id == run => portable(&head.run),
            _ => record_from_documents(&run, &all)?,
        };
        record.origin = Some(origin.clone());
        for batch in all.chunks(BATCH) {
            match engine.copy_checkpoints(&record, documents(batch), &mut written.count) {
                Err(Error::Conflict { .. }) if sealed.head.is_none() => {
                    copy_one_by_one(engine, &record, batch, &mut written)?;
                }
                copied => copied?,
            }
        }
        if !sealed.blobs.is_empty() {
            let blobs: Vec<_> = sealed.blobs.iter().map(Vec::as_slice).collect();
            engine.store.put_blobs(&blobs)?;
        }
        // A run that already exists here keeps its record.
        if sealed.head.is_some() && existing.is_none() {
            let events: Vec<_> = sealed.events.iter().filter(|event| event.run_id == run).cloned().collect();
            // The recorded owner and location belong to another machine; the run continues here.
            record.owner = None;
            let there = serde_json::json!({ "project": record.project, "worktree": record.worktree, "user": record.user });
            record.extra.set("bundle", crate::model::RawJson::of(&there)?);
            if location.project.is_some() {
                record.project.clone_from(&location.project);
                record.worktree.clone_from(&location.worktree);
                record.user.clone_from(&location.user);
            }
            if location.project_id.is_some() {
                record.project_id.clone_from(&location.project_id);
            }
            engine.copy_run_record(&record, sealed.items.clone(), events)?;
            engine.copy_messages(&run, &sealed.messages)?;
            let skipped = engine.add_attachments(&run, sealed.attachments.clone())?;
            if skipped > 0 {
                written.skipped.push(SkippedFile {
                    path: run.to_string(),
                    reason: format!("attachments whose blob is not in the bundle: {skipped}"),
                    reason_code: None,
                });
            }
        }
        written.runs.push(run);
    }
    Ok(written)
}

fn documents(batch: &[SealedCheckpoint]) -> Vec<(Verified, Marks)> {
    batch.iter().map(|one| (one.document.clone(), one.marks.clone())).collect()
}

/// Copies the checkpoints one at a time, and skips those that conflict with the store.
fn copy_one_by_one(
    engine: &Milepost,
    record: &RunRecord,
    batch: &[SealedCheckpoint],
    written: &mut Written,
) -> Result<(), Error> {
    for one in batch {
        match engine.copy_checkpoints(record, documents(std::slice::from_ref(one)), &mut written.count) {
            Err(e @ Error::Conflict { .. }) => written.skipped.push(SkippedFile {
                path: format!("line {}", one.line),
                reason: e.to_string(),
                reason_code: Some(e.reason()),
            }),
            copied => copied?,
        }
    }
    Ok(())
}

/// Builds a record for checkpoints that came without one.
fn record_from_documents(run: &RunId, all: &[SealedCheckpoint]) -> Result<RunRecord, Error> {
    let mut record: Option<RunRecord> = None;
    for SealedCheckpoint { document, body, .. } in all {
        let record = record
            .get_or_insert_with(|| RunRecord::new(run.clone(), crate::model::Profile::Run, body.created_at));
        let slot = crate::store::Slot::issue(body.sequence, 0);
        let checkpoint = document.clone().into_sealed(&slot).map_err(|e| validation_error(&e))?;
        record_checkpoint(record, checkpoint.header(), body.created_at);
        record.updated_at = body.created_at;
    }
    record.ok_or_else(|| Error::NoRun(run.to_string()))
}
