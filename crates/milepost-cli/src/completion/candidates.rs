//! Finds candidates for the value of an argument. Takes the kind of value, the global flags and the word so
//! far, and returns the candidates that begin with the word. Opens the store read-only, and only if the user
//! trusts it. Any failure means no candidates.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use milepost::Milepost;
use milepost::internal::store::identity::StoreTrust;
use milepost::model::RunId;
use milepost::store::{CheckpointEntry, ForeignReason, HeaderQuery, Row, RunQuery, RunRow};

use super::Values;
use crate::cli::{Global, full_command};
use crate::config::Config;
use crate::context::Context;
use crate::present::Output;
use crate::present::escape::clean;

/// Maximum number of runs to offer.
const RUNS: usize = 200;
/// Maximum number of checkpoints to offer.
const CHECKPOINTS: usize = 50;
/// Maximum number of positions, such as `RUN@12`, to offer for an empty word.
const POSITIONS: usize = 5;
/// Number of newest checkpoints to search for tags.
const TAG_SEARCH: usize = 2000;
/// Maximum time to read the store.
const TIME_LIMIT: Duration = Duration::from_millis(500);
/// Maximum length of a description.
const HELP_LENGTH: usize = 72;

/// The candidates that begin with `current`.
pub(super) fn find(values: Values, global: &Global, current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = current.to_str() else { return Vec::new() };
    let mut candidates = match values {
        Values::Command => commands(),
        Values::Store => stores(global),
        Values::Run => from_store(global, |mp, hidden| runs(mp, hidden, word)),
        Values::Reference => from_store(global, |mp, hidden| references(mp, hidden, global, word)),
        Values::RunOrReference => from_store(global, |mp, hidden| {
            let mut all = runs(mp, hidden, word)?;
            all.extend(references(mp, hidden, global, word)?);
            Some(all)
        }),
        Values::ReferenceOrFile => from_store(global, |mp, hidden| references(mp, hidden, global, word)),
        Values::Tag => from_store(global, |mp, hidden| tags(mp, hidden, global)),
        fixed => fixed.fixed().unwrap_or_default().into_iter().map(|word| candidate(word, "")).collect(),
    };
    candidates
        .retain(|candidate| candidate.get_value().to_str().is_some_and(|value| value.starts_with(word)));
    if values == Values::ReferenceOrFile {
        candidates.extend(PathCompleter::any().complete(current));
    }
    candidates
}

/// A candidate with a one-line description.
fn candidate(value: &str, help: &str) -> CompletionCandidate {
    let mut help = clean(&help.split_whitespace().collect::<Vec<_>>().join(" "));
    if help.chars().count() > HELP_LENGTH {
        help = help.chars().take(HELP_LENGTH).chain(['…']).collect();
    }
    CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into()))
}

fn commands() -> Vec<CompletionCandidate> {
    let about = |command: &clap::Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    full_command().get_subcommands().map(|command| candidate(command.get_name(), &about(command))).collect()
}

/// The configuration without `--run`, whose value may be incomplete.
fn load_config(global: &Global) -> Option<Config> {
    Config::load(&Global { run: None, ..global.clone() }).ok()
}

/// The kinds of stores, and stores that the user created or trusted on this machine.
fn stores(global: &Global) -> Vec<CompletionCandidate> {
    let mut all = vec![candidate("sqlite:", "one SQLite file"), candidate("files:", "a folder of files")];
    let config = load_config(&Global { store: None, ..global.clone() });
    let records = config.and_then(|config| config.trust.state.ok()?.records().ok());
    let known = records.unwrap_or_default().into_iter().map(|record| record.store);
    let known: BTreeSet<_> = known.filter(|store| store.split(' ').all(is_plain_word)).collect();
    all.extend(known.iter().map(|store| candidate(store, "one of your stores")));
    all
}

/// Opens the project's store and reads candidates from it. Returns none if the store is missing, foreign or
/// unreadable.
fn from_store(
    global: &Global,
    read: impl FnOnce(&Milepost, &[RunId]) -> Option<Vec<CompletionCandidate>>,
) -> Vec<CompletionCandidate> {
    let candidates = || {
        let output = Output::collecting();
        let context = Context::new(load_config(global)?, &output);
        context.config.check().ok()?;
        if context.config.store_trust != StoreTrust::Trusted || context.foreign().is_some() {
            return None;
        }
        // Treating the store as foreign makes it read-only.
        let options =
            context.open_options(false).foreign(Some(ForeignReason::NoRecord)).time_limit(Some(TIME_LIMIT));
        let mp = Milepost::at(&context.url(), &options.wait(Duration::ZERO)).ok()?;
        let hidden = match context.is_for_agent() {
            true => hidden_runs(&mp, &context)?,
            false => Vec::new(),
        };
        read(&mp, &hidden)
    };
    candidates().unwrap_or_default()
}

