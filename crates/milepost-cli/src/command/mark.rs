//! `mark`: pins and tags checkpoints; retention keeps them.

use milepost::{MarkChange, Reference};

use crate::completion::Values;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::marks::MarkDocument;

/// Pin or tag a checkpoint so that retention keeps it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost mark latest --pin --tag before-refactoring\n  \
                        milepost mark before-refactoring --untag before-refactoring")]
pub(crate) struct MarkArgs {
    /// Checkpoint to mark
    #[arg(value_name = "REF", add = Values::Reference)]
    reference: String,
    /// Exempt the checkpoint from retention
    #[arg(long, conflicts_with = "unpin")]
    pin: bool,
    /// Remove the pin
    #[arg(long)]
    unpin: bool,
    /// Tag to add (repeatable)
    #[arg(long, value_name = "TAG")]
    tag: Vec<String>,
    /// Tag to remove (repeatable)
    #[arg(long, value_name = "TAG", add = Values::Tag)]
    untag: Vec<String>,
}

pub(crate) fn execute(args: MarkArgs, context: &Context<'_>) -> Result<MarkDocument> {
    let reference: Reference = args.reference.parse()?;
    let change = MarkChange::default()
        .pin((args.pin || args.unpin).then_some(args.pin))
        .tag(args.tag)
        .untag(args.untag);
    if change == MarkChange::default() {
        let message = "nothing to change: --pin, --unpin, --tag or --untag is needed";
        return Err(CommandError::usage(message).with_hint("`milepost help mark` has examples"));
    }
    let mp = context.open_existing()?;
    let run = context.named_run(&mp)?;
    let entry = mp.find(&reference, run.as_ref())?;
    let marks = mp.mark(&entry, &change)?;
    Ok(MarkDocument::new(&entry.header, marks))
}
