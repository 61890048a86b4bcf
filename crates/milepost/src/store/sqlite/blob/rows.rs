//! Rows of blobs, packs and roots: decodes them with their checksums, and writes them. Takes an open
//! transaction and never commits it.

use rusqlite::{Connection, OptionalExtension, Result, Row as SqlRow, params};

use crate::model::BlobId;
use crate::store::check::checksum;
use crate::store::sqlite::decode::{bytes, integer, number, text};
use crate::store::{BLOB_LIMIT, Damage, Part, blob_codec};

/// A pack is written once it has this many bytes.
const PACK_BYTES: usize = 256 * 1024;
/// Maximum size of a pack that is read. Packs of this program are much smaller.
const PACK_LIMIT: i64 = 4 << 20;
/// The value of `pack` for a blob that is a file.
const IN_FILE: i64 = 0;

/// Where the content of a blob is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The content was removed.
    Evicted,
    /// In a file next to the database.
    File,
    /// In a row of `blob_pack`.
    Pack { n: i64, offset: u64 },
}

/// A verified row of `blob`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlobRow {
    pub(super) id: BlobId,
    pub(super) place: Place,
    /// Number of stored bytes. If it is less than `size`, they are a zstd frame.
    pub(super) length: u64,
    /// Number of bytes of the content.
    pub(super) size: u64,
}

impl BlobRow {
    /// The row of a blob without content.
    pub(super) fn evicted(id: BlobId) -> Self {
        Self { id, place: Place::Evicted, length: 0, size: 0 }
    }

    fn pack(&self) -> Option<i64> {
        match self.place {
            Place::Evicted => None,
            Place::File => Some(IN_FILE),
            Place::Pack { n, .. } => Some(n),
        }
    }

    fn offset(&self) -> u64 {
        if let Place::Pack { offset, .. } = self.place { offset } else { 0 }
    }
}

/// A row of `blob`, verified or damaged.
pub(super) struct StoredRow {
    key: Vec<u8>,
    /// The pack that the row names, even if the row is damaged.
    pub(super) pack: Option<i64>,
    pub(super) row: std::result::Result<BlobRow, Damage>,
}

impl StoredRow {
    /// The id in the key; `None` if the key is not an id.
    pub(super) fn id(&self) -> Option<BlobId> {
        self.key.as_slice().try_into().ok().map(BlobId::from_bytes)
    }
}

fn row_checksum(key: &[u8], pack: Option<i64>, offset: u64, length: u64, size: u64) -> [u8; 16] {
    let pack = pack.map(i64::to_le_bytes);
    let pack = pack.as_ref().map_or(&[][..], |pack| &pack[..]);
    let [offset, length, size] = [offset, length, size].map(u64::to_le_bytes);
    checksum(Part::Blob, &[key, pack, &offset, &length], &size)
}

/// Columns that `decode` reads.
const COLUMNS: &str = "id, pack, offset, length, size, checksum";

fn decode(row: &SqlRow<'_>) -> Result<StoredRow> {
    let (key, pack) = (bytes(row, 0)?, row.get::<_, Option<i64>>(1)?);
    let (offset, length, size) = (number(row, 2)?, number(row, 3)?, number(row, 4)?);
    let mut stored =
        StoredRow { key, pack, row: Err(Damage::integrity(Part::Blob, "a blob id", "another key")) };
    let Some(id) = stored.id() else { return Ok(stored) };
    let proven = row_checksum(&stored.key, pack, offset, length, size)[..] == bytes(row, 5)?[..];
    let place = match pack {
        None => Place::Evicted,
        Some(IN_FILE) => Place::File,
        Some(n) => Place::Pack { n, offset },
    };
    // The checksum has no key, so anyone can compute it for a row that claims an enormous size.
    stored.row = if proven && length <= size && size <= BLOB_LIMIT {
        Ok(BlobRow { id, place, length, size })
    } else {
        Err(blob_codec::damage(&id, "a damaged row"))
    };
    Ok(stored)
}

/// The row of a blob; `None` if there is none.
pub(super) fn find(tx: &Connection, id: &BlobId) -> Result<Option<std::result::Result<BlobRow, Damage>>> {
    let select = format!("SELECT {COLUMNS} FROM blob WHERE id = ?1");
    let found = tx.prepare_cached(&select)?.query_row([&id.as_bytes()[..]], decode).optional()?;
    Ok(found.map(|stored| stored.row))
}

