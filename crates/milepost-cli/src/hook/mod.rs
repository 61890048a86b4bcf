//! Hooks: an agent says what happens, and its run keeps what must survive.
//! In: one JSON document on stdin. Out: what the agent's protocol allows, mostly nothing. Whatever goes wrong here, the
//! agent goes on: the failure is written down where people will see it, and the exit code is 0 unless asked otherwise.

pub(crate) mod failures;
mod handle;
mod offer;

use milepost::store::ForeignReason;

use crate::agents::Agent;
use crate::agents::event::{self, HookEvent, payload};
use crate::cli::Global;
use crate::config::Config;
use crate::context::{Audience, Context};
use crate::error::CommandError;
use crate::present::{Output, format};

/// Reads one event and acts on it.
pub(crate) fn run(agent: Agent, global: &Global, strict: bool, output: &Output) -> Result<(), CommandError> {
    let mut told = None;
    let result = attend(agent, global, output, &mut told);
    match result {
        Ok(()) => Ok(()),
        Err(failure) => {
            failures::note(agent, told.as_ref(), &failure);
            if strict { Err(failure) } else { Ok(()) }
        }
    }
}

fn attend(
    agent: Agent,
    global: &Global,
    output: &Output,
    told: &mut Option<HookEvent>,
) -> Result<(), CommandError> {
    let payload = payload::read(std::io::stdin().lock())
        .map_err(|e| CommandError::usage(format!("{} sent what is no JSON: {e}", agent)))?;
    let Some(event) = event::parse(agent, &payload) else { return Ok(()) };
    drop(payload);
    *told = Some(event.clone());
    // -C decides; without it the folder counts in which the agent works, wherever it starts its hooks.
    match (&global.directory, &event.cwd) {
        (Some(_), _) => crate::command::change_directory(global)?,
        // A folder that is gone is no reason to keep nothing.
        (None, Some(folder)) => drop(std::env::set_current_dir(folder)),
        (None, None) => {}
    }
    let begins = event.starts_session();
    let config = match Config::load(global) {
        Ok(config) => config,
        Err(failure) => {
            // The person is told, without the value at fault: it may be meant for an agent.
            let message = "milepost: a configuration file cannot be used; nothing is recorded. Run `milepost config show` \
                           to see why";
            if begins && let Some(answer) = offer::message(agent, message) {
                output.write_json_text(&answer)?;
            }
            return Err(failure);
        }
    };
    let context = Context::for_audience(config, output, Audience::Hook);
    // Where nothing may be read or written, the person is told when a session begins, and the agent is told nothing.
    if let Some(message) = refused(&context, begins) {
        if begins && let Some(answer) = offer::message(agent, &message) {
            output.write_json_text(&answer)?;
        }
        return Ok(());
    }
    if !context.has_store() {
        return Ok(());
    }
    if let Some(answer) = handle::handle(agent, event, &context)? {
        output.write_json_text(&answer)?;
    }
    Ok(())
}

/// Why the hook does nothing, in one line for the person.
fn refused(context: &Context<'_>, begins: bool) -> Option<String> {
    if let Err(e) = context.config.check() {
        let message = format!("milepost: {e}; nothing is recorded. Run `milepost trust` to review it");
        return Some(format::clean(&message));
    }
    // Git is asked only when a session begins: each event would have to wait for it.
    let tracked = begins && context.is_tracked();
    if tracked {
        context.forget_record();
    }
    let foreign = context.foreign().or(tracked.then_some(ForeignReason::Tracked))?;
    let place = context.url();
    let message = format!(
        "milepost: {place} is not trusted ({foreign}); nothing is recorded. Run `milepost trust` to review it"
    );
    // Names of folders come with the project.
    Some(format::clean(&message))
}
