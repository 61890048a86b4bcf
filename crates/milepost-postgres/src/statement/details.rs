//! The parts of a commit's statement for marks, names, positions in threads, attachments and events.

use std::collections::{BTreeMap, BTreeSet};

use milepost::internal::store::EVENTS_KEPT;
use milepost::internal::store::check::checksum;
use milepost::store::{Part, Sealed};

use super::{Builder, attached_hash, attachment_hash, event_checksum, json, name_hash};
use crate::decode::{self, integer};
use crate::error::PostgresError;
use crate::schema::key_hash;
use crate::session::Column;

/// Maximum number of events in a row.
const EVENTS_PER_ROW: usize = 64;

/// Number of events beyond the limit that a run keeps until they are removed.
const EVENT_SLACK: u64 = 128;

/// The rows of `event` that a commit adds.
#[derive(Default)]
pub(super) struct EventRows {
    positions: Vec<i64>,
    counts: Vec<i64>,
    sums: Vec<Vec<u8>>,
    texts: Vec<String>,
    /// Events up to this position are removed.
    trim: Option<u64>,
}

impl Builder<'_> {
    pub(super) fn marks(&mut self, drops: &BTreeSet<u64>) -> Result<(), PostgresError> {
        // The last marks of a checkpoint count.
        let mut marks = BTreeMap::new();
        for (sequence, new) in &self.commit.marks {
            if self.stays(*sequence, drops) {
                marks.insert(*sequence, new);
            }
        }
        if marks.is_empty() {
            return Ok(());
        }
        let (mut sums, mut texts) = (Vec::new(), Vec::new());
        for (sequence, new) in &marks {
            let text = json(new)?;
            sums.push(decode::marks_checksum(self.row.n, *sequence, new.revision, &text).to_vec());
            texts.push(text);
        }
        let rows = self.params.rows(vec![
            Column::Ints(marks.keys().map(|sequence| integer(*sequence)).collect()),
            Column::Ints(marks.values().map(|new| integer(new.revision)).collect()),
            Column::Bytes(sums),
            Column::Texts(texts),
        ]);
        let sql = format!(
            "INSERT INTO {{s}}.marks (run_n, sequence, revision, checksum, marks) SELECT written.n, m.* \
             FROM written, {rows} m ON CONFLICT (run_n, sequence) \
             DO UPDATE SET revision = excluded.revision, checksum = excluded.checksum, marks = excluded.marks"
        );
        self.part("set_marks", sql);
        Ok(())
    }

    /// Adds and removes names. A name that must be new is reserved in its project, so that of two concurrent
    /// commits of different runs only one can have it.
    pub(super) fn names(&mut self, puts: &[&Sealed], drops: &BTreeSet<u64>) {
        let mut wanted: BTreeMap<u64, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for (sequence, marks) in &self.commit.marks {
            if self.stays(*sequence, drops) {
                wanted.insert(*sequence, marks.tags.iter().map(|tag| name_hash(tag)).collect());
            }
        }
        for (sequence, (_, imported)) in self.context.names {
            if let (Some(names), Some(imported)) = (wanted.get_mut(sequence), imported) {
                names.insert(name_hash(imported));
            }
        }
        for put in puts {
            let header = put.header();
            let is_new = self.commit.new_names.iter().any(|name| name == header.snapshot_id().as_str());
            let own = is_new.then(|| name_hash(header.snapshot_id().as_str()));
            let imported = header.imported_id().as_ref().map(|id| name_hash(id));
            let names: Vec<_> = own.into_iter().chain(imported).collect();
            if !names.is_empty() {
                wanted.entry(header.sequence()).or_default().extend(names);
            }
        }
        let project = self.context.project.as_bytes();
        let reserved = |name: &str| key_hash("reserved", &[project, name.as_bytes()]);
        let new_names: BTreeMap<Vec<u8>, Vec<u8>> =
            self.commit.new_names.iter().map(|name| (name_hash(name), reserved(name))).collect();
        let (mut added, mut removed) = ((vec![], vec![], vec![]), (vec![], vec![]));
        for (sequence, names) in wanted {
            let none = BTreeSet::new();
            let before = self.context.names.get(&sequence).map_or(&none, |(names, _)| names);
            for name in names.difference(before) {
                added.0.push(integer(sequence));
                added.1.push(name.clone());
                added.2.push(new_names.get(name).cloned());
            }
            for name in before.difference(&names) {
                removed.0.push(integer(sequence));
                removed.1.push(name.clone());
            }
        }
        if !removed.0.is_empty() {
            let (sequences, names) = (self.params.ints(removed.0), self.params.byte_arrays(removed.1));
            let sql = format!(
                "DELETE FROM {{s}}.name t USING written, unnest({sequences}, {names}) AS d (sequence, name) \
                 WHERE t.run_n = written.n AND t.sequence = d.sequence AND t.name = d.name"
            );
            self.part("drop_names", sql);
        }
        if !added.0.is_empty() {
            let rows = self.params.rows(vec![
                Column::Ints(added.0),
                Column::Bytes(added.1),
                Column::OptionalBytes(added.2),
            ]);
            let sql = format!(
                "INSERT INTO {{s}}.name (run_n, sequence, name, reserved) SELECT written.n, a.* \
                 FROM written, {rows} a ON CONFLICT (name, run_n, sequence) DO NOTHING"
            );
            self.part("add_names", sql);
        }
    }

    /// Adds the positions of checkpoints in threads.
    pub(super) fn thread_positions(&mut self, puts: &[&Sealed]) {
        let positions = puts.iter().filter_map(|put| Some((put.header(), put.header().thread().as_ref()?)));
        let positions: Vec<_> = positions.collect();
        if positions.is_empty() {
            return;
        }
        let rows = self.params.rows(vec![
            Column::Ints(positions.iter().map(|(header, _)| integer(header.sequence())).collect()),
            Column::Ints(positions.iter().map(|(header, _)| integer(header.stamp())).collect()),
            Column::Texts(positions.iter().map(|(_, thread)| thread.id.clone()).collect()),
            Column::Texts(positions.iter().map(|(_, thread)| thread.namespace.clone()).collect()),
            Column::OptionalTexts(positions.iter().map(|(_, thread)| thread.invocation.clone()).collect()),
        ]);
        let sql = format!(
            "INSERT INTO {{s}}.thread_position (run_n, sequence, stamp, id, namespace, invocation) \
             SELECT written.n, p.* FROM written, {rows} p"
        );
        self.part("add_thread_positions", sql);
    }

    /// Removes the attachments of dropped checkpoints, and those that the commit names, and adds new ones.
    pub(super) fn attachments(&mut self) -> Result<(), PostgresError> {
        let mut dropped: BTreeSet<_> =
            self.context.dropped.values().map(|id| attached_hash(id.as_str())).collect();
        dropped.extend(self.commit.detach.iter().map(|checkpoint| attached_hash(checkpoint)));
        // One statement cannot write a row twice, so the commit's attachments with the same key are merged here.
        let mut added: BTreeMap<(Vec<u8>, Vec<u8>), (bool, String)> = BTreeMap::new();
        for one in &self.commit.attachments {
            let key = (attached_hash(one.checkpoint()), attachment_hash(one.task_id(), one.index()));
            // The rows of a dropped checkpoint are gone before the commit adds its own.
            let replaces = one.replace() || dropped.contains(&key.0);
            match added.get(&key) {
                Some(_) if !one.replace() => {}
                _ => drop(added.insert(key, (replaces, json(one)?))),
            }
        }
        if !dropped.is_empty() {
            let p = &mut self.params;
            let checkpoints = p.byte_arrays(dropped.into_iter().collect());
            let keys = p
                .byte_arrays(added.keys().map(|(checkpoint, key)| [&checkpoint[..], key].concat()).collect());
            let sql = format!(
                "DELETE FROM {{s}}.attachment a USING written WHERE a.run_n = written.n \
                 AND a.checkpoint = ANY({checkpoints}) AND NOT a.checkpoint || a.key = ANY({keys})"
            );
            self.part("drop_attachments", sql);
        }
        for replaces in [false, true] {
            let these: Vec<_> = added.iter().filter(|(_, (r, _))| *r == replaces).collect();
            if these.is_empty() {
                continue;
            }
            let n = self.row.n.to_le_bytes();
            let sums = these.iter().map(|((checkpoint, key), (_, text))| {
                checksum(Part::Attachment, &[&n, checkpoint, key], text.as_bytes()).to_vec()
            });
            let sums = sums.collect();
            let rows = self.params.rows(vec![
                Column::Bytes(these.iter().map(|((checkpoint, _), _)| checkpoint.clone()).collect()),
                Column::Bytes(these.iter().map(|((_, key), _)| key.clone()).collect()),
                Column::Bytes(sums),
                Column::Texts(these.iter().map(|(_, (_, text))| text.clone()).collect()),
            ]);
            let conflict = match replaces {
                true => "UPDATE SET checksum = excluded.checksum, attachment = excluded.attachment",
                false => "NOTHING",
            };
            let sql = format!(
                "INSERT INTO {{s}}.attachment (run_n, checkpoint, key, checksum, attachment) \
                 SELECT written.n, a.* FROM written, {rows} a \
                 ON CONFLICT (run_n, checkpoint, key) DO {conflict}"
            );
            self.part(if replaces { "replace_attachments" } else { "add_attachments" }, sql);
        }
        Ok(())
    }

    /// Numbers the commit's events, and decides which old ones are removed.
    pub(super) fn events(&mut self) -> Result<EventRows, PostgresError> {
        let mut rows = EventRows::default();
        let surplus = self.commit.events.len().saturating_sub(EVENTS_KEPT as usize);
        for chunk in self.commit.events[surplus..].chunks(EVENTS_PER_ROW) {
            let (at, count, text) = (self.row.events + 1, chunk.len() as u64, json(&chunk)?);
            rows.sums.push(event_checksum(self.row.n, at, count, self.stamp, &text).to_vec());
            rows.positions.push(integer(at));
            rows.counts.push(integer(count));
            rows.texts.push(text);
            self.row.events += count;
        }
        if self.row.events.saturating_sub(self.row.events_from) > EVENTS_KEPT + EVENT_SLACK {
            self.row.events_from = self.row.events - EVENTS_KEPT;
            rows.trim = Some(self.row.events_from);
        }
        Ok(rows)
    }

    pub(super) fn write_events(&mut self, rows: EventRows) {
        if let Some(trim) = rows.trim {
            let trim = self.params.int(integer(trim));
            let sql = format!(
                "DELETE FROM {{s}}.event e USING written WHERE e.run_n = written.n AND e.n + e.count - 1 <= {trim} \
                 AND e.n <= {trim}"
            );
            self.part("trim_events", sql);
        }
        if rows.texts.is_empty() {
            return;
        }
        let stamp = self.params.int(integer(self.stamp));
        let rows = self.params.rows(vec![
            Column::Ints(rows.positions),
            Column::Ints(rows.counts),
            Column::Bytes(rows.sums),
            Column::Texts(rows.texts),
        ]);
        let sql = format!(
            "INSERT INTO {{s}}.event (run_n, n, count, checksum, events, stamp) SELECT written.n, a.*, {stamp} \
             FROM written, {rows} a"
        );
        self.part("add_events", sql);
    }
}
