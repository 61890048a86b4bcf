//! Mark: changes the pin and the tags of a checkpoint. Retention keeps checkpoints that have either.

use super::Milepost;
use super::bookkeeping::event;
use super::lookup::intact;
use crate::Error;
use crate::model::{EventType, Marks, ValidationError};
use crate::store::{CheckpointEntry, Commit, StoreError, WriteDecision};

options! {
    /// A change to the marks of a checkpoint.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct MarkChange {
        /// Pins or unpins the checkpoint.
        pub(crate) pin: Option<bool>,
        /// Tags to add.
        pub(crate) tag: Vec<String>,
        /// Tags to remove.
        pub(crate) untag: Vec<String>,
    }
}

/// Refuses tags that are malformed or that could be confused with other references.
pub(super) fn check_tag(tag: &str) -> Result<(), Error> {
    let why = match tag {
        "" => "is empty",
        _ if tag.len() > 128 => "is longer than 128 bytes",
        _ if tag.chars().any(|c| c.is_control() || c.is_whitespace()) => {
            "contains spaces or control characters"
        }
        // A redacted tag keeps the colon of its placeholder.
        _ if tag.replace("[redacted:", "").contains(':') => {
            "contains a colon, which separates a reference from a path"
        }
        _ if tag.contains('@')
            || tag.starts_with("latest")
            || tag == "prompt"
            || tag.starts_with("prompt~") =>
        {
            "would be read as another kind of reference"
        }
        _ => return Ok(()),
    };
    Err(Error::Value {
        name: "tag".into(),
        source: ValidationError { path: "/tags".into(), message: format!("\"{tag}\" {why}") },
    })
}

impl Milepost {
    /// Changes the marks of a checkpoint and returns the new marks.
    pub fn mark(&self, entry: &CheckpointEntry, change: &MarkChange) -> Result<Marks, Error> {
        let change = &MarkChange {
            pin: change.pin,
            tag: self.redact(change.tag.clone(), "tags")?,
            untag: self.redact(change.untag.clone(), "tags")?,
        };
        for tag in &change.tag {
            check_tag(tag)?;
        }
        let run = &entry.header.run_id;
        let sequence = entry.header.sequence;
        let missing = || Error::NotFound { reference: entry.header.snapshot_id.to_string() };
        loop {
            let before = self.record_of(run)?;
            let current = intact(self.row_at(run, sequence)?.ok_or_else(missing)?)?;
            let marks = changed(&current.marks, change);
            if marks == current.marks {
                return Ok(marks);
            }
            let now = self.now();
            let (mut gone, mut is_unchanged) = (false, false);
            let done = self.write(run, &mut |view| {
                gone = view.record.is_none();
                is_unchanged = view.record.as_ref() == before.as_deref();
                let Some(mut record) = view.record.clone() else { return WriteDecision::NoChange };
                record.updated_at = now;
                record.marks_changed = record.marks_changed.saturating_add(1);
                let mut commit = Commit::new(record);
                commit.marks.push((sequence, marks.clone()));
                let data = serde_json::json!({ "pinned": marks.pinned, "tags": marks.tags });
                let id = Some(&entry.header.snapshot_id);
                commit.events.push(event(run, now, EventType::CheckpointMarked, id, &data));
                WriteDecision::Commit(Box::new(commit))
            });
            match done {
                Ok(_) if gone => return Err(Error::NoRun(run.to_string())),
                // If the run changed between the read and the write, the checkpoint may have been pruned. From now
                // on, its marks protect it.
                Ok(_) if !is_unchanged && matches!(self.row_at(run, sequence), Ok(None)) => {
                    return Err(missing());
                }
                Ok(_) => return Ok(marks),
                // Another process wrote first, or the reply to our own write was lost: read the marks again
                // and retry.
                Err(Error::Store(StoreError::MarksMoved(..))) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

fn changed(marks: &Marks, change: &MarkChange) -> Marks {
    let mut new = marks.clone();
    if let Some(pin) = change.pin {
        new.pinned = pin;
    }
    new.tags.retain(|tag| !change.untag.contains(tag));
    for tag in &change.tag {
        if !new.tags.contains(tag) {
            new.tags.push(tag.clone());
        }
    }
    if new != *marks {
        new.revision = new.revision.saturating_add(1);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::check_tag;

    #[test]
    fn tags_cannot_be_confused_with_other_references() {
        for tag in ["", "a b", "RUN@1", "latest", "latest~1", "prompt", "prompt~2", "v1:src/lib.rs", ":"] {
            assert!(check_tag(tag).is_err(), "{tag}");
        }
        for tag in ["v1.2", "before-refactoring", "prompts", "検索", "a/b"] {
            assert!(check_tag(tag).is_ok(), "{tag}");
        }
    }
}
