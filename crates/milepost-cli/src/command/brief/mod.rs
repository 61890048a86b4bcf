//! `brief`: creates, shows, checks, merges and fits briefs, the Markdown that lets a new agent continue.

mod check;
mod fit;
mod merge;
mod new;
mod show;
mod source;

use std::path::PathBuf;

use self::source::Source;
use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::brief::BriefDocument;

/// Create, show, check, merge and fit briefs
///
/// A brief is the Markdown that lets a new agent continue: problem, intent, decisions, context, what was
/// done, files, current state, next actions, rules. FILE is a Markdown file, or - for stdin. REF is a
/// checkpoint, as for `show`. Files need no store.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost brief new > brief.md\n  milepost brief check brief.md\n  \
                        milepost save --brief brief.md\n  milepost brief fit latest --budget 1000")]
pub(crate) struct BriefArgs {
    #[command(subcommand)]
    action: BriefAction,
}

#[derive(Debug, clap::Subcommand)]
enum BriefAction {
    /// Print a new brief that continues a checkpoint
    ///
    /// Updates the newest brief of the run with what was recorded since. If the run has no brief, composes
    /// one from recorded facts, and every line names its source. Without a store, composes one from the
    /// project's manifest files.
    #[command(
        after_help = "Examples:\n  milepost brief new > brief.md\n  milepost brief new --from nightly@12"
    )]
    New {
        /// Checkpoint to continue [default: latest]
        #[arg(long, value_name = "REF", add = Values::Reference)]
        from: Option<String>,
    },
    /// Print the brief of a file or a checkpoint
    #[command(
        after_help = "Examples:\n  milepost brief show latest\n  milepost brief show chk-003.md --json"
    )]
    Show {
        /// Checkpoint or file; a file takes precedence
        #[arg(value_name = "REF|FILE", default_value = "latest", add = Values::ReferenceOrFile)]
        source: String,
    },
    /// Report problems in briefs; exit with 1 if one is invalid
    ///
    /// A brief needs `checkpoint` and `created` in the front matter, and eight sections with content:
    /// Problem, Session Intent, Decisions, Technical Context, Play-By-Play, Artifact Trail, Current State,
    /// Next Actions.
    #[command(after_help = "Examples:\n  milepost brief check brief.md\n  milepost brief check checkpoints/")]
    Check {
        /// Files, or folders whose .md files to check
        #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::AnyPath)]
        files: Vec<PathBuf>,
    },
    /// Print a brief with an update merged into it
    ///
    /// Problem, intent and rules stay unless the update contains them. Decisions accumulate and are removed
    /// only by `~~old~~ → new`. Context is matched by key and files by path. Steps are appended. State and
    /// next actions are replaced.
    #[command(after_help = "Examples:\n  milepost brief merge brief.md update.md > new.md\n  \
                            milepost brief merge latest~1 latest")]
    Merge {
        /// Brief to update
        #[arg(value_name = "PREV", add = Values::ReferenceOrFile)]
        previous: String,
        /// Changes
        #[arg(value_name = "UPDATE", add = Values::ReferenceOrFile)]
        update: String,
    },
    /// Print as much of a brief as fits a token budget
    #[command(after_help = "Examples:\n  milepost brief fit brief.md --budget 1000\n  \
                            milepost brief fit latest --budget 300 --overflow shrink --json")]
    Fit(fit::FitArgs),
}

pub(crate) fn execute(args: BriefArgs, context: &Context<'_>) -> Result<BriefDocument> {
    match args.action {
        BriefAction::New { from } => new::execute(from.as_deref(), context).map(BriefDocument::New),
        BriefAction::Show { source } => {
            show::execute(&Source::read(&source, context)?).map(BriefDocument::Show)
        }
        BriefAction::Check { files } => check::execute(&files).map(BriefDocument::Check),
        BriefAction::Merge { previous, update } => {
            merge::execute(&previous, &update, context).map(BriefDocument::Merge)
        }
        BriefAction::Fit(args) => fit::execute(&args, context).map(BriefDocument::Fit),
    }
}

/// The brief of the latest checkpoint.
#[cfg(feature = "mcp")]
pub(super) fn latest(context: &Context<'_>) -> Result<BriefDocument> {
    show::execute(&Source::of_checkpoint("latest", context)?).map(BriefDocument::Show)
}
