//! A full disk: the save reports it, leaves nothing half-written, and works again when there is space.

use anyhow::{Result, bail, ensure};

use super::mount::Mount;
use super::project::{Project, Rng, StoreKind, scratch_folder};
use super::{Environment, Outcome};

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    let folder = scratch_folder()?;
    let rounds = env.pick(2, 4);
    // The space freed per round. A SQLite save appends whole pages to its WAL and needs about 40 KB.
    let part = 40 * 1024;
    let mount = match Mount::memory(folder.path(), &format!("{}", 440 * 1024 + part * rounds)) {
        Ok(mount) => mount,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let project = Project::at(env, kind, &mount.folder);
    let filler = mount.folder.join("filler");
    std::fs::write(&filler, vec![1; part * rounds])?;
    let mut rng = Rng(7);
    let mut acknowledged = Vec::new();
    let mut refusals = 0;
    for round in 0..rounds {
        let mut failed = 0;
        while failed < 3 {
            ensure!(acknowledged.len() < 2000, "the disk does not fill up");
            let state = rng.letters(2000 + 3000 * (round % 2));
            let args =
                ["--json", "save", "--no-capture", "--run", "r", "--profile", "pai", "--summary", &state];
            let output = project.run(&args)?;
            match output.code {
                0 => acknowledged.push(super::project::text(&output.json()?, "snapshot_id")),
                1 => {
                    output.expect_reason(&["checkpoint_atomic_write_failed"])?;
                    failed += 1;
                }
                _ => bail!("exit {} on a full disk: {}", output.code, output.stderr),
            }
        }
        refusals += failed;
        let listed = project.check_acknowledged(&acknowledged)?;
        ensure!(listed == acknowledged.len(), "{listed} listed, {} acknowledged", acknowledged.len());
        ensure!(
            project.temporary_files()?.is_empty(),
            "temporary files remain: {:?}",
            project.temporary_files()?
        );
        project.run(&["show", "latest"])?.expect(0)?;
        // Free one more part.
        let left = part * (rounds - round - 1);
        std::fs::File::options().write(true).open(&filler)?.set_len(left as u64)?;
        acknowledged.push(project.save(&["--run", "r", "--summary", &format!("after {round}")])?);
    }
    let listed = project.check_acknowledged(&acknowledged)?;
    project.run(&["doctor"])?.expect(0)?;
    Ok(Outcome::Passed(format!(
        "{listed} saved, {refusals} refused on {rounds} full disks, each usable again with free space"
    )))
}
