//! `mark`: pins and tags, which retention respects.

use milepost::model::{CheckpointId, RunId};
use milepost::{MarkChange, Reference};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::present::format;

/// Pin or tag a checkpoint, so that it is kept
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost mark latest --pin --tag before-refactoring\n  \
                        milepost mark before-refactoring --untag before-refactoring")]
pub(crate) struct MarkArgs {
    /// The checkpoint
    #[arg(value_name = "REF")]
    reference: String,
    /// Keep it whatever its age
    #[arg(long, conflicts_with = "unpin")]
    pin: bool,
    /// No longer keep it for being pinned
    #[arg(long)]
    unpin: bool,
    /// A name to add; may be repeated
    #[arg(long, value_name = "T")]
    tag: Vec<String>,
    /// A name to take away; may be repeated
    #[arg(long, value_name = "T")]
    untag: Vec<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    snapshot_id: &'a CheckpointId,
    run_id: &'a RunId,
    sequence: u64,
    marks: Marks<'a>,
}

#[derive(Serialize)]
struct Marks<'a> {
    pinned: bool,
    tags: &'a [String],
    revision: u64,
}

pub(crate) fn run(args: MarkArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let reference: Reference = args.reference.parse()?;
    let change =
        MarkChange { pin: (args.pin || args.unpin).then_some(args.pin), tag: args.tag, untag: args.untag };
    if change == MarkChange::default() {
        let message = "nothing to change: --pin, --unpin, --tag or --untag is needed";
        return Err(CommandError::usage(message).with_hint("`milepost help mark` has examples"));
    }
    let mp = context.open_existing()?;
    let run = context.named_run(&mp)?;
    let entry = mp.find(&reference, run.as_ref())?;
    let marks = mp.mark(&entry, &change)?;
    let header = &entry.header;
    context.output.record_change(format!("the marks of {} were changed", header.snapshot_id));
    if context.output.json {
        return context.output.document(&Document {
            schema: "milepost.mark/1",
            snapshot_id: &header.snapshot_id,
            run_id: &header.run_id,
            sequence: header.sequence,
            marks: Marks { pinned: marks.pinned, tags: &marks.tags, revision: marks.revision },
        });
    }
    let mut said: Vec<_> = marks.tags.iter().map(|tag| format::clean(tag)).collect();
    if marks.pinned {
        said.insert(0, "pinned".to_owned());
    }
    context.output.message(&if said.is_empty() { "no marks".to_owned() } else { said.join(", ") });
    context.output.text(&format!("{}\n", header.snapshot_id))
}
