//! Durable saves on an open store.

use anyhow::Result;
use milepost::{Milepost, Save};

use super::measure::{Floor, Sample, Work};

pub fn saves(short: bool) -> Result<()> {
    let only: Option<usize> = std::env::args().nth(3).and_then(|a| a.parse().ok());
    for size in [4 * 1024, 64 * 1024].into_iter().filter(|s| only.is_none_or(|o| o == s / 1024)) {
        let folder = tempfile::tempdir_in(".")?;
        let engine = Milepost::open(folder.path())?;
        let run = "bench".parse()?;
        let mut floor = Floor::new(folder.path())?;
        let mut work = Work::new(size);
        let (mut ours, mut floors) = (Sample::default(), Sample::default());
        for i in 0..if short { 60 } else { 400 } {
            work.step(0.05);
            let json = work.json();
            let save = Save::new().state_text(&json)?;
            let mut a = || ours.time(|| Ok(engine.save(&run, save.clone())?));
            let mut b = || floors.time(|| floor.write(json.as_bytes()));
            if i % 2 == 0 {
                a()?;
                b()?;
            } else {
                b()?;
                a()?;
            }
        }
        println!(
            "save {:>2} KB: median {:?} p99 {:?}; floor median {:?} p99 {:?}; ratio {:.2}, floor + {:?}",
            size / 1024,
            ours.median(),
            ours.at(0.99),
            floors.median(),
            floors.at(0.99),
            ours.median().as_secs_f64() / floors.median().as_secs_f64(),
            ours.median().saturating_sub(floors.median()),
        );
    }
    Ok(())
}
