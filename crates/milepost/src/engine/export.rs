//! Export: writes a run, or one checkpoint of it, in the format of another tool, as lines of sealed
//! documents, or as a bundle. Must not overwrite files without `force`, or export secrets in a bundle
//! without `with_secrets`.

use derive_getters::Getters;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Milepost;
use super::document::newer;
use super::list::is_completed;
use crate::Error;
use crate::fs::atomic;
use crate::interop::sealed::{self, Patch};
use crate::interop::{
    self, ExportCheckpoint, ExportFile, ExportRun, Format, ImportNote, InteropError, SkippedFile,
};
use crate::model::{AttachedValue, BlobId, RunId};
use crate::redact::AllowList;
use crate::store::{CheckpointEntry, HeaderQuery, Row, StoreError};
use crate::threads::table;

options! {
    /// What to export, and where.
    #[derive(Debug, Clone)]
    pub struct ExportOptions {
        /// The format to write.
        pub(crate) format: Format,
        /// The run to export.
        pub(crate) run: RunId,
        /// Exports only this checkpoint of the run.
        pub(crate) only: Option<CheckpointEntry>,
        /// The file or folder to write.
        pub(crate) path: PathBuf,
        /// Overwrites existing files.
        pub(crate) force: bool,
        /// Allows secrets in a bundle.
        pub(crate) with_secrets: bool,
        /// Includes the contents of files in a bundle.
        pub(crate) with_files: bool,
        /// The uncommitted changes to include in a bundle.
        pub(crate) patch: Option<Patch> [internal],
        /// Reports what would be written, but writes nothing.
        pub(crate) dry_run: bool,
    }
}

impl ExportOptions {
    /// Exports a run in a format to a file or folder.
    pub fn new(format: Format, run: RunId, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self {
            format,
            run,
            path,
            only: None,
            force: false,
            with_secrets: false,
            with_files: false,
            patch: None,
            dry_run: false,
        }
    }
}

/// The result of an export.
#[derive(Getters, Debug, Default)]
pub struct ExportReport {
    /// Number of exported checkpoints.
    pub(crate) exported: u64,
    /// The files that were written, or would be.
    pub(crate) files: Vec<PathBuf>,
    /// Total size of these files in bytes.
    pub(crate) bytes: u64,
    /// Fields that the format cannot represent.
    pub(crate) lost_fields: BTreeSet<String>,
    /// Checkpoints that could not be read.
    pub(crate) skipped: Vec<SkippedFile>,
    /// Warnings about the exported data.
    pub(crate) warnings: Vec<ImportNote>,
    /// Number of events in a bundle.
    pub(crate) events: u64,
    /// Number of file contents in a bundle.
    pub(crate) file_contents: u64,
    /// Number of file contents that were left out because they contain secrets.
    pub(crate) files_with_secrets: u64,
    /// Secrets in a bundle: their location and the rules that found them.
    pub(crate) secrets: Vec<(String, String)>,
}

