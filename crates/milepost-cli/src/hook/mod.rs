//! Hooks: an agent reports an event, and Milepost records it in the agent's run. Takes one JSON document on
//! stdin, prints only what the agent's protocol allows, usually nothing. A failure never disturbs the agent:
//! it is recorded for `milepost status`, and the exit code is 0 unless `--strict` is set.

pub(crate) mod background;
pub(crate) mod failures;
mod first_event;
mod handle;
mod notices;
mod offer;

use milepost::store::ForeignReason;

use self::failures::EventOrigin;
use crate::agents::Agent;
use crate::agents::event::{self, payload};
use crate::agents::setup::has_hooks;
use crate::cli::Global;
use crate::config::{AgentEnvironment, Config};
use crate::context::{Audience, Context};
use crate::error::{CommandError, Result};
use crate::present::{Output, format};

/// How a hook runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Whether a failure is an error.
    pub(crate) is_strict: bool,
    /// Whether a plugin calls the hook. It gives way to hooks that `agents install` set up.
    pub(crate) is_plugin: bool,
}

/// Reads one event and handles it.
pub(crate) fn run(agent: Agent, global: &Global, options: Options, output: &Output) -> Result<()> {
    let mut origin = EventOrigin::default();
    let Err(error) = read_and_handle(agent, global, options, output, &mut origin) else { return Ok(()) };
    failures::record(agent, origin, &error);
    if options.is_strict { Err(error) } else { Ok(()) }
}

/// Reads and handles the event. Fills in `origin`, which describes the event if it fails.
fn read_and_handle(
    agent: Agent,
    global: &Global,
    options: Options,
    output: &Output,
    origin: &mut EventOrigin,
) -> Result<()> {
    let payload = payload::read(std::io::stdin().lock())
        .map_err(|e| CommandError::usage(format!("{agent} sent invalid JSON: {e}")))?;
    let Some(event) = event::parse(agent, &payload) else { return Ok(()) };
    drop(payload);
    *origin = EventOrigin { name: Some(event.name.clone()), cwd: event.cwd.clone() };
    // Without -C, use the agent's working directory: the agent may run its hooks in another folder.
    let is_in_folder = match (&global.directory, &event.cwd) {
        (Some(_), _) => crate::command::change_directory(global).map(|()| true)?,
        // The event is recorded even if the folder was removed.
        (None, Some(folder)) => std::env::set_current_dir(folder).is_ok(),
        (None, None) => true,
    };
    let starts_session = event.starts_session();
    let config = match Config::load(global) {
        Ok(config) => config,
        Err(error) => {
            // Leave out the invalid value: it may contain text that is meant to mislead an agent.
            let message = "milepost: a configuration file is not valid; nothing is recorded. Run `milepost config show` \
                           to see why";
            if starts_session {
                output.write_json_text(&offer::user_message(agent, message))?;
            }
            return Err(error);
        }
    };
    if options.is_plugin && has_hooks(agent, &AgentEnvironment::read().roots(config.paths.root.clone())) {
        return Ok(());
    }
    let context = Context::for_audience(config, output, Audience::Hook);
    // The user sees the refusal when a session starts. The agent never gets it.
    if let Some(message) = refusal(&context, starts_session) {
        if starts_session {
            output.write_json_text(&offer::user_message(agent, &message))?;
        }
        return Ok(());
    }
    if !context.has_store() {
        // If the event's folder was removed, the current folder may belong to another project.
        let created = is_in_folder.then(|| first_event::create_store(&context)).transpose()?;
        if created != Some(true) {
            if starts_session
                && agent.answer.shows_messages()
                && notices::is_first_without_store(&context.config.project())
            {
                output.write_json_text(&offer::user_message(agent, &first_event::notice(&context)))?;
            }
            return Ok(());
        }
    }
    if let Some(answer) = handle::handle(agent, event, &context)? {
        output.write_json_text(&answer)?;
    }
    Ok(())
}

/// Why the hook does nothing, in one line for the user.
fn refusal(context: &Context<'_>, starts_session: bool) -> Option<String> {
    if let Err(e) = context.config.check() {
        let message = format!("milepost: {e}; nothing is recorded. Run `milepost trust` to review it");
        return Some(format::clean(&message));
    }
    // Query git only when a session starts, because it is slow.
    let tracked = starts_session && context.is_tracked();
    if tracked {
        context.forget_record();
    }
    let foreign = context.foreign().or(tracked.then_some(ForeignReason::Tracked))?;
    let location = context.url();
    let message = format!(
        "milepost: {location} is not trusted ({foreign}); nothing is recorded. Run `milepost trust` to review it"
    );
    // The project determines the folder names, so they may contain control characters.
    Some(format::clean(&message))
}
