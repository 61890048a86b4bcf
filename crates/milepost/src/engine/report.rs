//! Report: records a failure outside the work itself, as an event of the run.

use super::Milepost;
use super::bookkeeping::{commit_with_token, event, is_committed};
use crate::Error;
use crate::model::{EventType, RunId, WriteToken};
use crate::redact::Redaction;
use crate::store::WriteDecision;

impl Milepost {
    /// Adds an event that describes a failure. Does nothing if the run does not exist.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn report(&self, run: &RunId, what: &str, message: &str, times: u64) -> Result<(), Error> {
        let now = self.now();
        let token = WriteToken::generate();
        let clean = (self.settings.redaction == Redaction::On)
            .then(|| self.settings.redaction_allow.redact_text(message))
            .flatten();
        let message = clean.as_deref().unwrap_or(message);
        let data = serde_json::json!({ "what": what, "message": message, "times": times });
        self.write(run, &mut |view| {
            let Some(record) = view.record.as_ref().filter(|record| !is_committed(record, &token)) else {
                return WriteDecision::NoChange;
            };
            let mut commit = commit_with_token(record.clone(), &token);
            commit.events = vec![event(run, now, EventType::Error, None, &data)];
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(())
    }
}
