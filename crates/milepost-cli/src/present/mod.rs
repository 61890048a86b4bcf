//! The only module that prints. Data goes to stdout, messages to stderr; a reader that went away ends a command quietly.
//! Everything passes `escape` on its way out, so that no presenter can forget it.
//! In: the typed documents of commands, messages, errors. Out: bytes on stdout and stderr. Decides nothing else.

pub(crate) mod agents;
pub(crate) mod brief;
pub(crate) mod checkpoint;
pub(crate) mod config;
pub(crate) mod damage;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod error;
pub(crate) mod escape;
pub(crate) mod events;
pub(crate) mod format;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod marks;
pub(crate) mod prune;
pub(crate) mod reference;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod saved;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod supervised;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod transfer;
pub(crate) mod trust;
pub(crate) mod work_items;

use std::io::{self, BufRead, IsTerminal, Read as _, Write};
use std::sync::{Arc, Mutex};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::cli::Global;
use crate::error::{CommandError, Result};

/// The typed result of a command. Serialised it is what programs read.
pub(crate) trait Document: Serialize {
    /// Writes it for people.
    fn render(&self, output: &Output) -> Result<()>;

    /// Lines that accompany it on stderr, in JSON and in text.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }

    /// What the command has changed. An answer that cannot be written must not read as if nothing had happened.
    fn change(&self) -> Option<String> {
        None
    }

    /// The error that the command ends with although it has a result.
    fn error(&self) -> Option<CommandError> {
        None
    }

    /// Where its JSON goes.
    fn stream(&self) -> Stream {
        Stream::Stdout
    }
}

/// A line that accompanies a result.
#[derive(Debug)]
pub(crate) enum Note {
    /// Shown unless `--quiet` is given.
    Message(String),
    /// Shown with `--verbose`.
    Detail(String),
}

/// A stream of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    /// For commands that run another program, whose stdout is that program's.
    Stderr,
}

/// The streams of this process, and what the flags say about them.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// Whether stdout gets one JSON document.
    pub(crate) json: bool,
    /// Whether every question is answered with yes.
    pub(crate) yes: bool,
    quiet: bool,
    verbose: bool,
    color: ColorChoice,
    /// Where messages are collected instead, for a caller within this process.
    collected: Option<Arc<Mutex<Vec<String>>>>,
    /// What the command has changed already.
    done: Arc<Mutex<Option<String>>>,
}

impl Output {
    /// An output as the flags ask for it.
    pub(crate) fn new(global: &Global) -> Self {
        let color = match global.color.as_deref() {
            Some("always") => ColorChoice::Always,
            Some("never") => ColorChoice::Never,
            _ => ColorChoice::Auto,
        };
        Self {
            json: global.json,
            yes: global.yes,
            quiet: global.quiet,
            verbose: global.verbose,
            ..Self::for_color(color)
        }
    }

    /// An output for help and mistakes before the flags are known.
    pub(crate) fn for_color(color: ColorChoice) -> Self {
        let done = Arc::default();
        Self { json: false, yes: false, quiet: false, verbose: false, color, collected: None, done }
    }

    /// An output for an error before the flags are known.
    pub(crate) fn for_json() -> Self {
        Self { json: true, ..Self::for_color(ColorChoice::Never) }
    }

    /// An output that collects messages and shows nothing.
    pub(crate) fn collecting() -> Self {
        Self { collected: Some(Arc::default()), ..Self::for_json() }
    }

    /// The messages that were collected.
    #[cfg(feature = "mcp")]
    pub(crate) fn collected(&self) -> Vec<String> {
        let collected = self.collected.as_ref().and_then(|collected| Some(collected.lock().ok()?.clone()));
        collected.unwrap_or_default()
    }

    /// Writes the result of a command as JSON or text, and gives the error that the command ends with.
    pub(crate) fn present(&self, document: &impl Document) -> Result<()> {
        if let (Some(change), Ok(mut done)) = (document.change(), self.done.lock()) {
            *done = Some(change);
        }
        document.notes().iter().for_each(|note| self.note(note));
        match (self.json, document.stream()) {
            (false, _) => document.render(self)?,
            (true, Stream::Stdout) => self.write_json(document)?,
            (true, Stream::Stderr) => self.write_json_line(document),
        }
        document.error().map_or(Ok(()), Err)
    }

    /// Writes a line that accompanies a result.
    pub(crate) fn note(&self, note: &Note) {
        match note {
            Note::Message(line) => self.message(line),
            Note::Detail(line) => self.detail(line),
        }
    }

    /// What the command has changed, if anything.
    fn recorded_change(&self) -> Option<String> {
        self.done.lock().ok()?.clone()
    }

    /// Writes one JSON document and ends its line.
    fn write_json<T: Serialize>(&self, document: &T) -> Result<()> {
        let text = serde_json::to_string(document).map_err(|e| CommandError::Stdout(e.into()))?;
        self.write_json_text(&format!("{text}\n"))
    }

    /// Writes JSON that is text already; its value stays as it is.
    pub(crate) fn write_json_text(&self, text: &str) -> Result<()> {
        self.out(escape::json(text).as_bytes())
    }

