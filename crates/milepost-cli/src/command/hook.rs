//! `hook`: what agents call; not for people.

use crate::agents::Agent;
use crate::cli::Global;
use crate::error::CommandError;
use crate::hook;
use crate::present::Output;

/// Keep what an agent says happens (for its hooks, not for people)
///
/// Reads the agent's JSON on stdin. Prints what the agent's protocol allows and exits 0, also where the store is busy,
/// full or damaged: then `milepost status` and the agent's next session say so. Does nothing where there is no store.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost hook claude-code < payload.json\n  milepost agents install claude-code"
)]
pub(crate) struct HookArgs {
    /// The agent: claude-code, gemini, codex or opencode
    #[arg(value_name = "AGENT")]
    agent: String,
    /// Exit with an error where something went wrong
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(args: &HookArgs, global: &Global, output: &Output) -> Result<(), CommandError> {
    match args.agent.parse::<Agent>().ok() {
        Some(agent) => hook::run(agent, global, args.strict, output),
        // A newer agent's name in an older program is no reason to disturb the agent.
        None if !args.strict => Ok(()),
        None => {
            let names = Agent::ALL.map(Agent::name).join(", ");
            Err(CommandError::usage(format!("no agent \"{}\"; known are {names}", args.agent)))
        }
    }
}
