//! `cargo xtask search [--check] [QUERY]`: saves the runs of `xtask/corpus/search` into a store and counts the labelled
//! queries that find what they ask for among the first five hits. `--check` fails if too few do. A query prints its
//! hits.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use milepost::internal::engine::RunOptions;
use milepost::model::{Change, FileRef, Item, Outcome, OutcomeKind, OutcomeResult, RunId};
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Milepost, Save, SearchHit, SearchQuery};
use serde_json::Value;

use crate::shell::root;

/// How many hits count.
const FIRST: usize = 5;
/// The minimum number of queries that must succeed, of 60.
const BOUND: usize = 54;
const SETS: [&str; 2] = ["tuning", "held-out"];

pub fn run(args: &[&str]) -> Result<()> {
    let corpus = root().join("xtask/corpus/search");
    let folder = tempfile::tempdir()?;
    let mp =
        Milepost::at(&StoreUrl::sqlite(folder.path().join("search.db")), &OpenOptions::new().create(true))?;
    let mut runs: Vec<_> = std::fs::read_dir(corpus.join("runs"))?.collect::<Result<_, _>>()?;
    runs.sort_by_key(std::fs::DirEntry::path);
    for file in &runs {
        save(&mp, &read(&file.path())?).with_context(|| format!("in {}", file.path().display()))?;
    }
    if let Some(query) = args.iter().find(|arg| !arg.starts_with("--")) {
        mp.search(&SearchQuery::new(*query))?.hits().iter().for_each(print);
        return Ok(());
    }
    let (mut all, mut found) = (0, 0);
    for set in SETS {
        let queries = read(&corpus.join(format!("{set}.json")))?;
        let queries = queries.as_array().context("not a list")?;
        let mut ok = 0;
        let mut first = 0;
        for query in queries {
            let text = |name: &str| query[name].as_str().unwrap_or_default();
            let results = mp.search(&SearchQuery::new(text("query")).limit(FIRST))?;
            let is_wanted = |hit: &SearchHit| {
                hit.run_id().as_str() == text("run") && hit.excerpt().contains(text("text"))
            };
            match results.hits().iter().position(is_wanted) {
                Some(at) => {
                    ok += 1;
                    first += usize::from(at == 0);
                }
                None => {
                    println!("missed in {set}: {}", text("query"));
                    results.hits().iter().for_each(print);
                }
            }
        }
        println!("{set}: {ok} of {} in the first {FIRST}, {first} in the first place", queries.len());
        (all, found) = (all + queries.len(), found + ok);
    }
    println!("all: {found} of {all} (at least {BOUND})");
    ensure!(!args.contains(&"--check") || found >= BOUND, "only {found} of {all} queries found their text");
    Ok(())
}

fn print(hit: &SearchHit) {
    println!(
        "  {:6.2} {} {}: {}",
        hit.score(),
        hit.reference(),
        hit.origin(),
        hit.excerpt().replace('\n', " / ")
    );
}

fn read(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

/// Saves one run of the corpus: every entry in its place, and the summary and the brief in a checkpoint.
fn save(mp: &Milepost, run: &Value) -> Result<()> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let id: RunId = text(&run["run"]).parse()?;
    let options = RunOptions {
        title: Some(text(&run["title"])),
        agent: Some(text(&run["agent"])),
        ..RunOptions::default()
    };
    let new_save = || Save::new().run_options(options.clone());
    let mut checkpoint = new_save();
    for entry in run["entries"].as_array().context("no entries")? {
        let text = text(&entry["text"]);
        let outcome = |result| {
            let (name, summary) = text.split_once('\n').unwrap_or((&text, ""));
            Change::Item(Item::Outcome(Outcome {
                duration_ms: 1,
                kind: OutcomeKind::Shell,
                name: name.to_owned(),
                reason_code: None,
                result,
                summary: summary.to_owned(),
                extra: Default::default(),
            }))
        };
        let change = match entry["kind"].as_str().unwrap_or_default() {
            "prompt" => Change::Prompt(text),
            "answer" => {
                let (question, text) = text.split_once('\n').context("an answer needs a question")?;
                Change::Answer { question: question.to_owned(), text: text.to_owned() }
            }
            "plan" => Change::Plan { text, is_approved: true },
            "reply" => Change::Reply(text),
            "decision" => Change::Decision { text, supersedes: None },
            "note" => Change::Note(text),
            "task" => Change::Note(text),
            "fail" => outcome(OutcomeResult::Fail),
            "pass" => outcome(OutcomeResult::Pass),
            "file" => Change::Item(Item::File(FileRef {
                blob: None,
                path: text,
                sha256: None,
                size: None,
                extra: Default::default(),
            })),
            "summary" => {
                checkpoint = checkpoint.summary(text);
                continue;
            }
            "brief" => {
                checkpoint.draft_mut().brief = Some(text);
                continue;
            }
            other => anyhow::bail!("unknown kind {other}"),
        };
        mp.apply(&id, vec![change], new_save())?;
    }
    mp.save(&id, checkpoint)?;
    Ok(())
}
