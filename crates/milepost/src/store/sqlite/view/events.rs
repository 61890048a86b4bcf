//! Reads events from their own table and from appended rows. Takes a query and returns a page with the
//! verified events and any damage.

use rusqlite::{Result, params};

use super::StoreView;
use crate::model::Event;
use crate::store::sqlite::decode::{
    EVENTS_PER_STAMP, bytes, compare, event_checksum, integer, number, parse,
};
use crate::store::{EventCursor, EventPage, EventQuery, Part};

impl StoreView<'_> {
    pub(in crate::store::sqlite) fn events(&self, query: &EventQuery<'_>) -> Result<EventPage> {
        let (mut page, events) = self.numbered_events(query, query.after_position())?;
        page.events = events.into_iter().map(|(at, event)| (EventCursor::at(at), event)).collect();
        Ok(page)
    }

    /// The events after a position, with their positions, and a page that contains only the damage.
    pub(in crate::store::sqlite) fn numbered_events(
        &self,
        query: &EventQuery<'_>,
        after: u64,
    ) -> Result<(EventPage, Vec<(u64, Event)>)> {
        let mut found = Vec::new();
        let Some(only) = self.scope(query.run)? else { return Ok((EventPage::default(), found)) };
        // A row contains several events, starting at position `n`.
        let select = format!(
            "SELECT run_n, n, count, checksum, events FROM event \
             WHERE (?1 IS NULL OR run_n = ?1) AND n + count > ?2 UNION ALL \
             SELECT run_n, stamp * {EVENTS_PER_STAMP}, event_count, event_sum, event FROM append_log \
             WHERE (?1 IS NULL OR run_n = ?1) AND event_count <> 0 \
             AND stamp * {EVENTS_PER_STAMP} + event_count > ?2 ORDER BY 2 DESC"
        );
        let mut page = EventPage::default();
        let mut statement = self.tx.prepare_cached(&select)?;
        let mut rows = statement.query(params![only, integer(after)])?;
        while let Some(row) = rows.next()? {
            let (run_n, n, count): (i64, u64, u64) = (row.get(0)?, number(row, 1)?, number(row, 2)?);
            let value = bytes(row, 4)?;
            let proven = compare(Part::Event, event_checksum(run_n, n, count, &value), &bytes(row, 3)?);
            match proven.and_then(|()| parse::<Vec<Event>>(Part::Event, &value)) {
                Ok(events) => {
                    let places = (n..).zip(events).filter(|(at, _)| *at > after);
                    found.extend(places.collect::<Vec<_>>().into_iter().rev());
                }
                Err(damage) => page.damaged.push(damage.at(query.run, None)),
            }
            if query.limit > 0 && found.len() >= query.limit {
                found.truncate(query.limit);
                break;
            }
        }
        found.reverse();
        Ok((page, found))
    }
}
