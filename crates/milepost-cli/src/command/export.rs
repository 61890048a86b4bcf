//! `export`: writes a run or one checkpoint in the format of another tool, or as a bundle for another
//! machine.

use std::path::PathBuf;

use milepost::internal::capture::commit_distance::uncommitted_diff;
use milepost::internal::interop::Patch;
use milepost::interop::Format;
use milepost::model::RunId;
use milepost::{ExportOptions, Milepost, Reference};

use crate::completion::Values;
use crate::config::parse_choice;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::transfer::ExportDocument;

/// Export a run or a checkpoint in the format of another tool
///
/// Formats: pai, snapshot, aiwg and markdown (a folder), nova26 (a SQLite file), jsonl (one sealed document
/// per line) and bundle (a whole run in one file, for `milepost import bundle` elsewhere). Lists what the
/// format cannot represent.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost export markdown latest brief.md\n  milepost export pai nightly ~/.pai\n  \
                        milepost export bundle nightly nightly.bundle --with-patch\n  \
                        milepost export bundle nightly nightly.bundle --with-files\n\n\
                        Exit codes: 15 if the target exists (--force overwrites it) or a bundle would contain \
                        secrets (--yes includes them)."
)]
pub(crate) struct ExportArgs {
    /// Format: pai, nova26, snapshot, aiwg, markdown, jsonl or bundle
    #[arg(value_name = "FORMAT", add = Values::Words(Format::NAMES))]
    format: String,
    /// Run or checkpoint to export
    #[arg(value_name = "REF|RUN", add = Values::RunOrReference)]
    what: String,
    /// File or folder to write [default: named after the run and the format]
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    path: Option<PathBuf>,
    /// Overwrite an existing target
    #[arg(long)]
    force: bool,
    /// Include uncommitted changes in a bundle
    #[arg(long)]
    with_patch: bool,
    /// Include the contents of files in a bundle, so that they can be restored elsewhere
    #[arg(long)]
    with_files: bool,
    /// Include files that contain secrets
    #[arg(long, requires = "with_files")]
    with_secrets: bool,
    /// Show what would be written and what would be lost, without writing anything
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn execute(args: ExportArgs, context: &Context<'_>) -> Result<ExportDocument> {
    let format = parse_choice::<Format>(&args.format, "FORMAT", "/format")?;
    if args.with_patch && format != Format::Bundle {
        return Err(CommandError::usage("--with-patch works only with the bundle format"));
    }
    if args.with_files && format != Format::Bundle {
        return Err(CommandError::usage("--with-files works only with the bundle format"));
    }
    let settings = context.settings().files_with_secrets(args.with_secrets);
    let mp = context.open_existing()?.with_settings(settings);
    let (run, reference) = resolve(&args.what, &mp, context)?;
    let patch = if args.with_patch {
        let (head, diff) = uncommitted_diff(&context.config.paths.root).map_err(CommandError::usage)?;
        Some(Patch { head: Some(head), diff })
    } else {
        None
    };
    let path = args.path.clone().unwrap_or_else(|| {
        PathBuf::from(match format {
            Format::Nova26 => format!("{run}.db"),
            Format::Jsonl => format!("{run}.jsonl"),
            Format::Bundle => format!("{run}.bundle"),
            folder => format!("{run}-{folder}"),
        })
    });
    super::refuse_link(&path, context)?;
    let patch_bytes = patch.as_ref().map(|patch| patch.diff.len() as u64);
    let mut options = ExportOptions::new(format, run.clone(), &path)
        .force(args.force)
        .with_secrets(context.output.yes || args.with_secrets)
        .with_files(args.with_files)
        .patch(patch)
        .dry_run(args.dry_run);
    let mut progress = context.output.progress();
    let report = mp.retry_if_removed(|| {
        if let Some(reference) = &reference {
            options = options.clone().only(mp.find(reference, Some(&run))?);
        }
        mp.export(&options, &mut |n| progress.at("checkpoints read", n))
    })?;
    drop(progress);
    Ok(ExportDocument::new(format, run, path, args.dry_run, patch_bytes, report))
}

/// Resolves a run id, or any reference to a checkpoint.
fn resolve(text: &str, mp: &Milepost, context: &Context<'_>) -> Result<(RunId, Option<Reference>)> {
    let reference: Reference = text.parse()?;
    let named = context.visible_named_run(mp)?;
    let exact =
        text.parse::<RunId>().ok().filter(|run| mp.store().run(run).is_ok_and(|found| found.is_some()));
    let run = match exact {
        Some(run) => Some(run),
        None => mp.run_of_latest(&reference, named.as_ref())?,
    };
    if let Some(run) = run {
        context.ensure_visible(mp, &run)?;
        return Ok((run, None));
    }
    let scope = context.run_of_reference(mp, &reference)?;
    let entry = mp.find(&reference, scope.as_ref())?;
    context.ensure_visible(mp, entry.header.run_id())?;
    Ok((entry.header.run_id().clone(), Some(reference)))
}
