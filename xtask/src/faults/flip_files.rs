//! One flipped byte in a file of a file store: documents, plain and compressed, and log lines. Also a
//! `latest.json` that is damaged or missing.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::flip::{Baseline, FlipEffect, flip_file, positions, write};
use super::project::{Project, Rng, StoreKind};
use super::{Environment, Outcome};

pub fn run(env: &Environment) -> Result<Outcome> {
    let project = Project::new(env, StoreKind::Files)?;
    let baseline = write(&project)?;
    let mut rng = Rng(9);
    let documents = documents(env, &project, &baseline, &mut rng)?;
    let lines = lines(env, &project, &baseline, &mut rng)?;
    let latest = latest(&project, &baseline)?;
    baseline.check_other_damage().context("after everything was restored")?;
    let compress = ["prune", "--keep-last", "all", "--max-age", "none", "--compress-after", "0s", "--json"];
    let done = project.run(&compress)?.expect(0)?.json()?;
    ensure!(done["removed"] == 0 && done["compressed"] != 0, "nothing was compressed: {done}");
    baseline.check_other_damage().context("after compression")?;
    let packed = self::documents(env, &project, &baseline, &mut rng)?;
    Ok(Outcome::Passed(format!("{documents}; {lines}; {latest}; compressed: {packed}")))
}

fn documents(env: &Environment, project: &Project, baseline: &Baseline, rng: &mut Rng) -> Result<String> {
    let (mut flips, mut by_command) = (0, 0);
    let newest = baseline.all.len() - 1;
    for (n, written) in baseline.all.iter().enumerate() {
        if n != newest && n % env.pick(8, 1) != 0 {
            continue;
        }
        let plain = project.store().join(&written.run).join("history").join(format!("{}.json", written.id));
        let packed = plain.with_added_extension("gz");
        let path = if packed.exists() { packed } else { plain };
        let length = path.metadata()?.len() as usize;
        for (turn, at) in positions(length, env.pick(1, 4), rng).into_iter().enumerate() {
            let old = flip_file(&path, at, rng.below(8))?;
            let place = || format!("byte {at} of {length} of {}@{}", written.run, written.sequence);
            baseline.check_damage(&written.id).with_context(place)?;
            if turn == 0 && (n == newest || n % env.pick(16, 8) == 0) {
                baseline.check_damage_by_command(project, &written.id).with_context(place)?;
                by_command += 1;
            }
            flips += 1;
            std::fs::write(&path, old)?;
        }
    }
    Ok(format!("{flips} flips in documents reported, {by_command} of them through the binary"))
}

fn lines(env: &Environment, project: &Project, baseline: &Baseline, rng: &mut Rng) -> Result<String> {
    let mut seen: BTreeMap<bool, usize> = BTreeMap::new();
    for run in ["one", "two"] {
        let path = project.store().join(run).join("log.jsonl");
        let log = std::fs::read(&path)?;
        let ends: Vec<_> = log.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at).collect();
        let mut start = 0;
        for (n, end) in ends.iter().enumerate() {
            let last = n + 1 == ends.len();
            if last || n % env.pick(16, 1) == 0 {
                for at in positions(end - start, env.pick(0, 2), rng) {
                    let old = flip_file(&path, start + at, rng.below(8))?;
                    let place = format!("byte {at} of line {} of {run}/log.jsonl", n + 1);
                    let found = baseline.check_other_damage().with_context(|| place.clone())?;
                    ensure!(
                        !last || found == FlipEffect::Named,
                        "{place}: the last line is damaged, but nothing is reported"
                    );
                    *seen.entry(found == FlipEffect::Named).or_default() += 1;
                    std::fs::write(&path, old)?;
                }
            }
            start = end + 1;
        }
    }
    let count = |named| seen.get(&named).copied().unwrap_or_default();
    Ok(format!(
        "{} flips in log lines reported, {} harmless because later lines repeat them",
        count(true),
        count(false)
    ))
}

/// `latest.json` is derived data. If it is broken, a read repairs it.
fn latest(project: &Project, baseline: &Baseline) -> Result<String> {
    let newest = baseline.latest()?;
    let path = project.store().join(&newest.run).join("latest.json");
    let right = std::fs::read(&path)?;
    let mut flipped = right.clone();
    flipped[right.len() / 2] ^= 1;
    let wrongs = [&b""[..], b"{}", b"\xff\xfe\x00", &right[..right.len() / 2], b"null", &flipped];
    for wrong in wrongs {
        std::fs::write(&path, wrong)?;
        check_repaired(project, &newest.id, &path, &right)
            .with_context(|| format!("latest.json of {} bytes", wrong.len()))?;
    }
    std::fs::remove_file(&path)?;
    check_repaired(project, &newest.id, &path, &right).context("without latest.json")?;
    Ok(format!("{} kinds of broken latest.json repaired by reading", wrongs.len() + 1))
}

fn check_repaired(project: &Project, id: &str, path: &Path, right: &[u8]) -> Result<()> {
    let shown = project.run(&["--json", "show", "latest"])?.expect(0)?.json()?;
    ensure!(shown["checkpoint"]["snapshot_id"] == id, "latest is {}", shown["checkpoint"]["snapshot_id"]);
    ensure!(std::fs::read(path).is_ok_and(|bytes| bytes == right), "latest.json was not repaired");
    Ok(())
}
