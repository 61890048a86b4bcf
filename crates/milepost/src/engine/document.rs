//! Documents: reads and verifies the documents of listed checkpoints. Other processes may write between the
//! listing and the read. Only this module distinguishes a checkpoint that was removed in the meantime from
//! one whose document is missing or damaged. Takes entries and rows; returns verified documents, `None` for
//! removed checkpoints, or damage.

use super::Milepost;
use super::lookup::intact;
use crate::Error;
use crate::model::Body;
use crate::seal::{Header, SealError, Verified};
use crate::store::{CheckpointEntry, Damage, DamageKind, Part, Row, StoreError};

/// Maximum number of lookups if the checkpoint found is removed before it is read.
const LOOKUPS: usize = 64;

impl Milepost {
    /// Reads and verifies the document of an entry. Fails with `NoCheckpoint` if the checkpoint was removed
    /// since it was listed, and with `Damaged` if it is still listed but its document is missing or
    /// damaged.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn read(&self, entry: &CheckpointEntry) -> Result<Verified, Error> {
        let header = &entry.header;
        let mut looked_again = false;
        loop {
            let failed = match self.read_stored(header) {
                Err(e) if is_about_document(&e) => e,
                read => return read,
            };
            // If the list cannot be read either, the first error is the more useful one.
            if !self.is_listed(header).unwrap_or(true) {
                return Err(StoreError::NoCheckpoint(header.run_id.clone(), header.sequence).into());
            }
            if looked_again {
                return Err(match failed {
                    Error::Damaged(_) => failed,
                    _ => damaged(header, Damage::integrity(Part::Body, &header.checksum, "no document")),
                });
            }
            // Read it again: it may have been compressed in the meantime.
            looked_again = true;
        }
    }

    /// The checkpoint of a row with its document; `None` if it was removed since it was listed. Code that
    /// iterates over a list reads documents with this.
    pub(super) fn read_row(&self, row: Row) -> Result<Option<(CheckpointEntry, Verified)>, Error> {
        let entry = intact(row)?;
        match self.read(&entry) {
            Err(e) if is_removed(&e) => Ok(None),
            read => Ok(Some((entry, read?))),
        }
    }

    /// Like `read_row`, but returns only the body.
    pub(super) fn body_if_there(&self, entry: &CheckpointEntry) -> Result<Option<Body>, Error> {
        match self.body(entry) {
            Err(e) if is_removed(&e) => Ok(None),
            body => body.map(Some),
        }
    }

    /// Looks up and reads a checkpoint, and repeats both if it is removed before it is read. If the
    /// reference names one specific checkpoint, the next lookup fails with `NotFound`.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn retry_if_removed<T>(
        &self,
        mut find_and_read: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        for _ in 1..LOOKUPS {
            match find_and_read() {
                Err(e) if is_removed(&e) => {}
                found => return found,
            }
        }
        find_and_read()
    }

    /// The verified body of an entry, upgraded to the current format.
    pub fn body(&self, entry: &CheckpointEntry) -> Result<Body, Error> {
        self.body_of(entry, &self.read(entry)?)
    }

    /// The body of a document that was already read, upgraded to the current format.
    pub(crate) fn body_of(&self, entry: &CheckpointEntry, verified: &Verified) -> Result<Body, Error> {
        let header = &entry.header;
        verified.body().map_err(|e| match e {
            SealError::Newer { .. } => newer(header, e),
            other => invalid(header, "a checkpoint", other.to_string()),
        })
    }

    /// Reads the document that the store currently has for the run and sequence number of a header.
    fn read_stored(&self, header: &Header) -> Result<Verified, Error> {
        let bytes = match self.store.body(&header.run_id, header.sequence) {
            Ok(bytes) => bytes,
            Err(StoreError::Damaged(damage)) if damage.part != Part::Pages => {
                return Err(damaged(header, *damage));
            }
            Err(e) => return Err(e.into()),
        };
        Verified::read(bytes, header).map_err(|e| match e {
            SealError::Mismatch { expected, found } => {
                damaged(header, Damage::integrity(Part::Body, expected, found))
            }
            SealError::Unsealed(why) => invalid(header, "a sealed document", why.to_string()),
            SealError::Content(why) => invalid(header, "a checkpoint", why.to_string()),
            SealError::Newer { .. } => newer(header, e),
        })
    }

    /// Whether the store still lists the checkpoint of a header. A run that was deleted and recreated
    /// reuses its sequence numbers for checkpoints with other ids.
    fn is_listed(&self, header: &Header) -> Result<bool, Error> {
        Ok(self.row_at(&header.run_id, header.sequence)?.is_some_and(|row| match row {
            Row::Intact(entry) => entry.header.snapshot_id == header.snapshot_id,
            Row::Damaged { .. } => true,
        }))
    }
}

/// Whether a checkpoint could not be read because it was removed since it was listed.
fn is_removed(e: &Error) -> bool {
    matches!(e, Error::Store(StoreError::NoCheckpoint(..)))
}

/// Whether an error is about the document rather than the store.
fn is_about_document(e: &Error) -> bool {
    matches!(e, Error::Damaged(_) | Error::Store(StoreError::NoCheckpoint(..) | StoreError::NoRun(_)))
}

fn damaged(header: &Header, damage: Damage) -> Error {
    let damage = damage.at(Some(&header.run_id), Some(header.sequence));
    Error::Damaged(Box::new(damage.named(Some(header.snapshot_id.clone()))))
}

/// The error for a document that does not have the expected form.
fn invalid(header: &Header, expected: &str, found: String) -> Error {
    let damage = Damage::integrity(Part::Body, expected, found);
    damaged(header, Damage { kind: DamageKind::Schema, ..damage })
}

/// The error for a document of a newer format.
pub(super) fn newer(header: &Header, source: SealError) -> Error {
    Error::Newer { run: header.run_id.clone(), sequence: header.sequence, source }
}
