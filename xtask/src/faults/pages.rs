//! Garbage in the pages of a SQLite file: every command terminates, and either prints correct data or
//! reports damage.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;

use super::flip::write;
use super::project::{Project, Rng, StoreKind, text};
use super::{Environment, Outcome};

pub fn run(env: &Environment) -> Result<Outcome> {
    let project = Project::new(env, StoreKind::Sqlite)?;
    std::fs::create_dir(project.store())?;
    let baseline = write(&project)?;
    let file = project.store().join("milepost.db");
    let db = Connection::open(&file)?;
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let number = |sql| db.query_row(sql, [], |r| r.get::<_, u32>(0)).map(u64::from);
    let size = number("PRAGMA page_size")?;
    let pages = number("PRAGMA page_count")?;
    drop(db);
    let whole = std::fs::read(&file)?;
    let ids: BTreeSet<_> = baseline.all.iter().map(|w| w.id.as_str()).collect();
    let oldest = baseline.all.first().context("nothing was written")?.id.clone();
    let mut rng = Rng(13);
    let mut codes: BTreeMap<i32, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut tried = 0;
    for page in (0..pages).filter(|page| page % env.pick(pages / 5, 1).max(1) == 0 || *page + 1 == pages) {
        // A whole page, its header, and a range in its middle.
        for (offset, length) in [(0, size), (0, 16), (size / 2, 64)].into_iter().take(env.pick(1, 3)) {
            for name in ["milepost.db-wal", "milepost.db-shm"] {
                let _ = std::fs::remove_file(project.store().join(name));
            }
            let mut bytes = whole.clone();
            let garbage: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
            let at = (page * size + offset) as usize;
            bytes[at..at + garbage.len()].copy_from_slice(&garbage);
            std::fs::File::create(&file)?.write_all_at(&bytes, 0)?;
            tried += 1;
            if let Err(e) = check_answers(&project, &ids, &oldest, &mut codes) {
                wrong.push(format!("\n    page {} of {pages}, {length} bytes at {offset}: {e:#}", page + 1));
            }
        }
    }
    ensure!(
        wrong.is_empty(),
        "{} of {tried} damaged files failed the check: {}",
        wrong.len(),
        wrong.concat()
    );
    let codes: Vec<_> = codes.iter().map(|(code, n)| format!("{n} × {code}")).collect();
    Ok(Outcome::Passed(format!("{tried} damaged files of {pages} pages; exit codes {}", codes.join(", "))))
}

fn check_answers(
    project: &Project,
    ids: &BTreeSet<&str>,
    oldest: &str,
    codes: &mut BTreeMap<i32, usize>,
) -> Result<()> {
    let mut run = |args: &[&str], may: &[i32]| {
        let output = project.run(args)?.expect_one_of(may)?;
        *codes.entry(output.code).or_default() += 1;
        Ok::<_, anyhow::Error>(output)
    };
    let doctor = run(&["--json", "doctor"], &[0, 5])?;
    let sound = doctor.code == 0;
    if !sound {
        let report = doctor.json()?;
        let said = report["problems"].as_array().is_some_and(|all| {
            !all.is_empty()
                && all.iter().all(|p| !text(p, "message").is_empty() && !text(p, "fix").is_empty())
        });
        ensure!(said, "doctor reports damage without a message or a fix: {report}");
    }
    let verify = run(&["--json", "verify"], &[0, 5])?;
    let list = run(&["--json", "list", "--limit", "0"], &[0, 3, 5])?;
    let latest = run(&["--json", "show", "latest"], &[0, 3, 5])?;
    let show = run(&["--json", "show", oldest], &[0, 3, 5, 14])?;
    run(&["status"], &[0, 3, 5])?;
    run(&["runs"], &[0, 3, 5])?;
    run(&["events"], &[0, 3, 5])?;
    run(&["state", "latest"], &[0, 3, 5])?;
    if list.code == 0 {
        let document = list.json()?;
        let listed: BTreeSet<_> = document["checkpoints"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| text(c, "snapshot_id"))
            .collect();
        ensure!(
            listed.iter().all(|id| ids.contains(id.as_str())),
            "the list has checkpoints that were never saved"
        );
        let short = listed.len() < ids.len();
        ensure!(
            !short || verify.code == 5 || !sound,
            "only {} of {} listed, and no command reports damage",
            listed.len(),
            ids.len()
        );
    }
    if sound {
        ensure!(
            verify.code == 0 && latest.code == 0 && show.code == 0,
            "doctor reports no damage, but other commands do"
        );
    }
    if [0, 3].contains(&show.code) {
        ensure!(show.json()?["checkpoint"]["snapshot_id"] == oldest, "a different checkpoint is shown");
    }
    ensure!(show.code != 14 || !sound, "a checkpoint is not found, but doctor reports no damage");
    // A save may fail, but only with an expected exit code.
    run(&["--json", "save", "--no-capture", "--run", "one", "--summary", "after"], &[0, 1, 5])?;
    run(&["--json", "doctor", "--fix"], &[0, 5])?;
    Ok(())
}
