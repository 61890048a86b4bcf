//! The rules for the attachments of a commit: their sizes, and that their blobs are named.
//! Nothing here touches a file.

use super::{Commit, StoreError};
use crate::model::{AttachedValue, Attachment};

/// Maximum size, in bytes, of a value that is stored in an attachment itself. A larger value must be a blob.
pub const MAX_ATTACHED_VALUE: usize = 1 << 20;

/// Maximum total size, in bytes, of the attachments that one commit may add.
pub const ATTACHED_PER_COMMIT: usize = 16 << 20;

/// Maximum length, in bytes, of each text of an attachment.
const MAX_TEXT: usize = 16 << 10;

impl Commit {
    /// Checks the rules for attachments.
    pub(super) fn validate_attachments(&self) -> Result<(), StoreError> {
        for attachment in &self.attachments {
            if attachment.checkpoint().is_empty() {
                return Err(StoreError::Rules("an attachment does not name a checkpoint"));
            }
            if attachment.texts().iter().any(|text| text.len() > MAX_TEXT) {
                return Err(StoreError::Rules("a text of an attachment is too long"));
            }
            match attachment.value() {
                AttachedValue::Bytes(bytes) if bytes.len() > MAX_ATTACHED_VALUE => {
                    return Err(StoreError::Rules(
                        "the value of an attachment is too large and must be a blob",
                    ));
                }
                AttachedValue::Blob(id) if !self.blobs.contains(id) => {
                    return Err(StoreError::Rules("the commit does not name the blob of an attachment"));
                }
                _ => {}
            }
        }
        if self.attachments.iter().map(Attachment::size).sum::<usize>() > ATTACHED_PER_COMMIT {
            return Err(StoreError::Rules("the commit adds too many attachments at once"));
        }
        Ok(())
    }
}

/// Splits attachments into parts that one commit may add each.
pub(crate) fn batches(attachments: &[Attachment]) -> Vec<&[Attachment]> {
    let (mut batches, mut rest) = (Vec::new(), attachments);
    while !rest.is_empty() {
        let mut size = 0;
        let fitting = rest.iter().take_while(|attachment| {
            size += attachment.size();
            size <= ATTACHED_PER_COMMIT
        });
        // A single attachment always fits.
        let (batch, after) = rest.split_at(fitting.count().max(1));
        batches.push(batch);
        rest = after;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attachment(bytes: usize) -> Attachment {
        Attachment::new("cp", "task", -1, "channel", "msgpack", AttachedValue::Bytes(vec![7; bytes]))
    }

    #[test]
    fn batches_stay_within_the_limit_and_keep_the_order() {
        let all: Vec<_> = (0..40).map(|_| attachment(MAX_ATTACHED_VALUE)).collect();
        let batches = batches(&all);
        assert_eq!(batches.iter().map(|batch| batch.len()).collect::<Vec<_>>(), [15, 15, 10]);
        assert!(super::batches(&[]).is_empty());
    }
}
