//! `import`: imports checkpoints of other tools, and bundles, into this store.

use std::path::PathBuf;

use milepost::internal::fs::atomic;
use milepost::internal::preview_import;
use milepost::interop::Format;
use milepost::store::StoreError;
use milepost::{Error, ImportOptions, ImportReport, Redaction};

use crate::completion::Values;
use crate::config::parse_choice;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::transfer::{ImportDocument, Patch};

/// Import checkpoints from another tool
///
/// Formats: pai (a folder of phase checkpoints), nova26 (a SQLite file), snapshot (a tree with latest.json
/// and history/), aiwg (numbered files), markdown (briefs), jsonl and bundle (Milepost's own), and auto,
/// which detects the format. PATH is the file or folder, or its parent folder. Original ids remain valid
/// references. Importing the same data twice adds nothing.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost import pai\n  milepost import auto ../old-project/checkpoints --dry-run\n  \
                        milepost import nova26 .nova/checkpoints.db\n  \
                        milepost import bundle nightly.bundle --patch nightly.patch\n\n\
                        Exit codes: 0 even if files were skipped, 3 if lines of a jsonl file were skipped, \
                        4 if there was nothing to import."
)]
pub(crate) struct ImportArgs {
    /// Format: auto, pai, nova26, snapshot, aiwg, markdown, jsonl or bundle
    #[arg(value_name = "FORMAT", add = Values::ImportFormat)]
    format: String,
    /// File or folder to import [default: the format's usual folder, or the current one]
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    path: Option<PathBuf>,
    /// Show what would be imported without changing anything
    #[arg(long)]
    dry_run: bool,
    /// Do not redact keys, tokens and passwords
    #[arg(long)]
    no_redact: bool,
    /// File to write the uncommitted changes of a bundle to
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    patch: Option<PathBuf>,
}

pub(crate) fn execute(args: ImportArgs, context: &Context<'_>) -> Result<ImportDocument> {
    let format = match args.format.as_str() {
        "auto" => None,
        name => Some(parse_choice::<Format>(name, "FORMAT", "/format")?),
    };
    let path = match (&args.path, format) {
        (Some(path), _) => path.clone(),
        (None, Some(Format::Pai)) => context.config.home.clone().unwrap_or_default().join(".pai"),
        (None, Some(Format::Bundle | Format::Jsonl)) => {
            return Err(
                CommandError::usage("this format needs a PATH").with_hint("milepost import bundle FILE")
            );
        }
        (None, _) => PathBuf::from("."),
    };
    let import = ImportOptions::new(&path)
        .format(format)
        .redaction(args.no_redact.then_some(Redaction::Off))
        .location(context.run_options().location);
    let mut progress = context.output.progress();
    let mut report_stage = |n: u64, total: Option<u64>| match total {
        None => progress.at("files read", n),
        Some(total) => progress.of("checkpoints imported", n, total),
    };
    let report = if args.dry_run {
        match context.open_read_only() {
            Ok(mp) => preview_import(Some(&mp), &import, &mut report_stage)?,
            Err(Error::Store(StoreError::Missing { .. })) => {
                preview_import(None, &import, &mut report_stage)?
            }
            Err(e) => return Err(e.into()),
        }
    } else {
        // An unreadable input must not create a store.
        if format.is_none() {
            milepost::internal::interop::detect(&path).map_err(Error::from)?;
        }
        std::fs::metadata(&path).map_err(Error::file(&path, "read"))?;
        context.open_or_create()?.import(&import, &mut report_stage)?
    };
    drop(progress);
    let patch = write_patch(&args, &report)?;
    Ok(ImportDocument::new(report, patch, args.dry_run, &context.config.paths.root))
}

/// Writes the uncommitted changes of a bundle into the file that `--patch` names.
fn write_patch(args: &ImportArgs, report: &ImportReport) -> Result<Patch> {
    match (&report.patch(), &args.patch) {
        (Some(patch), Some(file)) if !args.dry_run => {
            if file.exists() {
                return Err(Error::RestoreRefused {
                    path: file.clone(),
                    why: "it already exists".into(),
                    flag: "--patch with another name",
                }
                .into());
            }
            atomic::write(file, patch.diff.as_bytes(), atomic::Mode::Private)
                .map_err(Error::file(file, "written"))?;
            Ok(Patch::Written(file.clone()))
        }
        (Some(_), None) => Ok(Patch::Available),
        _ => Ok(Patch::None),
    }
}
