//! Lists events, and creates and reads their cursors. Events have a position in their run, which grows in the
//! order of its commits, so that a follower never skips one.
//!
//! Across runs there is no such order: a commit may become visible after a commit of another run that has a higher
//! stamp. A cursor therefore contains the position in each run, as `12288=40,53248=7`: the number of a run and the
//! position of the last event that was received. A run that it does not contain starts with its oldest event.

use std::collections::BTreeMap;

use milepost::internal::store::check::{compare, parse};
use milepost::model::Event;
use milepost::store::{EventCursor, EventPage, EventQuery, Part, StoreError};
use tokio_postgres::Row as SqlRow;

use crate::decode::{column, integer, number};
use crate::error::PostgresError;
use crate::session::Params;
use crate::statement::event_checksum;
use crate::store::PostgresStore;

/// The position of the last received event, by the number of its run.
type Positions = BTreeMap<i64, u64>;

/// Parses a cursor. Any other text is the start.
fn parse_cursor(cursor: Option<&EventCursor>) -> Positions {
    let pair = |text: &str| {
        let (run, position) = text.split_once('=')?;
        Some((run.parse().ok()?, position.parse().ok()?))
    };
    let text = cursor.map_or("0", EventCursor::as_str);
    text.split(',').map(pair).collect::<Option<Positions>>().unwrap_or_default()
}

fn write_cursor(positions: &Positions) -> EventCursor {
    let pairs: Vec<_> = positions.iter().map(|(run, position)| format!("{run}={position}")).collect();
    EventCursor::new(pairs.join(","))
}

/// An event with the stamp of its commit, the number of its run and its position.
struct Found {
    stamp: u64,
    run: i64,
    position: u64,
    event: Event,
}

/// Selects the rows that contain events after a cursor, of the runs that match a condition. Events of several runs
/// need at most `limit` rows of each.
fn select(only: &str, runs: &str, positions: &str, limit: Option<&str>) -> String {
    let limit = limit.map_or_else(String::new, |limit| format!("ORDER BY e.n DESC LIMIT {limit}"));
    format!(
        "SELECT e.run_n, e.n, e.count, e.stamp, e.checksum, e.events FROM {{s}}.run r \
         LEFT JOIN unnest({runs}, {positions}) AS p (run_n, position) ON p.run_n = r.n \
         CROSS JOIN LATERAL (SELECT * FROM {{s}}.event e WHERE e.run_n = r.n \
         AND e.n + e.count - 1 > coalesce(p.position, 0) {limit}) e \
         WHERE {only} AND r.events > coalesce(p.position, 0)"
    )
}

pub(crate) fn events(store: &PostgresStore, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
    let after = parse_cursor(query.after);
    let mut params = Params::new();
    let runs = params.ints(after.keys().copied().collect());
    let positions = params.ints(after.values().copied().map(integer).collect());
    let only = match (query.run, store.project().id()) {
        (Some(run), _) => format!("r.run_id = {}", params.text(run.as_str())),
        (None, Some(project)) => format!("r.project = {}", params.text(project)),
        (None, None) => "true".to_owned(),
    };
    let limit = (query.limit > 0).then(|| params.int(integer(query.limit as u64)));
    let sql = store.schema().fill(&select(&only, &runs, &positions, limit.as_deref()));
    let (mut found, damaged) = store.read(|session, deadline| {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        for row in session.query(&sql, &params, deadline.left())? {
            match decode(&row)? {
                Ok(events) => found.extend(
                    events
                        .into_iter()
                        .filter(|event| after.get(&event.run).is_none_or(|at| event.position > *at)),
                ),
                Err(damage) => damaged.push(damage.at(query.run, None)),
            }
        }
        Ok((found, damaged))
    })?;
    found.sort_by_key(|event| (event.stamp, event.run, event.position));
    let skipped = if query.limit > 0 { found.len().saturating_sub(query.limit) } else { 0 };
    let mut at = after;
    let mut page = EventPage::default();
    for (n, event) in found.into_iter().enumerate() {
        at.insert(event.run, event.position);
        if n >= skipped {
            // In a list of one run, the positions in other runs are of no use.
            let cursor = match query.run {
                Some(_) => write_cursor(&Positions::from([(event.run, event.position)])),
                None => write_cursor(&at),
            };
            page.events.push((cursor, event.event));
        }
    }
    page.damaged = damaged;
    Ok(page)
}

fn decode(row: &SqlRow) -> Result<Result<Vec<Found>, milepost::store::Damage>, PostgresError> {
    let run: i64 = column(row, "run_n")?;
    let (first, count, stamp) = (number(row, "n")?, number(row, "count")?, number(row, "stamp")?);
    let value: &str = column(row, "events")?;
    let sum = event_checksum(run, first, count, stamp, value);
    let proven = compare(Part::Event, sum, column(row, "checksum")?);
    let parsed = proven.and_then(|()| parse::<Vec<Event>>(Part::Event, value.as_bytes()));
    let place = |(position, event)| Found { stamp, run, position, event };
    Ok(parsed.map(|events| (first..).zip(events).map(place).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_other_texts_are_the_start() {
        let cursor = EventCursor::new("4096=7,8192=12");
        let positions = parse_cursor(Some(&cursor));
        assert_eq!(positions, Positions::from([(4096, 7), (8192, 12)]));
        assert_eq!(write_cursor(&positions), cursor);
        for text in ["0", "", "x=1,y=2", "4096=7,x", "-1"] {
            assert_eq!(parse_cursor(Some(&EventCursor::new(text))), Positions::new(), "{text}");
        }
    }
}
