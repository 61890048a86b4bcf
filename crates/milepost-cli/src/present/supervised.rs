//! What `run` says about the command it ran: one line of JSON on stderr, since stdout is the command's.

use std::error::Error as _;

use milepost::Error;
use milepost::model::{Outcome, OutcomeResult, RunId};
use serde::Serialize;

use super::Screen;
use super::saved::SavedDocument;
use crate::recorder::Kept;
use crate::supervise::Ending;

const SCHEMA: &str = "milepost.run/1";

/// How it went.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    command: String,
    result: OutcomeResult,
    duration_ms: u64,
    /// The code that is passed through; null for a command that never started.
    exit: Option<u8>,
    signal: Option<i32>,
    /// How many checkpoints this command has.
    checkpoints: u64,
}

impl Summary {
    /// How a command went.
    pub(crate) fn of(outcome: &Outcome, ending: Option<&Ending>, checkpoints: u64) -> Self {
        Self {
            command: outcome.name.clone(),
            result: outcome.result,
            duration_ms: outcome.duration_ms,
            exit: ending.map(Ending::code),
            signal: ending.and_then(Ending::signal),
            checkpoints,
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    saved: SavedDocument<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'a Summary>,
}

/// Tells programs about a checkpoint of the run, and at the end how it went.
pub(crate) fn tell(screen: &Screen, run: &RunId, kept: Option<&Kept>, summary: Option<&Summary>) {
    if !screen.json {
        return;
    }
    let saved = match kept {
        Some(Kept::Saved(saved)) => SavedDocument::of(SCHEMA, saved),
        Some(Kept::Queued(queued)) => SavedDocument::waiting(SCHEMA, queued, run),
        None => SavedDocument::none(SCHEMA, run, true),
    };
    screen.line(&Document { saved, summary });
}

/// An error with everything that caused it, on one line.
pub(crate) fn in_full(e: &Error) -> String {
    let mut text = e.to_string();
    let mut source = e.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
