//! Keeps the end of a program's output, while copying all of it to the streams of this process.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use milepost::AllowList;

/// Maximum size of the end that is kept, in bytes and lines.
const BYTES: usize = 1000;
const LINES: usize = 10;
/// Number of bytes to search for secrets. More than is kept, because a truncated secret is not recognised.
const SEEN: usize = 16 * 1024;
/// Waiting for the last output ends after this long without output, and after `PATIENCE` in total. The
/// program may have left child processes behind that keep its streams open.
const SILENCE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(3);

/// Output streams that are being copied.
pub(super) struct Copying {
    tail: Arc<Mutex<Vec<u8>>>,
    heard: Receiver<()>,
}

/// Starts a program and copies its output.
pub(super) fn spawn(command: &mut Command) -> io::Result<(Child, Copying)> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let tail = Arc::default();
    let (sender, heard) = mpsc::sync_channel(1);
    if let Some(from) = child.stdout.take() {
        copy(from, io::stdout(), &tail, sender.clone());
    }
    if let Some(from) = child.stderr.take() {
        copy(from, io::stderr(), &tail, sender);
    }
    Ok((child, Copying { tail, heard }))
}

fn copy(
    mut from: impl Read + Send + 'static,
    mut to: impl Write + Send + 'static,
    tail: &Arc<Mutex<Vec<u8>>>,
    heard: SyncSender<()>,
) {
    let tail = tail.clone();
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            // If our own output is closed, stop reading: the program's next write then fails, as it would
            // without us.
            if to.write_all(&buffer[..n]).and_then(|()| to.flush()).is_err() {
                break;
            }
            let mut tail = tail.lock().unwrap_or_else(|e| e.into_inner());
            tail.extend_from_slice(&buffer[..n]);
            let surplus = tail.len().saturating_sub(SEEN);
            tail.drain(..surplus);
            let _ = heard.try_send(());
        }
    });
}

impl Copying {
    /// Waits for remaining output, and returns the end of the output.
    pub(super) fn end(self, allow: &AllowList) -> String {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match self.heard.recv_timeout(SILENCE) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        let tail = self.tail.lock().unwrap_or_else(|e| e.into_inner());
        shortened(&String::from_utf8_lossy(&tail), allow)
    }
}

/// The last lines of a text, without secrets.
fn shortened(text: &str, allow: &AllowList) -> String {
    let clean = allow.redact_text(text);
    let text = clean.as_deref().unwrap_or(text).trim_end();
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(BYTES))..];
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n").trim_start_matches('\u{fffd}').to_owned()
}
