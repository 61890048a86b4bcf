//! `help`: the short list, every command, or one command with its examples.

use clap::CommandFactory;

use crate::cli::{Cli, find_command, full_command};
use crate::error::Result;
use crate::present::reference::HelpDocument;

/// Show the commands, or one with its examples
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost help --all\n  milepost help save\n  milepost help task run")]
pub(crate) struct HelpArgs {
    /// The command to explain
    command: Vec<String>,
    /// Show every command
    #[arg(long)]
    all: bool,
}

pub(crate) fn execute(args: &HelpArgs) -> Result<HelpDocument> {
    let mut command = match (args.command.is_empty(), args.all) {
        (false, _) => find_command(&args.command)?,
        (true, true) => full_command(),
        (true, false) => Cli::command(),
    };
    let shown = if args.command.is_empty() { command.render_help() } else { command.render_long_help() };
    let text = command.render_long_help().to_string();
    Ok(HelpDocument { text, styled: shown.ansi().to_string() })
}
