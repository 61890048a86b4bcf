//! The tool `resume`: returns the brief of the interrupted run. If no run was interrupted, returns the brief
//! of the session's own run, because an agent needs it after its context has been truncated.

use std::path::Path;

use milepost::internal::engine::RunResolution;
use milepost::model::RunId;
use milepost::{Milepost, Reference};
use milepost_mcp::arguments;

use super::project_file;
use crate::command::resume::{self, ResumeArgs};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::handover::{self, RecordOrigin};
use crate::present::resume::{DecisionDocument, ResumeDocument};

pub(super) fn execute(given: &arguments::Resume, context: &Context<'_>) -> Result<ResumeDocument> {
    let exclusive = [given.check, given.start, given.dismiss, given.from.is_some()];
    if exclusive.iter().filter(|set| **set).count() > 1 || given.from.is_some() && given.run.is_some() {
        return Err(CommandError::usage(
            "only one of check, start, dismiss and from can be used, and from not together with run",
        ));
    }
    let args = ResumeArgs { budget: given.budget, check: given.check, ..ResumeArgs::default() };
    let decision = |document| Ok(ResumeDocument::Decision(Box::new(document)));
    if let Some(file) = &given.from {
        let text = project_file::read(&context.config.paths.root, file, &context.config.redact_allow)?;
        return decision(resume::from_brief(Path::new(file), text.into_bytes(), &args, context)?);
    }
    let changes = given.start || given.dismiss;
    let mp = if changes { context.open_existing()? } else { context.open_read_only()? };
    let found = match resume::find_run(&mp, given.run.as_deref(), context)? {
        None if !changes => run_of_session(&mp, context)?.map(|run| (run, 0)),
        found => found,
    };
    let Some((run, others)) = found else { return decision(DecisionDocument::nothing()) };
    if given.dismiss {
        return resume::dismiss(&mp, run).map(ResumeDocument::Dismissed);
    }
    let from = mp.assess(&run, given.take_over)?;
    let mut document = resume::describe(&mp, from, others, &args, context)?;
    if given.start {
        document.started = Some(resume::start(&mp, &run, given.take_over, context)?);
    }
    decision(document)
}

/// The run that this session works on. While that run has no checkpoint, the run that it continues.
fn run_of_session(mp: &Milepost, context: &Context<'_>) -> Result<Option<RunId>> {
    let RunResolution::Run(run) = context.current_run(mp)? else { return Ok(None) };
    let Some(state) = mp.store().run(&run)? else { return Ok(None) };
    if state.row.count > 0 {
        return Ok(Some(run));
    }
    let parent = state.row.record.ok().and_then(|record| record.parent().clone());
    let found = parent.map(|parent| mp.find(&parent.as_str().parse::<Reference>()?, None)).transpose();
    Ok(found.ok().flatten().map(|entry| entry.header.run_id().clone()))
}

/// Whether the text of a document is the user's own. A brief without a run comes from a file.
pub(super) fn origin(document: &ResumeDocument) -> RecordOrigin {
    let ResumeDocument::Decision(document) = document else { return RecordOrigin::Own };
    let is_file = document.decision.run_id.is_none() && document.brief.is_some();
    let is_foreign = document.about.as_ref().is_some_and(|overview| overview.origin.is_some());
    RecordOrigin::of(is_file || is_foreign)
}

/// The text that the model reads instead of the document: the lines above the brief, and the brief.
pub(super) fn text(document: &ResumeDocument) -> Option<String> {
    let ResumeDocument::Decision(decision) = document else { return None };
    let lead = decision.lead.as_deref().unwrap_or_default();
    let Some(brief) = &decision.brief else {
        return match decision.decision.run_id {
            None => Some("Nothing to resume: no run here was interrupted.".to_owned()),
            Some(_) => Some(handover::wrapped(lead, origin(document))),
        };
    };
    let record = handover::wrapped(&format!("{lead}\n{brief}"), origin(document));
    let started = decision.started.as_ref().map(|started| {
        let run = &started.run_id;
        format!("You continue it as run {run}: everything you save, record, decide and plan goes there.\n")
    });
    Some(format!("{}{record}", started.unwrap_or_default()))
}
