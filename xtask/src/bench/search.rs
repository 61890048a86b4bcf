//! Benchmark: search over 100,000 checkpoints. Measures whole processes of `milepost search`, the first index, an update
//! after one save, and the instructions of a save with and without an index.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use milepost::model::{Body, Decision, LogLine, Outcome, OutcomeKind, OutcomeResult, Profile, RunId};
use milepost::{Milepost, Reference, Save};

use super::measure::{Row, Sample, binary, folder, open, store};
use super::process::run_successfully;
use crate::large_store::append_checkpoints;
use crate::shell::is_installed;

/// Number of checkpoints of a run.
const PER_RUN: u64 = 200;
/// Maximum time of a search in milliseconds.
const BOUND_MS: f64 = 100.0;

const WORDS: [&str; 64] = [
    "cache",
    "token",
    "bucket",
    "retry",
    "migration",
    "index",
    "query",
    "parser",
    "lexer",
    "buffer",
    "socket",
    "timeout",
    "worker",
    "queue",
    "thread",
    "lock",
    "schema",
    "column",
    "table",
    "session",
    "cookie",
    "header",
    "request",
    "response",
    "router",
    "handler",
    "config",
    "secretless",
    "deploy",
    "rollback",
    "replica",
    "shard",
    "metric",
    "alert",
    "trace",
    "span",
    "panic",
    "overflow",
    "leak",
    "heap",
    "stack",
    "frame",
    "codec",
    "chunk",
    "stream",
    "batch",
    "cursor",
    "page",
    "widget",
    "theme",
    "layout",
    "render",
    "shader",
    "vertex",
    "payment",
    "invoice",
    "refund",
    "ledger",
    "customer",
    "order",
    "stock",
    "登录超时",
    "返金処理",
    "알림",
];

const QUERIES: [&str; 12] = [
    "the",
    "test",
    "cache token",
    "\"retry migration\"",
    "number 77123",
    "why did the worker timeout",
    "over*",
    "登录",
    "返金",
    "src/module_1200.rs",
    "decided ledger refund -stock",
    "zzzznothing",
];

/// Repeatable choices.
struct Choice(u64);

impl Choice {
    fn word(&mut self) -> &'static str {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        WORDS[(self.0 >> 58) as usize]
    }

    fn sentence(&mut self, n: u64) -> String {
        let words: Vec<_> = (0..10).map(|_| self.word()).collect();
        format!("the test number {n}: {}", words.join(" "))
    }
}

/// Fills a store with runs of 200 checkpoints in large commits, as an import does.
fn fill(engine: &Milepost, checkpoints: u64) -> Result<()> {
    let first: RunId = "first".parse()?;
    engine.save(&first, Save::new().summary("seeded").profile(Profile::Pai))?;
    let template = engine.show(&Reference::Latest(0), Some(&first))?.body()?;
    let mut choice = Choice(7);
    for n in 0..checkpoints / PER_RUN {
        let run: RunId = format!("run-{n:05}").parse()?;
        let mut decisions = Vec::new();
        append_checkpoints(engine, &run, Profile::Pai, template.created_at, PER_RUN, |i| {
            checkpoint(&template, &run, n * PER_RUN + i, &mut decisions, &mut choice)
        })?;
    }
    Ok(())
}

/// A checkpoint with a summary, a note and, every tenth time, a decision and a failed command.
fn checkpoint(
    template: &Body,
    run: &RunId,
    n: u64,
    decisions: &mut Vec<Decision>,
    choice: &mut Choice,
) -> Result<Body> {
    let mut body = template.clone();
    body.run_id = run.clone();
    body.snapshot_id = format!("cp_seed_{n:07}").parse()?;
    body.task_summary = Some(choice.sentence(n));
    let at = body.created_at;
    body.log = vec![LogLine { at, text: choice.sentence(n), extra: Default::default() }];
    if n.is_multiple_of(10) {
        let text = format!("decided: {}", choice.sentence(n));
        decisions.push(Decision { at, supersedes: None, text, extra: Default::default() });
        body.command_outcomes = vec![Outcome {
            duration_ms: 5,
            kind: OutcomeKind::Shell,
            name: format!("cargo test {} src/module_{n}.rs", choice.word()),
            reason_code: None,
            result: OutcomeResult::Fail,
            summary: choice.sentence(n),
            extra: Default::default(),
        }];
    }
    body.decisions = decisions.clone();
    Ok(body)
}

