//! The tool `patch`: compares files as `diff --patch` does, with paths relative to the root of the project and
//! output of a limited size.

use milepost_mcp::arguments;

use super::file::{MAX_TEXT, project_path};
use crate::command::diff::{self, DiffArgs};
use crate::context::Context;
use crate::error::Result;
use crate::present::format::counted;
use crate::present::patch::PatchDocument;

/// Maximum number of files to list.
const MAX_FILES: usize = 500;

pub(super) fn execute(args: arguments::Patch, context: &Context<'_>) -> Result<PatchDocument> {
    let paths = args.paths.iter().map(|path| project_path(path, context)).collect::<Result<Vec<_>>>()?;
    let args = DiffArgs {
        from: args.from,
        worktree: args.to.is_none(),
        to: args.to,
        paths,
        patch: !args.stat,
        stat: args.stat,
        ..DiffArgs::default()
    };
    let document = diff::compare_files(args, context)?.bounded(MAX_FILES, MAX_TEXT);
    match document.cut() as u64 {
        0 => {}
        n => context.output.message(&format!(
            "The unified diff of {} was cut or left out, because the limit is 64 KiB; use paths to select files",
            counted(n, "file")
        )),
    }
    Ok(document)
}
