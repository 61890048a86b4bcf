//! Damage: as JSON for programs, and as the failure that a command ends with.

use crate::error_advice::Exit;
use milepost::model::{CheckpointId, RunId};
use milepost::store::{Damage, Part};
use milepost::{Error, ReasonCode};
use serde::Serialize;

use super::Output;
use crate::error::CommandError;

/// Damage as programs see it.
#[derive(Debug, Serialize)]
pub(crate) struct DamageDocument<'a> {
    snapshot_id: Option<&'a CheckpointId>,
    run_id: Option<&'a RunId>,
    sequence: Option<u64>,
    part: Part,
    reason_code: ReasonCode,
    expected: &'a str,
    found: &'a str,
    because_of: Option<u64>,
}

impl<'a> DamageDocument<'a> {
    /// One damaged value.
    pub(crate) fn of(damage: &'a Damage) -> Self {
        Self {
            snapshot_id: damage.snapshot_id.as_ref(),
            run_id: damage.run_id.as_ref(),
            sequence: damage.sequence,
            part: damage.part,
            reason_code: reason(damage),
            expected: &damage.expected,
            found: &damage.found,
            because_of: damage.because_of,
        }
    }

    /// Several.
    pub(crate) fn all(damaged: &'a [Damage]) -> Vec<Self> {
        damaged.iter().map(Self::of).collect()
    }
}

/// The word for a damage.
pub(crate) fn reason(damage: &Damage) -> ReasonCode {
    Error::Damaged(Box::new(damage.clone())).reason()
}

/// The ids of damaged checkpoints, or what else names them.
pub(crate) fn names(damaged: &[Damage]) -> Vec<String> {
    let name = |d: &Damage| match (&d.snapshot_id, &d.run_id, d.sequence) {
        (Some(id), _, _) => id.to_string(),
        (None, Some(run), Some(sequence)) => format!("{run}@{sequence}"),
        _ => d.to_string(),
    };
    damaged.iter().map(name).collect()
}

/// What a command ends with that had to use an older checkpoint; nothing if the newest was good.
pub(crate) fn fell_back(output: &Output, damaged: &[Damage], to: &CheckpointId) -> Result<(), CommandError> {
    let Some(first) = damaged.first() else { return Ok(()) };
    for damage in damaged {
        output.message(&damage.to_string());
    }
    let verb = if damaged.len() == 1 { "is" } else { "are" };
    let message =
        format!("{} {verb} damaged; this is the newest good checkpoint, {to}", names(damaged).join(", "));
    Err(CommandError::new(reason(first), message)
        .with_exit(Exit::Partly)
        .with_hint("`milepost verify` lists everything that is damaged"))
}
