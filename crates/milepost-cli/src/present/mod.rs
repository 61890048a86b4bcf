//! The only module that prints. Takes the documents, messages and errors of commands, and writes data to
//! stdout and messages to stderr. All output passes through `escape`, so no presenter can skip it. A closed
//! stdout pipe ends the command quietly. Makes no decisions about the work itself.

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
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod init;
pub(crate) mod list;
pub(crate) mod marks;
pub(crate) mod one_of;
mod pager;
pub(crate) mod patch;
pub(crate) mod prune;
pub(crate) mod purge;
pub(crate) mod reference;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod saved;
pub(crate) mod search;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod status_all;
pub(crate) mod store;
pub(crate) mod summary;
#[cfg(feature = "ui")]
pub(crate) mod summary_file;
pub(crate) mod supervised;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod transfer;
pub(crate) mod trust;
#[cfg(feature = "ui")]
pub(crate) mod ui;
pub(crate) mod work_items;

use std::io::{self, BufRead, IsTerminal, Read as _, Write};
use std::sync::{Arc, Mutex};

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use crate::cli::Global;
use crate::error::{CommandError, Result};

/// The typed result of a command. Its JSON form is the output for programs.
pub(crate) trait Document: Serialize {
    /// Writes the result as text for people.
    fn render(&self, output: &Output) -> Result<()>;

    /// Lines for stderr, written for both JSON and text output.
    fn notes(&self) -> Vec<Note> {
        Vec::new()
    }

    /// What the command changed. If the result cannot be written, the error still reports the change.
    fn change(&self) -> Option<String> {
        None
    }

    /// The error that the command ends with, in addition to its result.
    fn error(&self) -> Option<CommandError> {
        None
    }

    /// The stream for the JSON output.
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
    /// For commands that run another program: stdout belongs to that program.
    Stderr,
}

/// The streams of this process, with the flags that control them.
#[derive(Debug, Clone)]
pub(crate) struct Output {
    /// Whether the result is written as one JSON document.
    pub(crate) json: bool,
    /// Whether to assume yes for all questions.
    pub(crate) yes: bool,
    quiet: bool,
    verbose: bool,
    no_pager: bool,
    color: ColorChoice,
    /// The width from the environment, for output that does not go to a terminal.
    columns: Option<usize>,
    /// Collects messages for a caller in this process instead of writing them.
    collected: Option<Arc<Mutex<Vec<String>>>>,
    /// What the command has changed so far.
    done: Arc<Mutex<Option<String>>>,
}

