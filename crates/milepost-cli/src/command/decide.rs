//! `decide`: records a decision, so that later sessions do not raise the question again.

use milepost::model::Change;
use serde::Serialize;

use crate::context::{Context, Target};
use crate::present::saved::{ChangeDocument, ChangeResult};

/// Record a decision; decisions are never dropped
///
/// The decision is durable when the command returns and is part of every later checkpoint.
#[derive(Debug, Serialize, clap::Args)]
#[command(after_help = "Examples:\n  milepost decide \"use SQLite\"\n  \
                        milepost decide \"use plain files\" --supersedes \"use SQLite\"")]
pub(crate) struct DecideArgs {
    /// Decision
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) text: String,
    /// Exact text of the earlier decision that this one replaces
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
        let warning = format!("Warning: {run} has no decision \"{old}\"; the new one was recorded anyway");
        context.output.message(&warning);
    }
    Ok(ChangeDocument::new("milepost.decide/1", &applied, args))
}