    /// Writes lines with styles, which are left out where they are not wanted. Text of others that is not `clean`ed before
    /// could still bring a style or a line of its own.
    fn write_text(&self, text: &str) -> Result<()> {
        let text = escape::clean_styled(text);
        let mut out = AutoStream::new(io::stdout().lock(), self.color);
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CommandError::Stdout)
    }

    /// Writes lines of others, such as a brief, without any style.
    fn write_plain(&self, text: &str) -> Result<()> {
        self.out(escape::clean_lines(text).as_bytes())
    }

    /// Writes bytes, exactly these; to a terminal only what is safe of them.
    fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        match self.is_terminal() {
            true => self.write_plain(&String::from_utf8_lossy(bytes)),
            false => self.out(bytes),
        }
    }

    /// Writes candidates for a shell, which quotes them itself.
    pub(crate) fn write_candidates(&self, candidates: &[u8]) -> Result<()> {
        self.out(candidates)
    }

    fn out(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(CommandError::Stdout)
    }

    /// Writes one line to stderr, unless the person wants quiet.
    pub(crate) fn message(&self, line: &str) {
        if !self.quiet {
            self.write_message(&escape::clean(line));
        }
    }

    /// Writes several lines with styles to stderr, unless the person wants quiet. As for `write_text`, text of others in
    /// them has to be `clean`ed.
    pub(crate) fn message_page(&self, page: &str) {
        if !self.quiet {
            self.message_always(page);
        }
    }

    /// The same also where the person wants quiet: the lines belong to a question.
    pub(crate) fn message_always(&self, page: &str) {
        self.write_message(&escape::clean_styled(page));
    }

    /// Writes one line to stderr if the person wants to know more.
    pub(crate) fn detail(&self, line: &str) {
        if self.verbose {
            self.write_message(&escape::clean(line));
        }
    }

    /// Writes one JSON document as a line of stderr: stdout belongs to the command that is run.
    fn write_json_line<T: Serialize>(&self, document: &T) {
        if let Ok(text) = serde_json::to_string(document) {
            self.write_message(&escape::json(&text));
        }
    }

    /// Draws a line on the terminal over the one that is there, and leaves the cursor at its start. An empty line removes
    /// the one that is there.
    fn draw(&self, line: &str) {
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r\x1b[K{}\r", escape::clean_styled(line)).and_then(|()| err.flush());
    }

    /// Writes to stderr what was made safe.
    fn write_message(&self, safe: &str) {
        if let Some(collected) = &self.collected {
            if let Ok(mut lines) = collected.lock() {
                lines.push(anstream::adapter::strip_str(safe).to_string());
            }
            return;
        }
        let mut err = AutoStream::new(io::stderr().lock(), self.color);
        // Nobody listens: there is nobody to tell that.
        let _ = writeln!(err, "{safe}");
    }

    /// Whether the person wants to know more.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Whether colours go to a stream.
    pub(crate) fn colours(&self, stream: &impl RawStream) -> bool {
        let choice = if self.color == ColorChoice::Auto { AutoStream::choice(stream) } else { self.color };
        choice != ColorChoice::Never
    }

    /// Whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.collected.is_none() && io::stdout().is_terminal()
    }

    /// A line that says how far something is, on a terminal and only once it has lasted.
    pub(crate) fn progress(&self) -> Progress {
        Progress { shown: !self.quiet && io::stderr().is_terminal(), since: None, drawn: false }
    }

    /// Whether there is somebody to ask.
    pub(crate) fn can_ask(&self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a question on the controlling terminal, wherever stdin and stderr lead; `None` where there is none.
    /// `--yes` answers, but only where somebody could have been asked.
    pub(crate) fn confirm_on_terminal(&self, question: &str) -> Option<bool> {
        if self.collected.is_some() {
            return None;
        }
        let mut terminal = std::fs::File::options().read(true).write(true).open("/dev/tty").ok()?;
        if self.yes {
            return Some(true);
        }
        write!(terminal, "{} [y/N] ", escape::clean(question)).ok()?;
        is_yes(io::BufReader::new(terminal.take(64)))
    }

    /// Asks a question on the terminal; `None` where there is nobody to ask.
    pub(crate) fn confirm(&self, question: &str) -> Option<bool> {
        if !self.can_ask() {
            return None;
        }
        let _ = write!(io::stderr().lock(), "{} [y/N] ", escape::clean(question));
        is_yes(io::stdin().lock())
    }
}

/// Reads an answer; `None` where it cannot be read.
fn is_yes(mut terminal: impl BufRead) -> Option<bool> {
    let mut answer = String::new();
    terminal.read_line(&mut answer).ok()?;
    Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// How far something is.
pub(crate) struct Progress {
    shown: bool,
    since: Option<std::time::Instant>,
    drawn: bool,
}

impl Progress {
    /// Draws the line anew, at most every half second.
    pub(crate) fn at(&mut self, what: &str, n: u64) {
        let now = std::time::Instant::now();
        let since = *self.since.get_or_insert(now);
        if self.shown && now.duration_since(since).as_millis() >= 500 {
            self.since = Some(now);
            self.drawn = true;
            let _ = write!(io::stderr().lock(), "\r{} {}…", format::count(n), escape::clean(what));
        }
    }

    /// The same with a bar, where the end is known.
    pub(crate) fn of(&mut self, what: &str, n: u64, total: u64) {
        const WIDTH: u64 = 20;
        let full = n.min(total) * WIDTH / total.max(1);
        let bar: String = (0..WIDTH).map(|at| if at < full { '#' } else { '.' }).collect();
        self.at(&format!("of {} {what} [{bar}]", format::count(total)), n);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}
