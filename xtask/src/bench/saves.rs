//! Benchmark: durable saves on an open store, compared with an append and an fdatasync of the same bytes.

use std::cell::RefCell;
use std::time::Duration;

use anyhow::Result;
use milepost::Save;

use super::measure::{Floor, Row, Work, folder, open, pairs};

pub fn saves(short: bool) -> Result<Vec<Row>> {
    let mut lines = Vec::new();
    for (size, bound, allowance) in [(4, 1.25, 0), (64, 1.6, 500)] {
        let folder = folder()?;
        let engine = open(folder.path())?;
        let run = "bench".parse()?;
        let mut floor = Floor::new(folder.path())?;
        let work = RefCell::new(Work::new(size * 1024));
        let prepared = RefCell::new(Vec::new());
        let rounds = if short { 60 } else { 600 };
        for _ in 0..rounds {
            work.borrow_mut().step(0.05);
            prepared.borrow_mut().push(work.borrow().json());
        }
        let jsons = prepared.into_inner();
        let mut saves =
            jsons.iter().map(|json| Save::new().state_text(json)).collect::<Result<Vec<_>, _>>()?.into_iter();
        let mut bodies = jsons.iter();
        let (ours, floors) = pairs(
            rounds,
            || {
                if let Some(save) = saves.next() {
                    engine.save(&run, save)?;
                }
                Ok(())
            },
            || bodies.next().map_or(Ok(()), |json| floor.write(json.as_bytes())),
        )?;
        let what = format!("durable save on an open store, {size} KB of which 5% change");
        let mut line = Row::times(what, ours.median(), floors.median(), bound);
        line.meets_other_bound = ours.median() <= floors.median() + Duration::from_micros(allowance);
        lines.push(line);
    }
    Ok(lines)
}
