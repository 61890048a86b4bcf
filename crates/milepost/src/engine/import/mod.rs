//! Import: adds runs of other tools, or sealed documents of another store. Never coalesces or prunes.
//! Existing checkpoints stay unchanged, so importing the same data twice adds nothing.

mod prepare;
mod sealed;

use derive_getters::Getters;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use self::prepare::{Prepared, checkpoint_id, digest};
use self::sealed::write_sealed;
use super::bookkeeping::{commit_with_token, is_committed, record_checkpoint};
use super::{Milepost, RunLocation};
use crate::interop::sealed::Patch;
use crate::interop::{self, ForeignData, ForeignRun, Format, ImportNote, SkippedFile};
use crate::model::{
    CheckpointId, Event, JsonPath, Marks, RawObject, RunId, RunOrigin, RunRecord, WriteToken,
};
use crate::redact::{AllowList, Redaction};
use crate::seal;
use crate::store::WriteDecision;
use crate::{Error, ReasonCode};

/// Maximum number of checkpoints in one transaction.
const BATCH: usize = 64;

options! {
    /// What to import, and how.
    #[derive(Debug, Clone)]
    pub struct ImportOptions {
        /// The format; detected if not set.
        pub(crate) format: Option<Format>,
        /// The file or folder to import.
        pub(crate) path: PathBuf,
        /// Whether secrets are replaced; the default is the engine's setting. Sealed documents and bundles
        /// are never changed.
        pub(crate) redaction: Option<Redaction>,
        /// The project, worktree and user of a bundle's run in this store.
        pub(crate) location: RunLocation [internal],
    }
}

impl ImportOptions {
    /// Imports from a file or folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { format: None, path: path.into(), redaction: None, location: RunLocation::default() }
    }
}

/// The result of an import.
#[derive(Getters, Debug, Default, serde::Serialize)]
pub struct ImportReport {
    /// Number of new checkpoints.
    pub(crate) imported: u64,
    /// Number of checkpoints that already existed.
    pub(crate) unchanged: u64,
    /// The format that was read.
    #[getter(copy)]
    pub(crate) format: Option<Format>,
    /// The runs of these checkpoints.
    pub(crate) runs: BTreeSet<RunId>,
    /// Number of secrets replaced.
    pub(crate) replaced: u64,
    /// Files and checkpoints that were skipped, and why.
    pub(crate) skipped: Vec<SkippedFile>,
    /// Warnings about the imported data.
    pub(crate) warnings: Vec<ImportNote>,
    /// The uncommitted changes in a bundle.
    #[serde(skip)]
    #[getter(skip)]
    pub(crate) patch: Option<Patch>,
    /// The commit on which a bundle's work is based.
    #[serde(skip)]
    pub(crate) commit: Option<String>,
}

#[cfg(feature = "internal")]
impl ImportReport {
    /// The uncommitted changes in a bundle.
    pub fn patch(&self) -> Option<&Patch> {
        self.patch.as_ref()
    }
}

