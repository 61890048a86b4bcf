//! What `import`, `export` and `copy` say.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error_advice::Exit;
use milepost::ReasonCode;
use milepost::internal::capture::distance::distance;
use milepost::interop::{Format, ImportNote, SkippedFile};
use milepost::model::RunId;
use milepost::{CompareReport, CopyReport, ExportOptions, ExportReport, ImportReport};
use serde::Serialize;

use super::Output;
use super::format::{clean, counted};
use crate::error::CommandError;

/// How many lines of one kind people are shown.
const SHOWN: usize = 20;

#[derive(Serialize)]
struct ImportDocument<'a> {
    schema: &'static str,
    imported: u64,
    unchanged: u64,
    format: Option<Format>,
    runs: BTreeSet<&'a RunId>,
    replaced: u64,
    skipped: &'a [SkippedFile],
    warnings: &'a [ImportNote],
    lost_fields: [&'a str; 0],
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<String>,
}

/// What came in.
pub(crate) fn imported(
    output: &Output,
    report: &ImportReport,
    dry_run: bool,
    here: &Path,
) -> Result<(), CommandError> {
    let distance = report.commit.as_deref().map(|commit| distance(here, commit).to_string());
    let runs: BTreeSet<_> = report.runs.iter().collect();
    let nothing = report.imported + report.unchanged == 0 && report.runs.is_empty();
    if !dry_run {
        output.record_change(format!("{} imported", counted(report.imported, "checkpoint")));
    }
    if output.json {
        output.document(&ImportDocument {
            schema: "milepost.import/1",
            imported: report.imported,
            unchanged: report.unchanged,
            format: report.format,
            runs: runs.clone(),
            replaced: report.replaced,
            skipped: &report.skipped,
            warnings: &report.warnings,
            lost_fields: [],
            dry_run,
            commit: report.commit.as_deref(),
            distance: distance.clone(),
        })?;
    } else {
        notes(output, &report.skipped, &report.warnings);
        let would = if dry_run { "would be imported" } else { "imported" };
        let format = report.format.map_or(String::new(), |format| format!(" from {format}"));
        let mut line = format!("{} {would}{format}", counted(report.imported, "checkpoint"));
        if !runs.is_empty() {
            line.push_str(&format!(" into {}", counted(runs.len() as u64, "run")));
        }
        if report.unchanged > 0 {
            line.push_str(&format!(", {} there already", report.unchanged));
        }
        output.text(&format!("{line}\n"))?;
        if report.replaced > 0 {
            output.message(&format!(
                "{} replaced; `milepost show` says where",
                counted(report.replaced, "secret")
            ));
        }
        if let (Some(commit), Some(distance)) = (&report.commit, &distance) {
            let short: String = commit.chars().take(12).collect();
            output
                .message(&format!("its work stood on commit {short}; seen from there, here is: {distance}"));
        }
    }
    // A line is a whole checkpoint of this program's own: one that is refused is missing, as in a copy.
    if report.format == Some(Format::Jsonl)
        && let Some(first) = report.skipped.first()
    {
        let code = first.reason_code.unwrap_or(ReasonCode::CheckpointSchemaInvalid);
        let message = format!("{} left out", counted(report.skipped.len() as u64, "line"));
        let exit = if nothing { Exit::Failed } else { Exit::Partly };
        return Err(CommandError::new(code, message).with_exit(exit));
    }
    if nothing {
        let message = "nothing was found to import";
        return Err(CommandError::new(ReasonCode::CheckpointNotFound, message)
            .with_hint("PATH is the folder of the format, or the one around it")
            .with_exit(Exit::Nothing));
    }
    Ok(())
}

fn notes(output: &Output, skipped: &[SkippedFile], warnings: &[ImportNote]) {
    for one in skipped.iter().take(SHOWN) {
        let reason = clean(&one.reason);
        let code =
            one.reason_code.map(|code| code.to_string()).filter(|code| !reason.contains(code.as_str()));
        let code = code.map_or(String::new(), |code| format!(" ({code})"));
        output.message(&format!("skipped {}: {reason}{code}", clean(&one.path)));
    }
    for one in warnings.iter().take(SHOWN) {
        output.message(&format!("Warning: {}: {}", clean(&one.path), clean(&one.message)));
    }
    let more = skipped.len().saturating_sub(SHOWN) + warnings.len().saturating_sub(SHOWN);
    if more > 0 {
        output.message(&format!("and {more} more: --json lists all"));
    }
}

#[derive(Serialize)]
struct ExportDocument<'a> {
    schema: &'static str,
    exported: u64,
    format: Format,
    run_id: &'a RunId,
    files: Vec<String>,
    bytes: u64,
    skipped: &'a [SkippedFile],
    warnings: &'a [ImportNote],
    lost_fields: &'a BTreeSet<String>,
    secrets: Vec<Secret<'a>>,
    dry_run: bool,
}

