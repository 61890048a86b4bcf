//! Events: what happened, oldest first.

use super::Milepost;
use crate::Error;
use crate::model::{Event, RunId};
use crate::store::{Damage, EventQuery};

/// Events, and where to go on from.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct EventList {
    /// Oldest first.
    pub events: Vec<Event>,
    /// The position after the last one.
    pub position: u64,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damage>,
}

impl Milepost {
    /// Lists events after a position, the newest `limit` of them; 0 for all.
    pub fn events(&self, run: Option<&RunId>, after: u64, limit: usize) -> Result<EventList, Error> {
        if let Some(run) = run {
            self.stored_run(run)?;
        }
        let page = self.store.events(&EventQuery::default().run(run).after(after).limit(limit))?;
        Ok(EventList {
            position: page.events.last().map_or(after, |(position, _)| *position),
            events: page.events.into_iter().map(|(_, event)| event).collect(),
            damaged: page.damaged,
        })
    }
}
