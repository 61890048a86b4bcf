//! Reads and writes the rows of attachments, each with its checksum. Takes an open transaction, and never
//! commits. A damaged row is reported and does not affect the others.

use rusqlite::{Connection, Result, Row as SqlRow, params};

use super::decode::{bytes, integer, number, parse, prove, text};
use super::rows;
use super::view::StoreView;
use crate::model::Attachment;
use crate::store::check::checksum;
use crate::store::{Commit, Damage, Part};

/// An attachment with the stamp of its commit, or the damage to its row.
pub(super) type StoredAttachment = std::result::Result<(u64, Attachment), Damage>;

fn numbers(run_n: i64, index: i64, stamp: u64) -> [[u8; 8]; 3] {
    [run_n.to_le_bytes(), index.to_le_bytes(), stamp.to_le_bytes()]
}

/// Writes an attachment. A row with the same key stays unless `condition` holds for it.
fn put(tx: &Connection, n: i64, stamp: u64, attachment: &Attachment, condition: &str) -> Result<()> {
    let (checkpoint, task, index) = (attachment.checkpoint(), attachment.task_id(), attachment.index());
    let value = rows::json(attachment)?;
    let numbers = numbers(n, index, stamp);
    let key = [checkpoint.as_bytes(), task.as_bytes(), &numbers[0], &numbers[1], &numbers[2]];
    let sum = checksum(Part::Attachment, &key, value.as_bytes());
    let insert = format!(
        "INSERT INTO attachment (run_n, checkpoint, task_id, position, stamp, checksum, attachment) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (run_n, checkpoint, task_id, position) DO UPDATE SET \
         stamp = excluded.stamp, checksum = excluded.checksum, attachment = excluded.attachment \
         WHERE {condition}"
    );
    tx.prepare_cached(&insert)?.execute(params![n, checkpoint, task, index, integer(stamp), sum, value])?;
    Ok(())
}

/// Removes and adds the attachments of a commit.
pub(super) fn apply(tx: &Connection, n: i64, stamp: u64, commit: &Commit) -> Result<()> {
    for checkpoint in &commit.detach {
        let delete = "DELETE FROM attachment WHERE run_n = ?1 AND checkpoint = ?2";
        tx.prepare_cached(delete)?.execute(params![n, checkpoint])?;
    }
    for attachment in &commit.attachments {
        put(tx, n, stamp, attachment, if attachment.replace() { "true" } else { "false" })?;
    }
    Ok(())
}

/// Restores an attachment of a lost write, unless a later write has the same key.
pub(super) fn restore(tx: &Connection, n: i64, stamp: u64, attachment: &Attachment) -> Result<()> {
    put(tx, n, stamp, attachment, "excluded.stamp > attachment.stamp")
}

/// Whether a run has attachments.
pub(super) fn has_any(tx: &Connection, n: i64) -> Result<bool> {
    tx.prepare_cached("SELECT 1 FROM attachment WHERE run_n = ?1 LIMIT 1")?.exists([n])
}

/// Removes the attachments of checkpoints that are about to be removed.
pub(super) fn drop_with_checkpoints(tx: &Connection, n: i64, sequences: &[u64]) -> Result<()> {
    if sequences.is_empty() || !has_any(tx, n)? {
        return Ok(());
    }
    let mut delete = tx.prepare_cached(
        "DELETE FROM attachment WHERE run_n = ?1 AND checkpoint IN ( \
         SELECT snapshot_id FROM checkpoint WHERE run_n = ?1 AND sequence = ?2 UNION ALL \
         SELECT snapshot_id FROM append_log WHERE run_n = ?1 AND sequence = ?2)",
    )?;
    for sequence in sequences {
        delete.execute(params![n, integer(*sequence)])?;
    }
    Ok(())
}

/// Decodes run number, checkpoint, task, index, stamp, checksum and value.
fn decode(row: &SqlRow<'_>) -> Result<StoredAttachment> {
    let stamp = number(row, 4)?;
    let (checkpoint, task, value) = (bytes(row, 1)?, bytes(row, 2)?, bytes(row, 6)?);
    let numbers = numbers(row.get(0)?, row.get(3)?, stamp);
    let key = [&checkpoint[..], &task, &numbers[0], &numbers[1], &numbers[2]];
    let proven = prove(Part::Attachment, &key, &value, &bytes(row, 5)?);
    let parsed = proven.and_then(|()| parse(Part::Attachment, &value));
    let id = text(row, 1)?.parse().ok();
    Ok(parsed.map(|attachment| (stamp, attachment)).map_err(|damage: Damage| damage.named(id)))
}

impl StoreView<'_> {
    /// The attachments of a run, or of one of its checkpoints, sorted. Damaged ones come last.
    pub(super) fn attachments(&self, n: i64, checkpoint: Option<&str>) -> Result<Vec<StoredAttachment>> {
        let mut found = Vec::new();
        self.scan_attachments(n, checkpoint, &mut found)?;
        found.sort_by(|a, b| match (a, b) {
            (Ok((_, a)), Ok((_, b))) => a.sort_key().cmp(&b.sort_key()),
            (a, b) => a.is_err().cmp(&b.is_err()),
        });
        Ok(found)
    }

    /// The intact attachments of a run in a damaged file, up to the first damaged page.
    pub(super) fn readable_attachments(&self, n: i64) -> Vec<(u64, Attachment)> {
        let mut found = Vec::new();
        let _ = self.scan_attachments(n, None, &mut found);
        found.into_iter().flatten().collect()
    }

    fn scan_attachments(
        &self,
        n: i64,
        checkpoint: Option<&str>,
        found: &mut Vec<StoredAttachment>,
    ) -> Result<()> {
        let select = "SELECT run_n, checkpoint, task_id, position, stamp, checksum, attachment FROM attachment \
                      WHERE run_n = ?1";
        let of_checkpoint = format!("{select} AND checkpoint = ?2");
        let mut statement =
            self.connection().prepare_cached(if checkpoint.is_some() { &of_checkpoint } else { select })?;
        let mut rows = match checkpoint {
            Some(checkpoint) => statement.query(params![n, checkpoint])?,
            None => statement.query([n])?,
        };
        while let Some(row) = rows.next()? {
            found.push(decode(row)?);
        }
        Ok(())
    }
}
