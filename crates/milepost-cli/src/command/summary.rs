//! `summary`: summarises a run: its checkpoints and sessions, its tasks, the files it touched, its memory use
//! and failures, including what was recorded since the newest checkpoint.

#[cfg(feature = "ui")]
use std::path::PathBuf;

use milepost::model::RunId;
use milepost::{Milepost, Reference};

#[cfg(feature = "ui")]
use super::summary_file::{self, Target};

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::summary::SummaryDocument;
#[cfg(feature = "ui")]
use crate::present::{
    one_of::OneOf,
    summary_file::{FileFormat, SummaryFileDocument},
};

/// Summarise a run: checkpoints, tasks, files, memory, failures
///
/// Without RUN, uses the run that --run or MILEPOST_RUN names, or the one that was written last.
#[derive(Debug, clap::Args)]
#[cfg_attr(
    feature = "ui",
    command(after_help = "Examples:\n  milepost summary\n  milepost summary nightly -v\n  \
                          milepost summary nightly --html report.html\n  \
                          milepost summary nightly --svg - > timeline.svg\n\n\
                          Files contain no secrets that Milepost recognises, even if redaction is off.\n\n\
                          Exit codes: 15 if FILE exists and is something else (--yes replaces it).")
)]
#[cfg_attr(
    not(feature = "ui"),
    command(after_help = "Examples:\n  milepost summary\n  milepost summary nightly -v\n  \
                          milepost summary nightly --json")
)]
pub(crate) struct SummaryArgs {
    /// Run to summarise
    #[arg(value_name = "RUN", add = Values::Run)]
    run_id: Option<String>,
    /// Write the timeline as an SVG file instead (- = stdout)
    #[cfg(feature = "ui")]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    svg: Option<PathBuf>,
    /// Write a report with the timeline as an HTML file instead (- = stdout)
    #[cfg(feature = "ui")]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with = "svg")]
    html: Option<PathBuf>,
}

#[cfg(feature = "ui")]
pub(crate) fn execute(
    args: SummaryArgs,
    context: &Context<'_>,
) -> Result<OneOf<SummaryDocument, SummaryFileDocument>> {
    let target = match (&args.svg, &args.html) {
        (Some(path), _) => Some(Target { path: path.clone(), format: FileFormat::Svg }),
        (_, Some(path)) => Some(Target { path: path.clone(), format: FileFormat::Html }),
        _ => None,
    };
    let (mp, run) = find_run(&args, context)?;
    match target {
        Some(target) => Ok(OneOf::Second(summary_file::execute(target, &run, &mp, context)?)),
        None => Ok(OneOf::First(SummaryDocument { summary: mp.summary(&run)? })),
    }
}

#[cfg(not(feature = "ui"))]
pub(crate) fn execute(args: SummaryArgs, context: &Context<'_>) -> Result<SummaryDocument> {
    let (mp, run) = find_run(&args, context)?;
    Ok(SummaryDocument { summary: mp.summary(&run)? })
}

/// The store, and the run to summarise.
fn find_run(args: &SummaryArgs, context: &Context<'_>) -> Result<(Milepost, RunId)> {
    let named = args.run_id.as_deref().map(str::parse::<RunId>).transpose()?;
    let mp = context.open_existing()?;
    let run = match named {
        Some(run) => context.visible_run(&mp, &run)?,
        None => default_run(&mp, context)?,
    };
    Ok((mp, run))
}

/// The named run, or the run of the checkpoint that was written last.
fn default_run(mp: &Milepost, context: &Context<'_>) -> Result<RunId> {
    let latest = Reference::Latest(0);
    match context.run_of_reference(mp, &latest)? {
        Some(run) => Ok(run),
        None => Ok(mp.find(&latest, None)?.header.run_id().clone()),
    }
}
