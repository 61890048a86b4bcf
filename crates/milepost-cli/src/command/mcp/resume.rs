//! The tool `resume`: the brief of what was interrupted; where nothing was, of the run that this session works on, since a
//! context that was cut needs it just as much.

use std::path::Path;

use milepost::Reference;
use milepost::internal::engine::RunResolution;
use milepost::model::RunId;
use milepost_mcp::{ToolOutput, arguments};
use serde_json::{Value, json};

use super::handler;
use super::project_file;
use crate::command::resume::{self, ResumeArgs};
use crate::context::Context;
use crate::error::CommandError;
use crate::handover::{self, RecordOrigin};

pub(super) fn run(given: &arguments::Resume, context: &Context<'_>) -> Result<(), CommandError> {
    let asked = [given.check, given.start, given.dismiss, given.from.is_some()];
    if asked.iter().filter(|asked| **asked).count() > 1 || given.from.is_some() && given.run.is_some() {
        return Err(CommandError::usage("check, start, dismiss and from exclude each other, and from a run"));
    }
    let mut args = ResumeArgs {
        target: given.run.clone(),
        budget: given.budget,
        check: given.check,
        take_over: given.take_over,
        ..ResumeArgs::default()
    };
    if let Some(file) = &given.from {
        let text = project_file::read(&context.config.place.root, file, &context.config.redact_allow)?;
        return resume::from_brief(Path::new(file), text.into_bytes(), &args, context);
    }
    if given.dismiss {
        return resume::run(&ResumeArgs { dismiss: true, ..args }, context);
    }
    let mut shown = resume::run(&args, context);
    let mut document = kept(context);
    let nothing = document["decision"]["run_id"].is_null() && args.target.is_none();
    if nothing
        && !given.start
        && let Some(run) = of_this_session(context)?
    {
        args.target = Some(run.to_string());
        args.continued = true;
        shown = resume::run(&args, context);
        document = kept(context);
    }
    if document.is_null() {
        return shown;
    }
    if given.start {
        let target = document["decision"]["run_id"].as_str().map(str::to_owned);
        resume::run(&ResumeArgs { target, start: true, ..args }, context)?;
        document["started"] = kept(context);
        shown = Ok(());
    }
    context.output.document(&document)?;
    shown
}

/// The document that was given last.
fn kept(context: &Context<'_>) -> Value {
    let kept = context.output.take();
    for line in kept.said {
        context.output.message(&line);
    }
    serde_json::from_slice(&kept.data).unwrap_or_default()
}

/// The run that this session works on, or the one it continues while it has no checkpoint of its own.
fn of_this_session(context: &Context<'_>) -> Result<Option<RunId>, CommandError> {
    let mp = context.open_read_only()?;
    let RunResolution::Run(run) = context.current_run(&mp)? else { return Ok(None) };
    let Some(state) = mp.store().run(&run)? else { return Ok(None) };
    if state.row.count > 0 {
        return Ok(Some(run));
    }
    let parent = state.row.record.ok().and_then(|record| record.parent);
    let found = parent.map(|parent| mp.find(&parent.as_str().parse::<Reference>()?, None)).transpose();
    Ok(found.ok().flatten().map(|entry| entry.header.run_id))
}

/// What the model reads: the lines above the brief and the brief; and the run that was opened.
pub(super) fn told(done: ToolOutput) -> (ToolOutput, Option<RunId>) {
    let document: Value = serde_json::from_str(&done.document).unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let started = text(&document["started"]["run_id"]);
    let opened = started.as_ref().map(|run| {
        format!("You continue it as run {run}: what you save, record, decide and plan goes there.\n")
    });
    let nothing = document.get("decision").is_some() && document["decision"]["run_id"] == json!(null);
    // A brief without a run is that of a file.
    let is_file = nothing && document["brief"].is_string();
    let voice = RecordOrigin::of(is_file || !document["about"]["origin"].is_null());
    let words = match text(&document["brief"]) {
        None if nothing => Some("Nothing to resume: no run here was interrupted.".to_owned()),
        None => text(&document["lead"]).map(|lead| handover::wrapped(&lead, voice)),
        Some(brief) => {
            let lead = text(&document["lead"]).unwrap_or_default();
            let record = handover::wrapped(&format!("{lead}\n{brief}"), voice);
            Some(format!("{}{record}", opened.unwrap_or_default()))
        }
    };
    let document = handler::noticed(&done.document, voice);
    (ToolOutput { text: words, document, ..done }, started.and_then(|run| run.parse().ok()))
}
