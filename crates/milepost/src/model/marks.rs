//! What may change about a checkpoint after it was sealed.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{MemoryUsage, RawObject};

/// Marks of one checkpoint: outside its seal, under a checksum of their own.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Marks {
    /// Grows by one with every change.
    pub revision: u64,
    /// Set where this checkpoint was completed by itself (an import); otherwise the run's `completed_through` says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed: Option<bool>,
    /// Sources of the triggers that were folded into this checkpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// How many triggers were folded in, also those beyond what the lists hold.
    #[serde(skip_serializing_if = "is_zero")]
    pub folded: u64,
    /// Kept by retention whatever its age.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pinned: bool,
    /// Names of the user's own; tagged checkpoints are kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// When a trigger that was folded in last confirmed this checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refreshed_at: Option<Timestamp>,
    /// The memory seen at that refresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUsage>,
    /// Members of a newer version.
    #[serde(skip_serializing_if = "RawObject::is_empty")]
    pub extra: RawObject,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Marks {
    /// How many folded sources and reasons are listed by name.
    pub const LISTED: usize = 64;

    /// Whether retention has to leave this checkpoint alone.
    pub fn protects(&self) -> bool {
        self.pinned || !self.tags.is_empty()
    }
}
