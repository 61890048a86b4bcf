//! Checksums of stored values, and `Damage`, which describes a value that does not match its checksum.
//! Pure: takes bytes, returns checksums. The seal inside a document is computed by `crate::seal`.

use data_encoding::HEXLOWER;
use derive_getters::Getters;
use serde::{Serialize, Serializer};

use crate::ReasonCode;
use crate::model::{CheckpointId, RunId, closed_enum};

closed_enum! {
    /// Which stored value is damaged.
    pub enum Part {
        /// A checkpoint's document.
        Body = "body",
        /// A checkpoint's header.
        Header = "header",
        /// A checkpoint's marks.
        Marks = "marks",
        /// A run's record.
        Run = "run",
        /// A pending item.
        Item = "item",
        /// A message.
        Message = "message",
        /// An attachment of a checkpoint.
        Attachment = "attachment",
        /// An event.
        Event = "event",
        /// A blob.
        Blob = "blob",
        /// The commit log of a run.
        Log = "log",
        /// The database's own pages.
        Pages = "pages",
        /// The database's write-ahead log.
        Wal = "wal",
    }
}

/// How a stored value is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DamageKind {
    /// The checksum does not match.
    Integrity,
    /// The value cannot be parsed, or lacks a required field.
    Schema,
}

impl DamageKind {
    fn reason_code(self) -> ReasonCode {
        match self {
            Self::Integrity => ReasonCode::CheckpointIntegrityMismatch,
            Self::Schema => ReasonCode::CheckpointSchemaInvalid,
        }
    }
}

impl Serialize for DamageKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reason_code().serialize(serializer)
    }
}

/// Damage to a stored value: it is not what was written.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{} is damaged: expected {expected}, found {found}", self.what())]
pub struct Damage {
    /// The checkpoint's id, if known.
    pub(crate) snapshot_id: Option<CheckpointId>,
    /// The run, if known.
    pub(crate) run_id: Option<RunId>,
    /// The checkpoint's sequence number, if known.
    #[getter(copy)]
    pub(crate) sequence: Option<u64>,
    /// Which value is damaged.
    #[getter(copy)]
    pub(crate) part: Part,
    /// How it is damaged.
    #[getter(skip)]
    #[serde(rename = "reason_code")]
    pub(crate) kind: DamageKind,
    /// The expected checksum or content.
    pub(crate) expected: String,
    /// The checksum or content found.
    pub(crate) found: String,
    /// The sequence number of the damaged checkpoint that this one is stored as a delta against.
    #[getter(copy)]
    pub(crate) because_of: Option<u64>,
}

impl Damage {
    /// Damage by a checksum that does not match.
    pub fn integrity(part: Part, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self {
            part,
            kind: DamageKind::Integrity,
            run_id: None,
            sequence: None,
            snapshot_id: None,
            expected: expected.into(),
            found: found.into(),
            because_of: None,
        }
    }

    /// The reason code of an error that reports this damage.
    pub fn reason_code(&self) -> ReasonCode {
        self.kind.reason_code()
    }

    /// Sets the run and the sequence number.
    #[must_use]
    pub fn at(mut self, run_id: Option<&RunId>, sequence: Option<u64>) -> Self {
        self.run_id = run_id.cloned();
        self.sequence = sequence;
        self
    }

    /// Sets the checkpoint's id.
    #[must_use]
    pub fn named(mut self, id: Option<CheckpointId>) -> Self {
        self.snapshot_id = id;
        self
    }

    /// Damage by a value that was already invalid when it was written.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn unreadable(part: Part, why: impl Into<String>) -> Self {
        Self { kind: DamageKind::Schema, ..Self::integrity(part, "a readable value", why) }
    }

    /// Sets the sequence number of the damaged checkpoint that this one is stored as a delta against.
    #[must_use]
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn with_base(mut self, sequence: Option<u64>) -> Self {
        self.because_of = sequence;
        self
    }

    fn what(&self) -> String {
        let mut text = self.part.to_string();
        if let Some(id) = &self.snapshot_id {
            text.push_str(&format!(" of checkpoint {id}"));
        }
        match (&self.run_id, self.sequence) {
            (Some(run), Some(sequence)) => text.push_str(&format!(" ({run}@{sequence})")),
            (Some(run), None) => text.push_str(&format!(" of run {run}")),
            _ => {}
        }
        if let Some(root) = self.because_of {
            text.push_str(&format!(", stored as a delta against sequence {root},"));
        }
        text
    }
}

/// Formats a text and its checksum as one line.
pub(crate) fn checksummed_line(part: Part, name: &[u8], text: &str) -> String {
    format!("{text} {}\n", HEXLOWER.encode(&checksum(part, &[name], text.as_bytes())))
}

/// The text of a line written by `checksummed_line`; `None` if the checksum does not match.
pub(crate) fn parse_checksummed_line<'a>(part: Part, name: &[u8], line: &'a str) -> Option<&'a str> {
    let (text, found) = line.rsplit_once(' ')?;
    (HEXLOWER.encode(&checksum(part, &[name], text.as_bytes())) == found).then_some(text)
}

/// The checksum of a stored value, bound to its kind and its key.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn checksum(part: Part, key: &[&[u8]], value: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"milepost row 1 ");
    for piece in [part.as_str().as_bytes()].iter().chain(key).chain([&value]) {
        hasher.update(&(piece.len() as u64).to_le_bytes());
        hasher.update(piece);
    }
    let mut check = [0; 16];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    check
}

/// Compares the checksum of a value with the stored one.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn prove(part: Part, key: &[&[u8]], value: &[u8], stored: &[u8]) -> Result<(), Damage> {
    compare(part, checksum(part, key, value), stored)
}

/// Compares a computed checksum with the stored one.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn compare(part: Part, found: [u8; 16], stored: &[u8]) -> Result<(), Damage> {
    if found[..] == *stored {
        return Ok(());
    }
    Err(Damage::integrity(part, HEXLOWER.encode(stored), HEXLOWER.encode(&found)))
}

/// Parses a verified value. If that fails, the value was already invalid when it was written.
#[cfg_attr(feature = "internal", visibility::make(pub))]
pub(crate) fn parse<T: serde::de::DeserializeOwned>(part: Part, value: &[u8]) -> Result<T, Damage> {
    let text = std::str::from_utf8(value).map_err(|e| Damage::unreadable(part, e.to_string()))?;
    serde_json::from_str(text).map_err(|e| Damage::unreadable(part, e.to_string()))
}
