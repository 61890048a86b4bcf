//! `mcp`: serves an agent over stdin and stdout; not meant for people. Each tool does the same as the command
//! of that name.

mod arguments;
mod file;
mod handler;
mod patch;
mod project_file;
mod restore;
mod resume;
mod tasks;

use std::io::IsTerminal as _;

use crate::cli::Global;
use crate::error::{CommandError, Result};
use crate::present::Output;

/// Serve an agent over stdin and stdout (MCP)
///
/// Speaks the Model Context Protocol. Tools: resume, save, tasks, step, decide, record, list, show, diff,
/// complete, patch, file, restore, undo. Resources: the latest brief and each run. Prompt: resume. --run,
/// --store and --profile apply to every call. Exits when stdin is closed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost mcp\n  claude mcp add milepost -- milepost mcp\n  \
                  npx @modelcontextprotocol/inspector --cli milepost mcp --method tools/list")]
pub(crate) struct McpArgs {}

pub(crate) fn serve(_: &McpArgs, global: &Global, output: &Output) -> Result<()> {
    if std::io::stdin().is_terminal() {
        output.message("waiting for messages from an agent (press Ctrl-D to stop); see `milepost help mcp`");
    }
    super::change_directory(global)?;
    milepost_mcp::serve(handler::CommandHandler::new(global.clone())).map_err(CommandError::Stdout)
}
