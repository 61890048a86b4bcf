//! `note`: adds a line to the log of a run.

use milepost::model::Change;
use serde::Serialize;

use crate::context::{Context, Target};
use crate::present::saved::{ChangeDocument, ChangeResult};

/// Add a line to the log of a run
///
/// The line is durable when the command returns and is part of the next checkpoint. A run keeps the newest
/// 200 lines.
#[derive(Debug, Serialize, clap::Args)]
#[command(after_help = "Examples:\n  milepost note \"the parser needs a second pass\"\n  \
                        milepost note --run nightly \"retrying\"")]
pub(crate) struct NoteArgs {
    /// Text of the line
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: String,
}

pub(crate) fn execute(args: NoteArgs, context: &Context<'_>) -> ChangeResult<NoteArgs> {
    let applied = context.apply(vec![Change::Note(args.text.clone())], &Target::CurrentOrNew)?;
    Ok(ChangeDocument::new("milepost.note/1", &applied, args))
}
