//! Events: as one document, or one line per event while following.

use milepost::EventList;
use milepost::model::Event;
use serde::Serialize;

use super::damage::left_out;
use super::table::truncate;
use super::{Document, Note, Output, format};
use crate::error::Result;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.events/1")]
pub(crate) struct EventsDocument {
    #[serde(flatten)]
    pub(crate) found: EventList,
    /// Whether there are older events that `--limit` omits.
    pub(crate) more: bool,
}

impl Document for EventsDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.found.events.is_empty() {
            output.message("No events.");
        }
        write_events(output, &self.found.events)?;
        if self.more {
            let n = self.found.events.len();
            output.message(&format!("Showing the newest {n}; `milepost events --limit 0` shows all"));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        damage_notes(&self.found)
    }
}

/// The warning about damaged events.
pub(crate) fn damage_notes(found: &EventList) -> Vec<Note> {
    left_out(&found.damaged, "damaged event", "lists them")
}

/// Writes events, one per line.
pub(crate) fn write_events(output: &Output, events: &[Event]) -> Result<()> {
    if output.json {
        return events.iter().try_for_each(|event| output.write_json(event));
    }
    let width = output.width().filter(|_| !output.is_verbose()).unwrap_or(usize::MAX);
    let mut text = String::new();
    for event in events {
        let id = event.snapshot_id.as_ref().map(|id| id.short().unwrap_or(id.as_str()));
        let id = id.map(|id| format!(" {id}")).unwrap_or_default();
        let run = event.run_id.short().unwrap_or(event.run_id.as_str());
        let data = match event.data.get() {
            "{}" | "null" => String::new(),
            data => format!(" {}", format::clean(data)),
        };
        let line = format!("{} {} {run}{id}{data}", format::time(event.at), event.kind);
        text.push_str(&truncate(&line, width));
        text.push('\n');
    }
    if text.is_empty() { Ok(()) } else { output.write_text(&text) }
}
