//! `brief new`: a brief that continues a checkpoint, or the first one of a project.

use milepost::internal::brief::fresh_id;
use milepost::internal::brief::{BriefFacts, compose};
use milepost::internal::capture::manifests;
use milepost::{CheckpointBrief, Reference};
use milepost::{Clock, SystemClock};
use milepost::{Error, ReasonCode};
use serde::Serialize;

use super::print;
use crate::context::Context;
use crate::error::CommandError;
use crate::present::damage::fell_back;

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    markdown: &'a str,
    from: Option<String>,
    carried_from: Option<String>,
}

pub(super) fn run(from: Option<&str>, context: &Context<'_>) -> Result<(), CommandError> {
    let manifests = manifests(&context.config.place.root);
    let made = match (continued(from, &manifests, context), from) {
        (Ok(made), _) => made,
        // The first brief of a project continues nothing.
        (Err(CommandError::Library(e)), None) if is_first(&e) => {
            let now = SystemClock.now();
            let facts = BriefFacts {
                id: fresh_id(now),
                created: now,
                manifests: &manifests,
                ..BriefFacts::default()
            };
            let markdown = compose(&facts);
            return write(&markdown, None, None, context);
        }
        (Err(e), _) => return Err(e),
    };
    let name = |entry: &milepost::store::CheckpointEntry| entry.header.snapshot_id.to_string();
    write(&made.markdown, Some(name(&made.entry)), made.carried_from.as_ref().map(name), context)?;
    fell_back(context.output, &made.fell_back_from, &made.entry.header.snapshot_id)
}

fn continued(
    from: Option<&str>,
    manifests: &[milepost::internal::model::Manifest],
    context: &Context<'_>,
) -> Result<CheckpointBrief, CommandError> {
    let reference: Reference = from.unwrap_or("latest").parse()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &reference)?;
    let made = mp.new_brief(&reference, run.as_ref(), manifests)?;
    context.ensure_visible(&mp, &made.entry.header.run_id)?;
    Ok(made)
}

fn is_first(e: &Error) -> bool {
    matches!(e.reason(), ReasonCode::StoreMissing | ReasonCode::CheckpointNotFound)
}

fn write(
    markdown: &str,
    from: Option<String>,
    carried_from: Option<String>,
    context: &Context<'_>,
) -> Result<(), CommandError> {
    if context.output.json {
        let schema = "milepost.brief_new/1";
        return context.output.document(&Document { schema, markdown, from, carried_from });
    }
    print(markdown, context)
}
