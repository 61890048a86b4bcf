//! `hook`: the command that agents call; not meant for people.

use crate::agents::{agent_names, find_agent};
use crate::cli::Global;
use crate::command::agents::unknown_agent;
use crate::completion::Values;
use crate::error::Result;
use crate::hook;
use crate::present::Output;

/// Record an agent's event (called by its hooks)
///
/// Reads the agent's JSON from stdin. Prints only what the agent's protocol allows, and exits 0 even if the
/// store is busy, full or damaged: `milepost status` and the agent's next session report such problems. Does
/// nothing in projects without a store.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost hook claude-code < payload.json\n  milepost agents install claude-code"
)]
pub(crate) struct HookArgs {
    #[arg(value_name = "AGENT", help = format!("Agent that sends the event: {}", agent_names()), add = Values::Agent)]
    agent: String,
    /// Exit with an error if something fails
    #[arg(long)]
    strict: bool,
    /// Do nothing if `milepost agents install` set up the same agent (for the hooks of plugins)
    #[arg(long, hide = true)]
    plugin: bool,
    /// Finish a snapshot of the files that took too long (started by hooks in the background)
    #[arg(long, hide = true)]
    finish_snapshot: bool,
}

pub(crate) fn run(args: &HookArgs, global: &Global, output: &Output) -> Result<()> {
    match find_agent(&args.agent) {
        Some(_) if args.finish_snapshot => hook::background::run(global, output),
        Some(agent) => {
            let options = hook::Options { is_strict: args.strict, is_plugin: args.plugin };
            hook::run(agent, global, options, output)
        }
        // This version may be too old to know the agent, which must not notice.
        None if !args.strict => Ok(()),
        None => Err(unknown_agent(&args.agent)),
    }
}