/// Rows in the order of their ids, those after `after` only; a limit of 0 means no limit.
pub(super) fn load(tx: &Connection, after: Option<&BlobId>, limit: usize) -> Result<Vec<StoredRow>> {
    let select = format!("SELECT {COLUMNS} FROM blob WHERE id > ?1 ORDER BY id LIMIT ?2");
    let after = after.map_or(&[][..], |id| &id.as_bytes()[..]);
    let limit = if limit == 0 { -1 } else { integer(limit as u64) };
    tx.prepare_cached(&select)?.query_map(params![after, limit], decode)?.collect()
}

/// The intact rows that a scan of a damaged table reaches, from both ends.
pub(super) fn load_readable(tx: &Connection) -> std::collections::BTreeMap<BlobId, BlobRow> {
    let mut found = std::collections::BTreeMap::new();
    for order in ["ASC", "DESC"] {
        // Each scan stops where the damage begins.
        let _ = (|| -> Result<()> {
            let mut statement = tx.prepare(&format!("SELECT {COLUMNS} FROM blob ORDER BY id {order}"))?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                found.extend(decode(row)?.row.ok().map(|row| (row.id, row)));
            }
            Ok(())
        })();
    }
    found
}

/// Inserts a row or replaces it.
pub(super) fn put(tx: &Connection, row: &BlobRow) -> Result<()> {
    let key = &row.id.as_bytes()[..];
    let sum = row_checksum(key, row.pack(), row.offset(), row.length, row.size);
    tx.prepare_cached(
        "INSERT OR REPLACE INTO blob (id, pack, offset, length, size, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![key, row.pack(), integer(row.offset()), integer(row.length), integer(row.size), sum])?;
    Ok(())
}

/// Removes the row with this key.
pub(super) fn delete(tx: &Connection, stored: &StoredRow) -> Result<()> {
    tx.prepare_cached("DELETE FROM blob WHERE id = ?1")?.execute([&stored.key])?;
    Ok(())
}

/// Bytes of a pack; `None` if the pack does not have them.
pub(super) fn read_piece(tx: &Connection, n: i64, offset: u64, length: u64) -> Result<Option<Vec<u8>>> {
    let select = "SELECT substr(data, ?2 + 1, ?3) FROM blob_pack WHERE n = ?1 AND length(data) <= ?4";
    let found = tx
        .prepare_cached(select)?
        .query_row(params![n, integer(offset), integer(length), PACK_LIMIT], |row| bytes(row, 0))
        .optional()?;
    Ok(found.filter(|piece| piece.len() as u64 == length))
}

/// The numbers and lengths of all packs.
pub(super) fn packs(tx: &Connection) -> Result<Vec<(i64, u64)>> {
    let mut statement = tx.prepare("SELECT n, length(data) FROM blob_pack ORDER BY n")?;
    statement.query_map([], |row| Ok((row.get(0)?, number(row, 1)?)))?.collect()
}

/// Removes a pack.
pub(super) fn delete_pack(tx: &Connection, n: i64) -> Result<()> {
    tx.prepare_cached("DELETE FROM blob_pack WHERE n = ?1")?.execute([n])?;
    Ok(())
}

/// Collects pieces and writes them as packs.
pub(super) struct PackWriter<'a> {
    tx: &'a Connection,
    data: Vec<u8>,
    pieces: Vec<BlobRow>,
}

impl<'a> PackWriter<'a> {
    pub(super) fn new(tx: &'a Connection) -> Self {
        Self { tx, data: Vec::new(), pieces: Vec::new() }
    }

    /// Adds the stored bytes of a blob whose content has `size` bytes.
    pub(super) fn add(&mut self, id: BlobId, stored: &[u8], size: u64) -> Result<()> {
        if !self.data.is_empty() && self.data.len() + stored.len() > PACK_BYTES {
            self.flush()?;
        }
        let place = Place::Pack { n: 0, offset: self.data.len() as u64 };
        self.pieces.push(BlobRow { id, place, length: stored.len() as u64, size });
        self.data.extend_from_slice(stored);
        Ok(())
    }

    /// Writes the last pack. Without this call, its pieces are lost.
    pub(super) fn finish(mut self) -> Result<()> {
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        self.tx.prepare_cached("INSERT INTO blob_pack (data) VALUES (?1)")?.execute([&self.data])?;
        let n = self.tx.last_insert_rowid();
        for mut row in self.pieces.drain(..) {
            row.place = Place::Pack { n, offset: row.offset() };
            put(self.tx, &row)?;
        }
        self.data.clear();
        Ok(())
    }
}