#[derive(Serialize)]
struct Secret<'a> {
    path: &'a str,
    rules: &'a str,
}

/// What went out.
pub(crate) fn exported(
    output: &Output,
    what: &ExportOptions,
    report: &ExportReport,
) -> Result<(), CommandError> {
    if !what.dry_run {
        output.record_change(format!("{} exported", counted(report.exported, "checkpoint")));
    }
    if output.json {
        return output.document(&ExportDocument {
            schema: "milepost.export/1",
            exported: report.exported,
            format: what.format,
            run_id: &what.run,
            files: report.files.iter().map(|path| path.display().to_string()).collect(),
            bytes: report.bytes,
            skipped: &report.skipped,
            warnings: &report.warnings,
            lost_fields: &report.lost_fields,
            secrets: report.secrets.iter().map(|(path, rules)| Secret { path, rules }).collect(),
            dry_run: what.dry_run,
        });
    }
    notes(output, &report.skipped, &report.warnings);
    for (place, rules) in report.secrets.iter().take(SHOWN) {
        output.message(&format!("Warning: {place} holds a secret ({rules})"));
    }
    if !report.lost_fields.is_empty() {
        let lost: Vec<_> = report.lost_fields.iter().map(String::as_str).collect();
        output.message(&format!("{} cannot hold: {}", what.format, lost.join(", ")));
    }
    if what.format == Format::Bundle {
        let mut leaves = vec![counted(report.exported, "checkpoint"), counted(report.events, "event")];
        if let Some(patch) = &what.patch {
            leaves.push(format!("{} of uncommitted changes", counted(patch.diff.len() as u64, "byte")));
        }
        output.message(&format!("what leaves: {}, with everything they say", leaves.join(", ")));
    }
    let would = if what.dry_run { "would be written to" } else { "written to" };
    let n = counted(report.exported, "checkpoint");
    let files = counted(report.files.len() as u64, "file");
    let path = clean(&what.path.to_string_lossy());
    output.text(&format!("{n} {would} {path} ({files}, {} bytes)\n", report.bytes))
}

#[derive(Serialize)]
struct CopyDocument<'a> {
    schema: &'static str,
    copied: u64,
    unchanged: u64,
    runs: u64,
    skipped: Vec<SkippedFile>,
    warnings: [ImportNote; 0],
    lost_fields: [&'a str; 0],
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified>,
}

#[derive(Serialize)]
struct Verified {
    checked: u64,
    differences: Vec<ImportNote>,
}

/// What was copied, and whether it is the same.
pub(crate) fn copied(
    output: &Output,
    report: &CopyReport,
    compared: Option<&CompareReport>,
) -> Result<(), CommandError> {
    let skipped: Vec<_> = report
        .skipped
        .iter()
        .map(|(path, reason)| SkippedFile { path: path.clone(), reason: reason.clone(), reason_code: None })
        .collect();
    let note =
        |(path, message): &(String, String)| ImportNote { path: path.clone(), message: message.clone() };
    output.record_change(format!("{} copied", counted(report.count.copied, "checkpoint")));
    let differences = compared.map_or(0, |compared| compared.differences.len());
    if output.json {
        output.document(&CopyDocument {
            schema: "milepost.copy/1",
            copied: report.count.copied,
            unchanged: report.count.unchanged,
            runs: report.runs,
            skipped: skipped.clone(),
            warnings: [],
            lost_fields: [],
            verified: compared.map(|compared| Verified {
                checked: compared.checked,
                differences: compared.differences.iter().map(note).collect(),
            }),
        })?;
    } else {
        notes(output, &skipped, &[]);
        for (place, how) in compared.iter().flat_map(|compared| &compared.differences).take(SHOWN) {
            output.message(&format!("{place}: {how}"));
        }
        let mut line = format!(
            "{} copied, {} there already, in {}",
            counted(report.count.copied, "checkpoint"),
            report.count.unchanged,
            counted(report.runs, "run")
        );
        if let Some(compared) = compared {
            let found = if differences == 0 {
                "no difference".to_owned()
            } else {
                counted(differences as u64, "difference")
            };
            line.push_str(&format!("; {} compared: {found}", counted(compared.checked, "checkpoint")));
        }
        output.text(&format!("{line}\n"))?;
    }
    if differences > 0 {
        let message = format!("the stores differ in {}", counted(differences as u64, "place"));
        return Err(
            CommandError::new(ReasonCode::CheckpointIntegrityMismatch, message).with_exit(Exit::Damaged)
        );
    }
    if !skipped.is_empty() {
        let message = format!("{} left out", counted(skipped.len() as u64, "damaged checkpoint"));
        return Err(
            CommandError::new(ReasonCode::CheckpointIntegrityMismatch, message).with_exit(Exit::Partly)
        );
    }
    Ok(())
}
