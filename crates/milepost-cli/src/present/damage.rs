//! Damage: the result of `verify`, the warning of lists that omit damaged values, and the error of a command
//! that used an older checkpoint because newer ones are damaged.

use milepost::model::CheckpointId;
use milepost::store::Damage;
use milepost::{ReasonCode, VerifyReport};
use serde::{Serialize, Serializer};

use super::format::{clean, counted};
use super::{Document, Note, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// The result of `verify`.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.verify/1")]
pub(crate) struct VerifyDocument {
    #[serde(flatten)]
    pub(crate) report: VerifyReport,
}

impl Document for VerifyDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let (damaged, files) = (self.report.damaged(), self.report.damaged_files());
        if damaged.is_empty() && files.is_empty() {
            let checkpoints = counted(self.report.checked(), "checkpoint");
            let files = match self.report.files_checked() {
                0 => String::new(),
                n => format!(" and {}", counted(n, "stored file content")),
            };
            return output.write_text(&format!("{checkpoints}{files} intact\n"));
        }
        let line = |damage: &Damage| format!("{} ({})\n", clean(&damage.to_string()), damage.reason_code());
        let mut text: String = damaged.iter().map(line).collect();
        let reason = ReasonCode::CheckpointIntegrityMismatch;
        text.extend(files.iter().map(|file| format!("{} ({reason})\n", clean(&file.to_string()))));
        output.write_text(&text)
    }

    fn error(&self) -> Option<CommandError> {
        let (damaged, files) = (self.report.damaged(), self.report.damaged_files());
        if damaged.is_empty() && files.is_empty() {
            return None;
        }
        let first = damaged.first().map_or(ReasonCode::CheckpointIntegrityMismatch, Damage::reason_code);
        let n = counted((damaged.len() + files.len()) as u64, "damaged value");
        let message = format!("{n} found in {}", counted(self.report.checked(), "checkpoint"));
        let error = CommandError::new(first, message).with_exit(Exit::Damaged);
        Some(error.with_hint("run `milepost doctor` to see what can be repaired"))
    }
}

/// The warning about damaged values that a list omits.
pub(crate) fn left_out(damaged: &[Damage], what: &str, advice: &str) -> Vec<Note> {
    let n = counted(damaged.len() as u64, what);
    let warning = (!damaged.is_empty()).then(|| format!("Warning: {n} omitted; `milepost verify` {advice}"));
    warning.into_iter().map(Note::Message).collect()
}

/// The ids of damaged checkpoints, or `RUN@NUMBER` or a description if the id is unknown.
fn names(damaged: &[Damage]) -> Vec<String> {
    let name = |d: &Damage| match (&d.snapshot_id(), &d.run_id(), d.sequence()) {
        (Some(id), _, _) => id.to_string(),
        (None, Some(run), Some(sequence)) => format!("{run}@{sequence}"),
        _ => d.to_string(),
    };
    damaged.iter().map(name).collect()
}

/// Damaged checkpoints that were skipped in favour of an older one. Serialised as a list of their names.
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

    /// The error that the command ends with. `None` if the newest checkpoint was intact.
    pub(crate) fn error(&self) -> Option<CommandError> {
        let (first, used) = (self.damaged.first()?, self.used.as_ref()?);
        let verb = if self.damaged.len() == 1 { "is" } else { "are" };
        let names = names(&self.damaged).join(", ");
        let message = format!("{names} {verb} damaged; using the newest intact checkpoint, {used}");
        let error = CommandError::new(first.reason_code(), message)
            .with_exit(Exit::Partly)
            .with_hint("run `milepost verify` to list all damage");
        Some(error.with_details(self.damaged.iter().map(ToString::to_string).collect()))
    }
}

impl Serialize for Fallback {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        names(&self.damaged).serialize(serializer)
    }
}
