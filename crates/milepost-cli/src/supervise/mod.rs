//! Runs another program in the foreground, and passes its streams, signals and exit code through. Takes a
//! command and returns how it ended. Knows nothing about checkpoints and prints nothing itself.

#[cfg(windows)]
mod console;
mod output_files;
#[cfg(unix)]
mod redirected;
mod replace;
#[cfg(unix)]
mod signals;
mod tail;

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Instant;

use milepost::model::{Outcome, OutcomeKind, OutcomeResult};
use milepost::{AllowList, ReasonCode};

#[cfg(windows)]
use self::console::Signals;
pub(crate) use self::output_files::OutputFiles;
pub(crate) use self::replace::replace_process;
#[cfg(unix)]
use self::signals::Signals;
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Maximum length of an outcome's name, in characters.
const NAME: usize = 200;

/// How a program ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramExit {
    status: ExitStatus,
    /// Whether it ended because the user interrupted it.
    interrupted: bool,
}

impl ProgramExit {
    /// The exit code as shells report it: 128 plus the signal's number if a signal ended the program, and 255 instead of
    /// a larger one.
    pub(crate) fn code(&self) -> u8 {
        let by_signal = self.signal().map(|n| 128 + n);
        by_signal.or(self.status.code()).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        #[cfg(unix)]
        return std::os::unix::process::ExitStatusExt::signal(&self.status);
        #[cfg(not(unix))]
        return console::ended_by_control_c(self.status).then_some(signal_hook::consts::SIGINT);
    }

    /// The name of the signal that ended it.
    pub(crate) fn signal_name(&self) -> Option<String> {
        let name = |signal| signal_hook::low_level::signal_name(signal).map(str::to_owned);
        self.signal().map(|signal| name(signal).unwrap_or_else(|| format!("signal {signal}")))
    }

    /// Whether the user interrupted it, for example with Ctrl-C, and it did not succeed.
    pub(crate) fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// Whether it succeeded.
    pub(crate) fn passed(&self) -> bool {
        self.status.success()
    }

    /// Describes for people how it ended.
    pub(crate) fn describe(&self) -> String {
        match self.signal_name() {
            Some(name) => format!("ended by {name}"),
            None => format!("exit {}", self.code()),
        }
    }

    /// Turns a failure into an error with the program's exit code.
    pub(crate) fn pass_through(self) -> Result<()> {
        if self.passed() { Ok(()) } else { Err(CommandError::ChildExit(self.code())) }
    }
}

/// A command line and its start time.
pub(crate) struct SupervisedCommand<'a> {
    arguments: &'a [OsString],
    begun: Instant,
    allow: &'a AllowList,
}

impl<'a> SupervisedCommand<'a> {
    /// Creates a command whose time starts now. `arguments` contains at least the program.
    pub(crate) fn new(arguments: &'a [OsString], allow: &'a AllowList) -> Self {
        Self { arguments, begun: Instant::now(), allow }
    }

    /// The command to start, which inherits the streams of this process.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.arguments.first().map_or("".as_ref(), OsString::as_os_str));
        command.args(self.arguments.iter().skip(1));
        command
    }

    /// The command line for display, without secrets and truncated.
    pub(crate) fn name(&self) -> String {
        let args: Vec<_> = self.arguments.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        // Redact each argument separately first, because a password may contain blanks.
        let args = self.allow.redact_value(args.clone(), "command").map_or(args, |(clean, _)| clean);
        let line = args.join(" ");
        // Redact before truncating, because half a secret is no longer recognised.
        let line = self.allow.redact_text(&line).unwrap_or(line);
        match line.char_indices().nth(NAME) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// How it ended, as checkpoints record it.
    pub(crate) fn outcome(&self, ended: &io::Result<ProgramExit>, tail: String) -> Outcome {
        let (result, reason_code, short) = match ended {
            Ok(ending) if ending.passed() => (OutcomeResult::Pass, None, ending.describe()),
            Ok(ending) => {
                let reason = match ending.signal() {
                    Some(n) => format!("signal_{n}"),
                    None => format!("exit_{}", ending.code()),
                };
                // A command that the user interrupted has not failed.
                let result = if ending.interrupted() { OutcomeResult::Warn } else { OutcomeResult::Fail };
                (result, Some(reason), ending.describe())
            }
            Err(e) => (OutcomeResult::Fail, Some("not_started".into()), e.to_string()),
        };
        let summary = if tail.is_empty() { short } else { tail };
        shell_outcome(self.name(), self.begun, result, reason_code, summary)
    }

    /// A function that returns the output of the running command so far, as checkpoints record it; `None` if
    /// there is none.
    pub(crate) fn output_so_far(
        &self,
        output: Arc<OutputFiles>,
    ) -> impl Fn() -> Option<Outcome> + Send + 'static {
        let (name, begun, allow) = (self.name(), self.begun, self.allow.clone());
        move || {
            let end = Some(output.end(&allow)).filter(|end| !end.is_empty())?;
            let reason = Some("running".to_owned());
            Some(shell_outcome(name.clone(), begun, OutcomeResult::Warn, reason, end))
        }
    }

    /// The error for a program that could not be started: exit code 127 if it was not found, otherwise 126.
    pub(crate) fn start_error(&self, e: &io::Error) -> CommandError {
        let program = self.arguments.first().map(|arg| arg.to_string_lossy()).unwrap_or_default();
        let (exit, what, hint) = match e.kind() {
            io::ErrorKind::NotFound => {
                (Exit::NoProgram, "was not found", "check its name, and that its folder is in PATH")
            }
            _ => (
                Exit::NotExecutable,
                "cannot be executed",
                "check its permissions, and its first line if it is a script",
            ),
        };
        CommandError::new(ReasonCode::Usage, format!("{program} {what}: {e}")).with_exit(exit).with_hint(hint)
    }
}

fn shell_outcome(
    name: String,
    begun: Instant,
    result: OutcomeResult,
    reason_code: Option<String>,
    summary: String,
) -> Outcome {
    Outcome {
        duration_ms: u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
        kind: OutcomeKind::Shell,
        name,
        reason_code,
        result,
        summary,
        extra: Default::default(),
    }
}

/// Runs a program until it exits, and forwards the signals that this process receives. Calls `started` with
/// its pid.
pub(crate) fn run(mut command: Command, started: impl FnOnce(u32)) -> io::Result<ProgramExit> {
    let mut signals = Signals::catch()?;
    let mut child = command.spawn()?;
    started(child.id());
    signals.wait_for(&mut child)
}

/// Like `run`, but also returns the end of the program's output.
pub(crate) fn run_with_tail(mut command: Command, allow: &AllowList) -> (io::Result<ProgramExit>, String) {
    let mut end = String::new();
    let mut supervised = || {
        let mut signals = Signals::catch()?;
        let (mut child, copying) = tail::spawn(&mut command)?;
        let status = signals.wait_for(&mut child);
        end = copying.end(allow);
        status
    };
    let ended = supervised();
    (ended, end)
}