/// Runs that are hidden from an agent.
fn hidden_runs(mp: &Milepost, context: &Context<'_>) -> Option<Vec<RunId>> {
    let rows = mp.store().runs(&RunQuery::default()).ok()?;
    let hidden = rows.into_iter().filter(|row| !context.may_show(row.record.as_deref().ok()));
    Some(hidden.map(|row| row.run_id).collect())
}

/// Runs with their status and title, last written first. Offers short ids if no full id begins with the word.
fn runs(mp: &Milepost, hidden: &[RunId], word: &str) -> Option<Vec<CompletionCandidate>> {
    let mut rows = mp.store().runs(&RunQuery::default().limit(RUNS)).ok()?;
    rows.retain(|row| !hidden.contains(&row.run_id));
    let describe = |row: &RunRow| {
        let Ok(record) = &row.record else { return String::new() };
        let summary = row.latest.as_ref().and_then(intact).and_then(|entry| entry.header.summary().clone());
        let about = record.title().clone().or(summary).unwrap_or_default();
        format!("{} {about}", record.status())
    };
    let is_full_id = word.is_empty() || rows.iter().any(|row| row.run_id.as_str().starts_with(word));
    let offered = rows.iter().filter_map(|row| {
        let id = if is_full_id { Some(row.run_id.as_str()) } else { row.run_id.short() };
        Some(candidate(id?, &describe(row)))
    });
    Some(offered.collect())
}

/// `latest`, tags, short ids and positions in runs, newest first.
fn references(
    mp: &Milepost,
    hidden: &[RunId],
    global: &Global,
    word: &str,
) -> Option<Vec<CompletionCandidate>> {
    let entries = checkpoints(mp, hidden, global, CHECKPOINTS)?;
    let summary = |entry: &CheckpointEntry| entry.header.summary().clone().unwrap_or_default();
    let position = |entry: &CheckpointEntry| format!("{}@{}", entry.header.run_id(), entry.header.sequence());
    let mut all = Vec::new();
    if let Some(newest) = entries.first() {
        all.push(candidate("latest", &summary(newest)));
    }
    all.extend(tags(mp, hidden, global)?);
    for entry in &entries {
        let id = entry.header.snapshot_id();
        let whole = word.starts_with("cp_");
        let name = if whole { id.as_str() } else { id.short().unwrap_or(id.as_str()) };
        all.push(candidate(name, &format!("{} {}", position(entry), summary(entry))));
    }
    let positions = if word.is_empty() { POSITIONS } else { CHECKPOINTS };
    all.extend(entries.iter().take(positions).map(|entry| candidate(&position(entry), &summary(entry))));
    Some(all)
}

fn tags(mp: &Milepost, hidden: &[RunId], global: &Global) -> Option<Vec<CompletionCandidate>> {
    let entries = checkpoints(mp, hidden, global, TAG_SEARCH)?;
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for entry in &entries {
        let summary = entry.header.summary().clone().unwrap_or_default();
        let new = entry.marks.tags.iter().filter(|tag| is_plain_word(tag) && seen.insert((*tag).clone()));
        all.extend(new.map(|tag| candidate(tag, &summary)));
    }
    Some(all)
}

/// The newest checkpoints of the run that `--run` names, or of all runs.
fn checkpoints(
    mp: &Milepost,
    hidden: &[RunId],
    global: &Global,
    limit: usize,
) -> Option<Vec<CheckpointEntry>> {
    let run = global.run.as_deref().and_then(|name| mp.find_run(name).ok());
    let rows = mp.store().headers(&HeaderQuery::default().run(run.as_ref()).limit(limit)).ok()?;
    let is_visible = |entry: &&CheckpointEntry| !hidden.contains(entry.header.run_id());
    Some(rows.iter().filter_map(intact).filter(is_visible).cloned().collect())
}

/// Whether a shell takes a text literally. Shells insert candidates unquoted, and a tag may come from an
/// imported run.
fn is_plain_word(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || "._-+/:=,@%".contains(c))
}

fn intact(row: &Row) -> Option<&CheckpointEntry> {
    match row {
        Row::Intact(entry) => Some(entry),
        Row::Damaged { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::is_plain_word;

    #[test]
    fn words_that_a_shell_would_expand_are_not_offered() {
        for word in ["before-refactoring", "v1.2", "sqlite:/srv/milepost.db", "検索"] {
            assert!(is_plain_word(word), "{word}");
        }
        for word in
            ["$(reboot)", "`reboot`", "a;b", "*", "~x", "a|b", "a&b", "a>b", "a'b", "a\\b", "a b", "a\x1bb"]
        {
            assert!(!is_plain_word(word), "{word}");
        }
    }
}
