//! `summary --svg` and `summary --html`: writes the timeline or the report of a run as one file. Every recorded text
//! is redacted, even if redaction is off in the settings, because the file leaves the machine.

use std::cell::Cell;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use milepost::internal::fs::{atomic, bounded, if_exists};
use milepost::internal::redact;
use milepost::model::{Message, RunId};
use milepost::{Error, Milepost, Summary};
use milepost_ui::report::Report;
use milepost_ui::timeline::{self, TimelineOptions};

use crate::context::Context;
use crate::error::Result;
use crate::handover::Overview;
use crate::present::summary_file::{FileFormat, SummaryFileDocument};

/// Number of bytes at the beginning of a file that say what it is.
const BEGINNING: u64 = 4096;
/// How these files begin, and what they contain there.
const SIGNS: [(&str, &str); 2] = [
    (
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"generator\" content=\"Milepost\">",
        "",
    ),
    ("<svg ", "class=\"mp-timeline\""),
];

/// The file to write.
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) format: FileFormat,
}

pub(super) fn execute(
    target: Target,
    run: &RunId,
    mp: &Milepost,
    context: &Context<'_>,
) -> Result<SummaryFileDocument> {
    let is_stdout = target.path.as_os_str() == "-";
    if !is_stdout {
        super::refuse_link(&target.path, context)?;
        ensure_replaceable(&target.path, context)?;
    }
    let replaced = Cell::new(0);
    let content = draw(target.format, run, mp, &replaced)?;
    if !is_stdout {
        atomic::write(&target.path, content.as_bytes(), atomic::Mode::Shared)
            .map_err(Error::file(&target.path, "written"))?;
    }
    let path = (!is_stdout).then_some(target.path);
    Ok(SummaryFileDocument::new(run.clone(), target.format, path, content, replaced.get()))
}

fn draw(format: FileFormat, run: &RunId, mp: &Milepost, replaced: &Cell<u64>) -> Result<String> {
    let redact = |text: &str| match redact::text(text) {
        Some(clean) => {
            let count = |text: &str| text.matches("[redacted:").count() as u64;
            replaced.set(replaced.get() + count(&clean).saturating_sub(count(text)));
            clean
        }
        None => text.to_owned(),
    };
    let options = TimelineOptions::new().redact(&redact);
    let drawn = mp.timeline(run)?;
    let facts = mp.checkpoint_facts(run, None, 0)?;
    if format == FileFormat::Svg {
        return Ok(timeline::stand_alone(&drawn, Some(&facts), &options));
    }
    let summary: Summary = mp.summary(run)?;
    let assessed = mp.assess(run, false)?;
    let stopped = drawn.stopped_by().map(|_| Overview::of(mp, &assessed).why());
    let record = assessed.detail.summary().intact();
    let decisions = record.map(|record| record.working().decisions().as_slice()).unwrap_or_default();
    let messages: Vec<Message> = mp.conversation(run)?;
    let (timeline, facts, messages) = (&drawn, &facts, messages.as_slice());
    Ok(Report { timeline, facts, summary: &summary, messages, decisions, stopped }.html(&options))
}

/// Refuses to replace a file that such a command did not write, unless the user confirms it.
fn ensure_replaceable(path: &Path, context: &Context<'_>) -> Result<()> {
    let Some(existing) = if_exists(bounded::open(path)).map_err(Error::file(path, "read"))? else {
        return Ok(());
    };
    let mut beginning = Vec::new();
    existing.take(BEGINNING).read_to_end(&mut beginning).map_err(Error::file(path, "read"))?;
    let beginning = String::from_utf8_lossy(&beginning);
    let is_ours = beginning.is_empty()
        || SIGNS.iter().any(|(start, sign)| beginning.starts_with(start) && beginning.contains(sign));
    let question = || format!("{} already exists. Replace it?", path.display());
    if is_ours || context.output.yes || context.output.confirm(&question()) == Some(true) {
        return Ok(());
    }
    let why = "it already exists and is not a timeline or report of Milepost".to_owned();
    Err(Error::RestoreRefused { path: path.to_owned(), why, flag: "--yes" }.into())
}
