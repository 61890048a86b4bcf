//! Failures: `Error`, `Caused by` and `Hint` for people, one JSON line for programs.

use std::error::Error as _;
use std::io;

use milepost::{Exit, ReasonCode};
use serde::Serialize;

use super::Screen;
use super::escape::clean;
use super::words::{bold, red, yellow};
use crate::failure::Failure;

/// A failure as programs see it.
#[derive(Serialize)]
pub(crate) struct Line {
    r#type: &'static str,
    pub(crate) reason_code: ReasonCode,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) exit: u8,
}

impl Line {
    fn of(told: Told, failure: &Failure) -> Self {
        let all = std::iter::once(failure.to_string()).chain(causes(failure)).collect::<Vec<_>>();
        let Told { reason, exit, hint } = told;
        Self { r#type: "error", reason_code: reason, message: all.join(": "), hint, exit: exit as u8 }
    }

    /// A failure, if there is something to say about it.
    #[cfg(feature = "mcp")]
    pub(crate) fn about(failure: &Failure) -> Option<Self> {
        verdict(failure).ok().map(|told| Self::of(told, failure))
    }
}

struct Told {
    reason: ReasonCode,
    exit: Exit,
    hint: Option<String>,
}

/// What there is to say about a failure, or the code alone where it was said or is nobody's business.
fn verdict(failure: &Failure) -> Result<Told, u8> {
    let (inner, own) = match failure {
        Failure::Own(inner) => (&**inner, true),
        other => (other, false),
    };
    let (reason, exit, hint) = match inner {
        Failure::Library(e) => (e.reason(), e.exit(), e.hint()),
        Failure::Told { reason, hint, exit, .. } => (*reason, *exit, hint.clone()),
        Failure::Said(exit) => return Err(*exit as u8),
        Failure::Child(code) => return Err(*code),
        Failure::Own(_) => (ReasonCode::Usage, Exit::Supervisor, None),
        // The reader has seen enough.
        Failure::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => return Err(0),
        Failure::Output(_) => (ReasonCode::CheckpointAtomicWriteFailed, Exit::Failed, None),
    };
    Ok(Told { reason, exit: if own { Exit::Supervisor } else { exit }, hint })
}

fn causes(failure: &Failure) -> Vec<String> {
    let mut causes = Vec::new();
    let mut source = failure.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes
}

impl Screen {
    /// Says why a command did not end well, and gives its exit code.
    pub(crate) fn fail(&self, failure: &Failure) -> u8 {
        if let Some(failure) = self.output_alone_failed(failure) {
            return self.fail(&failure);
        }
        let told = match verdict(failure) {
            Ok(told) => told,
            Err(code) => return code,
        };
        let exit = told.exit;
        if self.json {
            self.line(&Line::of(told, failure));
        } else {
            let heading = if exit == Exit::Partly { yellow("Warning:") } else { red("Error:") };
            self.say(&format!("{heading} {} ({})", clean(&failure.to_string()), told.reason));
            for cause in causes(failure) {
                self.say(&format!("{} {}", bold("Caused by:"), clean(&cause)));
            }
            if let Some(hint) = told.hint {
                self.say(&format!("{} {}", bold("Hint:"), clean(&hint)));
            }
        }
        exit as u8
    }

    /// The failure of a command that had changed something before its answer could not be written.
    fn output_alone_failed(&self, failure: &Failure) -> Option<Failure> {
        let Failure::Output(e) = failure else { return None };
        if e.kind() == io::ErrorKind::BrokenPipe {
            return None;
        }
        let done = self.what_was_done()?;
        let message = format!("{done}; only the output failed: stdout could not be written: {e}");
        Some(
            Failure::told(ReasonCode::OutputFailed, message)
                .hint("do not repeat the command: its work is done")
                .exits(Exit::Partly),
        )
    }
}
