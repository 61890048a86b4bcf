//! Marks: the data about a checkpoint that can change after it is sealed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{MemoryUsage, RawObject};

/// The marks of one checkpoint. They are stored outside its seal and have their own checksum.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Marks {
    /// The number of changes so far; it increases by one with every change.
    pub revision: u64,
    /// Whether the checkpoint is completed, if that is recorded for this checkpoint alone, as imports do.
    /// Otherwise the run's `completed_through` decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// The sources of the triggers that were folded into this checkpoint, at most [`Self::LISTED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// The reasons of those triggers, at most [`Self::LISTED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The number of triggers that were folded in, including those that the lists omit.
    #[serde(skip_serializing_if = "is_zero")]
    pub folded: u64,
    /// Whether the checkpoint is pinned: retention keeps it regardless of age and number.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Names that the user gave to the checkpoint. Retention keeps tagged checkpoints.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// When the last trigger was folded in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refreshed_at: Option<Timestamp>,
    /// The memory usage that a folded trigger last reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUsage>,
    /// Members that a newer version wrote.
    #[serde(skip_serializing_if = "RawObject::is_empty")]
    pub extra: RawObject,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Marks {
    /// The maximum number of folded sources, and of folded reasons, that are listed.
    pub const LISTED: usize = 64;

    /// Returns true if retention must keep this checkpoint: it is pinned or tagged.
    pub fn protects(&self) -> bool {
        self.pinned || !self.tags.is_empty()
    }
}
