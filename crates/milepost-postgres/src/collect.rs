//! Removes blobs that are not in use. It must never remove a blob of a commit that succeeds, although commits of
//! all runs go on meanwhile and no lock stops them. Removes only blobs of the handle's project: `find_live` looks at
//! the runs of that project only, or at all runs if the handle has none.
//!
//! 1. `find_live` names the blobs in use. All others are candidates.
//! 2. The candidates are marked as doomed, in batches. A commit refers only to blobs that are not doomed, and holds
//!    a share lock on their rows until it ends. Marking a row therefore waits for the commits that already refer to
//!    it, and later commits are refused until their writer stores the blob again, which removes the mark.
//! 3. `find_live` is asked again. Every commit that refers to a doomed blob has ended, so that it sees all of them.
//! 4. Doomed blobs that are still not in use are removed. The others lose their mark. A blob that was stored again
//!    is no longer doomed and stays.
//!
//! If a collection ends early, some blobs stay doomed: they are readable, and the next put of the same content or
//! the next collection removes the mark.

use std::collections::BTreeMap;

use milepost::model::BlobId;
use milepost::store::{CollectReport, FindLiveBlobs, LiveBlobs, StoreError};

use crate::blobs::blob_id;
use crate::decode::{column, number};
use crate::error::PostgresError;
use crate::pool::Deadline;
use crate::session::{Params, Session};
use crate::statement::root_hash;
use crate::store::PostgresStore;

/// Number of rows that one statement changes, so that commits wait only briefly.
const BATCH: usize = 500;

/// What happens to a doomed blob.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Evict,
    Remove,
}

fn verdict(live: &LiveBlobs, id: &BlobId) -> Verdict {
    match () {
        () if live.evict.contains(id) => Verdict::Evict,
        () if live.keep.contains(id) => Verdict::Keep,
        () => Verdict::Remove,
    }
}

/// A blob in the table.
struct Stored {
    has_content: bool,
    is_doomed: bool,
}

pub(crate) fn collect(
    store: &PostgresStore,
    find_live: &mut FindLiveBlobs<'_>,
) -> Result<CollectReport, StoreError> {
    store.check_writable()?;
    let mut roots = root_rows(store)?;
    let live = find_live()?;
    let stored = all(store)?;
    let candidates: Vec<BlobId> = stored
        .iter()
        .filter(|(id, blob)| match verdict(&live, id) {
            Verdict::Keep => blob.is_doomed,
            Verdict::Evict => blob.has_content,
            Verdict::Remove => true,
        })
        .map(|(id, _)| *id)
        .collect();
    let mark = doom(store, &candidates)?;
    let live = if candidates.is_empty() {
        live
    } else {
        roots = root_rows(store)?;
        find_live()?
    };
    let mut report = CollectReport::default();
    for batch in candidates.chunks(BATCH) {
        for wanted in [Verdict::Keep, Verdict::Evict, Verdict::Remove] {
            let ids: Vec<_> = batch.iter().filter(|id| verdict(&live, id) == wanted).copied().collect();
            let (removed, bytes) = apply(store, wanted, &ids, mark)?;
            report.removed += removed;
            report.bytes_freed += bytes;
        }
    }
    drop_roots(store, &live.drop_roots, &roots)?;
    Ok(report)
}

fn all(store: &PostgresStore) -> Result<BTreeMap<BlobId, Stored>, StoreError> {
    let mut params = Params::new();
    let project = params.text(store.project().of_blobs());
    let sql = store.schema().fill(&format!(
        "SELECT id, data IS NOT NULL AS has_content, doomed IS NOT NULL AS is_doomed FROM {{s}}.blob \
         WHERE project = {project}"
    ));
    store.read(|session, deadline| {
        let mut blobs = BTreeMap::new();
        for row in session.query(&sql, &params, deadline.left())? {
            let stored =
                Stored { has_content: column(&row, "has_content")?, is_doomed: column(&row, "is_doomed")? };
            if let Some(id) = blob_id(column(&row, "id")?) {
                blobs.insert(id, stored);
            }
        }
        Ok(blobs)
    })
}

/// Marks blobs as doomed by this collection, and returns its mark.
fn doom(store: &PostgresStore, ids: &[BlobId]) -> Result<i64, StoreError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|e| StoreError::Write {
        location: store.location(),
        source: std::io::Error::other(e.to_string()).into(),
    })?;
    let mark = i64::from_le_bytes(bytes);
    for batch in ids.chunks(BATCH) {
        let mut deadline = store.deadline();
        store.run_work(&mut deadline, |session, deadline| {
            let mut params = Params::new();
            let (mark, ids) = (params.int(mark), params.byte_arrays(keys(batch)));
            let project = params.text(store.project().of_blobs());
            let sql = store.schema().fill(&format!(
                "WITH locked AS MATERIALIZED (SELECT id FROM {{s}}.blob WHERE project = {project} \
                 AND id = ANY({ids}) ORDER BY id FOR UPDATE) UPDATE {{s}}.blob b SET doomed = {mark} FROM locked \
                 WHERE b.project = {project} AND b.id = locked.id"
            ));
            session.query(&sql, &params, deadline.left())?;
            Ok(())
        })?;
    }
    Ok(mark)
}

