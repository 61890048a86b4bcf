//! `events`: shows events, oldest first, and can wait for new ones.

use std::time::Duration;

use milepost::model::RunId;
use milepost::store::EventCursor;
use milepost::{EventList, Milepost};

use crate::context::Context;
use crate::error::Result;
use crate::present::events::{EventsDocument, damage_notes, write_events};

/// The interval at which `--follow` checks for new events.
const POLL: Duration = Duration::from_millis(200);

/// Show events, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost events --limit 10\n  milepost events --follow --json\n  \
                        milepost events --after 1200 --limit 0 --json")]
pub(crate) struct EventsArgs {
    /// Show at most the newest N events (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Wait for new events; with --json, print one per line
    #[arg(long)]
    follow: bool,
    /// Only events after this position, as printed by --json
    #[arg(long, value_name = "POSITION", default_value = "0", value_parser = parse_position)]
    after: EventCursor,
}

pub(crate) fn run(args: EventsArgs, context: &Context<'_>) -> Result<()> {
    let mp = context.open_existing()?;
    let run = context.visible_named_run(&mp)?;
    if !args.follow {
        // One more than the limit tells whether there are more.
        let limit = if args.limit > 0 { args.limit.saturating_add(1) } else { 0 };
        let mut found = visible_events(&mp, run.as_ref(), &args.after, limit, context)?;
        let more = args.limit > 0 && found.events.len() > args.limit;
        if more {
            found.events.remove(0);
        }
        return context.output.present(&EventsDocument { found, more });
    }
    let mut found = visible_events(&mp, run.as_ref(), &args.after, args.limit, context)?;
    // Runs until the reader closes the pipe or a signal arrives.
    damage_notes(&found).iter().for_each(|note| context.output.note(note));
    loop {
        write_events(context.output, &found.events)?;
        std::thread::sleep(POLL);
        found = visible_events(&mp, run.as_ref(), &found.position, 0, context)?;
    }
}

/// The newest events of visible runs.
fn visible_events(
    mp: &Milepost,
    run: Option<&RunId>,
    after: &EventCursor,
    limit: usize,
    context: &Context<'_>,
) -> Result<EventList> {
    let hidden = if run.is_some() { Vec::new() } else { context.hidden_runs(mp)? };
    if hidden.is_empty() {
        return Ok(mp.events(run, Some(after), limit)?);
    }
    // Read all events first: hidden ones must not count towards the limit.
    let mut found = mp.events(run, Some(after), 0)?;
    found.events.retain(|event| !hidden.contains(&event.run_id));
    if limit > 0 {
        found.events.drain(..found.events.len().saturating_sub(limit));
    }
    Ok(found)
}

/// Parses a position. Only the store can tell whether it is one of its own; this refuses obvious mistakes.
fn parse_position(text: &str) -> std::result::Result<EventCursor, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("expected the `position` that `milepost events --json` printed".into());
    }
    Ok(EventCursor::new(text))
}