impl Milepost {
    /// Exports a run.
    pub fn export(
        &self,
        what: &ExportOptions,
        progress: &mut interop::Progress<'_>,
    ) -> Result<ExportReport, Error> {
        let mut report = ExportReport::default();
        let state = self.stored_run(&what.run)?;
        let record = state.row.record.map_err(|damage| Error::Damaged(Box::new(damage)))?;
        let checkpoints = self.held(what, &record, &mut report, progress)?;
        let (events, messages, items) = match what.only {
            Some(_) => (Vec::new(), Vec::new(), Vec::new()),
            None => (self.events_of(&what.run)?, self.messages_of(&what.run)?, state.items),
        };
        let attachments = if what.only.is_none() { self.attachments_of(&what.run)? } else { Vec::new() };
        let mut blobs = Vec::new();
        if what.format == Format::Bundle {
            blobs.extend(self.attached_blobs(&attachments)?);
            blobs.extend(self.values_of_run(&what.run, what.only.as_ref())?);
        }
        if what.with_files && what.format == Format::Bundle {
            let files = self.files_of_run(&what.run, what.only.as_ref())?;
            report.file_contents = files.contents.len() as u64;
            report.files_with_secrets = files.with_secrets;
            blobs.extend(files.contents);
        }
        report.exported = checkpoints.len() as u64;
        let run = ExportRun {
            record: &record,
            checkpoints: &checkpoints,
            events: &events,
            messages: &messages,
            attachments: &attachments,
            blobs: &blobs,
            items: &items,
        };
        match what.format {
            Format::Jsonl => {
                report.lost_fields.extend(["marks", "events", "messages", "run"].map(ToOwned::to_owned));
                if !attachments.is_empty() {
                    report.lost_fields.insert("attachments".to_owned());
                }
                self.one_file(what, sealed::lines(&run), &mut report)?;
            }
            Format::Bundle => {
                report.events = events.len() as u64;
                let bytes = sealed::bundle(&run, self.now(), what.patch.clone())?;
                report.secrets = secrets(&bytes, &self.settings.redaction_allow);
                report.secrets.extend(attached_secrets(&run, &self.settings.redaction_allow));
                if !report.secrets.is_empty() && !what.with_secrets && !what.dry_run {
                    return Err(Error::SecretsLeave {
                        locations: report.secrets.iter().map(|(at, _)| at.clone()).collect(),
                    });
                }
                self.one_file(what, bytes, &mut report)?;
            }
            Format::Nova26 => self.database(what, &run, &mut report)?,
            format => {
                let made = interop::write(format, &run)?;
                report.lost_fields = made.lost;
                report.warnings = made.warnings;
                self.files(what, &made.files, &mut report)?;
            }
        }
        Ok(report)
    }

    fn held(
        &self,
        what: &ExportOptions,
        record: &crate::model::RunRecord,
        report: &mut ExportReport,
        progress: &mut interop::Progress<'_>,
    ) -> Result<Vec<ExportCheckpoint>, Error> {
        let rows = match &what.only {
            Some(entry) => vec![Row::Intact(entry.clone())],
            None => {
                let query = HeaderQuery::default().run(&what.run).oldest_first(true);
                self.store.headers(&query)?
            }
        };
        let mut held = Vec::new();
        for (n, row) in rows.into_iter().enumerate() {
            progress(n as u64 + 1);
            match self.read_row(row) {
                // A checkpoint that was requested individually must exist. A whole run is exported without
                // those removed in the meantime.
                Ok(None) => {
                    if let Some(only) = &what.only {
                        return Err(StoreError::NoCheckpoint(what.run.clone(), only.header.sequence).into());
                    }
                }
                Ok(Some((entry, verified))) => {
                    held.push(ExportCheckpoint {
                        body: verified.body().map_err(|e| newer(&entry.header, e))?,
                        completed: is_completed(Some(record), &entry),
                        document: verified.bytes().to_vec(),
                        marks: entry.marks,
                    });
                }
                Err(e @ Error::Damaged(_)) => {
                    let reason_code = Some(e.reason());
                    let Error::Damaged(damage) = e else { continue };
                    let path = format!("{}@{}", what.run, damage.sequence.unwrap_or_default());
                    report.skipped.push(SkippedFile { path, reason: damage.to_string(), reason_code });
                }
                Err(e) => return Err(e),
            }
        }
        Ok(held)
    }

    fn one_file(&self, what: &ExportOptions, bytes: Vec<u8>, report: &mut ExportReport) -> Result<(), Error> {
        report.files.push(what.path.clone());
        report.bytes = bytes.len() as u64;
        if what.dry_run {
            return Ok(());
        }
        free(&what.path, what.force)?;
        atomic::create_folder(atomic::folder_of(&what.path))
            .and_then(|()| atomic::write(&what.path, &bytes, atomic::Mode::Private))
            .map_err(Error::file(&what.path, "written"))
    }

    fn database(
        &self,
        what: &ExportOptions,
        run: &ExportRun<'_>,
        report: &mut ExportReport,
    ) -> Result<(), Error> {
        let failed = |source| Error::File { path: what.path.clone(), what: "written", source };
        let mut builder = tempfile::Builder::new();
        builder.prefix(atomic::TEMP_PREFIX).suffix(".db");
        // SQLite needs a file to write to: next to the export, or in the temporary folder for a dry run.
        let temp = if what.dry_run {
            builder.tempfile()
        } else {
            free(&what.path, what.force)?;
            let folder = atomic::folder_of(&what.path);
            atomic::create_folder(folder).and_then(|()| builder.tempfile_in(folder))
        };
        let temp = temp.map_err(failed)?;
        let made = interop::nova26::write(run, temp.path())?;
        report.lost_fields = made.lost;
        report.warnings = made.warnings;
        self.one_file(what, fs::read(temp.path()).map_err(failed)?, report)
    }

