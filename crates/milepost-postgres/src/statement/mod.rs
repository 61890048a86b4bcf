//! Builds the one statement that applies a commit: it compares the run's row with what the decision saw, updates
//! it, and writes all other rows only if that succeeded. Being one statement, it is one round trip and atomic.
//! Takes a validated commit. Runs nothing.

mod blobs;
mod details;

use std::collections::{BTreeMap, BTreeSet};

use milepost::internal::store::check::checksum;
use milepost::model::{CheckpointId, RunId};
use milepost::store::{Commit, Part, RunView, Sealed};
use tokio_postgres::types::Type;

use crate::decode::{self, RunTableRow, integer};
use crate::error::PostgresError;
use crate::frames::{self, NewFrame};
use crate::schema::{SchemaName, key_hash};
use crate::session::{Column, Params};

pub(crate) use blobs::{root_checksum, root_hash};

/// Minimum number of commits of a run in the write log.
const LOGGED_COMMITS: u64 = 64;

/// What the statement depends on besides the commit and its view.
pub(crate) struct Context<'a> {
    pub(crate) run: &'a RunId,
    /// The project under which the run is listed, and the one to which the blobs of this handle belong.
    pub(crate) project: String,
    pub(crate) blob_project: &'a str,
    /// The run's row that the decision saw; `None` for a new run.
    pub(crate) row: Option<&'a RunTableRow>,
    pub(crate) view: &'a RunView,
    /// The numbers of the shown items, and the next free number.
    pub(crate) shown_items: &'a [i64],
    pub(crate) next_item: i64,
    /// Ids of the existing checkpoints that the commit removes.
    pub(crate) dropped: &'a BTreeMap<u64, CheckpointId>,
    /// For each existing checkpoint with new marks: the names that it has, and its imported id.
    pub(crate) names: &'a BTreeMap<u64, (BTreeSet<Vec<u8>>, Option<String>)>,
    pub(crate) frames: &'a [NewFrame],
}

/// A statement that can be sent more than once: at most one of its copies takes effect.
pub(crate) struct CommitStatement {
    pub(crate) sql: String,
    pub(crate) params: Params,
    /// The number of the run, of the commit in the run, and the stamp that identifies the commit.
    pub(crate) n: i64,
    pub(crate) number: u64,
    pub(crate) stamp: u64,
    pub(crate) is_new_run: bool,
    /// Number of blobs that the commit refers to.
    pub(crate) blobs: usize,
    /// The run's row after the commit.
    pub(crate) row: RunTableRow,
}

/// The hash of a name: a tag or an imported id.
pub(crate) fn name_hash(name: &str) -> Vec<u8> {
    key_hash("name", &[name.as_bytes()])
}

/// The hash of the name of a checkpoint that has attachments.
pub(crate) fn attached_hash(checkpoint: &str) -> Vec<u8> {
    key_hash("attached", &[checkpoint.as_bytes()])
}

/// The hash that identifies an attachment of a checkpoint.
fn attachment_hash(task: &str, index: i64) -> Vec<u8> {
    key_hash("attachment", &[task.as_bytes(), &index.to_le_bytes()])
}

fn json<T: serde::Serialize>(value: &T) -> Result<String, PostgresError> {
    serde_json::to_string(value).map_err(|e| PostgresError::Value { message: e.to_string() })
}

/// Builds the statement for a commit.
pub(crate) fn build(
    schema: &SchemaName,
    commit: &Commit,
    context: &Context<'_>,
) -> Result<CommitStatement, PostgresError> {
    let stamp = context.view.slot.stamp();
    let drops: BTreeSet<u64> = commit.drops.iter().copied().collect();
    let puts: Vec<&Sealed> =
        commit.puts.iter().filter(|put| !drops.contains(&put.header().sequence())).collect();
    let is_new_run = context.row.is_none();
    let mut row = context.row.cloned().unwrap_or_else(|| new_row(context.run, stamp));
    row.stamp = commit.puts.last().map_or(stamp, |put| put.header().stamp());
    row.last_sequence = commit.puts.last().map_or(row.last_sequence, |put| put.header().sequence());
    row.count = (row.count + puts.len() as u64).saturating_sub(context.dropped.len() as u64);
    row.commits += 1;
    let mut build = Builder { params: Params::new(), parts: Vec::new(), commit, context, row, stamp };
    let blobs = build.hold_blobs();
    let events = build.events()?;
    build.compare_and_set(is_new_run, blobs)?;
    build.share_blobs(blobs);
    build.put(&puts)?;
    build.thread_positions(&puts);
    build.marks(&drops)?;
    build.names(&puts, &drops);
    build.drop_checkpoints(&drops);
    build.items()?;
    build.attachments()?;
    build.write_events(events);
    build.log();
    build.roots();
    let held = if blobs > 0 { "(SELECT count(*) FROM held)" } else { "0::bigint" };
    let sql = format!(
        "WITH {} SELECT (SELECT count(*) FROM written) AS applied, {held} AS held",
        build.parts.join(", ")
    );
    let Builder { params, row, .. } = build;
    Ok(CommitStatement {
        sql: schema.fill(&sql),
        params,
        n: row.n,
        number: row.commits,
        stamp,
        is_new_run,
        blobs,
        row,
    })
}

