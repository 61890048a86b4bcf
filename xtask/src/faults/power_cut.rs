//! A power cut: an ext4 file system is shut down without flushing its journal while two processes save. After
//! it is mounted again, every checkpoint that was acknowledged before the cut exists. A write and fdatasync
//! that overlaps with the shutdown may succeed and still be lost, because the kernel's call does not wait for
//! syncs in flight. Acknowledgements after the order to shut down are therefore counted separately and may be
//! lost.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::mount::Mount;
use super::project::{Project, Rng, StoreKind, scratch_folder};
use super::{Environment, Outcome, Size};
use crate::shell::{is_installed, is_root, read_output, run_program};

/// Calls EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH. Prints `ready` first, and waits for a line on
/// stdin.
const SHUTDOWN: &str = "import fcntl, os, struct, sys\n\
    disk = os.open(sys.argv[1], os.O_RDONLY)\n\
    print('ready', flush=True)\n\
    sys.stdin.readline()\n\
    fcntl.ioctl(disk, 0x8004587D, struct.pack('I', 2))";

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    if env.size == Size::Short {
        return Ok(Outcome::Skipped("only runs without --short".into()));
    }
    if !is_root() || !is_installed("mkfs.ext4") || !is_installed("python3") {
        return Ok(Outcome::Skipped("needs root, mkfs.ext4 and python3".into()));
    }
    let folder = scratch_folder()?;
    let image = folder.path().join("image").display().to_string();
    let place = folder.path().join("disk");
    std::fs::create_dir(&place)?;
    std::fs::File::create(&image)?.set_len(256 << 20)?;
    read_output(Command::new("mkfs.ext4").args(["-q", "-F", &image]))?;
    let project = Project::at(env, kind, &place);
    let (mut acknowledged, mut during) = (Vec::new(), Vec::new());
    let rounds = 20;
    let mut rng = Rng(u64::from(std::process::id()));
    for round in 0..rounds {
        let disk = match mount(&place, &image) {
            Ok(disk) => disk,
            Err(why) if round == 0 => return Ok(Outcome::Skipped(why)),
            Err(why) => anyhow::bail!(why),
        };
        if round > 0 {
            project.check_acknowledged(&acknowledged).with_context(|| format!("after cut {round}"))?;
        }
        let cut = AtomicBool::new(false);
        let (ordered, answers) = std::thread::scope(|scope| {
            let (project, cut) = (&project, &cut);
            let savers: Vec<_> =
                (0..2).map(|n| scope.spawn(move || save(project, cut, round * 2 + n))).collect();
            let ordered = shut_down(&disk.folder, Duration::from_millis(100 + rng.below(400)));
            cut.store(true, Ordering::Relaxed);
            let answers: Vec<_> = savers.into_iter().flat_map(|s| s.join().unwrap_or_default()).collect();
            ordered.map(|at| (at, answers))
        })?;
        let (before, after): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, at)| *at < ordered);
        ensure!(!before.is_empty(), "nothing was acknowledged before cut {}", round + 1);
        acknowledged.extend(before.into_iter().map(|(id, _)| id));
        during.extend(after.into_iter().map(|(id, _)| id));
        run_program(Command::new("umount").arg(&disk.folder))?;
        std::mem::forget(disk);
    }
    let disk = mount(&place, &image).map_err(anyhow::Error::msg)?;
    let listed = project.check_acknowledged(&acknowledged).context("after the last cut")?;
    project.run(&["doctor", "--fix"])?.expect(0)?;
    project.check_acknowledged(&acknowledged)?;
    ensure!(
        project.temporary_files()?.is_empty(),
        "stray files remain after doctor --fix: {:?}",
        project.temporary_files()?
    );
    let ids = project.ids()?;
    let lost = during.iter().filter(|id| !ids.contains(*id)).count();
    drop(disk);
    Ok(Outcome::Passed(format!(
        "{rounds} cuts; all {} checkpoints acknowledged before them exist; {listed} listed and verified; {} acknowledged \
         during a cut, {lost} of these lost",
        acknowledged.len(),
        during.len()
    )))
}

/// Triggers the power cut after a delay. Returns the time just before the trigger.
fn shut_down(disk: &Path, after: Duration) -> Result<Instant> {
    let mut python = Command::new("python3");
    let mut child =
        python.args(["-c", SHUTDOWN]).arg(disk).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut ready = String::new();
    BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut ready)?;
    std::thread::sleep(after);
    let at = Instant::now();
    child.stdin.take().context("no stdin")?.write_all(b"\n")?;
    ensure!(child.wait()?.success(), "cannot shut down the file system");
    Ok(at)
}

fn mount(place: &Path, image: &str) -> Result<Mount, String> {
    Mount::with(place, &["-o", "loop", image])
}

/// Saves until the cut. Returns each acknowledged id with its time.
fn save(project: &Project, cut: &AtomicBool, seed: u64) -> Vec<(String, Instant)> {
    let mut rng = Rng(seed);
    let mut ids = Vec::new();
    while !cut.load(Ordering::Relaxed) {
        let size = 100 + rng.below(6000) as usize;
        match project.save(&["--run", "r", "--profile", "pai", "--summary", &rng.letters(size)]) {
            Ok(id) => ids.push((id, Instant::now())),
            Err(_) => break,
        }
    }
    ids
}
