//! Reading rows and proving each against its checksum. A row that fails is reported; the others are not affected.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Result, Row as SqlRow, params};

use crate::model::{Event, Item, Marks, RunId, RunRecord};
use crate::seal::Header;
use crate::store::check::{checksum, hex};
use crate::store::{
    Cursor, Damage, DamageKind, Entry, EventPage, EventQuery, Find, HeaderQuery, Part, Row, RunQuery, RunRow,
    RunState,
};

/// A row of `run`, proven or not.
pub(super) struct RunLine {
    pub(super) n: i64,
    pub(super) run_id: String,
    pub(super) stamp: u64,
    pub(super) last_sequence: u64,
    pub(super) count: u64,
    pub(super) events: u64,
    pub(super) record: std::result::Result<Box<RunRecord>, Damage>,
}

/// Bytes of a text or blob column, whatever a stray hand made of it.
pub(super) fn bytes(row: &SqlRow<'_>, at: usize) -> Result<Vec<u8>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    })
}

pub(super) fn text(row: &SqlRow<'_>, at: usize) -> Result<String> {
    bytes(row, at).map(|b| String::from_utf8_lossy(&b).into_owned())
}

pub(super) fn number(row: &SqlRow<'_>, at: usize) -> Result<u64> {
    row.get::<_, i64>(at).map(|n| n as u64)
}

