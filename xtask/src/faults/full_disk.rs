//! A disk that is full: the save says so, leaves nothing half-written, and works again when there is space.

use anyhow::{Result, bail, ensure};

use super::mount::Mount;
use super::project::{Dice, Kind, Project, scratch};
use super::{End, Lab};

pub fn sqlite(lab: &Lab) -> Result<End> {
    run(lab, Kind::Sqlite)
}

pub fn files(lab: &Lab) -> Result<End> {
    run(lab, Kind::Files)
}

fn run(lab: &Lab, kind: Kind) -> Result<End> {
    let folder = scratch()?;
    let rounds = lab.pick(2, 4);
    // So much comes back at a time: a SQLite save appends whole pages to its WAL and needs some 40 KB.
    let part = 40 * 1024;
    let mount = match Mount::memory(folder.path(), &format!("{}", 440 * 1024 + part * rounds)) {
        Ok(mount) => mount,
        Err(why) => return Ok(End::Skipped(why)),
    };
    let project = Project::at(lab, kind, &mount.folder);
    let filler = mount.folder.join("filler");
    std::fs::write(&filler, vec![1; part * rounds])?;
    let mut dice = Dice(7);
    let mut acknowledged = Vec::new();
    let mut refusals = 0;
    for round in 0..rounds {
        let mut failed = 0;
        while failed < 3 {
            ensure!(acknowledged.len() < 2000, "the disk does not get full");
            let state = dice.letters(2000 + 3000 * (round % 2));
            let args =
                ["--json", "save", "--no-capture", "--run", "r", "--profile", "pai", "--summary", &state];
            let answer = project.run(&args)?;
            match answer.code {
                0 => acknowledged.push(super::project::text(&answer.json()?, "snapshot_id")),
                1 => {
                    answer.expect_reason(&["checkpoint_atomic_write_failed"])?;
                    failed += 1;
                }
                _ => bail!("exit {} on a full disk: {}", answer.code, answer.err),
            }
        }
        refusals += failed;
        let listed = project.holds(&acknowledged)?;
        ensure!(listed == acknowledged.len(), "{listed} listed, {} acknowledged", acknowledged.len());
        ensure!(project.strays()?.is_empty(), "left behind: {:?}", project.strays()?);
        project.run(&["show", "latest"])?.expect(0)?;
        // Space comes back bit by bit.
        let left = part * (rounds - round - 1);
        std::fs::File::options().write(true).open(&filler)?.set_len(left as u64)?;
        acknowledged.push(project.save(&["--run", "r", "--summary", &format!("after {round}")])?);
    }
    let listed = project.holds(&acknowledged)?;
    project.run(&["doctor"])?.expect(0)?;
    Ok(End::Held(format!(
        "{listed} saved, {refusals} refused over {rounds} full disks, each saved again with space"
    )))
}
