//! Stores, reads and lists blobs in a table, compressed by the library. They belong to the handle's project (see
//! `project`). `collect` removes them.

use std::collections::HashMap;

use milepost::internal::store::blob_codec;
use milepost::internal::store::check::compare;
use milepost::model::BlobId;
use milepost::store::{BlobEntry, Part, StoreError};
use tokio_postgres::Row as SqlRow;

use crate::decode::{column, integer, number};
use crate::error::PostgresError;
use crate::lookup::unusable_blobs;
use crate::pool::Failed;
use crate::session::Params;
use crate::statement::root_checksum;
use crate::store::PostgresStore;

/// Maximum number of bytes and of blobs that one statement stores.
const BATCH_BYTES: usize = 4 << 20;
const BATCH_COUNT: usize = 500;

/// Maximum number of blobs that one statement reads.
const READ_TOGETHER: usize = 200;

pub(crate) fn put(store: &PostgresStore, contents: &[&[u8]]) -> Result<(), StoreError> {
    store.check_writable()?;
    let contents = blob_codec::identify(contents)?;
    let mut deadline = store.deadline();
    store.prepare_schema(&mut deadline)?;
    let ids: Vec<_> = contents.iter().map(|(id, _)| *id).collect();
    let mut missing = store.run_work(&mut deadline, |session, deadline| {
        Ok(unusable_blobs(session, store, &ids, deadline.left())?)
    })?;
    // In the order in which commits and collections lock blobs.
    missing.sort();
    let by_id: HashMap<_, _> = contents.into_iter().collect();
    let mut rest = &missing[..];
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |id: &&BlobId| {
            bytes += by_id[*id].len();
            bytes <= BATCH_BYTES
        };
        let count = rest.iter().take(BATCH_COUNT).take_while(fits).count().max(1);
        let (batch, after) = rest.split_at(count);
        put_batch(store, batch, &by_id)?;
        rest = after;
    }
    Ok(())
}

/// Stores blobs. Contents that are already there stay, and are no longer about to be removed.
fn put_batch(
    store: &PostgresStore,
    ids: &[BlobId],
    contents: &HashMap<BlobId, &[u8]>,
) -> Result<(), StoreError> {
    let contents: Vec<&[u8]> = ids.iter().map(|id| contents[id]).collect();
    let failed = |e: std::io::Error| StoreError::Write { location: store.location(), source: e.into() };
    let stored = blob_codec::compress_all(&contents).map_err(failed)?;
    let mut params = Params::new();
    let keys = params.byte_arrays(ids.iter().map(|id| id.as_bytes().to_vec()).collect());
    let lengths = params.ints(stored.iter().map(|bytes| bytes.len() as i64).collect());
    let sizes = params.ints(contents.iter().map(|content| content.len() as i64).collect());
    let data = params.byte_arrays(stored.into_iter().map(|bytes| bytes.into_owned()).collect());
    let project = params.text(store.project().of_blobs());
    let sql = store.schema().fill(&format!(
        "INSERT INTO {{s}}.blob (project, id, length, size, data) \
         SELECT {project}, p.* FROM unnest({keys}, {lengths}, {sizes}, {data}) p \
         ON CONFLICT (project, id) DO UPDATE SET length = excluded.length, size = excluded.size, \
         data = excluded.data, doomed = NULL WHERE blob.data IS NULL OR blob.doomed IS NOT NULL"
    ));
    // Storing a blob twice changes nothing, so a lost reply is no problem. Each batch has the whole waiting time.
    let mut deadline = store.deadline();
    store.run_work(&mut deadline, |session, deadline| {
        session.query(&sql, &params, deadline.left())?;
        Ok(())
    })
}

pub(crate) fn missing(store: &PostgresStore, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut params = Params::new();
    let wanted = params.byte_arrays(ids.iter().map(|id| id.as_bytes().to_vec()).collect());
    let readable = store.project().readable_by_id(&mut params);
    let sql = store.schema().fill(&format!(
        "SELECT b.id FROM {{s}}.blob b WHERE {readable} AND b.id = ANY({wanted}) AND b.data IS NOT NULL"
    ));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        let there = rows.iter().map(|row| column::<Vec<u8>>(row, "id"));
        let there = there.collect::<Result<std::collections::HashSet<_>, _>>()?;
        Ok(ids.iter().filter(|id| !there.contains(&id.as_bytes()[..])).copied().collect())
    })
}

pub(crate) fn read(store: &PostgresStore, id: &BlobId) -> Result<Vec<u8>, StoreError> {
    let mut params = Params::new();
    let wanted = params.bytes(id.as_bytes().to_vec());
    let readable = store.project().readable_by_id(&mut params);
    let sql = store.schema().fill(&format!(
        "SELECT b.size, b.data FROM {{s}}.blob b WHERE {readable} AND b.id = {wanted} AND b.data IS NOT NULL LIMIT 1"
    ));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        let Some(row) = rows.first() else { return Err(Failed::Final(StoreError::NoBlob(*id))) };
        let restored = blob_codec::restore(id, column(row, "data")?, number(row, "size")?);
        restored.map_err(|damage| Failed::Final(damage.into()))
    })
}

