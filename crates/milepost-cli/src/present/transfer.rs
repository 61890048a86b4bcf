//! The results of `import`, `export` and `copy`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use milepost::internal::capture::commit_distance::commit_distance;
use milepost::internal::engine::CompareReport;
use milepost::interop::{Format, ImportNote, SkippedFile};
use milepost::model::RunId;
use milepost::{CopyReport, ExportReport, ImportReport, ReasonCode};
use serde::Serialize;

use super::format::{clean, counted};
use super::{Document, Note, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Maximum number of lines of each kind in text output.
const SHOWN: usize = 20;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.import/1")]
pub(crate) struct ImportDocument {
    #[serde(flatten)]
    report: ImportReport,
    lost_fields: [String; 0],
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<String>,
    #[serde(skip)]
    patch: Patch,
}

/// The uncommitted changes in a bundle.
pub(crate) enum Patch {
    None,
    Available,
    Written(PathBuf),
}

impl ImportDocument {
    /// Creates the document. `root` is the folder of the checkout.
    pub(crate) fn new(report: ImportReport, patch: Patch, dry_run: bool, root: &Path) -> Self {
        let commit = report.commit().clone();
        let distance = commit.as_deref().map(|commit| commit_distance(root, commit).to_string());
        Self { report, lost_fields: [], dry_run, commit, distance, patch }
    }
}

impl Document for ImportDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let report = &self.report;
        write_notes(output, report.skipped(), report.warnings());
        let would = if self.dry_run { "would be imported" } else { "imported" };
        let format = report.format().map_or(String::new(), |format| format!(" from {format}"));
        let mut line = format!("{} {would}{format}", counted(report.imported(), "checkpoint"));
        if !report.runs().is_empty() {
            line.push_str(&format!(" into {}", counted(report.runs().len() as u64, "run")));
        }
        if report.unchanged() > 0 {
            line.push_str(&format!(", {} already present", report.unchanged()));
        }
        output.write_text(&format!("{line}\n"))?;
        if report.replaced() > 0 {
            let n = counted(report.replaced(), "secret");
            output.message(&format!("{n} redacted; run `milepost show` for details"));
        }
        if let (Some(commit), Some(distance)) = (&self.commit, &self.distance) {
            let short: String = commit.chars().take(12).collect();
            output.message(&format!("The run was at commit {short} (this checkout: {distance})"));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        let line = match &self.patch {
            Patch::None => return Vec::new(),
            Patch::Available => {
                "The bundle has uncommitted changes; --patch FILE writes them to a file".to_owned()
            }
            Patch::Written(file) => {
                format!("Its uncommitted changes are in {0}; apply with `git apply {0}`", file.display())
            }
        };
        vec![Note::Message(line)]
    }

    fn change(&self) -> Option<String> {
        (!self.dry_run).then(|| format!("{} imported", counted(self.report.imported(), "checkpoint")))
    }

    fn error(&self) -> Option<CommandError> {
        let report = &self.report;
        let nothing = report.imported() + report.unchanged() == 0 && report.runs().is_empty();
        // Every line is a checkpoint exported by this program, so a skipped line is a failure, as in a copy.
        if let (Some(Format::Jsonl), Some(first)) = (report.format(), report.skipped().first()) {
            let code = first.reason_code.unwrap_or(ReasonCode::CheckpointSchemaInvalid);
            let message = format!("{} skipped", counted(report.skipped().len() as u64, "line"));
            let exit = if nothing { Exit::Failed } else { Exit::Partly };
            return Some(CommandError::new(code, message).with_exit(exit));
        }
        let error = CommandError::new(ReasonCode::CheckpointNotFound, "found nothing to import");
        nothing.then(|| {
            error.with_hint("PATH must be the folder of the format, or its parent").with_exit(Exit::Nothing)
        })
    }
}

