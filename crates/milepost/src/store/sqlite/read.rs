//! Reading rows and proving each against its checksum. A row that fails is reported; the others are not affected.

use data_encoding::HEXLOWER;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Result, Row as SqlRow, params};

use super::fresh::{self, Fresh};
use super::memo;
use crate::model::{Event, Item, Marks, RunId, RunRecord};
use crate::seal::Header;
use crate::store::check::checksum;
use crate::store::{
    CheckpointEntry, Cursor, Damage, DamageKind, EventPage, EventQuery, Part, Row, RunQuery, RunRow,
    StoredRun,
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
    /// A damaged byte has changed the id in its row.
    pub(super) renamed: bool,
}

impl RunLine {
    /// This line with the record that belongs to it, if it proves itself.
    pub(super) fn proven(mut self, stored: &[u8], value: &[u8]) -> Self {
        let key = run_key(&self);
        let key = [self.run_id.as_bytes(), &key[0], &key[1], &key[2], &key[3], &key[4]];
        let record = memo::recall(&memo::RECORDS, &key, value, stored, || {
            prove(Part::Run, &key, value, stored)?;
            parse(Part::Run, value)
        });
        self.record = record.map(Box::new);
        self
    }
}

/// Bytes of a text or blob column, whatever a stray hand made of it.
fn slice<'a>(row: &'a SqlRow<'_>, at: usize) -> Result<&'a [u8]> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => &[],
    })
}

/// The same, to keep.
pub(super) fn bytes(row: &SqlRow<'_>, at: usize) -> Result<Vec<u8>> {
    slice(row, at).map(<[u8]>::to_vec)
}

/// A text column that has to make sense.
pub(super) fn parsed<T: std::str::FromStr>(row: &SqlRow<'_>, at: usize) -> Result<Option<T>> {
    Ok(std::str::from_utf8(slice(row, at)?).ok().and_then(|text| text.parse().ok()))
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
    let wrong =
        |why: String| Damage { kind: DamageKind::Schema, ..Damage::integrity(part, "a readable value", why) };
    let text = std::str::from_utf8(value).map_err(|e| wrong(e.to_string()))?;
    serde_json::from_str(text).map_err(|e| wrong(e.to_string()))
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
    Err(Damage::integrity(part, HEXLOWER.encode(stored), HEXLOWER.encode(&expected)))
}

fn run_key(line: &RunLine) -> [[u8; 8]; 5] {
    [line.n as u64, line.stamp, line.last_sequence, line.count, line.events].map(u64::to_le_bytes)
}

/// The checksum of a run's record. The record is remembered: the next write of the run begins with it.
pub(super) fn run_checksum(line: &RunLine, record: &RunRecord, text: &str) -> [u8; 16] {
    let key = run_key(line);
    let key = [line.run_id.as_bytes(), &key[0], &key[1], &key[2], &key[3], &key[4]];
    let sum = checksum(Part::Run, &key, text.as_bytes());
    memo::remember(&memo::RECORDS, &key, text.as_bytes(), &sum, record);
    sum
}

const RUN: &str = "n, run_id, stamp, last_sequence, count, events, checksum, record";

fn run_line(row: &SqlRow<'_>) -> Result<RunLine> {
    let line = RunLine {
        n: row.get(0)?,
        run_id: text(row, 1)?,
        stamp: number(row, 2)?,
        last_sequence: number(row, 3)?,
        count: number(row, 4)?,
        events: number(row, 5)?,
        record: Err(Damage::integrity(Part::Run, "", "")),
        renamed: false,
    };
    Ok(line.proven(&bytes(row, 6)?, &bytes(row, 7)?))
}

/// A run's own row, whatever fresh rows say.
pub(super) fn own_line(tx: &Connection, n: i64) -> Result<Option<RunLine>> {
    let sql = format!("SELECT {RUN} FROM run WHERE n = ?1");
    tx.prepare_cached(&sql)?.query_row([n], run_line).optional()
}

/// How many events a run's own row counts; a row that cannot say is counted.
pub(super) fn events_of(tx: &Connection, n: i64) -> Result<u64> {
    match own_line(tx, n)? {
        Some(line) if line.record.is_ok() => Ok(line.events),
        _ => settled_events(tx, n),
    }
}

fn settled_events(tx: &Connection, n: i64) -> Result<u64> {
    tx.query_row("SELECT ifnull(sum(count), 0) FROM event WHERE run_n = ?1", [n], |row| number(row, 0))
}