/// Total stored bytes of all blobs, from the counter. If the counter is missing or damaged, sums the rows.
pub(in crate::store::sqlite) fn total_bytes(tx: &Connection) -> Result<u64> {
    match counter(tx)? {
        Some(total) => Ok(total),
        None => sum_bytes(tx),
    }
}

/// The counter of stored bytes; `None` if it is missing or damaged.
pub(super) fn counter(tx: &Connection) -> Result<Option<u64>> {
    let found = tx
        .prepare_cached("SELECT value, checksum FROM meta WHERE key = 'blob_bytes'")?
        .query_row([], |row| Ok((number(row, 0)?, bytes(row, 1)?)))
        .optional()?;
    Ok(found.filter(|(value, sum)| counter_checksum(*value)[..] == sum[..]).map(|(value, _)| value))
}

/// Whether there is a counter, intact or damaged.
pub(super) fn has_counter(tx: &Connection) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM meta WHERE key = 'blob_bytes'")?.exists([])
}

/// Total stored bytes of all blobs, from their rows.
pub(super) fn sum_bytes(tx: &Connection) -> Result<u64> {
    tx.query_row("SELECT ifnull(sum(length), 0) FROM blob WHERE pack IS NOT NULL", [], |row| number(row, 0))
}

/// Sets the counter of stored bytes.
pub(super) fn set_counter(tx: &Connection, total: u64) -> Result<()> {
    tx.prepare_cached("INSERT OR REPLACE INTO meta (key, value, checksum) VALUES ('blob_bytes', ?1, ?2)")?
        .execute(params![integer(total), counter_checksum(total)])?;
    Ok(())
}

fn counter_checksum(value: u64) -> [u8; 16] {
    checksum(Part::Blob, &[b"blob_bytes"], &value.to_le_bytes())
}

fn root_checksum(name: &str, blob: &[u8]) -> [u8; 16] {
    checksum(Part::Blob, &[b"root", name.as_bytes()], blob)
}

/// All roots, sorted by name. A damaged root is reported in its place.
pub(in crate::store::sqlite) fn roots(
    tx: &Connection,
) -> Result<Vec<std::result::Result<(String, BlobId), Damage>>> {
    let mut statement = tx.prepare_cached("SELECT name, blob, checksum FROM blob_root ORDER BY name")?;
    let roots = statement.query_map([], |row| {
        let (name, blob) = (text(row, 0)?, bytes(row, 1)?);
        let proven = root_checksum(&name, &blob)[..] == bytes(row, 2)?[..];
        Ok(match blob.try_into() {
            Ok(hash) if proven => Ok((name, BlobId::from_bytes(hash))),
            _ => Err(Damage::integrity(Part::Blob, format!("an intact root \"{name}\""), "a damaged one")),
        })
    })?;
    roots.collect()
}

/// Sets a root. Writes nothing if it already has this value.
pub(in crate::store::sqlite) fn set_root(tx: &Connection, name: &str, blob: &BlobId) -> Result<()> {
    let key = &blob.as_bytes()[..];
    tx.prepare_cached(
        "INSERT INTO blob_root (name, blob, checksum) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET \
         blob = excluded.blob, checksum = excluded.checksum \
         WHERE blob <> excluded.blob OR checksum <> excluded.checksum",
    )?
    .execute(params![name, key, root_checksum(name, key)])?;
    Ok(())
}

/// Removes all damaged roots, and returns their number.
pub(super) fn delete_damaged_roots(tx: &Connection) -> Result<u64> {
    let names: Vec<Vec<u8>> = {
        let mut statement = tx.prepare("SELECT name FROM blob_root ORDER BY name")?;
        statement.query_map([], |row| bytes(row, 0))?.collect::<Result<_>>()?
    };
    let mut deleted = 0;
    for (name, root) in names.iter().zip(roots(tx)?) {
        if root.is_err() {
            let delete = "DELETE FROM blob_root WHERE CAST(name AS BLOB) = ?1";
            deleted += tx.execute(delete, [name])? as u64;
        }
    }
    Ok(deleted)
}

/// Removes a root. Returns whether it existed.
pub(super) fn drop_root(tx: &Connection, name: &str) -> Result<bool> {
    Ok(tx.prepare_cached("DELETE FROM blob_root WHERE name = ?1")?.execute([name])? > 0)
}