    fn files(
        &self,
        what: &ExportOptions,
        files: &[ExportFile],
        report: &mut ExportReport,
    ) -> Result<(), Error> {
        // A path that ends in `.md` names the Markdown file itself, if there is only one.
        let named = what.path.extension().is_some_and(|e| e == "md");
        if let ([one], true) = (files, named) {
            return self.one_file(what, one.bytes.clone(), report);
        }
        for file in files {
            let inside = file.path.components().all(|part| matches!(part, Component::Normal(_)));
            if !inside {
                let why = format!("{} would be outside the export folder", file.path.display());
                return Err(InteropError::Unfit { format: what.format, why }.into());
            }
            report.files.push(what.path.join(&file.path));
            report.bytes += file.bytes.len() as u64;
        }
        if what.dry_run {
            return Ok(());
        }
        for path in &report.files {
            free(path, what.force)?;
        }
        let written = |source| Error::File { path: what.path.clone(), what: "written", source };
        if what.path.exists() {
            return put_all(&what.path, files).map_err(written);
        }
        // A new folder appears complete or not at all.
        let around = atomic::folder_of(&what.path);
        atomic::create_folder(around).map_err(written)?;
        let aside =
            tempfile::Builder::new().prefix(atomic::TEMP_PREFIX).tempdir_in(around).map_err(written)?;
        put_all(aside.path(), files).map_err(written)?;
        fs::rename(aside.path(), &what.path).map_err(written)?;
        drop(aside.keep());
        atomic::sync_folder(around).map_err(written)
    }
}

fn put_all(root: &Path, files: &[ExportFile]) -> std::io::Result<()> {
    let mut folders = BTreeSet::new();
    for file in files {
        let path = root.join(&file.path);
        let folder = atomic::folder_of(&path).to_owned();
        if folders.insert(folder.clone()) {
            atomic::create_folder(&folder)?;
        }
        atomic::write_without_folder_sync(&path, &file.bytes, atomic::Mode::Private)?;
    }
    folders.iter().try_for_each(|folder| atomic::sync_folder(folder))
}

/// Refuses to overwrite an existing file without `force`.
fn free(path: &Path, force: bool) -> Result<(), Error> {
    if !force && path.symlink_metadata().is_ok() {
        let why = "it already exists".to_owned();
        return Err(Error::RestoreRefused { path: path.to_owned(), why, flag: "--force" });
    }
    Ok(())
}

/// Finds the attachments and the values of threads that contain secrets, and the rules that match them. The lines of a
/// bundle contain them as base64.
fn attached_secrets(run: &ExportRun<'_>, allow: &AllowList) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut search = |location: String, value: &[u8]| {
        let clean = allow.redact_text(&String::from_utf8_lossy(value));
        let rules = clean.iter().flat_map(|clean| clean.split("[redacted:").skip(1));
        let rules: Vec<&str> = rules.filter_map(|rest| rest.split(']').next()).collect();
        if !rules.is_empty() {
            found.push((location, rules.join(", ")));
        }
    };
    for attachment in run.attachments {
        if let AttachedValue::Bytes(value) = attachment.value() {
            search(format!("attachment {} of {}", attachment.channel(), attachment.checkpoint()), value);
        }
    }
    for content in run.blobs {
        search(format!("blob {}", BlobId::of(content)), content);
    }
    for checkpoint in run.checkpoints {
        let values = checkpoint.body.values.iter().flat_map(|values| table::small_values(values.get()));
        for value in values {
            search(format!("values of checkpoint {}", checkpoint.body.snapshot_id), &value);
        }
    }
    found
}

/// Finds the lines that contain secrets, and the rules that match them.
fn secrets(bytes: &[u8], allow: &AllowList) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (n, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let Some(clean) = allow.redact_json(line, "line") else { continue };
        let rules: Vec<&str> =
            clean.split("[redacted:").skip(1).filter_map(|rest| rest.split(']').next()).collect();
        let before = line.matches("[redacted:").count();
        if rules.len() > before {
            found.push((format!("line {}", n + 1), rules.join(", ")));
        }
    }
    found
}
