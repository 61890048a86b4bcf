//! `decide`: a decision that must not be asked again.

use milepost::model::Change;
use serde::Serialize;

use crate::context::{Context, Target};
use crate::present::saved::{ChangeDocument, ChangeResult};

/// Record a decision, which is never dropped
///
/// The decision is durable when the command returns, and part of every later checkpoint.
#[derive(Debug, Serialize, clap::Args)]
#[command(after_help = "Examples:\n  milepost decide \"SQLite is the default store\"\n  \
                        milepost decide \"files are the default store\" --supersedes \"SQLite is the default store\"")]
pub(crate) struct DecideArgs {
    /// Decision
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) text: String,
    /// Earlier decision that this one replaces, word for word
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) supersedes: Option<String>,
}

pub(crate) fn execute(args: DecideArgs, context: &Context<'_>) -> ChangeResult<DecideArgs> {
    let change = Change::Decision { text: args.text.clone(), supersedes: args.supersedes.clone() };
    let applied = context.apply(vec![change], &Target::CurrentOrNew)?;
    if let (Some(old), Some(record)) = (&args.supersedes, applied.record())
        && !record.working().decisions().iter().any(|decision| decision.text == *old)
    {
        let run = &applied.run;
        let warning = format!("Warning: no decision of {run} reads \"{old}\"; it is noted all the same");
        context.output.message(&warning);
    }
    Ok(ChangeDocument::new("milepost.decide/1", &applied, args))
}
