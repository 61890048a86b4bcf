//! Gives the terminal to another program for good.

use std::io;
use std::process::Command;

use super::ProgramExit;

/// Starts a program that replaces this process. Returns only if that fails.
#[cfg(unix)]
pub(crate) fn replace_process(mut command: Command) -> io::Result<ProgramExit> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

/// Starts a program, and waits for it: this platform cannot replace a process. Returns how the program ended.
#[cfg(not(unix))]
pub(crate) fn replace_process(command: Command) -> io::Result<ProgramExit> {
    super::run(command, |_| {})
}
