//! Benchmark: growth of the store's file per checkpoint, compared with the bytes that changed.

use anyhow::Result;
use milepost::Save;
use milepost::model::Profile;
use milepost::store::Maintenance;

use super::measure::{Row, Work, folder, open};

pub fn bytes(short: bool) -> Result<Vec<Row>> {
    let mut lines = Vec::new();
    for (size, bound) in [(4, f64::INFINITY), (64, 2.5)] {
        let folder = folder()?;
        let engine = open(folder.path())?;
        let run = "bench".parse()?;
        let mut work = Work::new(size * 1024);
        let saves = if short { 100 } else { 1000 };
        let (mut changed, mut before) = (0, 0);
        for i in 0..saves + 10 {
            let step = work.step(0.05);
            engine.save(&run, Save::new().profile(Profile::Pai).state_text(&work.json())?)?;
            if i == 9 {
                // Empty tables and the two whole documents do not grow with the history.
                engine.raw_store().maintain(Maintenance::Compact)?;
                before = engine.store().info()?.bytes();
            } else if i > 9 {
                changed += step;
            }
        }
        engine.raw_store().maintain(Maintenance::Compact)?;
        let grown = engine.store().info()?.bytes() - before;
        let each = |n: f64| n / saves as f64;
        let what = format!("bytes per checkpoint in the file, {size} KB, vs bytes changed");
        lines.push(Row::count(what, each(grown as f64), each(changed as f64), bound));
    }
    Ok(lines)
}