/// Finds a run by its id, also where a damaged byte has changed the id in its row.
pub(super) fn line(tx: &Connection, fresh: &Fresh, run: &RunId) -> Result<Option<RunLine>> {
    if let Some(n) = numbered(tx, run)? {
        return match fresh.speaker(n) {
            Some(row) => counted(tx, fresh, fresh::line(tx, fresh, row, run.as_str())?).map(Some),
            None => own_line(tx, n)?.map(|line| counted(tx, fresh, line)).transpose(),
        };
    }
    // Most often it is a new run. One damaged byte leaves the end of an id as it was, or all before it; who looks no
    // further than that needs the index alone, however many runs there are.
    let alike = "SELECT n FROM run WHERE substr(run_id, -4) = substr(?1, -4) \
                 OR substr(run_id, 1, length(run_id) - 4) = substr(?1, 1, length(?1) - 4)";
    let mut alike = tx.prepare_cached(alike)?;
    let mut rows = alike.query([run.as_str()])?;
    while let Some(row) = rows.next()? {
        let Some(line) = own_line(tx, row.get(0)?)? else { continue };
        if line.record.is_err() && is_of(tx, fresh, line.n, run)? {
            let line = RunLine { run_id: run.to_string(), renamed: true, ..line };
            return current(tx, fresh, line).map(Some);
        }
    }
    Ok(None)
}

/// Whether the newest header under `n` speaks of this run.
fn is_of(tx: &Connection, fresh: &Fresh, n: i64, run: &RunId) -> Result<bool> {
    Ok(newest(tx, fresh, n)?.and_then(Row::intact).is_some_and(|entry| entry.header.run_id == *run))
}

/// The run as fresh rows have it.
fn current(tx: &Connection, fresh: &Fresh, line: RunLine) -> Result<RunLine> {
    let line = match fresh.speaker(line.n) {
        Some(row) => {
            let renamed = line.renamed;
            RunLine { renamed, ..fresh::line(tx, fresh, row, &line.run_id)? }
        }
        None => line,
    };
    counted(tx, fresh, line)
}

/// Counts again what a damaged row can no longer say.
fn counted(tx: &Connection, fresh: &Fresh, mut line: RunLine) -> Result<RunLine> {
    if line.record.is_err() {
        let counted = "SELECT sequence, stamp FROM checkpoint WHERE run_n = ?1";
        let mut statement = tx.prepare_cached(counted)?;
        let settled = statement
            .query_map([line.n], |row| Ok((number(row, 0)?, number(row, 1)?)))?
            .collect::<Result<Vec<_>>>()?;
        let there = settled.into_iter().filter(|(sequence, _)| !fresh.has_removed(line.n, *sequence));
        let all = there.chain(fresh.of(line.n).map(|row| (row.sequence, row.stamp)));
        (line.count, line.last_sequence, line.stamp) = all
            .fold((0, 0, 0), |(count, last, newest), (sequence, stamp)| {
                (count + 1, last.max(sequence), newest.max(stamp))
            });
        line.events = settled_events(tx, line.n)?;
    }
    Ok(line)
}

fn numbered(tx: &Connection, run: &RunId) -> Result<Option<i64>> {
    tx.prepare_cached("SELECT n FROM run WHERE run_id = ?1")?
        .query_row([run.as_str()], |row| row.get(0))
        .optional()
}

pub(super) fn run_n(tx: &Connection, fresh: &Fresh, run: &RunId) -> Result<Option<i64>> {
    match numbered(tx, run)? {
        Some(n) => Ok(Some(n)),
        None => Ok(line(tx, fresh, run)?.map(|line| line.n)),
    }
}

