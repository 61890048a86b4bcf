//! `context`: how healthy the agent's context is.

use milepost::model::{ContextChange, Pressure};

use super::number;
use crate::config::word;
use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::present::saved::Changed;

/// Say how full the agent's context is and what must stay in it
///
/// What is not given stays as it was. It is durable when the command returns, and part of the next checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost context set --pressure high --dropped 12\n  \
                        milepost context set --protect src/parser.rs --protect plan.md --policy strict")]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Say how it is now
    #[command(after_help = "Examples:\n  milepost context set --pressure high --dropped 12")]
    Set {
        /// How full the window is: low, medium or high
        #[arg(long, value_name = "P")]
        pressure: Option<String>,
        /// How many items were dropped
        #[arg(long, value_name = "N", allow_hyphen_values = true)]
        dropped: Option<String>,
        /// A path or id that must stay; may be repeated
        #[arg(long, value_name = "PATH")]
        protect: Vec<String>,
        /// The active resilience profile
        #[arg(long, value_name = "NAME")]
        policy: Option<String>,
    },
}

pub(crate) fn run(args: ContextArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let What::Set { pressure, dropped, protect, policy } = args.what;
    let pressure = pressure
        .map(|text| word::<Pressure>(&text, "--pressure", "/context_digest/window_pressure"))
        .transpose()?;
    let dropped =
        dropped.map(|text| number(&text, "--dropped", "/context_digest/dropped_items")).transpose()?;
    let change = ContextChange { pressure, dropped, protect, policy };
    if change == ContextChange::default() {
        let message = "nothing to change: --pressure, --dropped, --protect or --policy is needed";
        return Err(CommandError::usage(message).with_hint("`milepost help context` has examples"));
    }
    let applied = context.apply(vec![change.into()], &Target::CurrentOrNew)?;
    let read = |mp: &milepost::Milepost| mp.run_detail(&applied.run).ok()?.summary.record.ok();
    let record = applied.mp.as_ref().filter(|_| context.output.json).and_then(read);
    let digest = record.and_then(|record| record.working.context_digest);
    let what = serde_json::json!({ "context_digest": digest });
    Changed { schema: "milepost.context/1", applied: &applied, what }.present(context.output)
}
