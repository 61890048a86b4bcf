//! Sixteen concurrent processes. Eight write: savers into runs at their limit, where every save removes the
//! oldest checkpoint, and loops of prune, mark, complete, and delete and recreate. Eight read all runs.
//! Readers never fail: they omit what is removed between listing and reading.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::project::{Project, StoreKind};
use super::{Environment, Outcome, run_threads};

/// Number of checkpoints that a run keeps; every further save removes one.
const LIMIT: usize = 5;
const PROCESSES: usize = WRITERS.len() + READERS.len();
/// The commands that each writer repeats, and their allowed exit codes. `{n}` is a different number each
/// time.
const WRITERS: [(&[&str], &[i32]); 8] = [
    (&["save --no-capture --run a --summary {n}"], &[0]),
    (&["save --no-capture --run a --summary {n}"], &[0]),
    (&["save --no-capture --run b --input state.json --summary {n}"], &[0]),
    (&["save --no-capture --run c --summary {n}"], &[0]),
    (&["prune --yes --keep-last 3"], &[0]),
    // A checkpoint that was removed in the meantime can no longer be marked or completed.
    (
        &["mark latest --run a --pin", "mark latest~1 --run a --unpin", "mark latest --run b --tag t{n}"],
        &[0, 14],
    ),
    (&["complete latest --run c"], &[0, 14]),
    (&["save --no-capture --run d --summary {n}", "delete d --yes"], &[0]),
];
/// The commands that each reader repeats. None of them may fail.
const READERS: [&[&str]; 8] = [
    &["verify", "verify --run a"],
    &["doctor"],
    &["summary a", "summary b"],
    &["export bundle a out-{n}", "export jsonl b lines-{n}", "export bundle latest latest-{n}"],
    &["copy --from {store} --to {copy}-{n}"],
    &["list --limit 0", "list --tree --run a", "events --limit 0", "runs", "status"],
    &[
        "show latest --run a",
        "show latest~2 --run a",
        "diff latest~2 latest --run a",
        "diff latest~1 --run b",
    ],
    &["resume b", "state latest --run b", "brief show latest --run a", "prune --dry-run --keep-last 1"],
];

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    let project = Project::new(env, kind)?.with_settings(&format!("[retain]\nkeep_last = {LIMIT}\n"))?;
    std::fs::write(project.folder.join("state.json"), "{\"state\": {\"page\": 7}}")?;
    for (commands, _) in &WRITERS[..4] {
        for n in 0..LIMIT {
            perform(&project, commands[0], n)?.expect(0)?;
        }
    }
    let end = Instant::now() + Duration::from_secs(env.pick(8, 120));
    let (failed, writes, reads) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    run_threads(PROCESSES, |worker| {
        let (commands, codes, count): (_, &[i32], _) = match WRITERS.get(worker) {
            Some((commands, codes)) => (*commands, codes, &writes),
            None => (READERS[worker - WRITERS.len()], &[0], &reads),
        };
        for (n, command) in commands.iter().cycle().enumerate() {
            if Instant::now() > end || failed.load(Ordering::Relaxed) {
                break;
            }
            let output = perform(&project, command, worker + n * PROCESSES);
            let output = output.and_then(|output| output.expect_one_of(codes));
            failed.fetch_or(output.is_err(), Ordering::Relaxed);
            output?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    })?;
    project.run(&["verify"])?.expect(0)?;
    let (writes, reads) = (writes.into_inner(), reads.into_inner());
    ensure!(writes > 0 && reads > 0, "{writes} writes and {reads} reads");
    Ok(Outcome::Passed(format!(
        "{reads} reads by 8 processes during {writes} writes by 8 others, none failed"
    )))
}

fn perform(project: &Project, command: &str, n: usize) -> Result<super::project::CommandOutput> {
    let at = |name: &str| project.folder.join(name).display().to_string();
    let copy = if n.is_multiple_of(2) { "files:" } else { "sqlite:" };
    let command =
        command.replace("{store}", &project.url()).replace("{copy}", &format!("{copy}{}", at("copy")));
    let command = command.replace("{n}", &n.to_string());
    let words: Vec<String> = command
        .split(' ')
        .map(|word| {
            match ["out-", "lines-", "latest-", "state.json"].iter().any(|file| word.starts_with(file)) {
                true => at(word),
                false => word.to_owned(),
            }
        })
        .collect();
    project.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}