fn keys(ids: &[BlobId]) -> Vec<Vec<u8>> {
    ids.iter().map(|id| id.as_bytes().to_vec()).collect()
}

/// Applies a verdict to blobs that still have the mark. Returns how many contents it removed, and their bytes.
fn apply(
    store: &PostgresStore,
    verdict: Verdict,
    ids: &[BlobId],
    mark: i64,
) -> Result<(u64, u64), StoreError> {
    if ids.is_empty() {
        return Ok((0, 0));
    }
    let mut deadline = store.deadline();
    let mut total = (0, 0);
    store.run_work(&mut deadline, |session, deadline| {
        // If the reply to an earlier attempt was lost, it may have removed some already, which are not counted.
        let (removed, bytes) = apply_once(store, session, verdict, ids, mark, deadline)?;
        total = (total.0 + removed, total.1 + bytes);
        Ok(())
    })?;
    Ok(total)
}

fn apply_once(
    store: &PostgresStore,
    session: &mut Session,
    verdict: Verdict,
    ids: &[BlobId],
    mark: i64,
    deadline: &Deadline,
) -> Result<(u64, u64), PostgresError> {
    let mut params = Params::new();
    let (mark, ids) = (params.int(mark), params.byte_arrays(keys(ids)));
    let project = params.text(store.project().of_blobs());
    let locked = format!(
        "locked AS MATERIALIZED (SELECT id, length, data IS NOT NULL AS has_content FROM {{s}}.blob \
         WHERE project = {project} AND id = ANY({ids}) AND doomed = {mark} ORDER BY id FOR UPDATE)"
    );
    let this = format!("b.project = {project} AND b.id = locked.id");
    let change = match verdict {
        Verdict::Keep => format!("UPDATE {{s}}.blob b SET doomed = NULL FROM locked WHERE {this}"),
        Verdict::Evict => {
            format!("UPDATE {{s}}.blob b SET doomed = NULL, data = NULL, length = 0 FROM locked WHERE {this}")
        }
        Verdict::Remove => format!("DELETE FROM {{s}}.blob b USING locked WHERE {this}"),
    };
    let sql = store.schema().fill(&format!(
        "WITH {locked}, changed AS ({change} RETURNING locked.length, locked.has_content) \
         SELECT count(*) FILTER (WHERE has_content) AS removed, \
         coalesce(sum(length) FILTER (WHERE has_content), 0)::bigint AS bytes FROM changed"
    ));
    let rows = session.query(&sql, &params, deadline.left())?;
    match rows.first() {
        Some(row) if verdict != Verdict::Keep => Ok((number(row, "removed")?, number(row, "bytes")?)),
        _ => Ok((0, 0)),
    }
}

/// The blobs of the project's roots, by the hash of the root's name.
fn root_rows(store: &PostgresStore) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StoreError> {
    let mut params = Params::new();
    let project = params.text(store.project().of_blobs());
    let sql =
        store.schema().fill(&format!("SELECT key, blob FROM {{s}}.blob_root WHERE project = {project}"));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        let roots = rows.iter().map(|row| Ok((column(row, "key")?, column(row, "blob")?)));
        Ok(roots.collect::<Result<_, PostgresError>>()?)
    })
}

/// Removes roots, except those that a commit has set to another blob since `before` was read.
fn drop_roots(
    store: &PostgresStore,
    names: &[String],
    before: &BTreeMap<Vec<u8>, Vec<u8>>,
) -> Result<(), StoreError> {
    let dropped = names.iter().map(|name| root_hash(name)).filter_map(|key| before.get_key_value(&key));
    let (keys, blobs): (Vec<_>, Vec<_>) = dropped.map(|(key, blob)| (key.clone(), blob.clone())).unzip();
    if keys.is_empty() {
        return Ok(());
    }
    let mut params = Params::new();
    let (keys, blobs) = (params.byte_arrays(keys), params.byte_arrays(blobs));
    let project = params.text(store.project().of_blobs());
    let sql = store.schema().fill(&format!(
        "DELETE FROM {{s}}.blob_root r USING unnest({keys}, {blobs}) AS d (key, blob) \
         WHERE r.project = {project} AND r.key = d.key AND r.blob = d.blob"
    ));
    let mut deadline = store.deadline();
    store.run_work(&mut deadline, |session, deadline| {
        session.query(&sql, &params, deadline.left())?;
        Ok(())
    })
}
