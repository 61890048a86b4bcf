//! `man`: the manual page, of everything or of one command.

use crate::cli::named;
use crate::error::CommandError;
use crate::present::Output;

/// Print the manual page
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost man | man -l -\n  milepost man save | man -l -")]
pub(crate) struct ManArgs {
    /// The command to print the page of
    command: Vec<String>,
}

pub(crate) fn run(args: &ManArgs, output: &Output) -> Result<(), CommandError> {
    let command = named(&args.command)?;
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(CommandError::Stdout)?;
    if output.json {
        let page = String::from_utf8_lossy(&page);
        return output.document(&serde_json::json!({ "schema": "milepost.man/1", "page": page }));
    }
    output.bytes(&page)
}