/// The row of a run without commits. Its number is the stamp of its first commit.
fn new_row(run: &RunId, stamp: u64) -> RunTableRow {
    RunTableRow {
        n: integer(stamp),
        run_id: run.to_string(),
        project: String::new(),
        stamp,
        last_sequence: 0,
        count: 0,
        events: 0,
        events_from: 0,
        commits: 0,
        stored: (0, 0),
        record: Err(milepost::store::Damage::integrity(Part::Run, "", "")),
        age: None,
        user: None,
        users: Vec::new(),
        host: None,
    }
}

struct Builder<'a> {
    params: Params,
    parts: Vec<String>,
    commit: &'a Commit,
    context: &'a Context<'a>,
    row: RunTableRow,
    stamp: u64,
}

impl Builder<'_> {
    fn part(&mut self, name: &str, sql: String) {
        self.parts.push(format!("{name} AS ({sql})"));
    }

    /// Updates the run's row if it is still the one that the decision saw, or inserts it.
    fn compare_and_set(&mut self, is_new_run: bool, blobs: usize) -> Result<(), PostgresError> {
        let record = json(&self.commit.record)?;
        let sum = decode::run_checksum(&self.row, &record).to_vec();
        let p = &mut self.params;
        let held = match blobs {
            0 => "true".to_owned(),
            count => format!("(SELECT count(*) FROM held) = {}", p.int(count as i64)),
        };
        let row = &self.row;
        let n = p.int(row.n);
        let values = [
            ("stamp", p.int(integer(row.stamp))),
            ("last_sequence", p.int(integer(row.last_sequence))),
            ("count", p.int(integer(row.count))),
            ("events", p.int(integer(row.events))),
            ("events_from", p.int(integer(row.events_from))),
            ("commits", p.int(integer(row.commits))),
            ("project", p.text(&*self.context.project)),
            ("checksum", p.bytes(sum)),
            ("record", p.text(record)),
        ];
        let sql = if is_new_run {
            let run_id = p.text(self.context.run.to_string());
            let columns: Vec<_> = values.iter().map(|(column, _)| *column).collect();
            let placeholders: Vec<_> = values.iter().map(|(_, value)| value.as_str()).collect();
            format!(
                "INSERT INTO {{s}}.run (n, run_id, {}) SELECT {n}, {run_id}, {} WHERE {held} \
                 ON CONFLICT (run_id) DO NOTHING RETURNING n",
                columns.join(", "),
                placeholders.join(", ")
            )
        } else {
            let sets: Vec<_> = values.iter().map(|(column, value)| format!("{column} = {value}")).collect();
            let (stamp, commits) = (p.int(integer(row.stored.0)), p.int(integer(row.stored.1)));
            format!(
                "UPDATE {{s}}.run SET {}, written_at = clock_timestamp(), written_by = session_user, \
                 written_from = host(inet_client_addr()), users = CASE WHEN session_user::text = ANY(users) \
                 THEN users ELSE array_append(users, session_user::text) END \
                 WHERE n = {n} AND stamp = {stamp} AND commits = {commits} AND {held} RETURNING n",
                sets.join(", ")
            )
        };
        self.part("written", sql);
        Ok(())
    }

    fn put(&mut self, puts: &[&Sealed]) -> Result<(), PostgresError> {
        if puts.is_empty() {
            return Ok(());
        }
        let n = self.row.n;
        let (mut ids, mut sums, mut headers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut sequences, mut stamps) = (Vec::new(), Vec::new());
        for put in puts {
            let header = put.header();
            let (id, text) = (header.snapshot_id().to_string(), json(header)?);
            sums.push(decode::header_checksum(n, header.sequence(), header.stamp(), &id, &text).to_vec());
            sequences.push(integer(header.sequence()));
            stamps.push(integer(header.stamp()));
            ids.push(id);
            headers.push(text);
        }
        let frames = self.context.frames;
        let firsts = frames.iter().map(|frame| integer(frame.first)).collect::<Vec<_>>();
        let rows = self.params.rows(vec![
            Column::Ints(sequences.clone()),
            Column::Ints(firsts.clone()),
            Column::Ints(stamps),
            Column::Texts(ids),
            Column::Bytes(sums),
            Column::Texts(headers),
        ]);
        let insert = format!(
            "INSERT INTO {{s}}.checkpoint (run_n, sequence, first, stamp, snapshot_id, checksum, header) \
             SELECT written.n, p.* FROM written, {rows} p"
        );
        let sums =
            frames.iter().map(|f| frames::frame_checksum(n, f.sequence, f.first, f.base, &f.data).to_vec());
        let rows = self.params.rows(vec![
            Column::Ints(firsts),
            Column::Ints(sequences),
            Column::Ints(frames.iter().map(|frame| integer(frame.base)).collect()),
            Column::Bytes(sums.collect()),
            Column::Bytes(frames.iter().map(|frame| frame.data.clone()).collect()),
        ]);
        let insert_frames = format!(
            "INSERT INTO {{s}}.frame (run_n, first, sequence, base, checksum, data) \
             SELECT written.n, p.* FROM written, {rows} p"
        );
        self.part("put", insert);
        self.part("put_frames", insert_frames);
        Ok(())
    }

    /// Whether a checkpoint exists after the commit.
    fn stays(&self, sequence: u64, drops: &BTreeSet<u64>) -> bool {
        let is_put = || self.commit.puts.iter().any(|put| put.header().sequence() == sequence);
        !drops.contains(&sequence) && (self.context.names.contains_key(&sequence) || is_put())
    }

    /// Removes checkpoints, and the frames that no remaining checkpoint needs.
    fn drop_checkpoints(&mut self, drops: &BTreeSet<u64>) {
        if self.context.dropped.is_empty() {
            return;
        }
        let drops = self.params.ints(drops.iter().map(|sequence| integer(*sequence)).collect());
        let extended =
            self.params.ints(self.context.frames.iter().map(|frame| integer(frame.first)).collect());
        let frames = format!(
            "DELETE FROM {{s}}.frame f USING (SELECT DISTINCT d.run_n, d.first FROM written, {{s}}.checkpoint d \
             WHERE d.run_n = written.n AND d.sequence = ANY({drops})) g \
             WHERE f.run_n = g.run_n AND f.first = g.first AND NOT f.first = ANY({extended}) AND NOT EXISTS ( \
             SELECT 1 FROM {{s}}.frame h JOIN {{s}}.checkpoint k ON k.run_n = h.run_n AND k.sequence = h.sequence \
             WHERE h.run_n = f.run_n AND h.first = f.first AND h.sequence >= f.sequence \
             AND NOT k.sequence = ANY({drops}))"
        );
        self.part("drop_frames", frames);
        let checkpoints = format!(
            "DELETE FROM {{s}}.checkpoint c USING written WHERE c.run_n = written.n AND c.sequence = ANY({drops})"
        );
        self.part("drop_checkpoints", checkpoints);
    }

    fn items(&mut self) -> Result<(), PostgresError> {
        let consumed = &self.context.shown_items[..self.commit.consume];
        if !consumed.is_empty() {
            let consumed = self.params.ints(consumed.to_vec());
            let sql = format!(
                "DELETE FROM {{s}}.item i USING written WHERE i.run_n = written.n AND i.n = ANY({consumed})"
            );
            self.part("consume", sql);
        }
        let texts = self.commit.push.iter().map(json).collect::<Result<Vec<_>, _>>()?;
        self.numbered("item", Part::Item, self.context.next_item, texts);
        let texts = self.commit.messages.iter().map(json).collect::<Result<Vec<_>, _>>()?;
        self.numbered("message", Part::Message, integer(self.stamp), texts);
        Ok(())
    }

    /// Adds rows to `item` or `message`.
    fn numbered(&mut self, table: &str, part: Part, from: i64, texts: Vec<String>) {
        if texts.is_empty() {
            return;
        }
        let numbers: Vec<i64> = (from..).take(texts.len()).collect();
        let sums = numbers.iter().zip(&texts);
        let sums =
            sums.map(|(at, text)| decode::numbered_checksum(part, self.row.n, *at, text).to_vec()).collect();
        let rows = self.params.rows(vec![Column::Ints(numbers), Column::Bytes(sums), Column::Texts(texts)]);
        let sql = format!(
            "INSERT INTO {{s}}.{table} (run_n, n, checksum, {table}) SELECT written.n, a.* FROM written, {rows} a"
        );
        self.part(&format!("add_{table}"), sql);
    }

    /// Records the commit, by which a writer whose reply was lost finds out whether it was applied.
    fn log(&mut self) {
        let (token, written) =
            self.commit.token().map_or((None, None), |(token, w)| (Some(token.as_str().to_owned()), Some(w)));
        let p = &mut self.params;
        let commits = self.row.commits;
        let (number, stamp) = (p.int(integer(commits)), p.int(integer(self.stamp)));
        let sequence = p.int(integer(written.map_or(0, |written| written.sequence())));
        let coalesced = p.add(written.is_some_and(|written| written.coalesced()), Type::BOOL);
        let token = p.add(token, Type::TEXT);
        let sql = format!(
            "INSERT INTO {{s}}.write_log (run_n, n, stamp, sequence, coalesced, token) \
             SELECT written.n, {number}, {stamp}, {sequence}, {coalesced}, {token} FROM written"
        );
        self.part("log", sql);
        // Old rows are removed rarely and in bulk.
        if commits.is_multiple_of(LOGGED_COMMITS) && commits > LOGGED_COMMITS {
            let last = self.params.int(integer(commits - LOGGED_COMMITS));
            let sql = format!(
                "DELETE FROM {{s}}.write_log w USING written WHERE w.run_n = written.n AND w.n <= {last}"
            );
            self.part("trim_log", sql);
        }
    }
}

pub(crate) fn event_checksum(run_n: i64, at: u64, count: u64, stamp: u64, events: &str) -> [u8; 16] {
    let key = [run_n as u64, at, count, stamp].map(u64::to_le_bytes).concat();
    checksum(Part::Event, &[&key], events.as_bytes())
}
