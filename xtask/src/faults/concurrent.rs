//! Eight processes save into one run at once: every save is acknowledged, once, under a number of its own.

use anyhow::{Result, ensure};

use super::project::{Kind, Project};
use super::{End, Lab, at_once};

const WRITERS: usize = 8;

pub fn sqlite(lab: &Lab) -> Result<End> {
    run(lab, Kind::Sqlite)
}

pub fn files(lab: &Lab) -> Result<End> {
    run(lab, Kind::Files)
}

fn run(lab: &Lab, kind: Kind) -> Result<End> {
    let project = Project::new(lab, kind)?;
    let each = lab.pick(15, 125);
    let save = |writer: usize| -> Result<Vec<String>> {
        let one = |n: usize| {
            project.save(&[
                "--run",
                "r",
                "--profile",
                "pai",
                "--summary",
                &format!("writer {writer} save {n}"),
            ])
        };
        (0..each).map(one).collect()
    };
    let acknowledged = at_once(WRITERS, save)?.concat();
    let all = WRITERS * each;
    ensure!(acknowledged.len() == all, "{} of {all} acknowledged", acknowledged.len());
    let listed = project.holds(&acknowledged)?;
    ensure!(listed == all, "{listed} of {all} listed");
    let mut sequences: Vec<_> = project.list()?.iter().filter_map(|c| c["sequence"].as_u64()).collect();
    sequences.sort_unstable();
    ensure!(sequences.iter().copied().eq(1..=all as u64), "sequences have gaps or repeats");
    Ok(End::Held(format!("{all} acknowledged by {WRITERS} processes, {listed} listed, 1…{all}, verified")))
}
