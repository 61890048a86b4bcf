//! Report: something went wrong beside the work, as an event of the run.

use super::Milepost;
use super::bookkeeping::remember_commit;
use crate::Error;
use crate::model::{Event, EventType, RawJson, RunId, WriteToken};
use crate::redact::Redaction;
use crate::store::{Commit, WriteDecision};

impl Milepost {
    /// Adds an event that says what failed; nothing where the run is not there.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn report(&self, run: &RunId, what: &str, message: &str, times: u64) -> Result<(), Error> {
        let now = self.now();
        let token = WriteToken::generate();
        let clean = (self.settings.redaction == Redaction::On)
            .then(|| self.settings.redaction_allow.redact_text(message))
            .flatten();
        let message = clean.as_deref().unwrap_or(message);
        let data = RawJson::of(&serde_json::json!({ "what": what, "message": message, "times": times }))?;
        self.write(run, &mut |view| {
            let Some(mut record) = view.record.clone() else { return WriteDecision::NoChange };
            if record.recent.iter().any(|r| r.token == token) {
                return WriteDecision::NoChange;
            }
            remember_commit(&mut record, &token, 0, false);
            let mut commit = Commit::new(record);
            commit.events.push(Event {
                at: now,
                kind: EventType::Error,
                run_id: run.clone(),
                snapshot_id: None,
                data: data.clone(),
            });
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(())
    }
}