/// Reports what an import would do. Without a store, assumes an empty one.
pub fn preview_import(
    engine: Option<&Milepost>,
    import: &ImportOptions,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<ImportReport, Error> {
    let progress = &mut |n| progress(n, None);
    let format = import.format.map_or_else(|| interop::detect(&import.path), Ok)?;
    let mut report = ImportReport { format: Some(format), ..ImportReport::default() };
    if matches!(format, Format::Jsonl | Format::Bundle) {
        let (all, found) = interop::sealed::read(format, &import.path, progress)?;
        report.skipped = found.skipped;
        for sealed in all {
            for one in &sealed.checkpoints {
                let known = match engine {
                    Some(engine) => engine.row_of(&one.body.snapshot_id)?.is_some(),
                    None => false,
                };
                report.count(known);
                report.runs.insert(one.body.run_id.clone());
            }
            report.patch = sealed.patch;
        }
        return Ok(report);
    }
    let found = interop::read(format, &import.path, progress)?;
    for run in &found.runs {
        let id = match engine {
            Some(engine) => engine.target_run_id(run, &mut report)?,
            None => prepare::preferred_run_id(run, &AllowList::EMPTY),
        };
        let known = engine.map_or(Ok(HashSet::new()), |engine| engine.checkpoint_ids(&id))?;
        run.checkpoints.iter().for_each(|one| report.count(known.contains(&checkpoint_id(run, one))));
        report.runs.insert(id);
    }
    report.skipped = found.skipped;
    report.warnings.extend(found.warnings);
    Ok(report)
}

impl ImportReport {
    fn count(&mut self, known: bool) {
        self.unchanged += u64::from(known);
        self.imported += u64::from(!known);
    }
}

impl Milepost {
    /// Imports a file or folder.
    pub fn import(
        &self,
        import: &ImportOptions,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<ImportReport, Error> {
        let format = import.format.map_or_else(|| interop::detect(&import.path), Ok)?;
        let mut report = ImportReport { format: Some(format), ..ImportReport::default() };
        if matches!(format, Format::Jsonl | Format::Bundle) {
            self.import_sealed(format, import, &mut |n| progress(n, None), &mut report)?;
            return Ok(report);
        }
        let ForeignData { runs, skipped, warnings } =
            interop::read(format, &import.path, &mut |n| progress(n, None))?;
        let total = runs.iter().map(|run| run.checkpoints.len() as u64).sum();
        let mut written = 0;
        let mut report_written = |more: usize| {
            written += more as u64;
            progress(written, Some(total));
        };
        report.skipped = skipped;
        report.warnings = warnings;
        let redaction = match import.redaction.unwrap_or(self.settings.redaction) {
            Redaction::On => Some(&self.settings.redaction_allow),
            Redaction::Off => None,
        };
        let mut newest: HashMap<String, CheckpointId> = HashMap::new();
        for run in runs {
            let id = self.target_run_id(&run, &mut report)?;
            let continues = run.continues.as_ref().and_then(|name| newest.get(name).cloned());
            if let (Some(name), None) = (&run.continues, &continues) {
                let message = format!("it continues run \"{name}\", which is not part of this import");
                report.warnings.push(ImportNote { path: run.id.clone(), message });
            }
            if let Some(last) = run.checkpoints.last() {
                newest.insert(run.id.clone(), checkpoint_id(&run, last));
            }
            let origin = self.origin_of(import, "import");
            self.import_run(&id, run, continues, (redaction, &origin), &mut report_written, &mut report)?;
            report.runs.insert(id);
        }
        Ok(report)
    }

    fn import_sealed(
        &self,
        format: Format,
        import: &ImportOptions,
        progress: &mut interop::Progress<'_>,
        report: &mut ImportReport,
    ) -> Result<(), Error> {
        let (all, found) = interop::sealed::read(format, &import.path, progress)?;
        report.skipped = found.skipped;
        for sealed in all {
            report.commit = sealed.head.as_ref().and_then(|head| head.commit.clone());
            report.patch = sealed.patch.clone();
            let origin = self.origin_of(import, if format == Format::Bundle { "bundle" } else { "import" });
            let written = write_sealed(self, sealed, &origin, &import.location)?;
            report.imported += written.count.copied;
            report.unchanged += written.count.unchanged;
            report.runs.extend(written.runs);
            report.skipped.extend(written.skipped);
        }
        Ok(())
    }

    /// The origin to record in the runs of an import.
    fn origin_of(&self, import: &ImportOptions, kind: &str) -> RunOrigin {
        let from = std::path::absolute(&import.path).unwrap_or_else(|_| import.path.clone());
        RunOrigin { kind: kind.to_owned(), from: from.to_string_lossy().into_owned(), at: self.now() }
    }

    fn checkpoint_ids(&self, run: &RunId) -> Result<HashSet<CheckpointId>, Error> {
        self.entries(run).map(|entry| Ok(entry?.header.snapshot_id)).collect()
    }

    /// The id of the run to import into: the run of an earlier import of the same run, or an unused id.
    fn target_run_id(&self, run: &ForeignRun, report: &mut ImportReport) -> Result<RunId, Error> {
        let preferred = prepare::preferred_run_id(run, &self.settings.redaction_allow);
        let suffixes = [String::new(), format!("-{}", run.format), format!("-{}", digest(run, None, 8))];
        for suffix in &suffixes {
            let cut: String = preferred.as_str().chars().take(128 - suffix.len()).collect();
            let Ok(id) = format!("{cut}{suffix}").parse::<RunId>() else { continue };
            let Some(state) = self.store.run(&id)? else {
                if id.as_str() != run.id {
                    let message = format!("run \"{}\" is imported as {id}", run.id);
                    report.warnings.push(ImportNote { path: run.id.clone(), message });
                }
                return Ok(id);
            };
            let is_same_run = state.row.record.is_ok_and(|record| {
                let of = record
                    .extra
                    .get("imported")
                    .and_then(|raw| RawObject::parse(raw.get(), &JsonPath::Root).ok());
                let text = |name: &str| {
                    of.as_ref().and_then(|of| serde_json::from_str::<String>(of.get(name)?.get()).ok())
                };
                text("format").as_deref() == Some(run.format.as_str())
                    && text("id").as_ref() == Some(&prepare::clean(&run.id, &self.settings.redaction_allow))
            });
            if is_same_run {
                return Ok(id);
            }
        }
        Err(Error::RunExists(preferred))
    }

    fn import_run(
        &self,
        id: &RunId,
        foreign: ForeignRun,
        continues: Option<CheckpointId>,
        (redaction, origin): (Option<&AllowList>, &RunOrigin),
        report_written: &mut dyn FnMut(usize),
        report: &mut ImportReport,
    ) -> Result<(), Error> {
        let known = self.checkpoint_ids(id)?;
        let is_new = self.store.run(id)?.is_none();
        let mut record = prepare::record(id, &foreign, continues, self.now())?;
        record.origin = Some(origin.clone());
        let mut prepared = Vec::new();
        let mut ids: HashMap<String, CheckpointId> = HashMap::new();
        let mut parent = record.parent.clone();
        for one in &foreign.checkpoints {
            let mut new_id = checkpoint_id(&foreign, one);
            ids.insert(one.id.clone(), new_id.clone());
            // An id that Milepost generated may already exist in this store, in the run that it was
            // exported from.
            if !known.contains(&new_id) && new_id.as_str() == one.id && self.row_of(&new_id)?.is_some() {
                new_id = prepare::derived_id(&foreign, one);
            }
            if known.contains(&new_id) {
                report.unchanged += 1;
                parent = Some(new_id);
                continue;
            }
            match prepare::checkpoint(&mut record, &foreign, one, &new_id, parent.clone(), redaction) {
                Ok((one, replaced)) => {
                    report.replaced += replaced;
                    prepared.push(one);
                    parent = Some(new_id);
                }
                Err(Error::Schema(e)) => {
                    report.skipped.push(SkippedFile {
                        path: one.path.clone(),
                        reason: e.to_string(),
                        reason_code: Some(ReasonCode::CheckpointSchemaInvalid),
                    });
                }
                Err(e) => return Err(e),
            }
        }
        // A run without checkpoints is imported once, if it has other content.
        let has_other_content = is_new && !foreign.is_empty();
        if prepared.is_empty() && !has_other_content {
            return Ok(());
        }
        prepare::complete_record(&mut record, &foreign, redaction)?;
        let events = if is_new { prepare::events(id, &foreign, &record, &ids, redaction)? } else { vec![] };
        report.imported += prepared.len() as u64;
        // A run without checkpoints is written as one empty batch.
        let (first, rest) = prepared.split_at(prepared.len().min(BATCH));
        self.write_batch(id, &record, &foreign, first, events)?;
        report_written(first.len());
        for batch in rest.chunks(BATCH) {
            self.write_batch(id, &record, &foreign, batch, Vec::new())?;
            report_written(batch.len());
        }
        Ok(())
    }

    /// Writes a batch of a run's checkpoints in one transaction.
    fn write_batch(
        &self,
        id: &RunId,
        finished: &RunRecord,
        foreign: &ForeignRun,
        batch: &[Prepared],
        events: Vec<Event>,
    ) -> Result<(), Error> {
        let token = WriteToken::generate();
        let mut failed = None;
        self.write(id, &mut |view| {
            failed = None;
            let mut record = view.record.clone().unwrap_or_else(|| finished.clone());
            if is_committed(&record, &token) {
                return WriteDecision::NoChange;
            }
            let mut puts = Vec::new();
            let mut marks = Vec::new();
            let mut slot = view.slot.clone();
            for one in batch {
                slot = one.number.and_then(|number| slot.at_sequence(number)).unwrap_or(slot);
                let sealed = match seal::seal(one.unsealed.clone(), &slot) {
                    Ok(sealed) => sealed,
                    Err(e) => {
                        failed = Some(e);
                        return WriteDecision::NoChange;
                    }
                };
                let header = sealed.header();
                record_checkpoint(&mut record, header, header.created_at);
                if one.completed.is_some() {
                    let imported = Marks { revision: 1, completed: one.completed, ..Marks::default() };
                    marks.push((header.sequence, imported));
                }
                puts.push(sealed);
                slot = slot.next();
            }
            record.working = finished.working.clone();
            record.updated_at = finished.updated_at.max(record.updated_at);
            record.extra = finished.extra.clone();
            record.origin = record.origin.or_else(|| finished.origin.clone());
            if let Some(status) = foreign.status {
                record.status = status;
                record.ended_at = status.is_terminal().then_some(record.updated_at);
            }
            let mut commit = commit_with_token(record, &token);
            commit.puts = puts;
            commit.marks = marks;
            commit.events = events.clone();
            WriteDecision::Commit(Box::new(commit))
        })?;
        failed.map_or(Ok(()), |e| Err(e.into()))
    }
}
