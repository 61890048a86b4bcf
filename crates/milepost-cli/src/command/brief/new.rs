//! `brief new`: prints a brief that continues a checkpoint, or the first brief of a project.

use milepost::internal::brief::CheckpointBrief;
use milepost::internal::brief::{BriefFacts, compose, fresh_id};
use milepost::internal::capture::project_facts;
use milepost::internal::clock::SystemClock;
use milepost::{Error, ReasonCode, Reference};

use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::brief::NewDocument;
use crate::present::damage::Fallback;

pub(super) fn execute(from: Option<&str>, context: &Context<'_>) -> Result<NewDocument> {
    let made = match (continued(from, context), from) {
        (Ok(made), _) => made,
        // The first brief of a project continues nothing.
        (Err(CommandError::Library(e)), None) if is_first(&e) => {
            let now = milepost::Clock::now(&SystemClock);
            let project = project_facts(&context.config.paths.root, None);
            let facts = BriefFacts { id: fresh_id(now), created: now, project, ..BriefFacts::default() };
            let (markdown, fallback) = (compose(&facts), Fallback::default());
            return Ok(NewDocument { markdown, from: None, carried_from: None, fallback });
        }
        (Err(e), _) => return Err(e),
    };
    let id = made.entry.header.snapshot_id();
    Ok(NewDocument {
        markdown: made.markdown,
        fallback: Fallback::new(made.fell_back_from, id),
        from: Some(id.clone()),
        carried_from: made.carried_from.map(|entry| entry.header.snapshot_id().clone()),
    })
}

fn continued(from: Option<&str>, context: &Context<'_>) -> Result<CheckpointBrief> {
    let reference: Reference = from.unwrap_or("latest").parse()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &reference)?;
    let made = mp.new_brief(&reference, run.as_ref(), Some(&context.config.paths.root))?;
    context.ensure_visible(&mp, made.entry.header.run_id())?;
    Ok(made)
}

fn is_first(e: &Error) -> bool {
    matches!(e.reason(), ReasonCode::StoreMissing | ReasonCode::CheckpointNotFound)
}
