//! The result of `state`: the caller's own state, byte for byte, or the file it was written to.

use milepost::ReasonCode;
use milepost::model::{CheckpointId, RawJson, RunId};
use serde::Serialize;

use super::damage::Fallback;
use super::{Document, Note, Output};
use crate::error::{CommandError, Result};

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.state/1")]
pub(crate) struct StateDocument {
    pub(crate) snapshot_id: CheckpointId,
    pub(crate) run_id: RunId,
    pub(crate) sequence: u64,
    pub(crate) state: RawJson,
    /// The file it was written to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<String>,
    /// The file that the previous content was moved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kept: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) redacted: Vec<String>,
    #[serde(rename = "fell_back_from", skip_serializing_if = "Fallback::is_empty")]
    pub(crate) fallback: Fallback,
}

impl Document for StateDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if let Some(file) = &self.to {
            output.message(&format!("Wrote the state of {} to {file}", self.snapshot_id));
            return Ok(());
        }
        output.write_bytes(self.state.get().as_bytes())?;
        if output.is_terminal() { output.write_bytes(b"\n") } else { Ok(()) }
    }

    fn notes(&self) -> Vec<Note> {
        let kept = self.kept.as_ref().map(|kept| format!("The previous content is in {kept}"));
        kept.into_iter().map(Note::Message).collect()
    }

    fn change(&self) -> Option<String> {
        self.to.as_ref().map(|file| format!("the state was written to {file}"))
    }

    fn error(&self) -> Option<CommandError> {
        if let Some(error) = self.fallback.error() {
            return Some(error);
        }
        let message = format!("this state contains redacted values at {}", self.redacted.join(", "));
        let error = CommandError::new(ReasonCode::StateRedacted, message);
        (!self.redacted.is_empty()).then(|| error.with_hint("restore the real values before you use it"))
    }
}
