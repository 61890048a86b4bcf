//! `brief merge`: prints a brief with an update merged into it.

use super::source::Source;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::brief::MergeDocument;

pub(super) fn execute(previous: &str, update: &str, context: &Context<'_>) -> Result<MergeDocument> {
    if previous == "-" && update == "-" {
        return Err(CommandError::usage("only one of the two can be stdin"));
    }
    let (previous, update) = (Source::read(previous, context)?, Source::read(update, context)?);
    let merged = previous.brief.merge(&update.brief);
    Ok(MergeDocument {
        markdown: merged.brief.markdown(),
        warnings: merged.notes,
        fallbacks: [previous.fallback(), update.fallback()],
    })
}
