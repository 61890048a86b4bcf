//! The end of what a program writes, kept while all of it goes where it would have gone.

use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use milepost::AllowList;

/// How much of the end is kept, in bytes and lines.
const BYTES: usize = 1000;
const LINES: usize = 10;
/// How much of it is looked at for secrets: one that is cut in two is no longer known for one.
const SEEN: usize = 16 * 1024;
/// A program may leave others behind that hold its streams open: its own last words are waited for, not theirs.
const SILENCE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(3);

/// Streams that are being copied.
pub(super) struct Copying {
    tail: Arc<Mutex<Vec<u8>>>,
    heard: Receiver<()>,
}

/// Starts a program whose output is copied.
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
            // Where nobody reads, the program is told so: its next write fails, as it would have without us.
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
    /// Waits for what is still on its way, and gives the end of it.
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

/// The last lines, without secrets.
fn shortened(text: &str, allow: &AllowList) -> String {
    let clean = allow.redact_text(text);
    let text = clean.as_deref().unwrap_or(text).trim_end();
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(BYTES))..];
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n").trim_start_matches('\u{fffd}').to_owned()
}