fn run_row(tx: &Connection, fresh: &Fresh, line: RunLine) -> Result<RunRow> {
    let latest = newest(tx, fresh, line.n)?;
    // An id that a damaged byte made unusable is given back by the header, or stands for itself by number.
    let named = line.run_id.parse().ok().or_else(|| match &latest {
        Some(Row::Intact(entry)) => Some(entry.header.run_id.clone()),
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

pub(super) fn run(tx: &Connection, run: &RunId) -> Result<Option<StoredRun>> {
    let fresh = &Fresh::load(tx)?;
    let Some(line) = line(tx, fresh, run)? else { return Ok(None) };
    let (mut good, mut damaged) = (Vec::new(), Vec::new());
    for (_, item) in items(tx, line.n)? {
        match item {
            Ok(item) => good.push(item),
            Err(damage) => damaged.push(damage.at(Some(run), None)),
        }
    }
    Ok(Some(StoredRun { row: run_row(tx, fresh, line)?, items: good, damaged }))
}

pub(super) fn runs(tx: &Connection, query: &RunQuery) -> Result<Vec<RunRow>> {
    let fresh = &Fresh::load(tx)?;
    let before = query.before.unwrap_or(u64::MAX);
    // Runs that fresh rows speak for were written after all others.
    let speaking = fresh.runs();
    let mut lines = Vec::new();
    for n in &speaking {
        if let Some(line) = own_line(tx, *n)? {
            lines.push(current(tx, fresh, line)?);
        }
    }
    lines.retain(|line| line.stamp < before);
    lines.sort_by_key(|line| std::cmp::Reverse(line.stamp));
    let sql = format!("SELECT {RUN} FROM run WHERE stamp < ?1 ORDER BY stamp DESC");
    let mut statement = tx.prepare_cached(&sql)?;
    let mut rows = statement.query([integer(before)])?;
    while (query.limit == 0 || lines.len() < query.limit)
        && let Some(row) = rows.next()?
    {
        let line = run_line(row)?;
        if !speaking.contains(&line.n) {
            lines.push(current(tx, fresh, line)?);
        }
    }
    if query.limit > 0 {
        lines.truncate(query.limit);
    }
    lines.into_iter().map(|line| run_row(tx, fresh, line)).collect()
}

/// The first and the last number of a run's pending items, however many there are.
pub(super) fn item_numbers(tx: &Connection, n: i64) -> Result<Option<(i64, i64)>> {
    let ends =
        "SELECT (SELECT min(n) FROM item WHERE run_n = ?1), (SELECT max(n) FROM item WHERE run_n = ?1)";
    tx.prepare_cached(ends)?.query_row([n], |row| {
        let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(first.zip(last))
    })
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

/// Columns of `entry`, and where they are.
pub(super) const ENTRY: &str = "c.run_n, c.sequence, c.snapshot_id, c.stamp, c.checksum, c.header, \
                     m.revision, m.checksum, m.marks \
                     FROM checkpoint c LEFT JOIN marks m ON m.run_n = c.run_n AND m.sequence = c.sequence";

/// A row that a writer may see again at its next write, and is remembered for it.
pub(super) fn entry(row: &SqlRow<'_>) -> Result<Row> {
    let header = |key: &[&[u8]], value: &[u8], stored: &[u8]| {
        memo::recall(&memo::HEADERS, key, value, stored, || proven_header(key, value, stored))
    };
    in_list(row, proven(row, header)?)
}

/// A row of a list that may be long: remembering it would only push out what a writer needs.
pub(super) fn listed(row: &SqlRow<'_>) -> Result<Row> {
    in_list(row, proven(row, proven_header)?)
}

/// As much of a proven row as `T` takes from its header; `None` for a damaged one.
pub(super) fn retention_fields<T: serde::de::DeserializeOwned>(
    row: &SqlRow<'_>,
) -> Result<Option<(T, Marks)>> {
    Ok(proven(row, proven_header)?.ok())
}

/// The same without proof of the header.
pub(super) fn glanced<T>(
    row: &SqlRow<'_>,
    glance: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<(T, Marks)>> {
    let unreadable = || Damage::integrity(Part::Header, "a readable header", "another");
    let header = |_: &[&[u8]], value: &[u8], _: &[u8]| {
        std::str::from_utf8(value).ok().and_then(glance).ok_or_else(unreadable)
    };
    Ok(proven(row, header)?.ok())
}

fn proven_header<T: serde::de::DeserializeOwned>(
    key: &[&[u8]],
    value: &[u8],
    stored: &[u8],
) -> std::result::Result<T, Damage> {
    prove(Part::Header, key, value, stored)?;
    parse(Part::Header, value)
}

/// What a row says, if header and marks prove themselves.
fn proven<T>(
    row: &SqlRow<'_>,
    header: impl FnOnce(&[&[u8]], &[u8], &[u8]) -> std::result::Result<T, Damage>,
) -> Result<std::result::Result<(T, Marks), Damage>> {
    let (n, sequence, stamp): (i64, u64, u64) = (row.get(0)?, number(row, 1)?, number(row, 3)?);
    let id = slice(row, 2)?;
    let key = header_key(n, sequence, stamp);
    let header = match header(&[id, &key[0], &key[1], &key[2]], slice(row, 5)?, slice(row, 4)?) {
        Ok(header) => header,
        Err(damage) => return Ok(Err(damage)),
    };
    let marks = slice(row, 8)?;
    if marks.is_empty() && matches!(row.get_ref(7)?, ValueRef::Null) {
        return Ok(Ok((header, Marks::default())));
    }
    let revision = number(row, 6)?.to_le_bytes();
    let proven = prove(Part::Marks, &[id, &key[0], &key[1], &revision], marks, slice(row, 7)?);
    Ok(proven.and_then(|()| parse(Part::Marks, marks)).map(|marks| (header, marks)))
}

/// A row as lists show it: a damaged one by its name, as far as it still says one.
fn in_list(row: &SqlRow<'_>, proven: std::result::Result<(Header, Marks), Damage>) -> Result<Row> {
    let damage = match proven {
        Ok((header, marks)) => return Ok(Row::Intact(CheckpointEntry { header, marks })),
        Err(damage) => damage,
    };
    let cursor = Cursor { sequence: number(row, 1)?, stamp: number(row, 3)? };
    let hint = serde_json::from_slice::<Header>(slice(row, 5)?).ok();
    let damage = damage.at(hint.as_ref().map(|header| &header.run_id), Some(cursor.sequence));
    let id = hint.map(|header| header.snapshot_id).or_else(|| text(row, 2).ok()?.parse().ok());
    Ok(Row::Damaged { damage: damage.named(id), cursor })
}

pub(super) fn newest(tx: &Connection, fresh: &Fresh, n: i64) -> Result<Option<Row>> {
    let waiting = fresh.of(n).next_back();
    if let Some(row) = waiting.filter(|row| !row.kept) {
        return fresh::entry(tx, row).map(Some);
    }
    let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 ORDER BY c.sequence DESC");
    let mut statement = tx.prepare_cached(&sql)?;
    let mut rows = statement.query([n])?;
    while let Some(row) = rows.next()? {
        let sequence = number(row, 1)?;
        if waiting.is_some_and(|waiting| waiting.sequence > sequence) {
            break;
        }
        if !fresh.has_removed(n, sequence) {
            return entry(row).map(Some);
        }
    }
    waiting.map(|row| fresh::entry(tx, row)).transpose()
}

/// The oldest entries up to the `unprotected`-th that no mark protects.
pub(super) fn oldest(
    tx: &Connection,
    fresh: &Fresh,
    n: i64,
    unprotected: usize,
) -> Result<Vec<CheckpointEntry>> {
    let sql = format!("SELECT {ENTRY} WHERE c.run_n = ?1 ORDER BY c.sequence");
    let mut statement = tx.prepare_cached(&sql)?;
    let mut rows = statement.query([n])?;
    let (mut found, mut free) = (Vec::new(), 0);
    // A damaged row ends the list; one that was kept back here is damaged.
    let kept = fresh.of(n).find(|row| row.kept).map_or(u64::MAX, |row| row.sequence);
    while free < unprotected
        && let Some(row) = rows.next()?
    {
        let sequence = number(row, 1)?;
        if fresh.has_removed(n, sequence) {
            continue;
        }
        let Row::Intact(entry) = entry(row)? else { return Ok(found) };
        if sequence > kept {
            return Ok(found);
        }
        free += usize::from(!entry.marks.protects());
        found.push(entry);
    }
    for row in fresh.of(n).take(unprotected - free) {
        let Row::Intact(entry) = fresh::entry(tx, row)? else { break };
        found.push(entry);
    }
    Ok(found)
}

pub(super) fn events(tx: &Connection, query: &EventQuery<'_>) -> Result<EventPage> {
    let only = match query.run {
        Some(run) => match run_n(tx, &Fresh::load(tx)?, run)? {
            Some(n) => Some(n),
            None => return Ok(EventPage::default()),
        },
        None => None,
    };
    // A row holds several events, from position `n` on.
    let select = format!(
        "SELECT run_n, n, count, checksum, events FROM event \
         WHERE (?1 IS NULL OR run_n = ?1) AND n + count > ?2 UNION ALL \
         SELECT run_n, stamp * {EVENT_PLACES}, event_count, event_sum, event FROM fresh \
         WHERE (?1 IS NULL OR run_n = ?1) AND event_count <> 0 \
         AND stamp * {EVENT_PLACES} + event_count > ?2 ORDER BY 2 DESC"
    );
    let mut page = EventPage::default();
    let mut statement = tx.prepare_cached(&select)?;
    let mut rows = statement.query(params![only, integer(query.after)])?;
    while let Some(row) = rows.next()? {
        let (run_n, n, count): (i64, u64, u64) = (row.get(0)?, number(row, 1)?, number(row, 2)?);
        let value = bytes(row, 4)?;
        let proven = event_checksum(run_n, n, count, &value);
        let stored = bytes(row, 3)?;
        if proven[..] != stored[..] {
            page.damaged.push(
                Damage::integrity(Part::Event, HEXLOWER.encode(&stored), HEXLOWER.encode(&proven))
                    .at(query.run, None),
            );
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
