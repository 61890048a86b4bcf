//! Damage: as JSON, and as the error of a command that had to use an older checkpoint.

use milepost::model::{CheckpointId, RunId};
use milepost::store::{Damage, Part};
use milepost::{Error, ReasonCode};
use serde::{Serialize, Serializer};

use super::format::{clean, counted};
use super::{Document, Output};
use crate::error::CommandError;
use crate::error_advice::Exit;

/// One damaged value.
#[derive(Debug, Serialize)]
pub(crate) struct DamageDocument {
    snapshot_id: Option<CheckpointId>,
    run_id: Option<RunId>,
    sequence: Option<u64>,
    part: Part,
    reason_code: ReasonCode,
    expected: String,
    found: String,
    because_of: Option<u64>,
    #[serde(skip)]
    line: String,
}

impl From<&Damage> for DamageDocument {
    fn from(damage: &Damage) -> Self {
        Self {
            snapshot_id: damage.snapshot_id().clone(),
            run_id: damage.run_id().clone(),
            sequence: damage.sequence(),
            part: damage.part(),
            reason_code: reason(damage),
            expected: damage.expected().clone(),
            found: damage.found().clone(),
            because_of: damage.because_of(),
            line: damage.to_string(),
        }
    }
}

/// Damaged values as programs see them.
pub(crate) fn documents(damaged: &[Damage]) -> Vec<DamageDocument> {
    damaged.iter().map(DamageDocument::from).collect()
}

/// What `verify` found.
#[derive(Serialize)]
pub(crate) struct VerifyDocument {
    pub(crate) schema: &'static str,
    pub(crate) checked: u64,
    pub(crate) damaged: Vec<DamageDocument>,
}

impl Document for VerifyDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        if self.damaged.is_empty() {
            return output.write_text(&format!("{} intact\n", counted(self.checked, "checkpoint")));
        }
        let lines = self.damaged.iter().map(|d| format!("{} ({})\n", clean(&d.line), d.reason_code));
        output.write_text(&lines.collect::<String>())
    }

    fn error(&self) -> Option<CommandError> {
        let first = self.damaged.first()?;
        let n = counted(self.damaged.len() as u64, "damaged value");
        let message = format!("{n} found in {}", counted(self.checked, "checkpoint"));
        let error = CommandError::new(first.reason_code, message).with_exit(Exit::Damaged);
        Some(error.with_hint("`milepost doctor` says what can be done"))
    }
}

/// The reason code of a damage.
fn reason(damage: &Damage) -> ReasonCode {
    Error::Damaged(Box::new(damage.clone())).reason()
}

/// The ids of damaged checkpoints, or what else names them.
fn names(damaged: &[Damage]) -> Vec<String> {
    let name = |d: &Damage| match (&d.snapshot_id(), &d.run_id(), d.sequence()) {
        (Some(id), _, _) => id.to_string(),
        (None, Some(run), Some(sequence)) => format!("{run}@{sequence}"),
        _ => d.to_string(),
    };
    damaged.iter().map(name).collect()
}

/// Damaged checkpoints that were passed over for an older one. Serialised they are their names.
#[derive(Debug, Default)]
pub(crate) struct Fallback {
    damaged: Vec<Damage>,
    used: Option<CheckpointId>,
}

impl Fallback {
    pub(crate) fn new(damaged: Vec<Damage>, used: &CheckpointId) -> Self {
        Self { damaged, used: Some(used.clone()) }
    }

    /// Whether the newest checkpoint was intact.
    pub(crate) fn is_empty(&self) -> bool {
        self.damaged.is_empty()
    }

    /// What the command ends with; nothing if the newest checkpoint was intact.
    pub(crate) fn error(&self) -> Option<CommandError> {
        let (first, used) = (self.damaged.first()?, self.used.as_ref()?);
        let verb = if self.damaged.len() == 1 { "is" } else { "are" };
        let names = names(&self.damaged).join(", ");
        let message = format!("{names} {verb} damaged; this is the newest good checkpoint, {used}");
        let error = CommandError::new(reason(first), message)
            .with_exit(Exit::Partly)
            .with_hint("`milepost verify` lists everything that is damaged");
        Some(error.with_details(self.damaged.iter().map(ToString::to_string).collect()))
    }
}

impl Serialize for Fallback {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        names(&self.damaged).serialize(serializer)
    }
}
