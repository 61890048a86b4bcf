//! Reads the fields of each checkpoint that retention needs. Takes a run and returns one entry per intact
//! checkpoint. Decides nothing.

use jiff::Timestamp;
use rusqlite::Result;
use serde::Deserialize;

use super::StoreView;
use crate::model::{RunId, Status};
use crate::store::sqlite::decode::{self, number};
use crate::store::{Damage, Part, RetentionEntry};

/// The header fields that retention needs. Parsing only these makes retention noticeably faster.
#[derive(Deserialize)]
struct RetentionFields {
    created_at: Timestamp,
    status: Option<Status>,
    holds_state: bool,
    unseen: Option<serde::de::IgnoredAny>,
}

impl RetentionFields {
    /// Reads only the creation time, without verifying the checksum. The header must start with the
    /// values of the row's other columns.
    fn unverified(row: &rusqlite::Row<'_>, run: &RunId, header: &[u8]) -> std::result::Result<Self, Damage> {
        let fields = Self::parse_start(row, run, header);
        fields.ok_or_else(|| Damage::integrity(Part::Header, "a readable header", "an unreadable one"))
    }

    fn parse_start(row: &rusqlite::Row<'_>, run: &RunId, header: &[u8]) -> Option<Self> {
        let (id, sequence, stamp) = (decode::text(row, 2).ok()?, number(row, 1).ok()?, number(row, 3).ok()?);
        let start = format!(
            "{{\"snapshot_id\":\"{id}\",\"run_id\":\"{run}\",\"sequence\":{sequence},\"stamp\":{stamp},\"created_at\":\""
        );
        let (at, _) = std::str::from_utf8(header).ok()?.strip_prefix(&start)?.split_once('"')?;
        Some(Self { created_at: at.parse().ok()?, status: None, holds_state: false, unseen: None })
    }
}

impl StoreView<'_> {
    /// The fields that retention needs, for all checkpoints of a run, oldest first. With `newest`, only that
    /// many of the newest headers are verified. The size of a checkpoint is the size of its rows, without
    /// page overhead.
    pub(in crate::store::sqlite) fn retention_entries(
        &self,
        run: &RunId,
        newest: Option<u64>,
    ) -> Result<Vec<RetentionEntry>> {
        let Some(run_row) = self.find_run(run)? else { return Ok(Vec::new()) };
        let merged = "SELECT c.run_n, c.sequence, c.snapshot_id, c.stamp, c.checksum, c.header, \
                   m.revision, m.checksum, m.marks, octet_length(c.header) + ifnull(octet_length(m.marks), 0) + \
                   ifnull(ifnull(octet_length(d.data), \
                       (SELECT octet_length(w.data) FROM whole w WHERE w.stamp = c.stamp)), 0) \
                   FROM checkpoint c LEFT JOIN marks m ON m.run_n = c.run_n AND m.sequence = c.sequence \
                   LEFT JOIN delta d ON d.stamp = c.stamp WHERE c.run_n = ?1 ORDER BY c.sequence";
        let appended = "SELECT run_n, sequence, snapshot_id, stamp, header_sum, header, NULL, NULL, NULL, \
                   octet_length(header) + octet_length(body) FROM append_log WHERE run_n = ?1 AND sequence >= 0";
        // If the stored count is wrong, more or fewer headers than requested are verified.
        let mut unproven = newest.map_or(0, |newest| run_row.count.saturating_sub(newest));
        let mut found = Vec::new();
        for sql in [merged, appended] {
            let mut statement = self.tx.prepare_cached(sql)?;
            let mut rows = statement.query([run_row.n])?;
            while let Some(row) = rows.next()? {
                let sequence = number(row, 1)?;
                if self.log.has_removed(run_row.n, sequence) {
                    continue;
                }
                let fields = if unproven > 0 {
                    decode::proven(row, |_, header, _| RetentionFields::unverified(row, run, header))?
                } else {
                    decode::proven(row, decode::proven_header)?
                };
                unproven = unproven.saturating_sub(1);
                let (Ok((fields, marks)), Some(snapshot_id)) = (fields, decode::parsed(row, 2)?) else {
                    continue;
                };
                found.push(RetentionEntry {
                    sequence,
                    snapshot_id,
                    created_at: fields.created_at,
                    status: fields.status,
                    holds_state: fields.holds_state,
                    holds_workspace: fields.unseen.is_some(),
                    pinned: marks.pinned,
                    tagged: !marks.tags.is_empty(),
                    bytes: number(row, 9)?,
                    // Frames need no further compression.
                    packed: true,
                });
            }
        }
        // A row that is waiting for repair in the append log may be older than rows in the other tables.
        found.sort_by_key(|entry| entry.sequence);
        Ok(found)
    }
}
