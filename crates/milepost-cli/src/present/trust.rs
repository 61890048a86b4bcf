//! What `trust` shows: a store and settings that came from elsewhere, and what became of them.

use std::fmt::Write as _;
use std::path::PathBuf;

use milepost::internal::brief::one_line;
use milepost::internal::engine::{PendingSave, PendingState};
use milepost::internal::trust::StoreRecord;

use super::Output;
use super::format::{bold, bytes, clean, counted, time};
use super::table::{cell, lines, table};
use crate::command::trust::Offer;
use crate::error::CommandError;

/// What there is to trust, without asking.
pub(crate) fn offer(output: &Output, offer: &Offer, nothing: bool) -> Result<(), CommandError> {
    if output.json {
        return output.document(offer);
    }
    let mut text = described(offer);
    if nothing {
        text.push_str("Nothing here needs your trust.\n");
    }
    output.text(&text)
}

/// What there is to trust, above the question.
pub(crate) fn show(output: &Output, offer: &Offer) {
    output.message_always(described(offer).trim_end());
}

/// What was trusted.
pub(crate) fn trusted(output: &Output, offer: &Offer) -> Result<(), CommandError> {
    if output.json {
        return output.document(offer);
    }
    output.text(&format!("{} is trusted on this machine; `milepost trust --revoke` undoes it\n", offer.store))
}

fn described(offer: &Offer) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}     {}", bold("Store"), clean(&offer.store));
    match (offer.state, &offer.why) {
        ("foreign", Some(why)) => {
            let _ = writeln!(text, "          foreign: {}", clean(why));
        }
        ("new", _) if offer.settings.is_empty() => text.push_str("          does not exist yet\n"),
        ("new", _) => text.push_str("          does not exist yet; it will be created\n"),
        _ => text.push_str("          yours\n"),
    }
    if let (Some(runs), Some(checkpoints)) = (offer.runs, offer.checkpoints) {
        let _ = writeln!(text, "          {}, {}", counted(runs, "run"), counted(checkpoints, "checkpoint"));
    }
    if !offer.settings.is_empty() {
        let _ = writeln!(text, "{}  {}", bold("Settings"), clean(&offer.config));
        for (key, value) in &offer.settings {
            let _ = writeln!(text, "          {} = {}", clean(key), error_chain(value));
        }
    }
    text
}

/// A value in full: a list with one element on a line, and long texts over several lines.
fn error_chain(value: &str) -> String {
    let parsed = format!("v = {value}").parse::<toml::Table>().ok();
    let list = parsed.as_ref().and_then(|table| table.get("v")?.as_array());
    match list {
        Some(elements) => {
            let lines =
                elements.iter().map(|element| format!("\n            {}", broken(&element.to_string())));
            format!("{}:{}", counted(elements.len() as u64, "value"), lines.collect::<String>())
        }
        None => broken(value),
    }
}

/// Text over as many lines as it needs.
fn broken(text: &str) -> String {
    const WIDTH: usize = 64;
    let characters: Vec<char> = one_line(text).chars().collect();
    let lines: Vec<String> = characters.chunks(WIDTH).map(|line| line.iter().collect()).collect();
    lines.join("\n            ")
}

/// The stores of this user.
pub(crate) fn list(output: &Output, stores: &[StoreRecord]) -> Result<(), CommandError> {
    if stores.is_empty() {
        return output.text("No store was created or trusted on this machine yet.\n");
    }
    let mut shown = table(output, &["STORE", "SINCE"]);
    for store in stores {
        shown.add_row([cell(&store.store), cell(time(store.trusted_at))]);
    }
    output.text(&lines(&shown))
}

/// Saves without a signature, above the question.
pub(crate) fn unsigned(output: &Output, all: &[PendingSave]) {
    let n = counted(all.len() as u64, "save");
    output.message_always(&format!(
        "{n} in the outbox without your signature. Anybody could have put them there:"
    ));
    for one in all {
        if let PendingState::Unsigned { run_id, summary, sizes: [brief, state, changes], .. } = &one.state {
            let about = summary.as_deref().map(clean).unwrap_or_default();
            let file = clean(&one.file.display().to_string());
            output.message_always(&format!(
                "  {file}\n    run {run_id}: {about}\n    brief {}, state {}, {}",
                bytes(*brief as u64),
                bytes(*state as u64),
                counted(*changes as u64, "change"),
            ));
        }
    }
}

/// Accepted saves that could not be stored.
pub(crate) fn refused(output: &Output, refused: &[(PathBuf, String)]) {
    for (file, why) in refused {
        output.message(&format!("Warning: {} stays in the outbox: {}", file.display(), clean(why)));
    }
}

/// How many saves were accepted.
pub(crate) fn accepted(output: &Output, accepted: u64) -> Result<(), CommandError> {
    output.text(&match accepted {
        0 => "The outbox has no unsigned saves.\n".to_owned(),
        n => format!("{} saved\n", counted(n, "checkpoint")),
    })
}
