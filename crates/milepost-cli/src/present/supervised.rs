//! Reports what happens while `run` supervises a command. Programs get JSON lines on stderr or in a file,
//! because stdout belongs to the command. People get a progress line, if the command does not use the
//! terminal, and a summary at the end.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use milepost::model::{Outcome, OutcomeResult, RunId, Status};
use serde::Serialize;

use super::format::{bold, bytes, clean, counted, dim, green, red};
use super::saved::SavedDocument;
use super::{Output, escape};
use crate::context::SaveResult;
use crate::recorder::RecordedSave;
use crate::supervise::ProgramExit;

const SCHEMA: &str = "milepost.run/1";

/// The result of a supervised command.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    command: String,
    result: OutcomeResult,
    duration_ms: u64,
    /// The exit code that is passed through. Null if the command did not start.
    exit: Option<u8>,
    signal: Option<i32>,
    /// Number of checkpoints saved for this command.
    checkpoints: u64,
    /// Number of checkpoints in this session, including those that the command saved itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_checkpoints: Option<u64>,
    /// Number of files touched since the run began. Null without a capture.
    pub(crate) files_modified: Option<u64>,
    /// The largest observed memory usage, in bytes.
    pub(crate) peak_rss: Option<u64>,
    /// Where the command's output was sent.
    #[serde(skip)]
    pub(crate) log: Option<PathBuf>,
    /// Whether the end of the command's output is in the checkpoints.
    #[serde(skip)]
    pub(crate) output_kept: bool,
    #[serde(skip)]
    words: String,
}

impl Summary {
    /// Creates the summary of a command from its outcome.
    pub(crate) fn of(outcome: &Outcome, ending: Option<&ProgramExit>, checkpoints: u64) -> Self {
        Self {
            command: outcome.name.clone(),
            result: outcome.result,
            duration_ms: outcome.duration_ms,
            exit: ending.map(ProgramExit::code),
            signal: ending.and_then(ProgramExit::signal),
            checkpoints,
            session_checkpoints: None,
            files_modified: None,
            peak_rss: None,
            log: None,
            output_kept: false,
            words: match ending {
                Some(ending) if ending.interrupted() => "interrupted".to_owned(),
                Some(ending) => ending.describe(),
                None => String::new(),
            },
        }
    }

    /// The summary for people.
    fn lines(&self, run: &RunId) -> String {
        let took = milepost::format_duration(Duration::from_millis(self.duration_ms));
        let ending = match self.result {
            OutcomeResult::Pass => green(&clean(&self.words)),
            _ => red(&clean(&self.words)),
        };
        let checkpoints = match self.session_checkpoints {
            Some(n) => format!("{} in this session", counted(n, "checkpoint")),
            None => counted(self.checkpoints, "checkpoint"),
        };
        let mut parts = vec![format!("{ending} after {took}")];
        parts.extend(self.files_modified.map(|n| format!("{} touched", counted(n, "file"))));
        parts.extend(self.peak_rss.map(|peak| format!("peak memory {}", bytes(peak))));
        parts.extend(self.log.as_ref().map(|log| format!("output in {}", clean(&log.to_string_lossy()))));
        let mut text = format!("{} {}\n", bold("milepost:"), parts.join(", "));
        text.push_str(&dim(&format!("  {checkpoints}: milepost summary {run}")));
        if !self.output_kept && self.result == OutcomeResult::Fail {
            // A redirected stream cannot be read on Windows.
            let redirect = if cfg!(windows) { "" } else { ", or redirect it to a file" };
            let hint = format!("  To keep the end of its output, add --log FILE{redirect}");
            text.push_str(&format!("\n{}", dim(&hint)));
        }
        text
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    saved: SavedDocument,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a Summary>,
}

/// Reports events while a command runs.
pub(crate) struct Reporter {
    output: Output,
    run: RunId,
    events: Option<Mutex<File>>,
    /// Whether to show a progress line.
    line: bool,
}

impl Reporter {
    /// Creates a reporter that writes to the terminal and, if given, to the file `events`.
    pub(crate) fn new(output: &Output, run: &RunId, events: Option<File>) -> Self {
        // The command shares these streams. If its stdin or stdout is a terminal, the terminal belongs to it.
        let free = io::stderr().is_terminal() && !io::stdout().is_terminal() && !io::stdin().is_terminal();
        let line = free && !output.json && !output.quiet;
        Self { output: output.clone(), run: run.clone(), events: events.map(Mutex::new), line }
    }

    /// Reports a checkpoint.
    pub(crate) fn checkpoint(&self, saved: &RecordedSave) {
        self.document(Some(saved), None);
        if self.line {
            let at = match saved {
                SaveResult::Stored(saved) => format!("{}@{}", saved.run_id(), saved.sequence()),
                SaveResult::Queued(_, queued) => format!("{} (queued)", queued.snapshot_id),
            };
            let now = milepost::Clock::now(&milepost::internal::clock::SystemClock);
            let text = format!("milepost: {at} saved {}", now.strftime("%H:%M:%S UTC"));
            let text = if self.output.colours(&io::stderr()) { dim(&text) } else { text };
            // The next output of the command overwrites this line.
            self.output.draw(&text);
        }
    }

    /// Writes a warning.
    pub(crate) fn warn(&self, text: &str) {
        self.clear();
        self.output.message(&format!("Warning: {text}"));
    }

    /// Reports that the command was not run, because its run is completed.
    pub(crate) fn already_completed(&self) {
        let saved = SavedDocument::none(SCHEMA, &self.run).with_status(Status::Completed);
        self.write(&Document { saved, summary: None });
        if !self.output.json {
            let run = &self.run;
            self.output.message(&format!("{run} is already completed; the command was not run"));
        }
    }

    /// Reports the end of the command.
    pub(crate) fn ended(&self, saved: Option<&RecordedSave>, summary: &Summary) {
        self.clear();
        self.document(saved, Some(summary));
        if !self.output.json {
            self.output.message_page(&summary.lines(&self.run));
        }
    }

    fn clear(&self) {
        if self.line {
            self.output.draw("");
        }
    }

    fn document(&self, saved: Option<&RecordedSave>, summary: Option<&Summary>) {
        let saved = match saved {
            Some(SaveResult::Stored(saved)) => SavedDocument::saved(SCHEMA, saved),
            Some(SaveResult::Queued(run, queued)) => SavedDocument::queued(SCHEMA, queued, run),
            None => SavedDocument::none(SCHEMA, &self.run),
        };
        self.write(&Document { saved, summary });
    }

    fn write(&self, document: &Document<'_>) {
        if !self.output.json && self.events.is_none() {
            return;
        }
        match (&self.events, serde_json::to_string(document)) {
            (Some(file), Ok(line)) => {
                let line = format!("{}\n", escape::json(&line));
                let mut file = file.lock().unwrap_or_else(|e| e.into_inner());
                // One write, so a reader never sees a partial line. A failed write must not stop the command.
                let _ = file.write_all(line.as_bytes());
            }
            _ => self.output.write_json_line(document),
        }
    }
}
