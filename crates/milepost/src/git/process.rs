//! Runs a git process within a time limit. Takes a command and a deadline, and returns the exit status and
//! the output, which is processed as it arrives. Terminates the process and its descendants at the deadline.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::GitError;

/// Maximum number of bytes to keep of git's error messages.
const STDERR_LIMIT: u64 = 4096;

/// Time that git has to remove its lock files after SIGTERM.
#[cfg(unix)]
const GRACE: Duration = Duration::from_millis(200);

/// Maximum memory that git may allocate. A repository can make it read endless files.
#[cfg(target_os = "linux")]
const MEMORY_LIMIT: u64 = 1 << 30;

/// Limits the memory of a process that has just started. Has no effect on platforms other than Linux.
fn limit_memory(child: &Child) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(MEMORY_LIMIT), maximum: Some(MEMORY_LIMIT) };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // A process that has already ended needs no limit.
            let _ = prlimit(Some(pid), Resource::Data, limit);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = child;
}

/// The result of a git process.
#[derive(Debug)]
pub(crate) struct GitOutput<T> {
    pub status: ExitStatus,
    /// The processed output.
    pub output: T,
    /// The start of its error messages, on one line.
    pub stderr: Option<String>,
}

/// Runs a command, with `input` as its standard input. `read` processes its output.
pub(super) fn run<T: Send + 'static>(
    command: &mut Command,
    input: Option<Vec<u8>>,
    deadline: Instant,
    read: impl FnOnce(&mut dyn BufRead) -> io::Result<T> + Send + 'static,
) -> Result<GitOutput<T>, GitError> {
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        // In its own process group, git does not receive the terminal's signals, and a signal to the group
        // reaches all its descendants.
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => GitError::NotInstalled,
        _ => GitError::Io(e),
    })?;
    limit_memory(&child);
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        // If git does not read all of it, its exit code says why.
        spawn_pipe_thread(move || drop(io::Write::write_all(&mut pipe, &input)), &mut child)?;
    }
    let (send, output) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        spawn_pipe_thread(
            move || drop(send.send(read(&mut BufReader::with_capacity(64 << 10, pipe)))),
            &mut child,
        )?;
    }
    let (send, complaints) = mpsc::channel();
    if let Some(mut pipe) = child.stderr.take() {
        let listen = move || {
            let mut text = Vec::new();
            let _ = pipe.by_ref().take(STDERR_LIMIT).read_to_end(&mut text);
            let _ = io::copy(&mut pipe, &mut io::sink());
            let _ = send.send(String::from_utf8_lossy(&text).into_owned());
        };
        spawn_pipe_thread(listen, &mut child)?;
    }
    let output = match output.recv_timeout(time_left(deadline)) {
        Ok(Ok(output)) => output,
        Ok(Err(e)) => {
            terminate(&mut child);
            return Err(GitError::Io(e));
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            terminate(&mut child);
            return Err(GitError::TooSlow);
        }
    };
    let complaints = complaints.recv_timeout(time_left(deadline)).unwrap_or_default();
    // Git has closed its output and exits soon.
    let mut pause = Duration::from_micros(100);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(pause),
            Ok(None) => {
                terminate(&mut child);
                return Err(GitError::TooSlow);
            }
            Err(e) => return Err(GitError::Io(e)),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    Ok(GitOutput { status, output, stderr: summarize_stderr(&complaints) })
}

fn time_left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn spawn_pipe_thread(work: impl FnOnce() + Send + 'static, child: &mut Child) -> Result<(), GitError> {
    let thread = std::thread::Builder::new().name("milepost-look".into()).stack_size(256 << 10).spawn(work);
    thread.map(drop).map_err(|e| {
        terminate(child);
        GitError::Io(e)
    })
}

/// Terminates git and its descendants. Sends SIGTERM first, so that git removes its lock files.
fn terminate(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        use rustix::process::{Signal, kill_process_group};
        let _ = kill_process_group(group, Signal::TERM);
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) && begun.elapsed() < GRACE {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// The first of git's error messages, on one line.
fn summarize_stderr(complaints: &str) -> Option<String> {
    const LINES: usize = 3;
    let mut lines = complaints.lines().map(str::trim).filter(|line| !line.is_empty());
    let shown: Vec<_> = lines.by_ref().take(LINES).collect();
    let rest = lines.count();
    let more = if rest > 0 { format!(" (and {rest} more lines)") } else { String::new() };
    (!shown.is_empty()).then(|| format!("git: {}{more}", shown.join("; ")))
}
