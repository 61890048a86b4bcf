//! Failures: `Error`, `Caused by` and `Hint` for people, one JSON line for programs.

use std::error::Error as _;
use std::io;

use milepost::{Exit, ReasonCode};
use serde::Serialize;

use super::Screen;
use super::words::{bold, red, yellow};
use crate::failure::Failure;

#[derive(Serialize)]
struct Line<'a> {
    r#type: &'a str,
    reason_code: ReasonCode,
    message: String,
    hint: Option<String>,
    exit: u8,
}

impl Screen {
    /// Says why a command did not end well, and gives its exit code.
    pub(crate) fn fail(&self, failure: &Failure) -> u8 {
        let (inner, own) = match failure {
            Failure::Own(inner) => (&**inner, true),
            other => (other, false),
        };
        let (reason, exit, hint) = match inner {
            Failure::Library(e) => (e.reason(), e.exit(), e.hint()),
            Failure::Told { reason, hint, exit, .. } => (*reason, *exit, hint.clone()),
            Failure::Said(exit) => return *exit as u8,
            Failure::Child(code) => return *code,
            Failure::Own(_) => (ReasonCode::Usage, Exit::Supervisor, None),
            // The reader has seen enough.
            Failure::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => return 0,
            Failure::Output(_) => (ReasonCode::CheckpointAtomicWriteFailed, Exit::Failed, None),
        };
        let exit = if own { Exit::Supervisor } else { exit };
        let mut causes = Vec::new();
        let mut source = failure.source();
        while let Some(cause) = source {
            causes.push(cause.to_string());
            source = cause.source();
        }
        if self.json {
            let message = std::iter::once(failure.to_string()).chain(causes).collect::<Vec<_>>().join(": ");
            let line = Line { r#type: "error", reason_code: reason, message, hint, exit: exit as u8 };
            self.say(&serde_json::to_string(&line).unwrap_or_default());
        } else {
            let heading = if exit == Exit::Partly { yellow("Warning:") } else { red("Error:") };
            self.say(&format!("{heading} {failure} ({reason})"));
            for cause in causes {
                self.say(&format!("{} {cause}", bold("Caused by:")));
            }
            if let Some(hint) = hint {
                self.say(&format!("{} {hint}", bold("Hint:")));
            }
        }
        exit as u8
    }
}
