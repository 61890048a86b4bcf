//! Failures: `Error`, `Caused by` and `Hint` for people, one JSON line for programs.

use std::error::Error as _;
use std::io;

use crate::error_advice::{self, Exit};
use milepost::ReasonCode;
use serde::Serialize;

use super::Output;
use super::escape::clean;
use super::format::{bold, red, yellow};
use crate::error::CommandError;

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
    fn of(told: Told, failure: &CommandError) -> Self {
        let all = std::iter::once(failure.to_string()).chain(causes(failure)).collect::<Vec<_>>();
        let Told { reason, exit, hint } = told;
        Self { r#type: "error", reason_code: reason, message: all.join(": "), hint, exit: exit as u8 }
    }

    /// A failure, if there is something to say about it.
    #[cfg(feature = "mcp")]
    pub(crate) fn about(failure: &CommandError) -> Option<Self> {
        verdict(failure).ok().map(|told| Self::of(told, failure))
    }
}

struct Told {
    reason: ReasonCode,
    exit: Exit,
    hint: Option<String>,
}

/// What there is to say about a failure, or the code alone where it was said or is nobody's business.
fn verdict(failure: &CommandError) -> Result<Told, u8> {
    let (inner, own) = match failure {
        CommandError::Supervisor(inner) => (&**inner, true),
        other => (other, false),
    };
    let (reason, exit, hint) = match inner {
        CommandError::Library(e) => (e.reason(), error_advice::exit_code(e), error_advice::hint(e)),
        CommandError::Reported { reason, hint, exit, .. } => (*reason, *exit, hint.clone()),
        CommandError::ExitOnly(exit) => return Err(*exit as u8),
        CommandError::ChildExit(code) => return Err(*code),
        CommandError::Supervisor(_) => (ReasonCode::Usage, Exit::Supervisor, None),
        // The reader has seen enough.
        CommandError::Stdout(e) if e.kind() == io::ErrorKind::BrokenPipe => return Err(0),
        CommandError::Stdout(_) => (ReasonCode::CheckpointAtomicWriteFailed, Exit::Failed, None),
    };
    Ok(Told { reason, exit: if own { Exit::Supervisor } else { exit }, hint })
}

fn causes(failure: &CommandError) -> Vec<String> {
    let mut causes = Vec::new();
    let mut source = failure.source();
    while let Some(cause) = source {
        causes.push(cause.to_string());
        source = cause.source();
    }
    causes
}

impl Output {
    /// Says why a command did not end well, and gives its exit code.
    pub(crate) fn fail(&self, failure: &CommandError) -> u8 {
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
    fn output_alone_failed(&self, failure: &CommandError) -> Option<CommandError> {
        let CommandError::Stdout(e) = failure else { return None };
        if e.kind() == io::ErrorKind::BrokenPipe {
            return None;
        }
        let done = self.recorded_change()?;
        let message = format!("{done}; only the output failed: stdout could not be written: {e}");
        Some(
            CommandError::new(ReasonCode::OutputFailed, message)
                .with_hint("do not repeat the command: its work is done")
                .with_exit(Exit::Partly),
        )
    }
}