/// A number as SQLite stores it; beyond its range is beyond every row.
pub(super) fn integer(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// Parses a proven value; what is proven and makes no sense was written wrong.
fn parse<T: serde::de::DeserializeOwned>(part: Part, value: &[u8]) -> std::result::Result<T, Damage> {
    serde_json::from_slice(value).map_err(|e| Damage {
        kind: DamageKind::Schema,
        ..Damage::integrity(part, "a readable value", e.to_string())
    })
}

/// Compares a checksum.
pub(super) fn prove(
    part: Part,
    key: &[&[u8]],
    value: &[u8],
    stored: &[u8],
) -> std::result::Result<(), Damage> {
    let expected = checksum(part, key, value);
    if expected[..] == *stored {
        return Ok(());
    }
    Err(Damage::integrity(part, hex(stored), hex(&expected)))
}

pub(super) fn run_key(line: &RunLine) -> [[u8; 8]; 5] {
    [line.n as u64, line.stamp, line.last_sequence, line.count, line.events].map(u64::to_le_bytes)
}

pub(super) fn run_checksum(line: &RunLine, record: &[u8]) -> [u8; 16] {
    let key = run_key(line);
    let [n, stamp, last, count, events] = &key;
    checksum(Part::Run, &[line.run_id.as_bytes(), n, stamp, last, count, events], record)
}

const RUN: &str = "n, run_id, stamp, last_sequence, count, events, checksum, record";

fn run_line(row: &SqlRow<'_>) -> Result<RunLine> {
    let stored = bytes(row, 6)?;
    let value = bytes(row, 7)?;
    let mut line = RunLine {
        n: row.get(0)?,
        run_id: text(row, 1)?,
        stamp: number(row, 2)?,
        last_sequence: number(row, 3)?,
        count: number(row, 4)?,
        events: number(row, 5)?,
        record: Err(Damage::integrity(Part::Run, "", "")),
    };
    let proven = run_checksum(&line, &value);
    line.record = if proven[..] == stored[..] {
        parse(Part::Run, &value).map(Box::new)
    } else {
        Err(Damage::integrity(Part::Run, hex(&stored), hex(&proven)))
    };
    Ok(line)
}

/// Finds a run by its id, also where a damaged byte has changed the id in its row.
pub(super) fn line(tx: &Connection, run: &RunId) -> Result<Option<RunLine>> {
    let sql = format!("SELECT {RUN} FROM run WHERE run_id = ?1");
    let found = tx.prepare_cached(&sql)?.query_row([run.as_str()], run_line).optional()?;
    if found.is_some() {
        return found.map(|line| mend(tx, line)).transpose();
    }
    let mut every = tx.prepare_cached(&format!("SELECT {RUN} FROM run"))?;
    let mut rows = every.query([])?;
    while let Some(row) = rows.next()? {
        let line = run_line(row)?;
        if line.record.is_err() && is_of(tx, line.n, run)? {
            return mend(tx, RunLine { run_id: run.to_string(), ..line }).map(Some);
        }
    }
    Ok(None)
}

/// Whether the newest header under `n` speaks of this run.
fn is_of(tx: &Connection, n: i64, run: &RunId) -> Result<bool> {
    Ok(newest(tx, n)?.and_then(Row::good).is_some_and(|entry| entry.header.run_id == *run))
}

/// Counts again what a damaged row can no longer say.
fn mend(tx: &Connection, mut line: RunLine) -> Result<RunLine> {
    if line.record.is_err() {
        let counted = "SELECT count(*), ifnull(max(sequence), 0), ifnull(max(stamp), 0) FROM checkpoint WHERE run_n = ?1";
        let (count, last, stamp) =
            tx.query_row(counted, [line.n], |row| Ok((number(row, 0)?, number(row, 1)?, number(row, 2)?)))?;
        line.count = count;
        line.last_sequence = last;
        line.stamp = stamp;
        let events = "SELECT ifnull(sum(count), 0) FROM event WHERE run_n = ?1";
        line.events = tx.query_row(events, [line.n], |row| number(row, 0))?;
    }
    Ok(line)
}

pub(super) fn run_n(tx: &Connection, run: &RunId) -> Result<Option<i64>> {
    let found = tx
        .prepare_cached("SELECT n FROM run WHERE run_id = ?1")?
        .query_row([run.as_str()], |row| row.get(0))
        .optional()?;
    match found {
        Some(n) => Ok(Some(n)),
        None => Ok(line(tx, run)?.map(|line| line.n)),
    }
}

fn run_row(tx: &Connection, line: RunLine) -> Result<RunRow> {
    let latest = newest(tx, line.n)?;
    // An id that a damaged byte made unusable is given back by the header, or stands for itself by number.
    let named = line.run_id.parse().ok().or_else(|| match &latest {
        Some(Row::Good(entry)) => Some(entry.header.run_id.clone()),
        _ => format!("damaged-{}", line.n).parse().ok(),
    });
    let run_id: RunId = named.ok_or(rusqlite::Error::InvalidQuery)?;
    Ok(RunRow {
        record: line.record.map_err(|damage| damage.at(Some(&run_id), None)),
        run_id,
        stamp: line.stamp,
        count: line.count,
        latest,
    })
}

pub(super) fn run(tx: &Connection, run: &RunId) -> Result<Option<RunState>> {
    let Some(line) = line(tx, run)? else { return Ok(None) };
    let (mut good, mut damaged) = (Vec::new(), Vec::new());
    for (_, item) in items(tx, line.n)? {
        match item {
            Ok(item) => good.push(item),
            Err(damage) => damaged.push(damage.at(Some(run), None)),
        }
    }
    Ok(Some(RunState { row: run_row(tx, line)?, items: good, damaged }))
}

pub(super) fn runs(tx: &Connection, query: &RunQuery) -> Result<Vec<RunRow>> {
    let sql = format!("SELECT {RUN} FROM run WHERE stamp < ?1 ORDER BY stamp DESC LIMIT ?2");
    let before = query.before.map_or(i64::MAX, integer);
    let mut statement = tx.prepare_cached(&sql)?;
    let lines = statement.query_map(params![before, sql_limit(query.limit)], run_line)?;
    lines.map(|line| run_row(tx, mend(tx, line?)?)).collect()
}

fn sql_limit(limit: usize) -> i64 {
    if limit == 0 { -1 } else { limit as i64 }
}

/// Pending items with their numbers; a damaged one is reported in its place.
#[allow(clippy::type_complexity)]
pub(super) fn items(tx: &Connection, n: i64) -> Result<Vec<(i64, std::result::Result<Item, Damage>)>> {
    let mut statement =
        tx.prepare_cached("SELECT n, checksum, item FROM item WHERE run_n = ?1 ORDER BY n")?;
    let rows = statement.query_map([n], |row| {
        let at: i64 = row.get(0)?;
        let value = bytes(row, 2)?;
        let key = [n.to_le_bytes(), at.to_le_bytes()];
        let proven = prove(Part::Item, &[&key[0], &key[1]], &value, &bytes(row, 1)?);
        Ok((at, proven.and_then(|()| parse(Part::Item, &value))))
    })?;
    rows.collect()
}

pub(super) fn header_key(n: i64, sequence: u64, stamp: u64) -> [[u8; 8]; 3] {
    [n as u64, sequence, stamp].map(u64::to_le_bytes)
}

const ENTRY: &str = "c.run_n, c.sequence, c.snapshot_id, c.stamp, c.checksum, c.header, \
                     m.revision, m.checksum, m.marks \
                     FROM checkpoint c LEFT JOIN marks m ON m.run_n = c.run_n AND m.sequence = c.sequence";

fn entry(row: &SqlRow<'_>) -> Result<Row> {
    let (n, sequence, stamp): (i64, u64, u64) = (row.get(0)?, number(row, 1)?, number(row, 3)?);
    let id = text(row, 2)?;
    let value = bytes(row, 5)?;
    let key = header_key(n, sequence, stamp);
    let proven = prove(Part::Header, &[id.as_bytes(), &key[0], &key[1], &key[2]], &value, &bytes(row, 4)?);
    let header: std::result::Result<Header, Damage> = proven.and_then(|()| parse(Part::Header, &value));
    // What a damaged row still says about itself helps to name it, and nothing more.
    let hint = || serde_json::from_slice::<Header>(&value).ok();
    let damaged = |damage: Damage, header: Option<Header>| Row::Damaged {
        damage: damage
            .at(header.as_ref().map(|h| &h.run_id), Some(sequence))
            .named(header.map(|h| h.snapshot_id).or_else(|| id.parse().ok())),
        cursor: Cursor { sequence, stamp },
    };
    let header = match header {
        Ok(header) => header,
        Err(damage) => return Ok(damaged(damage, hint())),
    };
    let marks = bytes(row, 8)?;
    if marks.is_empty() && matches!(row.get_ref(7)?, ValueRef::Null) {
        return Ok(Row::Good(Entry { header, marks: Marks::default() }));
    }
    let revision = number(row, 6)?;
    match prove(
        Part::Marks,
        &[id.as_bytes(), &key[0], &key[1], &revision.to_le_bytes()],
        &marks,
        &bytes(row, 7)?,
    )
    .and_then(|()| parse(Part::Marks, &marks))
    {
        Ok(marks) => Ok(Row::Good(Entry { header, marks })),
        Err(damage) => Ok(damaged(damage, Some(header))),
    }
}

pub(super) fn newest(tx: &Connection, n: i64) -> Result<Option<Row>> {
    let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 ORDER BY c.sequence DESC LIMIT 1");
    tx.prepare_cached(&sql)?.query_row([n], entry).optional()
}

/// The oldest entries up to the `unprotected`-th that no mark protects.
pub(super) fn oldest(tx: &Connection, n: i64, unprotected: usize) -> Result<Vec<Entry>> {
    let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 ORDER BY c.sequence");
    let mut statement = tx.prepare_cached(&sql)?;
    let mut rows = statement.query([n])?;
    let (mut found, mut free) = (Vec::new(), 0);
    while free < unprotected
        && let Some(row) = rows.next()?
    {
        let Row::Good(entry) = entry(row)? else { break };
        free += usize::from(!entry.marks.protects());
        found.push(entry);
    }
    Ok(found)
}

pub(super) fn headers(tx: &Connection, query: &HeaderQuery<'_>) -> Result<Vec<Row>> {
    let only = match query.run {
        Some(run) => match run_n(tx, run)? {
            Some(n) => Some(n),
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    match query.find {
        Find::All => match only {
            Some(n) => of_run(tx, n, query),
            None => of_store(tx, query),
        },
        Find::Stray => {
            let sql = format!("SELECT {ENTRY} WHERE c.run_n NOT IN (SELECT n FROM run)");
            tx.prepare(&sql)?.query_map([], entry)?.collect()
        }
        Find::Sequence(sequence) => {
            let Some(n) = only else { return Ok(Vec::new()) };
            let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 AND c.sequence = ?2");
            tx.prepare_cached(&sql)?.query_map(params![n, integer(sequence)], entry)?.collect()
        }
        Find::Id(id) => {
            let sql = format!("SELECT {ENTRY} WHERE c.snapshot_id = ?1");
            let mut rows = tx.prepare_cached(&sql)?.query_map([id], numbered)?.collect::<Result<Vec<_>>>()?;
            if rows.is_empty() {
                rows = renamed(tx, id)?;
            }
            Ok(pick(rows, only, query))
        }
        Find::Prefix(prefix) => {
            // Ids are ASCII: everything that starts with the prefix lies before the prefix and the last character.
            let sql =
                format!("SELECT {ENTRY} WHERE c.snapshot_id >= ?1 AND c.snapshot_id < ?1 || char(1114111)");
            let rows = tx.prepare_cached(&sql)?.query_map([prefix], numbered)?.collect::<Result<Vec<_>>>()?;
            Ok(pick(rows, only, query))
        }
        Find::Name(name) => {
            let sql = format!(
                "SELECT {ENTRY} JOIN name t ON t.run_n = c.run_n AND t.sequence = c.sequence WHERE t.name = ?1"
            );
            let rows = tx.prepare_cached(&sql)?.query_map([name], numbered)?.collect::<Result<Vec<_>>>()?;
            let named = |row: &Row| match row {
                Row::Good(e) => {
                    e.marks.tags.iter().any(|tag| tag == name)
                        || e.header.imported_id.as_deref() == Some(name)
                }
                Row::Damaged { .. } => true,
            };
            Ok(pick(rows.into_iter().filter(|(_, row)| named(row)).collect(), only, query))
        }
    }
}

/// Rows whose header names this id while their key does not: the key is damaged.
fn renamed(tx: &Connection, id: &str) -> Result<Vec<(i64, Row)>> {
    let sql = format!("SELECT {ENTRY} WHERE instr(c.header, ?1) > 0");
    let mut statement = tx.prepare_cached(&sql)?;
    let rows =
        statement.query_map([format!("\"snapshot_id\":\"{id}\"")], numbered)?.collect::<Result<Vec<_>>>()?;
    Ok(rows.into_iter().filter(|(_, row)| matches!(row, Row::Damaged { .. })).collect())
}

/// Orders and limits a short list by hand. Within a run, position is by sequence, as in any list of a run.
fn pick(rows: Vec<(i64, Row)>, only: Option<i64>, query: &HeaderQuery<'_>) -> Vec<Row> {
    let mut rows: Vec<Row> =
        rows.into_iter().filter(|(n, _)| only.is_none_or(|only| only == *n)).map(|(_, row)| row).collect();
    let oldest_first = query.oldest_first && only.is_some();
    let place = |cursor: Cursor| if only.is_some() { cursor.sequence } else { cursor.stamp };
    rows.sort_by_key(|row| place(row.cursor()));
    if !oldest_first {
        rows.reverse();
    }
    if let Some(after) = query.after.map(place) {
        rows.retain(|row| {
            let at = place(row.cursor());
            if oldest_first { at > after } else { at < after }
        });
    }
    if query.limit > 0 {
        rows.truncate(query.limit);
    }
    rows
}

/// A row with the number of the run it is stored under.
fn numbered(row: &SqlRow<'_>) -> Result<(i64, Row)> {
    Ok((row.get(0)?, entry(row)?))
}

fn of_run(tx: &Connection, n: i64, query: &HeaderQuery<'_>) -> Result<Vec<Row>> {
    let (order, start, beyond) = if query.oldest_first { ("ASC", -1, ">") } else { ("DESC", i64::MAX, "<") };
    let sql = format!(
        "SELECT {ENTRY} WHERE c.run_n = ?1 AND c.sequence {beyond} ?2 ORDER BY c.sequence {order} LIMIT ?3"
    );
    let after = query.after.map_or(start, |cursor| integer(cursor.sequence));
    tx.prepare_cached(&sql)?.query_map(params![n, after, sql_limit(query.limit)], entry)?.collect()
}

/// Merges runs by stamp, newest first, opening only runs that can still contribute.
fn of_store(tx: &Connection, query: &HeaderQuery<'_>) -> Result<Vec<Row>> {
    let before = query.after.map_or(i64::MAX, |cursor| integer(cursor.stamp));
    let mut found: Vec<Row> = Vec::new();
    let mut runs = tx.prepare_cached("SELECT n, stamp FROM run ORDER BY stamp DESC")?;
    let mut rows = runs.query([])?;
    let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 AND c.stamp < ?2 ORDER BY c.sequence DESC LIMIT ?3");
    while let Some(row) = rows.next()? {
        let (n, stamp): (i64, u64) = (row.get(0)?, number(row, 1)?);
        if query.limit > 0 && found.len() >= query.limit && found[query.limit - 1].cursor().stamp > stamp {
            break;
        }
        for row in tx.prepare_cached(&sql)?.query_map(params![n, before, sql_limit(query.limit)], entry)? {
            found.push(row?);
        }
        found.sort_by_key(|row| std::cmp::Reverse(row.cursor().stamp));
        if query.limit > 0 {
            found.truncate(query.limit);
        }
    }
    Ok(found)
}

pub(super) fn events(tx: &Connection, query: &EventQuery<'_>) -> Result<EventPage> {
    let only = match query.run {
        Some(run) => match run_n(tx, run)? {
            Some(n) => Some(n),
            None => return Ok(EventPage::default()),
        },
        None => None,
    };
    // A row holds several events, from position `n` on.
    let select = "SELECT run_n, n, count, checksum, events FROM event \
                  WHERE (?1 IS NULL OR run_n = ?1) AND n + count > ?2 ORDER BY n DESC";
    let mut page = EventPage::default();
    let mut statement = tx.prepare_cached(select)?;
    let mut rows = statement.query(params![only, integer(query.after)])?;
    while let Some(row) = rows.next()? {
        let (run_n, n, count): (i64, u64, u64) = (row.get(0)?, number(row, 1)?, number(row, 2)?);
        let value = bytes(row, 4)?;
        let proven = event_checksum(run_n, n, count, &value);
        let stored = bytes(row, 3)?;
        if proven[..] != stored[..] {
            page.damaged.push(Damage::integrity(Part::Event, hex(&stored), hex(&proven)).at(query.run, None));
            continue;
        }
        match parse::<Vec<Event>>(Part::Event, &value) {
            Ok(events) => {
                let places = (n..).zip(events).filter(|(at, _)| *at > query.after);
                page.events.extend(places.collect::<Vec<_>>().into_iter().rev());
            }
            Err(damage) => page.damaged.push(damage.at(query.run, None)),
        }
        if query.limit > 0 && page.events.len() >= query.limit {
            page.events.truncate(query.limit);
            break;
        }
    }
    page.events.reverse();
    Ok(page)
}

/// Positions that one commit's events may take.
pub(super) const EVENT_PLACES: u64 = 1024;

pub(super) fn event_checksum(run_n: i64, n: u64, count: u64, events: &[u8]) -> [u8; 16] {
    let key = [run_n as u64, n, count].map(u64::to_le_bytes);
    checksum(Part::Event, &[&key[0], &key[1], &key[2]], events)
}