/// Reads the contents of several blobs, many with one statement.
pub(crate) fn read_all(store: &PostgresStore, ids: &[BlobId]) -> Result<Vec<Vec<u8>>, StoreError> {
    let mut contents = HashMap::new();
    for batch in ids.chunks(READ_TOGETHER) {
        let mut params = Params::new();
        let wanted = params.byte_arrays(batch.iter().map(|id| id.as_bytes().to_vec()).collect());
        let readable = store.project().readable_by_id(&mut params);
        let sql = store.schema().fill(&format!(
            "SELECT DISTINCT ON (b.id) b.id, b.size, b.data FROM {{s}}.blob b \
             WHERE {readable} AND b.id = ANY({wanted}) AND b.data IS NOT NULL"
        ));
        let found = store.read(|session, deadline| {
            let mut found = Vec::new();
            for row in session.query(&sql, &params, deadline.left())? {
                let Some(id) = blob_id(column(&row, "id")?) else { continue };
                let restored = blob_codec::restore(&id, column(&row, "data")?, number(&row, "size")?);
                found.push((id, restored.map_err(|damage| Failed::Final(damage.into()))?));
            }
            Ok(found)
        })?;
        contents.extend(found);
    }
    ids.iter().map(|id| contents.get(id).cloned().ok_or(StoreError::NoBlob(*id))).collect()
}

/// The id in a row of `blob`; `None` if it is damaged.
pub(crate) fn blob_id(bytes: &[u8]) -> Option<BlobId> {
    data_encoding::HEXLOWER.encode(bytes).parse().ok()
}

pub(crate) fn list(
    store: &PostgresStore,
    after: Option<&BlobId>,
    limit: usize,
) -> Result<Vec<BlobEntry>, StoreError> {
    let mut params = Params::new();
    let after = params.bytes(after.map_or_else(Vec::new, |id| id.as_bytes().to_vec()));
    let limit =
        if limit == 0 { String::new() } else { format!("LIMIT {}", params.int(integer(limit as u64))) };
    let readable = store.project().readable(&mut params);
    // Several projects can have the same blob.
    let sql = store.schema().fill(&format!(
        "SELECT b.id, sum(b.length)::bigint AS length, bool_and(b.data IS NULL) AS is_evicted FROM {{s}}.blob b \
         WHERE {readable} AND b.id > {after} GROUP BY b.id ORDER BY b.id {limit}"
    ));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        let entry = |row: &SqlRow| -> Result<Option<BlobEntry>, PostgresError> {
            let Some(id) = blob_id(column(row, "id")?) else { return Ok(None) };
            let is_evicted: bool = column(row, "is_evicted")?;
            let bytes = number(row, "length")?;
            Ok(Some(if is_evicted { BlobEntry::evicted(id) } else { BlobEntry::new(id, bytes) }))
        };
        let entries = rows.iter().filter_map(|row| entry(row).transpose());
        Ok(entries.collect::<Result<Vec<_>, _>>()?)
    })
}

pub(crate) fn bytes(store: &PostgresStore) -> Result<u64, StoreError> {
    let mut params = Params::new();
    let readable = store.project().readable(&mut params);
    let sql = store.schema().fill(&format!(
        "SELECT coalesce(sum(b.length), 0)::bigint AS bytes FROM {{s}}.blob b \
         WHERE {readable} AND b.data IS NOT NULL"
    ));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        Ok(rows.first().map_or(Ok(0), |row| number(row, "bytes"))?)
    })
}

pub(crate) fn roots(store: &PostgresStore) -> Result<Vec<(String, BlobId)>, StoreError> {
    let mut params = Params::new();
    let readable = store.project().readable(&mut params);
    // Several projects can have the same root.
    let sql = store
        .schema()
        .fill(&format!("SELECT DISTINCT b.name, b.blob, b.checksum FROM {{s}}.blob_root b WHERE {readable}"));
    store.read(|session, deadline| {
        let mut roots = Vec::new();
        for row in session.query(&sql, &params, deadline.left())? {
            let (name, blob): (&[u8], &[u8]) = (column(&row, "name")?, column(&row, "blob")?);
            compare(Part::Blob, root_checksum(name, blob), column(&row, "checksum")?)
                .map_err(|damage| Failed::Final(damage.into()))?;
            let invalid = || PostgresError::Value { message: "the name of a root is invalid".to_owned() };
            let name = String::from_utf8(name.to_vec()).map_err(|_| invalid())?;
            roots.push((name, blob_id(blob).ok_or_else(invalid)?));
        }
        roots.sort();
        Ok(roots)
    })
}
