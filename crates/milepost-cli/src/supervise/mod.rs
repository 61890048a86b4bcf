//! Running another program in front of the person: its streams, its signals, its exit code are its own.
//! In: a command. Out: how it ended. Knows nothing of checkpoints, and says nothing.

mod signals;
mod tail;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use milepost::model::{Outcome, OutcomeKind, OutcomeResult};
use milepost::{AllowList, ReasonCode};

use self::signals::Signals;
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Characters of a command line that name an outcome.
const NAME: usize = 200;

/// How a program ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProgramExit(ExitStatus);

impl ProgramExit {
    /// Its exit code as shells give it: 128 and the signal's number for one that a signal ended.
    pub(crate) fn code(&self) -> u8 {
        let by_signal = self.0.signal().map(|n| 128 + n);
        self.0.code().or(by_signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }

    /// The signal that ended it.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.0.signal()
    }

    /// Whether it ended well.
    pub(crate) fn passed(&self) -> bool {
        self.0.success()
    }

    /// How it ended, for people.
    pub(crate) fn describe(&self) -> String {
        match self.0.signal() {
            Some(n) => format!("ended by {}", signals::name(n)),
            None => format!("exit {}", self.code()),
        }
    }

    /// Ends this process as that one has ended.
    pub(crate) fn pass_through(self) -> Result<()> {
        if self.passed() { Ok(()) } else { Err(CommandError::ChildExit(self.code())) }
    }
}

/// A command line, and the time it began.
pub(crate) struct SupervisedCommand<'a> {
    arguments: &'a [OsString],
    begun: Instant,
    allow: &'a AllowList,
}

impl<'a> SupervisedCommand<'a> {
    /// A command that begins now. It has at least one word.
    pub(crate) fn new(arguments: &'a [OsString], allow: &'a AllowList) -> Self {
        Self { arguments, begun: Instant::now(), allow }
    }

    /// The command, its streams inherited.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.arguments.first().map_or("".as_ref(), OsString::as_os_str));
        command.args(self.arguments.iter().skip(1));
        command
    }

    /// The command line, for people.
    pub(crate) fn name(&self) -> String {
        let args: Vec<_> = self.arguments.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        // Each argument by itself first: a password may have blanks in it.
        let args = self.allow.redact_value(args.clone(), "command").map_or(args, |(clean, _)| clean);
        let line = args.join(" ");
        // Before it is cut: half a secret is no longer known for one.
        let line = self.allow.redact_text(&line).unwrap_or(line);
        match line.char_indices().nth(NAME) {
            Some((end, _)) => format!("{}…", &line[..end]),
            None => line,
        }
    }

    /// How it ended, as checkpoints keep it.
    pub(crate) fn outcome(&self, ended: &io::Result<ProgramExit>, tail: String) -> Outcome {
        let (result, reason_code, short) = match ended {
            Ok(ending) if ending.passed() => (OutcomeResult::Pass, None, ending.describe()),
            Ok(ending) => {
                let reason = match ending.signal() {
                    Some(n) => format!("signal_{n}"),
                    None => format!("exit_{}", ending.code()),
                };
                (OutcomeResult::Fail, Some(reason), ending.describe())
            }
            Err(e) => (OutcomeResult::Fail, Some("not_started".into()), e.to_string()),
        };
        Outcome {
            duration_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            kind: OutcomeKind::Shell,
            name: self.name(),
            reason_code,
            result,
            summary: if tail.is_empty() { short } else { tail },
            extra: Default::default(),
        }
    }

    /// Why it could not be started: 127 where there is no such program, 126 where it cannot be executed.
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

/// Runs a program to its end, passing on the signals that this process gets meanwhile. `started` hears its pid.
pub(crate) fn run(mut command: Command, started: impl FnOnce(u32)) -> io::Result<ProgramExit> {
    let mut signals = Signals::catch()?;
    let mut child = command.spawn()?;
    started(child.id());
    signals.wait_for(&mut child).map(ProgramExit)
}

/// As `run`, and gives the end of what it wrote.
pub(crate) fn run_with_tail(mut command: Command, allow: &AllowList) -> (io::Result<ProgramExit>, String) {
    let mut end = String::new();
    let mut supervised = || {
        let mut signals = Signals::catch()?;
        let (mut child, copying) = tail::spawn(&mut command)?;
        let status = signals.wait_for(&mut child);
        end = copying.end(allow);
        status.map(ProgramExit)
    };
    let ended = supervised();
    (ended, end)
}
