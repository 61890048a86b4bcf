//! Writes errors: `Error`, `Caused by` and `Hint` lines for people, one JSON line for programs. Takes a
//! `CommandError` and returns the exit code.

use std::error::Error as _;
use std::io;

use milepost::ReasonCode;
use milepost::internal::error_chain;
use serde::Serialize;

use super::Output;
use super::escape::clean;
use super::format::{bold, red, yellow};
use crate::error::CommandError;
use crate::error_advice::{Exit, advice};

/// The JSON form of an error.
#[derive(Serialize)]
pub(crate) struct ErrorDocument {
    r#type: &'static str,
    pub(crate) reason_code: ReasonCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) exit: u8,
}

impl ErrorDocument {
    /// The document for an error. `None` if the error consists only of an exit code.
    pub(crate) fn of(error: &CommandError) -> Option<Self> {
        let (reason_code, exit, hint) = classify(error).ok()?;
        Some(Self { r#type: "error", reason_code, message: error_chain(error), hint, exit: exit as u8 })
    }
}

/// The reason code, exit code and hint of an error. `Err` with the exit code if there is nothing to report.
fn classify(error: &CommandError) -> Result<(ReasonCode, Exit, Option<String>), u8> {
    Ok(match error {
        CommandError::Library(e) => {
            let (exit, hint) = advice(e);
            (e.reason(), exit, hint)
        }
        CommandError::Reported { reason, hint, exit, .. } => (*reason, *exit, hint.clone()),
        CommandError::ExitOnly(exit) => return Err(*exit as u8),
        CommandError::ChildExit(code) => return Err(*code),
        CommandError::Supervisor(inner) => {
            let (reason, _, hint) = classify(inner)?;
            (reason, Exit::Supervisor, hint)
        }
        // The reader closed the pipe, for example `head`.
        CommandError::Stdout(e) if e.kind() == io::ErrorKind::BrokenPipe => return Err(0),
        CommandError::Stdout(_) => (ReasonCode::CheckpointAtomicWriteFailed, Exit::Failed, None),
    })
}

impl Output {
    /// Writes an error and returns its exit code.
    pub(crate) fn fail(&self, error: &CommandError) -> u8 {
        if let Some(error) = self.output_alone_failed(error) {
            return self.fail(&error);
        }
        let document = match (classify(error), ErrorDocument::of(error)) {
            (Err(code), _) => return code,
            (Ok(_), None) => return Exit::Failed as u8,
            (Ok(_), Some(document)) => document,
        };
        error.details().iter().for_each(|line| self.message(line));
        if self.json {
            self.write_json_line(&document);
            return document.exit;
        }
        let partly = document.exit == Exit::Partly as u8;
        let heading = if partly { yellow("Warning:") } else { red("Error:") };
        self.write_message(&format!("{heading} {} ({})", clean(&error.to_string()), document.reason_code));
        for cause in std::iter::successors(error.source(), |cause| (*cause).source()) {
            self.write_message(&format!("{} {}", bold("Caused by:"), clean(&cause.to_string())));
        }
        if let Some(hint) = document.hint {
            self.write_message(&format!("{} {}", bold("Hint:"), clean(&hint)));
        }
        document.exit
    }

    /// The error of a command that changed something and then failed to write its output.
    fn output_alone_failed(&self, error: &CommandError) -> Option<CommandError> {
        let CommandError::Stdout(e) = error else { return None };
        if e.kind() == io::ErrorKind::BrokenPipe {
            return None;
        }
        let change = self.recorded_change()?;
        let message = format!("{change}, but the output could not be written to stdout: {e}");
        Some(
            CommandError::new(ReasonCode::OutputFailed, message)
                .with_hint("do not run the command again; its change was made")
                .with_exit(Exit::Partly),
        )
    }
}
