//! Eight processes save into one run concurrently: every save is acknowledged once, with its own sequence
//! number.

use anyhow::{Result, ensure};

use super::project::{Project, StoreKind};
use super::{Environment, Outcome, run_threads};

const WRITERS: usize = 8;

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    let project = Project::new(env, kind)?;
    let each = env.pick(15, 125);
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
    let acknowledged = run_threads(WRITERS, save)?.concat();
    let all = WRITERS * each;
    ensure!(acknowledged.len() == all, "{} of {all} acknowledged", acknowledged.len());
    let listed = project.check_acknowledged(&acknowledged)?;
    ensure!(listed == all, "{listed} of {all} listed");
    let mut sequences: Vec<_> = project.list()?.iter().filter_map(|c| c["sequence"].as_u64()).collect();
    sequences.sort_unstable();
    ensure!(sequences.iter().copied().eq(1..=all as u64), "sequences have gaps or repeats");
    Ok(Outcome::Passed(format!(
        "{all} saves by {WRITERS} processes acknowledged, {listed} listed as 1…{all} and verified"
    )))
}
