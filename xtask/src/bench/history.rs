//! Benchmark: `latest` and a list of 50 at 100,000 checkpoints, compared with 1,000. Reads must not slow down
//! with history.

use std::path::Path;

use anyhow::Result;
use milepost::Milepost;
use milepost::model::{Profile, RunId};
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{ListQuery, Reference};

use super::measure::{Row, folder, pairs};
use crate::large_store::append_checkpoints;

/// Creates a SQLite store with this many checkpoints.
pub(super) fn seed(path: &Path, checkpoints: u64) -> Result<Milepost> {
    let options = OpenOptions::new().create(true);
    let engine = Milepost::at(&StoreUrl::sqlite(path.to_owned()), &options)?;
    fill(&engine, checkpoints)?;
    Ok(engine)
}

/// Fills an empty store in large commits, as an import does.
pub(super) fn fill(engine: &Milepost, checkpoints: u64) -> Result<()> {
    let run: RunId = "bench".parse()?;
    // The other checkpoints repeat the body of one real save under new ids and sequence numbers.
    let save = milepost::Save::new().summary("seeded").profile(Profile::Pai);
    engine.save(&run, save.state_text(&super::measure::Work::new(1024).json())?)?;
    let body = engine.show(&Reference::Latest(0), Some(&run))?.body()?;
    append_checkpoints(engine, &run, Profile::Pai, body.created_at, checkpoints - 1, |n| {
        let mut body = body.clone();
        body.snapshot_id = format!("cp_seed_{n:07}").parse()?;
        Ok(body)
    })
}

pub fn latest_and_list(short: bool) -> Result<Vec<Row>> {
    let folder = folder()?;
    let (few, many) = (folder.path().join("few.db"), folder.path().join("many.db"));
    let large = if short { 5_000 } else { 100_000 };
    drop(seed(&few, 1_000)?);
    drop(seed(&many, large)?);
    let rounds = if short { 20 } else { 200 };
    // Opens the store each time, as a command does.
    let latest = |path: &Path| {
        let engine = Milepost::at(&StoreUrl::sqlite(path.to_owned()), &OpenOptions::new())?;
        engine.show(&Reference::Latest(0), None)?;
        Ok(())
    };
    let list = |path: &Path| {
        let engine = Milepost::at(&StoreUrl::sqlite(path.to_owned()), &OpenOptions::new())?;
        let listed = engine.list(&ListQuery::default().limit(50))?;
        anyhow::ensure!(listed.checkpoints.len() == 50);
        Ok(())
    };
    let (a, b) = pairs(rounds, || latest(&many), || latest(&few))?;
    let (c, d) = pairs(rounds, || list(&many), || list(&few))?;
    let what = |verb: &str| format!("open and {verb} at {large} checkpoints, vs 1000");
    Ok(vec![
        Row::times(what("latest"), a.median(), b.median(), 1.5),
        Row::times(what("list of 50"), c.median(), d.median(), 1.5),
    ])
}
