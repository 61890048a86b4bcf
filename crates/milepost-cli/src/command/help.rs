//! `help`: shows all commands in groups, or one command with its examples.

use crate::cli::{find_command, help_page};
use crate::completion::Values;
use crate::error::Result;
use crate::present::reference::HelpDocument;

/// Show all commands, or explain one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost help\n  milepost help save\n  milepost help task run")]
pub(crate) struct HelpArgs {
    /// Command to explain
    #[arg(value_name = "COMMAND", add = Values::Command)]
    command: Vec<String>,
    /// Show all commands, which is the default
    #[arg(long, hide = true)]
    all: bool,
}

pub(crate) fn execute(args: &HelpArgs) -> Result<HelpDocument> {
    // `--all` changes nothing: all commands are shown by default.
    let HelpArgs { command, all: _ } = args;
    find_command(command)?;
    Ok(HelpDocument::of_text(&help_page(command)))
}
