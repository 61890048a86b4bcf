//! A power cut: an ext4 file system that is shut down without flushing its journal while two processes save.
//! After mounting it again, whatever was acknowledged is there.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::mount::Mount;
use super::project::{Dice, Kind, Project, scratch};
use super::{End, Lab, Size};
use crate::shell::{has, is_root, pass, read};

/// EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH.
const SHUTDOWN: &str = "import fcntl, os, struct, sys\n\
    fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

pub fn sqlite(lab: &Lab) -> Result<End> {
    run(lab, Kind::Sqlite)
}

pub fn files(lab: &Lab) -> Result<End> {
    run(lab, Kind::Files)
}

fn run(lab: &Lab, kind: Kind) -> Result<End> {
    if lab.size == Size::Short {
        return Ok(End::Skipped("only in full".into()));
    }
    if !is_root() || !has("mkfs.ext4") || !has("python3") {
        return Ok(End::Skipped("needs root, mkfs.ext4 and python3".into()));
    }
    let folder = scratch()?;
    let image = folder.path().join("image").display().to_string();
    let place = folder.path().join("disk");
    std::fs::create_dir(&place)?;
    std::fs::File::create(&image)?.set_len(256 << 20)?;
    read(Command::new("mkfs.ext4").args(["-q", "-F", &image]))?;
    let project = Project::at(lab, kind, &place);
    let mut acknowledged = Vec::new();
    let rounds = 20;
    let mut dice = Dice(u64::from(std::process::id()));
    for round in 0..rounds {
        let disk = match mount(&place, &image) {
            Ok(disk) => disk,
            Err(why) if round == 0 => return Ok(End::Skipped(why)),
            Err(why) => anyhow::bail!(why),
        };
        if round > 0 {
            project.holds(&acknowledged).with_context(|| format!("after cut {round}"))?;
        }
        let cut = AtomicBool::new(false);
        let more = std::thread::scope(|scope| {
            let (project, cut) = (&project, &cut);
            let savers: Vec<_> =
                (0..2).map(|n| scope.spawn(move || save(project, cut, round * 2 + n))).collect();
            std::thread::sleep(Duration::from_millis(150 + dice.below(400)));
            let down = pass(Command::new("python3").args(["-c", SHUTDOWN]).arg(&disk.folder));
            cut.store(true, Ordering::Relaxed);
            let ids: Vec<_> = savers.into_iter().flat_map(|s| s.join().unwrap_or_default()).collect();
            down.map(|()| ids)
        })?;
        ensure!(!more.is_empty(), "nothing was acknowledged before cut {}", round + 1);
        acknowledged.extend(more);
        pass(Command::new("umount").arg(&disk.folder))?;
        std::mem::forget(disk);
    }
    let disk = mount(&place, &image).map_err(anyhow::Error::msg)?;
    let listed = project.holds(&acknowledged).context("after the last cut")?;
    project.run(&["doctor", "--fix"])?.expect(0)?;
    project.holds(&acknowledged)?;
    ensure!(project.strays()?.is_empty(), "stray files outlive doctor --fix: {:?}", project.strays()?);
    drop(disk);
    Ok(End::Held(format!(
        "{rounds} cuts; {} acknowledged, all there; {listed} listed, verified",
        acknowledged.len()
    )))
}

fn mount(place: &Path, image: &str) -> Result<Mount, String> {
    Mount::with(place, &["-o", "loop", image])
}

/// Saves until the power is gone, and gives what was acknowledged.
fn save(project: &Project, cut: &AtomicBool, seed: u64) -> Vec<String> {
    let mut dice = Dice(seed);
    let mut ids = Vec::new();
    while !cut.load(Ordering::Relaxed) {
        let size = 100 + dice.below(6000) as usize;
        match project.save(&["--run", "r", "--profile", "pai", "--summary", &dice.letters(size)]) {
            Ok(id) => ids.push(id),
            Err(_) => break,
        }
    }
    ids
}
