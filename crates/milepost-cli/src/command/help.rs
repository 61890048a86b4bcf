//! `help`: the short list, every command, or one command with its examples.

use clap::CommandFactory;

use crate::cli::{Cli, named, whole};
use crate::error::CommandError;
use crate::present::Output;

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

pub(crate) fn run(args: &HelpArgs, output: &Output) -> Result<(), CommandError> {
    let mut command = match (args.command.is_empty(), args.all) {
        (false, _) => named(&args.command)?,
        (true, true) => whole(),
        (true, false) => Cli::command(),
    };
    let text = if args.command.is_empty() { command.render_help() } else { command.render_long_help() };
    let text = text.ansi().to_string();
    if output.json {
        let text = command.render_long_help().to_string();
        return output.document(&serde_json::json!({ "schema": "milepost.help/1", "text": text }));
    }
    output.text(&text)
}