impl Output {
    /// Creates an output from the flags.
    pub(crate) fn new(global: &Global, columns: Option<usize>) -> Self {
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
            no_pager: global.no_pager,
            columns,
            ..Self::for_color(color)
        }
    }

    /// Creates an output for help and usage errors, before the flags are parsed.
    pub(crate) fn for_color(color: ColorChoice) -> Self {
        let done = Arc::default();
        Self {
            json: false,
            yes: false,
            quiet: false,
            verbose: false,
            no_pager: false,
            color,
            columns: None,
            collected: None,
            done,
        }
    }

    /// Creates a JSON output, for an error before the flags are parsed.
    pub(crate) fn for_json() -> Self {
        Self { json: true, ..Self::for_color(ColorChoice::Never) }
    }

    /// Creates an output that collects messages and prints none.
    pub(crate) fn collecting() -> Self {
        Self { collected: Some(Arc::default()), ..Self::for_json() }
    }

    /// The collected messages.
    pub(crate) fn collected(&self) -> Vec<String> {
        let collected = self.collected.as_ref().and_then(|collected| Some(collected.lock().ok()?.clone()));
        collected.unwrap_or_default()
    }

    /// Writes the result of a command as JSON or text, and returns the error that the command ends with.
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

    /// Writes one JSON document, followed by a newline.
    fn write_json<T: Serialize>(&self, document: &T) -> Result<()> {
        let text = serde_json::to_string(document).map_err(|e| CommandError::Stdout(e.into()))?;
        self.write_json_text(&format!("{text}\n"))
    }

    /// Writes serialised JSON. Escaping does not change its value.
    pub(crate) fn write_json_text(&self, text: &str) -> Result<()> {
        self.out(escape::json(text).as_bytes())
    }

    /// Writes styled lines and strips the styles if colours are off. The caller must `clean` recorded text
    /// first, because it could contain styles or line breaks.
    fn write_text(&self, text: &str) -> Result<()> {
        let text = escape::clean_styled(text);
        let mut out = AutoStream::new(io::stdout().lock(), self.color);
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(CommandError::Stdout)
    }

    /// Writes recorded lines, such as a brief, without any style.
    fn write_plain(&self, text: &str) -> Result<()> {
        self.out(escape::clean_lines(text).as_bytes())
    }

    /// Writes bytes unchanged. On a terminal, unsafe characters are replaced.
    fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        match self.is_terminal() {
            true => self.write_plain(&String::from_utf8_lossy(bytes)),
            false => self.out(bytes),
        }
    }

    /// Writes bytes unchanged. The caller must not do this on a terminal.
    fn write_exact(&self, bytes: &[u8]) -> Result<()> {
        self.out(bytes)
    }

    /// Writes candidates for a shell, which quotes them itself.
    pub(crate) fn write_candidates(&self, candidates: &[u8]) -> Result<()> {
        self.out(candidates)
    }

    fn out(&self, bytes: &[u8]) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(CommandError::Stdout)
    }

    /// Writes one line to stderr, unless `--quiet` is set.
    pub(crate) fn message(&self, line: &str) {
        if !self.quiet {
            self.write_message(&escape::clean(line));
        }
    }

    /// Writes several styled lines to stderr, unless `--quiet` is set. As for `write_text`, the caller must
    /// `clean` recorded text first.
    pub(crate) fn message_page(&self, page: &str) {
        if !self.quiet {
            self.message_always(page);
        }
    }

    /// Writes styled lines to stderr even with `--quiet`, because they belong to a question.
    pub(crate) fn message_always(&self, page: &str) {
        self.write_message(&escape::clean_styled(page));
    }

    /// Writes one line to stderr if `--verbose` is set.
    pub(crate) fn detail(&self, line: &str) {
        if self.verbose {
            self.write_message(&escape::clean(line));
        }
    }

    /// Writes one JSON document as one line on stderr.
    fn write_json_line<T: Serialize>(&self, document: &T) {
        if let Ok(text) = serde_json::to_string(document) {
            self.write_message(&escape::json(&text));
        }
    }

    /// Replaces the current terminal line and leaves the cursor at its start. An empty line clears it.
    fn draw(&self, line: &str) {
        let mut err = io::stderr().lock();
        let _ = write!(err, "\r\x1b[K{}\r", escape::clean_styled(line)).and_then(|()| err.flush());
    }

    /// Writes escaped text to stderr, or collects it.
    fn write_message(&self, safe: &str) {
        if let Some(collected) = &self.collected {
            if let Ok(mut lines) = collected.lock() {
                lines.push(anstream::adapter::strip_str(safe).to_string());
            }
            return;
        }
        let mut err = AutoStream::new(io::stderr().lock(), self.color);
        // A failure to write to stderr cannot be reported anywhere.
        let _ = writeln!(err, "{safe}");
    }

    /// Whether `--verbose` is set.
    pub(crate) fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Whether colours are written to a stream.
    pub(crate) fn colours(&self, stream: &impl RawStream) -> bool {
        let choice = if self.color == ColorChoice::Auto { AutoStream::choice(stream) } else { self.color };
        choice != ColorChoice::Never
    }

    /// Whether stdout is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.collected.is_none() && io::stdout().is_terminal()
    }

    /// The number of columns that output should fit, from the terminal or `COLUMNS`. `None` for no limit.
    pub(crate) fn width(&self) -> Option<usize> {
        /// Terminals that do not know their width report 0.
        const NARROWEST: usize = 20;
        const USUAL: usize = 80;
        if !self.is_terminal() {
            return self.columns.filter(|columns| *columns >= NARROWEST);
        }
        let size = terminal_size::terminal_size_of(io::stdout());
        let columns = size.map_or(USUAL, |(terminal_size::Width(columns), _)| columns.into());
        Some(if columns < NARROWEST { USUAL } else { columns })
    }

    /// Creates a progress line. It appears only on a terminal, and only after half a second.
    pub(crate) fn progress(&self) -> Progress {
        Progress { shown: !self.quiet && io::stderr().is_terminal(), since: None, drawn: false }
    }

    /// Whether a question can be asked: stdin and stderr are terminals, and the output is not JSON.
    pub(crate) fn can_ask(&self) -> bool {
        !self.json && io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Asks a question on the controlling terminal, even if stdin and stderr are redirected. Returns `None`
    /// if there is no terminal. `--yes` skips the question, but also requires a terminal.
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

    /// Asks a question on stderr and reads the reply from stdin. Returns `None` if it cannot ask.
    pub(crate) fn confirm(&self, question: &str) -> Option<bool> {
        if !self.can_ask() {
            return None;
        }
        let _ = write!(io::stderr().lock(), "{} [y/N] ", escape::clean(question));
        is_yes(io::stdin().lock())
    }
}

/// Reads a yes or no reply. Returns `None` if it cannot be read.
fn is_yes(mut terminal: impl BufRead) -> Option<bool> {
    let mut answer = String::new();
    terminal.read_line(&mut answer).ok()?;
    Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// A progress line on stderr, cleared when dropped.
pub(crate) struct Progress {
    shown: bool,
    since: Option<std::time::Instant>,
    drawn: bool,
}

impl Progress {
    /// Redraws the line, at most every half second.
    pub(crate) fn at(&mut self, what: &str, n: u64) {
        let now = std::time::Instant::now();
        let since = *self.since.get_or_insert(now);
        if self.shown && now.duration_since(since).as_millis() >= 500 {
            self.since = Some(now);
            self.drawn = true;
            let _ = write!(io::stderr().lock(), "\r{} {}…", format::count(n), escape::clean(what));
        }
    }

    /// Redraws the line with a bar, if the total is known.
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
