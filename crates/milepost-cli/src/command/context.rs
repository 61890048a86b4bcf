//! `context`: records how full the agent's context is and what must stay in it.

use milepost::model::{ContextChange, ContextDigest, Pressure};
use serde::Serialize;

use crate::completion::Values;
use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::input::Argument;
use crate::present::saved::{ChangeDocument, ChangeResult};

/// Record how full the agent's context is and what must stay in it
///
/// Omitted values do not change. The change is durable when the command returns and is part of the next
/// checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost context set --pressure high --dropped 12\n  \
                        milepost context set --protect src/parser.rs --protect plan.md --policy strict")]
pub(crate) struct ContextArgs {
    #[command(subcommand)]
    action: ContextAction,
}

#[derive(Debug, clap::Subcommand)]
enum ContextAction {
    /// Record how full the agent's context is and what must stay in it
    #[command(after_help = "Examples:\n  milepost context set --pressure high --dropped 12\n  \
                            milepost context set --protect src/parser.rs --protect plan.md --policy strict")]
    Set {
        /// Fill level of the context window: low, medium or high
        #[arg(long, value_name = "LEVEL", add = Values::Words(Pressure::NAMES))]
        pressure: Option<Argument<Pressure>>,
        /// Number of items dropped from the context
        #[arg(long, value_name = "N", allow_hyphen_values = true)]
        dropped: Option<Argument<u64>>,
        /// Path or id that must stay in the context (repeatable)
        #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
        protect: Vec<String>,
        /// Name of the active resilience profile
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
        let message = "nothing to change: pass at least one of --pressure, --dropped, --protect and --policy";
        return Err(CommandError::usage(message).with_hint("`milepost help context` has examples"));
    }
    let applied = context.apply(vec![change.into()], &Target::CurrentOrNew)?;
    let context_digest = applied.record().and_then(|record| record.working().context_digest().clone());
    Ok(ChangeDocument::new("milepost.context/1", &applied, ContextFields { context_digest }))
}
