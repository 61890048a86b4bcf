//! Events: lists what happened in the store or in one run, oldest first.

use super::Milepost;
use crate::Error;
use crate::model::{Event, RunId};
use crate::store::{Damage, EventCursor, EventQuery};

/// Events, and the position to continue from.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct EventList {
    /// The events, oldest first.
    pub events: Vec<Event>,
    /// The position of the last event; pass it as `after` to continue. A number or a text, depending on the
    /// store.
    pub position: EventCursor,
    /// Damaged events that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damage>,
}

impl Milepost {
    /// Lists events after a position, limited to the newest `limit` (0 = no limit). Without a position, starts
    /// with the oldest event.
    pub fn events(
        &self,
        run: Option<&RunId>,
        after: Option<&EventCursor>,
        limit: usize,
    ) -> Result<EventList, Error> {
        if let Some(run) = run {
            self.stored_run(run)?;
        }
        let page = self.store.events(&EventQuery::default().run(run).after(after).limit(limit))?;
        let last = page.events.last().map(|(position, _)| position).or(after);
        Ok(EventList {
            position: last.cloned().unwrap_or_default(),
            events: page.events.into_iter().map(|(_, event)| event).collect(),
            damaged: page.damaged,
        })
    }
}
