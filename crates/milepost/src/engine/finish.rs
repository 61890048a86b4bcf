//! Finish: saves the last checkpoint of a run and ends the run.

use super::{Milepost, Save, Saved};
use crate::Error;
use crate::model::{RunId, Source, Status, ValidationError};

impl Milepost {
    /// Saves the last checkpoint of a run and ends the run as completed or failed. `Status::Paused` leaves
    /// it open for later.
    pub fn finish(&self, run: &RunId, status: Status, save: Save) -> Result<Saved, Error> {
        if status == Status::InProgress {
            return Err(Error::Value {
                name: "the status".into(),
                source: ValidationError {
                    path: "/status".into(),
                    message: "a run ends as completed, failed or paused".into(),
                },
            });
        }
        self.stored_run(run)?;
        let mut save = save.status(status);
        save.last_of_session = true;
        let source = if status == Status::Failed { Source::ErrorBoundary } else { Source::Manual };
        save.draft.source.get_or_insert(source);
        self.save(run, save.reason("session_stop"))
    }
}
