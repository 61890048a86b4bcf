//! List: lists checkpoints, newest first, by their headers alone. Reads no documents.

use derive_getters::Getters;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::Milepost;
use super::lookup::PAGE;
use super::show::source_details;
use crate::Error;
use crate::model::{RunId, RunRecord, Source, Status};
use crate::store::{CheckpointEntry, Damage, HeaderQuery, Row};

options! {
    /// Which checkpoints to list.
    #[derive(Debug, Clone, Default)]
    pub struct ListQuery {
        /// Only checkpoints of this run.
        pub(crate) run: Option<RunId>,
        /// Maximum number to list (0 = no limit).
        pub(crate) limit: usize [number],
        /// Only completed checkpoints, or only those that are not completed.
        pub(crate) completed: Option<bool>,
        /// Only checkpoints of this source, including those that a trigger of this source was folded into.
        pub(crate) source: Option<Source>,
        /// Only checkpoints with this status.
        pub(crate) status: Option<Status>,
        /// Only checkpoints with this tag.
        pub(crate) tag: Option<String>,
    }
}

/// A checkpoint in a list.
#[derive(Getters, Debug, Clone)]
pub struct ListedCheckpoint {
    /// The header and the marks.
    pub(crate) entry: CheckpointEntry,
    /// Whether the checkpoint is completed.
    pub(crate) completed: bool,
    /// What its run is about; present only if it is the newest checkpoint of its run and has no summary.
    pub(crate) about: Option<String>,
}

impl Serialize for ListedCheckpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CheckpointEntry { header, marks } = &self.entry;
        let mut members = serializer.serialize_struct("ListedCheckpoint", 16)?;
        members.serialize_field("snapshot_id", &header.snapshot_id)?;
        members.serialize_field("run_id", &header.run_id)?;
        members.serialize_field("sequence", &header.sequence)?;
        members.serialize_field("created_at", &header.created_at)?;
        members.serialize_field("session_id", &header.session_id)?;
        members.serialize_field("parent", &header.parent)?;
        members.serialize_field("source", &header.source)?;
        members.serialize_field("source_details", &source_details(&self.entry))?;
        members.serialize_field("status", &header.status)?;
        members.serialize_field("phase", &header.phase)?;
        members.serialize_field("task_summary", &header.summary)?;
        members.serialize_field("completed", &self.completed)?;
        members.serialize_field("pinned", &marks.pinned)?;
        members.serialize_field("tags", &marks.tags)?;
        // The brief's own id, or the id under which the checkpoint was imported.
        members.serialize_field("name", &header.imported_id)?;
        if let Some(about) = &self.about {
            members.serialize_field("about", about)?;
        }
        members.end()
    }
}

/// A list of checkpoints, and the damaged rows among them.
#[derive(Debug, Clone, Default)]
pub struct CheckpointList {
    /// The checkpoints, newest first.
    pub checkpoints: Vec<ListedCheckpoint>,
    /// Damaged rows, which are not in the list.
    pub damaged: Vec<Damage>,
}

impl Milepost {
    /// Lists checkpoints, newest first.
    pub fn list(&self, query: &ListQuery) -> Result<CheckpointList, Error> {
        if let Some(run) = &query.run {
            self.stored_run(run)?;
        }
        let filtered = query.completed.is_some()
            || query.source.is_some()
            || query.status.is_some()
            || query.tag.is_some();
        let page = if filtered || query.limit == 0 { PAGE } else { query.limit.min(PAGE) };
        let mut listing = CheckpointList::default();
        let mut completions = Completions::default();
        let mut seen = HashSet::new();
        for row in self.rows(HeaderQuery::default().run(query.run.as_ref()).limit(page), PAGE) {
            match row? {
                Row::Damaged { damage, .. } => listing.damaged.push(damage),
                Row::Intact(entry) => {
                    let completed = completions.of(self, &entry)?;
                    // The first row of a run is its newest.
                    let is_newest = seen.insert(entry.header.run_id.clone());
                    if query.accepts(&entry, completed) {
                        let about = match (&entry.header.summary, is_newest) {
                            (None, true) => self.record_of(&entry.header.run_id)?.and_then(|r| r.about()),
                            _ => None,
                        };
                        listing.checkpoints.push(ListedCheckpoint { entry, completed, about });
                    }
                }
            }
            if query.limit > 0 && listing.checkpoints.len() == query.limit {
                break;
            }
        }
        Ok(listing)
    }
}

impl ListQuery {
    fn accepts(&self, entry: &CheckpointEntry, completed: bool) -> bool {
        let sourced = |source: Source| {
            entry.header.source == source || entry.marks.sources.iter().any(|s| s == source.as_str())
        };
        self.completed.is_none_or(|wanted| wanted == completed)
            && self.source.is_none_or(sourced)
            && self.status.is_none_or(|status| status == entry.header.status)
            && self.tag.as_ref().is_none_or(|tag| entry.marks.tags.contains(tag))
    }
}

/// Determines whether checkpoints are completed, and reads each run's record at most once.
#[derive(Default)]
pub(super) struct Completions(HashMap<RunId, u64>);

impl Completions {
    pub(super) fn of(&mut self, engine: &Milepost, entry: &CheckpointEntry) -> Result<bool, Error> {
        if let Some(completed) = entry.marks.completed {
            return Ok(completed);
        }
        let run = &entry.header.run_id;
        let through = match self.0.entry(run.clone()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => {
                *unknown.insert(engine.record_of(run)?.map_or(0, |record| record.completed_through))
            }
        };
        Ok(entry.header.sequence <= through)
    }
}

/// Whether a checkpoint of this run is completed.
pub(super) fn is_completed(record: Option<&RunRecord>, entry: &CheckpointEntry) -> bool {
    let through = record.map_or(0, |record| record.completed_through);
    entry.marks.completed.unwrap_or(entry.header.sequence <= through)
}
