//! `man`: the manual page, of everything or of one command.

use crate::cli::find_command;
use crate::error::{CommandError, Result};
use crate::present::reference::ManualDocument;

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost man | man -l -\n  milepost man save | man -l -")]
pub(crate) struct ManArgs {
    /// The command to print the page of
    command: Vec<String>,
}

pub(crate) fn execute(args: &ManArgs) -> Result<ManualDocument> {
    let command = find_command(&args.command)?;
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(CommandError::Stdout)?;
    Ok(ManualDocument { page: String::from_utf8_lossy(&page).into_owned() })
}
