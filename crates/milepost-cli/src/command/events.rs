//! `events`: what happened, oldest first, and what happens from now on.

use std::time::Duration;

use milepost::EventList;
use milepost::Milepost;
use milepost::model::{Event, RunId};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::present::damage::DamageDocument;
use crate::present::{Output, format};

/// How often new events are looked for.
const POLL: Duration = Duration::from_millis(200);

/// Show what happened, oldest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost events --limit 10\n  milepost events --follow --json\n  \
                        milepost events --after 1200 --limit 0 --json")]
pub(crate) struct EventsArgs {
    /// At most so many of the newest; 0 is all
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Go on with what happens from now on; with --json one line an event
    #[arg(long)]
    follow: bool,
    /// Only after this position
    #[arg(long, value_name = "N", default_value_t = 0)]
    after: u64,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    events: &'a [Event],
    position: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DamageDocument<'a>>,
}

pub(crate) fn run(args: &EventsArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let mp = context.open_existing()?;
    let run = context.visible_named_run(&mp)?;
    let output = context.output;
    let mut found = visible(&mp, run.as_ref(), args.after, args.limit, context)?;
    if !found.damaged.is_empty() {
        let n = format::counted(found.damaged.len() as u64, "damaged event");
        output.message(&format!("Warning: {n} left out; `milepost verify` names them"));
    }
    if output.json && !args.follow {
        return output.document(&Document {
            schema: "milepost.events/1",
            events: &found.events,
            position: found.position,
            damaged: DamageDocument::all(&found.damaged),
        });
    }
    tell(output, &found.events)?;
    if !args.follow {
        return Ok(());
    }
    // Ends with a reader that goes away, or a signal.
    loop {
        std::thread::sleep(POLL);
        found = visible(&mp, run.as_ref(), found.position, 0, context)?;
        tell(output, &found.events)?;
    }
}

/// The newest events of runs that may be shown.
fn visible(
    mp: &Milepost,
    run: Option<&RunId>,
    after: u64,
    limit: usize,
    context: &Context<'_>,
) -> Result<EventList, CommandError> {
    let hidden = if run.is_some() { Vec::new() } else { context.hidden_runs(mp)? };
    if hidden.is_empty() {
        return Ok(mp.events(run, after, limit)?);
    }
    // Events that are left out take no place of others.
    let mut found = mp.events(run, after, 0)?;
    found.events.retain(|event| !hidden.contains(&event.run_id));
    if limit > 0 {
        found.events.drain(..found.events.len().saturating_sub(limit));
    }
    Ok(found)
}

fn tell(output: &Output, events: &[Event]) -> Result<(), CommandError> {
    if output.json {
        return events.iter().try_for_each(|event| output.document(event));
    }
    let mut text = String::new();
    for event in events {
        let about = event.snapshot_id.as_ref().map(|id| format!(" {id}")).unwrap_or_default();
        let data = match event.data.get() {
            "{}" | "null" => String::new(),
            data => format!(" {}", format::clean(data)),
        };
        text.push_str(&format!("{} {} {}{about}{data}\n", format::time(event.at), event.kind, event.run_id));
    }
    if text.is_empty() { Ok(()) } else { output.text(&text) }
}
