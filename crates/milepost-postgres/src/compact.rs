//! Rewrites chains that contain frames of removed checkpoints, so that their contents are gone from the tables.
//! Works on one chain at a time, with the lock of its run's row. Releases no disk space itself: the server reuses
//! the space after its next vacuum.

use milepost::internal::store::frame;
use milepost::store::{MaintenanceReport, StoreError};

use crate::decode::{self, RUN, column, integer, number};
use crate::error::PostgresError;
use crate::frames::{self, FRAME, frame_checksum};
use crate::pool::Deadline;
use crate::session::{Params, Session};
use crate::store::PostgresStore;

/// A chain: the number of its run and the sequence number of its first frame.
type Chain = (i64, i64);

pub(crate) fn compact(store: &PostgresStore) -> Result<MaintenanceReport, StoreError> {
    store.check_writable()?;
    let mut report = MaintenanceReport::default();
    for chain in chains(store)? {
        let mut deadline = store.deadline();
        let freed = store.run_work(&mut deadline, |session, deadline| {
            session.batch("BEGIN ISOLATION LEVEL READ COMMITTED", deadline.left())?;
            match rewrite(store, session, chain, deadline) {
                Ok(freed) => {
                    session.batch("COMMIT", deadline.left())?;
                    Ok(freed)
                }
                Err(e) => {
                    // If this fails too, the connection is dropped, which ends the transaction.
                    session.batch("ROLLBACK", deadline.left())?;
                    Err(e.into())
                }
            }
        })?;
        report.bytes_freed += freed;
    }
    Ok(report)
}

/// The chains with frames whose checkpoint was removed, in runs that this handle lists.
fn chains(store: &PostgresStore) -> Result<Vec<Chain>, StoreError> {
    let mut params = Params::new();
    let only = match store.project().id() {
        Some(id) => {
            let id = params.text(id);
            format!("AND f.run_n IN (SELECT r.n FROM {{s}}.run r WHERE r.project = {id})")
        }
        None => String::new(),
    };
    let sql = store.schema().fill(&format!(
        "SELECT DISTINCT f.run_n, f.first FROM {{s}}.frame f WHERE NOT EXISTS (SELECT 1 FROM {{s}}.checkpoint c \
         WHERE c.run_n = f.run_n AND c.sequence = f.sequence) {only} ORDER BY 1, 2"
    ));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        let chains = rows.iter().map(|row| Ok((column(row, "run_n")?, column(row, "first")?)));
        Ok(chains.collect::<Result<_, PostgresError>>()?)
    })
}

/// Rewrites one chain without the frames of removed checkpoints. Returns the number of bytes that it saved.
fn rewrite(
    store: &PostgresStore,
    session: &mut Session,
    (n, first): Chain,
    deadline: &Deadline,
) -> Result<u64, PostgresError> {
    let schema = store.schema();
    let mut params = Params::new();
    let run = params.int(n);
    let sql = schema.fill(&format!("SELECT {RUN} FROM {{s}}.run r WHERE r.n = {run} FOR NO KEY UPDATE"));
    let rows = session.query(&sql, &params, deadline.left())?;
    let Some(row) = rows.first() else { return Ok(0) };
    let record: String = column(row, "r_record")?;
    let mut run_row = decode::run_table_row(row)?;
    let mut params = Params::new();
    let (run, start) = (params.int(n), params.int(first));
    let sql = schema.fill(&format!(
        "SELECT {FRAME}, EXISTS (SELECT 1 FROM {{s}}.checkpoint c WHERE c.run_n = f.run_n \
         AND c.sequence = f.sequence) AS is_live FROM {{s}}.frame f WHERE f.run_n = {run} AND f.first = {start} \
         ORDER BY f.sequence"
    ));
    let chain = session.query(&sql, &params, deadline.left())?;
    let is_live = chain.iter().map(|row| column::<bool>(row, "is_live")).collect::<Result<Vec<_>, _>>()?;
    // A damaged row is repaired first, and a chain that cannot be read stays as it is.
    if run_row.record.is_err() || is_live.iter().all(|live| *live) {
        return Ok(0);
    }
    let (mut before, mut after) = (0, 0);
    let (mut sequences, mut bases, mut sums, mut data) = (vec![], vec![], vec![], vec![]);
    let mut base: Option<(u64, Vec<u8>)> = None;
    let new_first = match chain.iter().zip(&is_live).find(|(_, live)| **live) {
        Some((row, _)) => number(row, "f_sequence")?,
        None => 0,
    };
    for at in 0..chain.len() {
        before += column::<&[u8]>(&chain[at], "f_data")?.len() as u64;
        if !is_live[at] {
            continue;
        }
        let sequence = number(&chain[at], "f_sequence")?;
        let Ok(document) = frames::unpack(n, &chain[..=at])? else { return Ok(0) };
        let (base_sequence, base_document) =
            base.as_ref().map_or((0, &[][..]), |(at, document)| (*at, document));
        let packed = frame::pack(&document, base_document);
        let packed = packed.map_err(|e| PostgresError::Value { message: e.to_string() })?;
        after += packed.len() as u64;
        sums.push(frame_checksum(n, sequence, new_first, base_sequence, &packed).to_vec());
        sequences.push(integer(sequence));
        bases.push(integer(base_sequence));
        data.push(packed);
        base = Some((sequence, document));
    }
    let mut params = Params::new();
    let (run, start) = (params.int(n), params.int(first));
    let sql = schema.fill(&format!("DELETE FROM {{s}}.frame WHERE run_n = {run} AND first = {start}"));
    session.query(&sql, &params, deadline.left())?;
    // Writers that have already read the chain must not add to it.
    run_row.commits += 1;
    let mut params = Params::new();
    let (run, new_first) = (params.int(n), params.int(integer(new_first)));
    let (sequences, bases) = (params.ints(sequences), params.ints(bases));
    let (sums, data) = (params.byte_arrays(sums), params.byte_arrays(data));
    let commits = params.int(integer(run_row.commits));
    let sum = params.bytes(decode::run_checksum(&run_row, &record).to_vec());
    let stamp = params.int(integer(run_row.stamp));
    let sql = schema.fill(&format!(
        "WITH written AS (UPDATE {{s}}.run SET commits = {commits}, checksum = {sum} WHERE n = {run} RETURNING n), \
         log AS (INSERT INTO {{s}}.write_log (run_n, n, stamp, sequence, coalesced) \
         SELECT n, {commits}, {stamp}, 0, false FROM written), \
         moved AS (UPDATE {{s}}.checkpoint SET first = {new_first} WHERE run_n = {run} AND sequence = ANY({sequences})) \
         INSERT INTO {{s}}.frame (run_n, first, sequence, base, checksum, data) \
         SELECT {run}, {new_first}, p.* FROM unnest({sequences}, {bases}, {sums}, {data}) p"
    ));
    session.query(&sql, &params, deadline.left())?;
    Ok(before.saturating_sub(after))
}
