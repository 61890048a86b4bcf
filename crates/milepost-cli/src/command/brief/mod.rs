//! `brief`: the Markdown that lets a fresh agent continue: made, shown, checked, merged, fitted to a budget.

mod check;
mod fit;
mod merge;
mod new;
mod show;
mod source;

use std::path::PathBuf;

use self::source::Source;
use crate::context::Context;
use crate::error::Result;
use crate::present::brief::BriefDocument;

/// Make, show, check, merge and fit briefs
///
/// A brief is the Markdown that lets a fresh agent continue: problem, intent, decisions, context, what was done, files,
/// current state, next actions, rules. FILE is a Markdown file, or - for stdin; REF is a checkpoint, as for show. Files
/// need no store.
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
    /// The newest brief of the run is carried forward by what was recorded since; without one it is made of facts, each
    /// line saying what it rests on. Without a store it is made of what the project's manifest files say.
    #[command(
        after_help = "Examples:\n  milepost brief new > brief.md\n  milepost brief new --from nightly@12"
    )]
    New {
        /// The checkpoint to continue [default: latest]
        #[arg(long, value_name = "REF")]
        from: Option<String>,
    },
    /// Print a brief: a file, a checkpoint's own, or one made of its facts
    #[command(
        after_help = "Examples:\n  milepost brief show latest\n  milepost brief show chk-003.md --json"
    )]
    Show {
        /// A checkpoint or a file; a file goes first
        #[arg(value_name = "REF|FILE", default_value = "latest")]
        source: String,
    },
    /// Say what is wrong with briefs; exit 1 where one is not valid
    ///
    /// Required are `checkpoint` and `created` in the front matter, and eight sections with something in them: Problem,
    /// Session Intent, Decisions, Technical Context, Play-By-Play, Artifact Trail, Current State, Next Actions.
    #[command(after_help = "Examples:\n  milepost brief check brief.md\n  milepost brief check checkpoints/")]
    Check {
        /// Files, or folders of which every .md file is meant
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Print a brief carried forward by an update of it
    ///
    /// Problem, intent and rules stay unless given; decisions accumulate and leave only by `~~old~~ → new`; context is
    /// known by its keys, files by their paths; steps are appended; state and next actions are replaced.
    #[command(after_help = "Examples:\n  milepost brief merge brief.md update.md > new.md\n  \
                            milepost brief merge latest~1 latest")]
    Merge {
        /// The brief that stands
        #[arg(value_name = "PREV")]
        previous: String,
        /// What changed
        #[arg(value_name = "UPDATE")]
        update: String,
    },
    /// Print as much of a brief as fits a token budget, the most important first
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
