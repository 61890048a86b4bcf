//! Unix: forwards signals from this process to the program that it runs.
//! A signal from the terminal reaches both processes, so it is not forwarded.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::Cause;

use super::ProgramExit;

/// The signals to forward.
const PASSED: [i32; 8] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2];

/// A program that fails within this time after SIGINT was interrupted. A program that handles the signal and
/// continues was not.
const INTERRUPTED: Duration = Duration::from_secs(10);

/// The signals that this process catches.
pub(super) struct Signals(SignalsInfo<WithOrigin>);

impl Signals {
    /// Starts to catch signals. Must be called before the program starts, so that no signal is missed.
    /// Signals that this process ignores, for example under nohup, stay ignored here and in the program.
    pub(super) fn catch() -> io::Result<Self> {
        let ignored = ignored();
        let wanted = PASSED.into_iter().filter(|n| ignored >> (n - 1) & 1 == 0).chain([SIGCHLD]);
        Ok(Self(SignalsInfo::new(wanted)?))
    }

    /// Waits until the program exits. Its pid stays valid until then, because no other code waits for it.
    pub(super) fn wait_for(&mut self, child: &mut Child) -> io::Result<ProgramExit> {
        let mut interrupted_at = None;
        // Signals that arrived before the program started have reached only this process.
        let mut early = true;
        loop {
            let arrived: Vec<_> = if early { self.0.pending().collect() } else { self.0.wait().collect() };
            for origin in arrived {
                if origin.signal == SIGINT {
                    interrupted_at = Some(Instant::now());
                }
                if early || !matches!(origin.cause, Cause::Kernel) {
                    pass_on(child, origin.signal);
                }
                if origin.signal == SIGTSTP {
                    // Catching the signal keeps this process from stopping, but its shell must see it stop.
                    let _ = kill_process(getpid(), Signal::STOP);
                }
            }
            early = false;
            if let Some(status) = child.try_wait()? {
                if self.0.pending().any(|origin| origin.signal == SIGINT) {
                    interrupted_at = Some(Instant::now());
                }
                return Ok(ProgramExit { status, interrupted: is_interrupted(status, interrupted_at) });
            }
        }
    }
}

/// Whether a program ended because the user interrupted it.
fn is_interrupted(status: ExitStatus, interrupted_at: Option<Instant>) -> bool {
    let recently = interrupted_at.is_some_and(|at| at.elapsed() < INTERRUPTED);
    !status.success() && (recently || status.signal() == Some(SIGINT))
}

fn pass_on(child: &Child, signal: i32) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal))
        && signal != Signal::CHILD
    {
        // The program may have just exited.
        let _ = kill_process(pid, signal);
    }
}

/// The mask of signals that this process ignores; 0 if the system does not report it.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_outlives_the_signal_was_not_interrupted() {
        let ago = |secs| Instant::now().checked_sub(Duration::from_secs(secs));
        let (killed, failed, passed) = (SIGINT, 3 << 8, 0);
        for (status, at, expected) in [
            (killed, ago(0), true),
            (killed, None, true),
            (SIGTERM, None, false),
            (failed, ago(1), true),
            (failed, ago(60), false),
            (failed, None, false),
            (passed, ago(0), false),
        ] {
            assert_eq!(is_interrupted(ExitStatus::from_raw(status), at), expected, "{status}");
        }
    }
}
