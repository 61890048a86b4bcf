//! Events: one document, or one line each while they happen.

use milepost::EventList;
use milepost::model::Event;
use serde::Serialize;

use super::damage::{DamageDocument, documents};
use super::{Document, Note, Output, format};
use crate::error::CommandError;

#[derive(Serialize)]
pub(crate) struct EventsDocument {
    schema: &'static str,
    pub(crate) events: Vec<Event>,
    pub(crate) position: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DamageDocument>,
}

impl EventsDocument {
    pub(crate) fn new(found: EventList) -> Self {
        let damaged = documents(&found.damaged);
        Self { schema: "milepost.events/1", events: found.events, position: found.position, damaged }
    }
}

impl Document for EventsDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        write_events(output, &self.events)
    }

    fn notes(&self) -> Vec<Note> {
        if self.damaged.is_empty() {
            return Vec::new();
        }
        let n = format::counted(self.damaged.len() as u64, "damaged event");
        vec![Note::Message(format!("Warning: {n} left out; `milepost verify` names them"))]
    }
}

/// Writes events, one line each.
pub(crate) fn write_events(output: &Output, events: &[Event]) -> Result<(), CommandError> {
    if output.json {
        return events.iter().try_for_each(|event| output.write_json(event));
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
    if text.is_empty() { Ok(()) } else { output.write_text(&text) }
}
