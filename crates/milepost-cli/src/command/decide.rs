//! `decide`: a decision that must not be asked again.

use milepost::model::Change;
use milepost::{Error, Milepost};

use crate::context::Context;
use crate::failure::Failure;
use crate::present::saved::Changed;

/// Record a decision, which is never dropped
///
/// It is durable when the command returns, and part of every checkpoint from the next one on.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost decide \"SQLite is the default store\"\n  \
                        milepost decide \"files are the default store\" --supersedes \"SQLite is the default store\"")]
pub(crate) struct DecideArgs {
    /// What was decided
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    text: String,
    /// The decision it replaces, word for word
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    supersedes: Option<String>,
}

pub(crate) fn run(args: DecideArgs, context: &Context<'_>) -> Result<(), Failure> {
    let mp = context.writer()?;
    let run = context.run_to_write(&mp)?;
    if let Some(old) = &args.supersedes
        && !is_known(&mp, &run, old)?
    {
        context
            .screen
            .talk(&format!("Warning: no decision of {run} reads {old:?}; it is noted all the same"));
    }
    let what = serde_json::json!({ "text": args.text, "supersedes": args.supersedes });
    let change = Change::Decision { text: args.text, supersedes: args.supersedes };
    mp.apply(&run, vec![change], context.plain_save())?;
    Changed { schema: "milepost.decide/1", run: &run, saved: None, what }.present(context.screen)
}

fn is_known(mp: &Milepost, run: &milepost::model::RunId, text: &str) -> Result<bool, Error> {
    match mp.run_detail(run) {
        Ok(detail) => {
            let record = detail.summary.record;
            Ok(record.is_ok_and(|record| record.working.decisions.iter().any(|known| known.text == text)))
        }
        Err(Error::NoRun(_)) => Ok(false),
        Err(e) => Err(e),
    }
}
