//! `brief merge`: a brief carried forward by an update of it.

use serde::Serialize;

use super::print;
use super::source::Source;
use crate::context::Context;
use crate::error::CommandError;
use crate::present::brief::{FindingDocument, warn};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    markdown: &'a str,
    warnings: Vec<FindingDocument<'a>>,
}

pub(super) fn run(previous: &str, update: &str, context: &Context<'_>) -> Result<(), CommandError> {
    if previous == "-" && update == "-" {
        return Err(CommandError::usage("only one of the two can be stdin"));
    }
    let (previous, update) = (Source::read(previous, context)?, Source::read(update, context)?);
    let merged = previous.brief.merge(&update.brief);
    let markdown = merged.brief.markdown();
    if context.output.json {
        let warnings = FindingDocument::all(&merged.notes);
        context.output.document(&Document {
            schema: "milepost.brief_merge/1",
            markdown: &markdown,
            warnings,
        })?;
    } else {
        warn(context.output, &merged.notes);
        print(&markdown, context)?;
    }
    previous.end(context)?;
    update.end(context)
}
