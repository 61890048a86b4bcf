//! Runs git's process within a time limit. In: a command and a deadline. Out: the exit status and the output, which is
//! read as it comes. At the deadline the process is ended with everything it has started.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::GitError;

/// Bytes of complaints that are kept.
const STDERR_LIMIT: u64 = 4096;

/// How long git has to remove its lock files once it was told to end.
const GRACE: Duration = Duration::from_millis(200);

/// Memory that git may allocate. A repository can make it read files without end.
#[cfg(target_os = "linux")]
const MEMORY_LIMIT: u64 = 1 << 30;

/// Bounds the memory of a process that was just started; without effect where the platform cannot.
fn limit_memory(child: &Child) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Pid, Resource, Rlimit, prlimit};
        let limit = Rlimit { current: Some(MEMORY_LIMIT), maximum: Some(MEMORY_LIMIT) };
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // A process that has ended already needs no limit.
            let _ = prlimit(Some(pid), Resource::Data, limit);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = child;
}

/// What git left.
#[derive(Debug)]
pub(crate) struct GitOutput<T> {
    /// How it ended.
    pub status: ExitStatus,
    /// What its output was made into.
    pub output: T,
    /// The start of its error messages, on one line.
    pub stderr: Option<String>,
}

/// Runs a command; `read` makes something of its output.
pub(super) fn run<T: Send + 'static>(
    command: &mut Command,
    deadline: Instant,
    read: impl FnOnce(&mut dyn BufRead) -> io::Result<T> + Send + 'static,
) -> Result<GitOutput<T>, GitError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        // A group of its own: the terminal's signals are for the person's command, and an end is an end for all of it.
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => GitError::NotInstalled,
        _ => GitError::Io(e),
    })?;
    limit_memory(&child);
    let (send, output) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        spawn_reader(
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
        spawn_reader(listen, &mut child)?;
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
    // Its output has ended, and so has it, a moment later at most.
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

fn spawn_reader(work: impl FnOnce() + Send + 'static, child: &mut Child) -> Result<(), GitError> {
    let thread = std::thread::Builder::new().name("milepost-look".into()).stack_size(256 << 10).spawn(work);
    thread.map(drop).map_err(|e| {
        terminate(child);
        GitError::Io(e)
    })
}

/// Ends git and all that it has started. It is told first, so that it removes its lock files.
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

/// What git complained about, on one line.
fn summarize_stderr(complaints: &str) -> Option<String> {
    const LINES: usize = 3;
    let mut lines = complaints.lines().map(str::trim).filter(|line| !line.is_empty());
    let shown: Vec<_> = lines.by_ref().take(LINES).collect();
    let rest = lines.count();
    let more = if rest > 0 { format!(" (and {rest} more lines)") } else { String::new() };
    (!shown.is_empty()).then(|| format!("git: {}{more}", shown.join("; ")))
}
