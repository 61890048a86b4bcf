//! `context`: how healthy the agent's context is.

use milepost::model::{ContextChange, ContextDigest, Pressure};
use serde::Serialize;

use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::input::Argument;
use crate::present::saved::{ChangeDocument, ChangeResult};

/// Say how full the agent's context is and what must stay in it
///
/// What is not given stays as it was. It is durable when the command returns, and part of the next checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost context set --pressure high --dropped 12\n  \
                        milepost context set --protect src/parser.rs --protect plan.md --policy strict")]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    action: ContextAction,
}

#[derive(Debug, clap::Subcommand)]
enum ContextAction {
    /// Say how it is now
    #[command(after_help = "Examples:\n  milepost context set --pressure high --dropped 12")]
    Set {
        /// How full the window is: low, medium or high
        #[arg(long, value_name = "P")]
        pressure: Option<Argument<Pressure>>,
        /// How many items were dropped
        #[arg(long, value_name = "N", allow_hyphen_values = true)]
        dropped: Option<Argument<u64>>,
        /// A path or id that must stay; may be repeated
        #[arg(long, value_name = "PATH")]
        protect: Vec<String>,
        /// The active resilience profile
        #[arg(long, value_name = "NAME")]
        policy: Option<String>,
    },
}

#[derive(Serialize)]
pub(crate) struct ContextFields {
    context_digest: Option<ContextDigest>,
}

pub(crate) fn execute(args: ContextArgs, context: &Context<'_>) -> ChangeResult<ContextFields> {
    let ContextAction::Set { pressure, dropped, protect, policy } = args.action;
    let pressure = pressure.map(|p| p.choice("--pressure", "/context_digest/window_pressure")).transpose()?;
    let dropped = dropped.map(|n| n.number("--dropped", "/context_digest/dropped_items")).transpose()?;
    let change = ContextChange { pressure, dropped, protect, policy };
    if change == ContextChange::default() {
        let message = "nothing to change: --pressure, --dropped, --protect or --policy is needed";
        return Err(CommandError::usage(message).with_hint("`milepost help context` has examples"));
    }
    let applied = context.apply(vec![change.into()], &Target::CurrentOrNew)?;
    let context_digest = applied.record().and_then(|record| record.working().context_digest().clone());
    Ok(ChangeDocument::new("milepost.context/1", &applied, ContextFields { context_digest }))
}