fn write_notes(output: &Output, skipped: &[SkippedFile], warnings: &[ImportNote]) {
    for one in skipped.iter().take(SHOWN) {
        let reason = clean(&one.reason);
        let code =
            one.reason_code.map(|code| code.to_string()).filter(|code| !reason.contains(code.as_str()));
        let code = code.map_or(String::new(), |code| format!(" ({code})"));
        output.message(&format!("Skipped {}: {reason}{code}", clean(&one.path)));
    }
    for one in warnings.iter().take(SHOWN) {
        output.message(&format!("Warning: {}: {}", clean(&one.path), clean(&one.message)));
    }
    let more = skipped.len().saturating_sub(SHOWN) + warnings.len().saturating_sub(SHOWN);
    if more > 0 {
        output.message(&format!("… and {more} more (--json lists all)"));
    }
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.export/1")]
pub(crate) struct ExportDocument {
    exported: u64,
    format: Format,
    run_id: RunId,
    files: Vec<String>,
    bytes: u64,
    skipped: Vec<SkippedFile>,
    warnings: Vec<ImportNote>,
    lost_fields: BTreeSet<String>,
    secrets: Vec<Secret>,
    /// Number of file contents in the bundle, and of those that were left out because they contain secrets.
    file_contents: u64,
    files_with_secrets: u64,
    dry_run: bool,
    #[serde(skip)]
    path: PathBuf,
    #[serde(skip)]
    events: u64,
    /// Size of the uncommitted changes in the bundle, in bytes.
    #[serde(skip)]
    patch: Option<u64>,
}

#[derive(Serialize)]
struct Secret {
    path: String,
    rules: String,
}

impl ExportDocument {
    pub(crate) fn new(
        format: Format,
        run_id: RunId,
        path: PathBuf,
        dry_run: bool,
        patch: Option<u64>,
        report: ExportReport,
    ) -> Self {
        Self {
            exported: report.exported(),
            format,
            run_id,
            files: report.files().iter().map(|path| path.display().to_string()).collect(),
            bytes: report.bytes(),
            skipped: report.skipped().clone(),
            warnings: report.warnings().clone(),
            lost_fields: report.lost_fields().clone(),
            secrets: report.secrets().iter().cloned().map(|(path, rules)| Secret { path, rules }).collect(),
            file_contents: report.file_contents(),
            files_with_secrets: report.files_with_secrets(),
            dry_run,
            path,
            events: report.events(),
            patch,
        }
    }
}

impl Document for ExportDocument {
    fn render(&self, output: &Output) -> Result<()> {
        write_notes(output, &self.skipped, &self.warnings);
        for Secret { path, rules } in self.secrets.iter().take(SHOWN) {
            output.message(&format!("Warning: {path} contains a secret ({rules})"));
        }
        if !self.lost_fields.is_empty() {
            let lost: Vec<_> = self.lost_fields.iter().map(String::as_str).collect();
            output.message(&format!("Fields that {} does not support: {}", self.format, lost.join(", ")));
        }
        let n = counted(self.exported, "checkpoint");
        if self.format == Format::Bundle {
            let mut leaves = vec![n.clone(), counted(self.events, "event")];
            leaves
                .extend(self.patch.map(|bytes| format!("{} of uncommitted changes", counted(bytes, "byte"))));
            if self.file_contents > 0 {
                leaves.push(counted(self.file_contents, "file content"));
            }
            output.message(&format!("The bundle contains {}, in full", leaves.join(", ")));
            note_secret_files(output, self.files_with_secrets);
        }
        let would = if self.dry_run { "would be written to" } else { "written to" };
        let files = counted(self.files.len() as u64, "file");
        let path = clean(&self.path.to_string_lossy());
        output.write_text(&format!("{n} {would} {path} ({files}, {} bytes)\n", self.bytes))
    }

    fn change(&self) -> Option<String> {
        (!self.dry_run).then(|| format!("{} exported", counted(self.exported, "checkpoint")))
    }
}

/// Says how many files were left out because they contain secrets.
fn note_secret_files(output: &Output, n: u64) {
    if n > 0 {
        let files = counted(n, "file content");
        output.message(&format!("{files} with secrets left out; --with-secrets includes them"));
    }
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.copy/1")]
pub(crate) struct CopyDocument {
    copied: u64,
    unchanged: u64,
    runs: u64,
    skipped: Vec<SkippedFile>,
    warnings: [String; 0],
    lost_fields: [String; 0],
    /// Number of file contents that were copied, and of those that were left out because they contain secrets.
    files: u64,
    files_with_secrets: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Comparison>,
}

#[derive(Serialize)]
struct Comparison {
    checked: u64,
    differences: Vec<ImportNote>,
}

impl CopyDocument {
    pub(crate) fn new(report: CopyReport, compared: Option<CompareReport>) -> Self {
        let skipped = |(path, reason)| SkippedFile { path, reason, reason_code: None };
        let note = |(path, message)| ImportNote { path, message };
        Self {
            copied: report.copied(),
            unchanged: report.unchanged(),
            runs: report.runs(),
            skipped: report.skipped().iter().cloned().map(skipped).collect(),
            warnings: [],
            lost_fields: [],
            files: report.files(),
            files_with_secrets: report.files_with_secrets(),
            verified: compared.map(|compared| Comparison {
                checked: compared.checked(),
                differences: compared.differences().iter().cloned().map(note).collect(),
            }),
        }
    }
}

impl Document for CopyDocument {
    fn render(&self, output: &Output) -> Result<()> {
        write_notes(output, &self.skipped, &[]);
        for one in self.verified.iter().flat_map(|verified| &verified.differences).take(SHOWN) {
            output.message(&format!("{}: {}", one.path, one.message));
        }
        note_secret_files(output, self.files_with_secrets);
        let mut line = format!(
            "{} copied, {} already present, in {}",
            counted(self.copied, "checkpoint"),
            self.unchanged,
            counted(self.runs, "run")
        );
        if let Some(verified) = &self.verified {
            let found = match verified.differences.len() as u64 {
                0 => "no differences".to_owned(),
                n => counted(n, "difference"),
            };
            line.push_str(&format!("; {} compared: {found}", counted(verified.checked, "checkpoint")));
        }
        output.write_text(&format!("{line}\n"))
    }

    fn change(&self) -> Option<String> {
        Some(format!("{} copied", counted(self.copied, "checkpoint")))
    }

    fn error(&self) -> Option<CommandError> {
        let differences = self.verified.as_ref().map_or(0, |verified| verified.differences.len());
        let (message, exit) = match (differences as u64, self.skipped.len() as u64) {
            (0, 0) => return None,
            (0, n) => (format!("{} skipped", counted(n, "damaged checkpoint")), Exit::Partly),
            (n, _) => (format!("the stores differ in {}", counted(n, "place")), Exit::Damaged),
        };
        Some(CommandError::new(ReasonCode::CheckpointIntegrityMismatch, message).with_exit(exit))
    }
}
