//! The attachments of one run, replayed from its log. Takes the attachments of each commit and the checkpoints
//! that it drops; returns the attachments that remain, sorted. Reads and writes no files.

use std::collections::BTreeMap;

use super::state::RunLog;
use crate::model::{Attachment, RunId};
use crate::store::{Damage, Part};

/// Number of attachments per line in a rewritten log.
pub(super) const ATTACHMENTS_PER_LINE: usize = 8;

/// The attachments of a run, by checkpoint, then by task and index.
#[derive(Debug, Clone, Default)]
pub(super) struct Attachments(BTreeMap<String, BTreeMap<(String, i64), Attachment>>);

impl Attachments {
    /// Adds an attachment. One with the same key stays, unless the new one replaces it.
    pub(super) fn add(&mut self, attachment: Attachment) {
        let of_checkpoint = self.0.entry(attachment.checkpoint().clone()).or_default();
        let key = (attachment.task_id().clone(), attachment.index());
        if attachment.replace() {
            of_checkpoint.insert(key, attachment);
        } else {
            of_checkpoint.entry(key).or_insert(attachment);
        }
    }

    /// Removes the attachments of a checkpoint.
    pub(super) fn drop_checkpoint(&mut self, checkpoint: &str) {
        self.0.remove(checkpoint);
    }

    /// All attachments, or those of one checkpoint, sorted.
    pub(super) fn list(&self, checkpoint: Option<&str>) -> Vec<&Attachment> {
        let mut found: Vec<_> = match checkpoint {
            Some(checkpoint) => self.0.get(checkpoint).into_iter().flat_map(BTreeMap::values).collect(),
            None => self.0.values().flat_map(BTreeMap::values).collect(),
        };
        found.sort_by_key(|attachment| attachment.sort_key());
        found
    }

    /// Number of attachments.
    pub(super) fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }
}

/// The attachments in a log, followed by the damage if lines are lost: these lines may have added some.
pub(super) fn read(run: &RunId, log: &RunLog, checkpoint: Option<&str>) -> Vec<Result<Attachment, Damage>> {
    let mut found: Vec<_> = log.attachments.list(checkpoint).into_iter().cloned().map(Ok).collect();
    found.extend(lost_lines(run, log).map(Err));
    found
}

/// The damage of a log with lost lines.
pub(super) fn lost_lines(run: &RunId, log: &RunLog) -> Option<Damage> {
    let found = format!("{} damaged lines", log.lost + log.trailing);
    log.is_lossy().then(|| Damage::integrity(Part::Log, "intact lines", found).at(Some(run), None))
}
