//! The results of `mark` and `complete`: pins and tags, and completed checkpoints.

use milepost::internal::seal::Header;
use milepost::model::{CheckpointId, Marks, RunId};
use serde::Serialize;

use super::format::clean;
use super::{Document, Output};
use crate::error::Result;

/// Pins and tags after a change.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.mark/1")]
pub(crate) struct MarkDocument {
    snapshot_id: CheckpointId,
    run_id: RunId,
    sequence: u64,
    marks: PinAndTags,
}

#[derive(Serialize)]
struct PinAndTags {
    pinned: bool,
    tags: Vec<String>,
    revision: u64,
}

impl MarkDocument {
    pub(crate) fn new(header: &Header, marks: Marks) -> Self {
        let marks = PinAndTags { pinned: marks.pinned, tags: marks.tags, revision: marks.revision };
        let (snapshot_id, run_id) = (header.snapshot_id().clone(), header.run_id().clone());
        Self { snapshot_id, run_id, sequence: header.sequence(), marks }
    }
}

impl Document for MarkDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let pinned = self.marks.pinned.then(|| "pinned".to_owned());
        let marks: Vec<_> = pinned.into_iter().chain(self.marks.tags.iter().map(|tag| clean(tag))).collect();
        output.message(&if marks.is_empty() { "No marks.".to_owned() } else { marks.join(", ") });
        output.write_text(&format!("{}\n", self.snapshot_id))
    }

    fn change(&self) -> Option<String> {
        Some(format!("the marks of {} were changed", self.snapshot_id))
    }
}

/// The checkpoints that `complete` marked as completed.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.complete/1")]
pub(crate) struct CompleteDocument {
    run_id: RunId,
    completed: Vec<CheckpointId>,
    /// Whether there was nothing to complete.
    already_completed: bool,
    #[serde(skip)]
    snapshot_id: CheckpointId,
}

impl CompleteDocument {
    pub(crate) fn new(header: Header, completed: Vec<CheckpointId>) -> Self {
        Self {
            run_id: header.run_id().clone(),
            already_completed: completed.is_empty(),
            completed,
            snapshot_id: header.snapshot_id().clone(),
        }
    }
}

impl Document for CompleteDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.already_completed {
            output.message(&format!("{} was already completed", self.snapshot_id));
        }
        output.write_text(&self.completed.iter().map(|id| format!("{id}\n")).collect::<String>())
    }

    fn change(&self) -> Option<String> {
        Some(format!("{} is completed", self.snapshot_id))
    }
}
