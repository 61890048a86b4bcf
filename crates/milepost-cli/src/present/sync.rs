//! The result of `sync`: what was sent to the store's server, and what still waits.

use std::fmt::Write as _;

use milepost::internal::error_chain;
use milepost::model::RunId;
use milepost::{SyncReport, Waiting};
use serde::Serialize;

use super::format::{clean, counted};
use super::{Document, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.sync/1")]
pub(crate) struct SyncDocument {
    store: String,
    /// The runs that were sent.
    sent: Vec<RunId>,
    checkpoints: u64,
    files: u64,
    /// Contents that stay on this machine because they contain secrets.
    files_with_secrets: u64,
    /// Runs that someone else continued on the server, and the runs that the parts from this machine became.
    split: Vec<SplitRun>,
    failed: Vec<FailedRun>,
    /// Number of runs that still wait.
    waiting: u64,
}

#[derive(Serialize)]
struct SplitRun {
    run_id: RunId,
    became: RunId,
}

#[derive(Serialize)]
struct FailedRun {
    run_id: RunId,
    message: String,
    reason_code: milepost::ReasonCode,
}

impl SyncDocument {
    pub(crate) fn new(store: String, report: &SyncReport, waiting: &Waiting) -> Self {
        let split = report.split().iter();
        let failed = report.failed().iter();
        Self {
            store,
            sent: report.runs().clone(),
            checkpoints: report.checkpoints(),
            files: report.files(),
            files_with_secrets: report.files_with_secrets(),
            split: split
                .map(|(run, became)| SplitRun { run_id: run.clone(), became: became.clone() })
                .collect(),
            failed: failed
                .map(|(run, error)| FailedRun {
                    run_id: run.clone(),
                    message: error_chain(error),
                    reason_code: error.reason(),
                })
                .collect(),
            waiting: waiting.runs().len() as u64,
        }
    }
}

impl Document for SyncDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.sent.is_empty() && self.failed.is_empty() {
            return output.write_text("Nothing waits on this machine.\n");
        }
        let mut text = format!(
            "Sent {} with {} to {}\n",
            counted(self.sent.len() as u64, "run"),
            counted(self.checkpoints, "new checkpoint"),
            clean(&self.store)
        );
        if self.files_with_secrets > 0 {
            let n = counted(self.files_with_secrets, "file content");
            let _ = writeln!(text, "{n} with secrets stayed here; --with-secrets sends them");
        }
        for SplitRun { run_id, became } in &self.split {
            let _ = writeln!(
                text,
                "{run_id} was continued elsewhere meanwhile; what this machine recorded is now {became}"
            );
        }
        for failed in &self.failed {
            let _ = writeln!(text, "{} could not be sent: {}", failed.run_id, clean(&failed.message));
        }
        output.write_text(&text)
    }

    fn change(&self) -> Option<String> {
        (!self.sent.is_empty()).then(|| format!("{} runs were sent", self.sent.len()))
    }

    fn error(&self) -> Option<CommandError> {
        (!self.failed.is_empty()).then_some(CommandError::ExitOnly(Exit::Partly))
    }
}
