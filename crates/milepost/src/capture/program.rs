//! Running a program that must not last: its output is read to the end, as it comes, and at a deadline it is gone with
//! everything it has started.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Bytes of complaints that are kept.
const COMPLAINTS: u64 = 4096;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// It could not be started, or its output not be read.
    Io(io::Error),
    /// It was not done by the deadline.
    TooLong,
}

/// What a program left.
pub(super) struct Done<T> {
    /// How it ended.
    pub(super) status: ExitStatus,
    /// What its output was made into.
    pub(super) output: T,
    /// The start of what it complained about.
    pub(super) complaints: String,
}

/// Runs a program; `read` makes something of its output.
pub(super) fn run<T: Send + 'static>(
    command: &mut Command,
    deadline: Instant,
    read: impl FnOnce(&mut dyn BufRead) -> io::Result<T> + Send + 'static,
) -> Result<Done<T>, Failed> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt;
        // A group of its own: the terminal's signals are for the person's command, and an end is an end for all of it.
        command.process_group(0);
    }
    let mut child = command.spawn().map_err(Failed::Io)?;
    let (send, output) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        beside(move || drop(send.send(read(&mut BufReader::with_capacity(64 << 10, pipe)))), &mut child)?;
    }
    let (send, complaints) = mpsc::channel();
    if let Some(mut pipe) = child.stderr.take() {
        let listen = move || {
            let mut text = Vec::new();
            let _ = pipe.by_ref().take(COMPLAINTS).read_to_end(&mut text);
            let _ = io::copy(&mut pipe, &mut io::sink());
            let _ = send.send(String::from_utf8_lossy(&text).into_owned());
        };
        beside(listen, &mut child)?;
    }
    let output = match output.recv_timeout(left(deadline)) {
        Ok(Ok(output)) => output,
        Ok(Err(e)) => {
            end(&mut child);
            return Err(Failed::Io(e));
        }
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            end(&mut child);
            return Err(Failed::TooLong);
        }
    };
    let complaints = complaints.recv_timeout(left(deadline)).unwrap_or_default();
    // Its output has ended, and so has it, a moment later at most.
    let mut pause = Duration::from_micros(100);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(pause),
            Ok(None) => {
                end(&mut child);
                return Err(Failed::TooLong);
            }
            Err(e) => return Err(Failed::Io(e)),
        }
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    Ok(Done { status, output, complaints })
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

fn beside(work: impl FnOnce() + Send + 'static, child: &mut Child) -> Result<(), Failed> {
    let thread = std::thread::Builder::new().name("milepost-look".into()).stack_size(256 << 10).spawn(work);
    thread.map(drop).map_err(|e| {
        end(child);
        Failed::Io(e)
    })
}

/// Ends a program and all that it has started.
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
}