fn milepost(binary: &Path, folder: &Path) -> Command {
    let mut command = Command::new(binary);
    command.arg("-C").arg(folder).arg("--store").arg(store(folder).to_string());
    command.env("XDG_STATE_HOME", folder).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs a search, which may find nothing.
fn search(binary: &Path, folder: &Path, query: &str) -> Result<()> {
    let status = milepost(binary, folder).args(["search", query]).status()?;
    ensure!(matches!(status.code(), Some(0 | 4)), "search {query} failed: {status}");
    Ok(())
}

pub fn search_many(short: bool) -> Result<Vec<Row>> {
    let (binary, folder) = (binary(short)?, folder()?);
    let checkpoints = if short { 2_000 } else { 100_000 };
    let filled = Instant::now();
    fill(&open(folder.path())?, checkpoints)?;
    eprintln!("filled a store with {checkpoints} checkpoints in {:.1} s", filled.elapsed().as_secs_f64());
    let mut rows = Vec::new();
    let time = |what: String, measured_ms: f64, bound_ms: f64| Row {
        what,
        measured: format!("{measured_ms:.1} ms"),
        floor: format!("{bound_ms:.0} ms (target)"),
        ratio: measured_ms / bound_ms,
        bound: 1.0,
        meets_other_bound: false,
    };
    let mut first = Sample::default();
    first.time(|| search(&binary, folder.path(), "cache"))?;
    let ms = |sample: &Sample| sample.median().as_secs_f64() * 1e3;
    rows.push(time(
        format!("first search of {checkpoints} checkpoints, with the index"),
        ms(&first),
        120_000.0,
    ));
    let index = store(folder.path()).path().context("no path")?.with_file_name("bench.db-search");
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |about| about.len()) as f64 / 1e6;
    let database = size(&folder.path().join("bench.db"));
    rows.push(Row::count("size of the index in MB, compared with the store", size(&index), database, 4.0));
    let rounds = if short { 3 } else { 15 };
    for query in QUERIES {
        let mut sample = Sample::default();
        for _ in 0..rounds {
            sample.time(|| search(&binary, folder.path(), query))?;
        }
        rows.push(time(format!("`search {query}`, whole process"), ms(&sample), BOUND_MS));
    }
    let mut update = Sample::default();
    for n in 0..rounds {
        let mut save = milepost(&binary, folder.path());
        run_successfully(save.args(["save", "--run", "run-00003", "--no-capture", &format!("new {n}")]))?;
        update.time(|| search(&binary, folder.path(), "cache"))?;
    }
    rows.push(time("search after one save, with the update".into(), ms(&update), BOUND_MS));
    rows.extend(instructions(&binary)?);
    Ok(rows)
}

/// The instructions of a save in two copies of a store, of which only one has an index.
fn instructions(binary: &Path) -> Result<Option<Row>> {
    if !is_installed("valgrind") {
        eprintln!("skipped: valgrind is not installed, so the instructions of a save are not counted");
        return Ok(None);
    }
    let original = folder()?;
    for n in 0..5 {
        let mut save = milepost(binary, original.path());
        run_successfully(save.args(["save", "--run", "bench", "--no-capture", &format!("save {n}")]))?;
    }
    search(binary, original.path(), "save")?;
    let count = |with_index: bool| -> Result<f64> {
        let copy = folder()?;
        for entry in std::fs::read_dir(original.path())? {
            let entry = entry?;
            let is_index = entry.file_name().to_string_lossy().contains("-search");
            if entry.file_type()?.is_file() && (with_index || !is_index) {
                std::fs::copy(entry.path(), copy.path().join(entry.file_name()))?;
            }
        }
        let out = copy.path().join("callgrind");
        let mut command = Command::new("valgrind");
        command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display())).arg(binary);
        command.arg("-C").arg(copy.path()).arg("--store").arg(store(copy.path()).to_string());
        command
            .args(["save", "--run", "bench", "--no-capture", "one more"])
            .env("XDG_STATE_HOME", original.path());
        run_successfully(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let text = std::fs::read_to_string(&out)?;
        let total =
            text.lines().find_map(|line| line.strip_prefix("summary: ").or(line.strip_prefix("totals: ")));
        Ok(total.context("callgrind counted nothing")?.trim().parse()?)
    };
    // Two counts of the same save differ by about 1 percent, because ids and times differ.
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        without.push(count(false)?);
        with.push(count(true)?);
    }
    let median = |counts: &mut Vec<f64>| {
        counts.sort_by(f64::total_cmp);
        counts[counts.len() / 2]
    };
    eprintln!("instructions of a save without an index: {without:.0?}; with one: {with:.0?}");
    let (without, with) = (median(&mut without), median(&mut with));
    Ok(Some(Row::count("instructions of a save with an index, vs without one", with, without, 1.02)))
}
