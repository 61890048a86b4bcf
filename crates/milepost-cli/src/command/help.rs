//! `help`: the short list, every command, or one command with its examples.

use clap::CommandFactory;

use crate::cli::{Cli, whole};
use crate::failure::Failure;
use crate::present::Screen;

/// Show the commands, or one with its examples
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost help --all\n  milepost help save")]
pub(crate) struct HelpArgs {
    /// The command to explain
    command: Option<String>,
    /// Show every command
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &HelpArgs, screen: &Screen) -> Result<(), Failure> {
    let mut command = if args.all { whole() } else { Cli::command() };
    if let Some(name) = &args.command {
        let mut full = whole();
        full.build();
        let Some(found) = full.find_subcommand(name) else {
            return Err(
                Failure::usage(format!("no command {name:?}")).hint("`milepost help --all` lists them")
            );
        };
        command = found.clone();
    }
    let text = if args.command.is_some() { command.render_long_help() } else { command.render_help() };
    let text = text.ansi().to_string();
    if screen.json {
        let text = command.render_long_help().to_string();
        return screen.document(&serde_json::json!({ "schema": "milepost.help/1", "text": text }));
    }
    screen.text(&text)
}
