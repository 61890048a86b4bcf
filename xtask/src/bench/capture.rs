//! Benchmarks of capture: a whole `save` in a repository of 20,000 files, compared with a bare `git status`,
//! and the 500th capture of a run, compared with the first, in time and in bytes. Also `run -- true`,
//! compared with a shell that does the same.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use milepost::Reference;
use milepost::internal::capture::CaptureOptions;
use milepost::model::{Profile, Source};
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Milepost, Save};

use super::measure::{Floor, Row, Sample, binary, folder, pairs};
use super::process::{count_fsyncs, run_successfully};

/// How much longer than `git status` a save with a capture may take.
const ALLOWED: Duration = Duration::from_millis(20);

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root).stdout(Stdio::null());
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]);
    command
}

/// Creates a repository with `tracked` committed files, `modified` of them changed, and `watched` files in a
/// watched folder.
fn repository(root: &Path, tracked: usize, modified: usize, watched: usize) -> Result<()> {
    run_successfully(git(root).args(["init", "-q", "-b", "main"]))?;
    for n in 0..tracked {
        let folder = root.join(format!("src/part{:03}", n % 200));
        if n < 200 {
            fs::create_dir_all(&folder)?;
        }
        fs::write(folder.join(format!("file{n:05}.rs")), format!("// {n}\n"))?;
    }
    run_successfully(git(root).args(["add", "-A"]))?;
    run_successfully(git(root).args(["commit", "-q", "-m", "all"]))?;
    for n in 0..modified {
        fs::write(root.join(format!("src/part{:03}/file{n:05}.rs", n % 200)), "// changed, and longer\n")?;
    }
    fs::create_dir_all(root.join(".aiwg/state"))?;
    for n in 0..watched {
        fs::write(root.join(format!(".aiwg/state/{n:04}.json")), "{}")?;
    }
    fs::write(root.join(".gitignore"), ".aiwg\n")?;
    // Git re-reads files whose modification time is in the same second as the index's.
    std::thread::sleep(Duration::from_millis(1100));
    run_successfully(git(root).args(["status"]))
}

fn open(file: &Path) -> Result<Milepost> {
    let options = OpenOptions::new().create(true);
    Ok(Milepost::at(&StoreUrl::sqlite(file.to_owned()), &options)?)
}

pub fn capture(short: bool) -> Result<Vec<Row>> {
    let (binary, folder) = (binary(short)?, folder()?);
    let root = folder.path().join("repository");
    fs::create_dir(&root)?;
    repository(&root, if short { 2_000 } else { 20_000 }, 200, 500)?;
    let mut n = 0;
    let save = || {
        n += 1;
        let mut command = Command::new(&binary);
        command.arg("-C").arg(&root).args(["save", "--run", "bench", "--summary", &n.to_string()]);
        run_successfully(command.stdout(Stdio::null()))
    };
    let rounds = if short { 10 } else { 40 };
    let (ours, floor) = pairs(rounds, save, || run_successfully(git(&root).arg("status")))?;
    let (ours, floor) = (ours.median(), floor.median());
    let mut lines = vec![Row::times("`save` with a capture, vs a bare `git status`", ours, floor, 0.0)];
    lines[0].bound = (floor + ALLOWED).as_secs_f64() / floor.as_secs_f64();
    lines.extend(history(&root, folder.path(), if short { 60 } else { 500 })?);
    Ok(lines)
}

/// Captures and saves once. Returns the size of the document.
fn captured(mp: &Milepost, run: &str, scope: &CaptureOptions, n: usize) -> Result<u64> {
    let run = run.parse()?;
    let save = Save::new().profile(Profile::Session).summary(n.to_string());
    let capture = mp.capture_if_due(&run, scope, Source::Manual, Some(Profile::Session))?;
    ensure!(capture.as_ref().is_some_and(|seen| seen.git.error.is_none()), "git failed in the capture");
    let saved = mp.save(&run, save.capture(capture.map(Box::new)))?;
    let entry = mp.find(&Reference::Numbered(run, saved.sequence()), None)?;
    Ok(entry.header.size())
}

fn history(root: &Path, folder: &Path, captures: usize) -> Result<Vec<Row>> {
    let scope = CaptureOptions::at(root);
    let mp = open(&folder.join("long.db"))?;
    for n in 0..captures {
        captured(&mp, "long", &scope, n)?;
    }
    let fresh = open(&folder.join("fresh.db"))?;
    let (mut n, mut sizes) = (captures, (0, 0));
    let (mut late, mut first) = (Sample::default(), Sample::default());
    for round in 0..20 {
        n += 1;
        sizes.0 = late.time(|| captured(&mp, "long", &scope, n))?;
        sizes.1 = first.time(|| captured(&fresh, &format!("fresh-{round}"), &scope, n))?;
    }
    let what = format!("capture {captures} of a run, vs capture 1");
    Ok(vec![
        Row::times(format!("{what}: time"), late.median(), first.median(), 1.2),
        Row::count(format!("{what}: bytes of the document"), sizes.0 as f64, sizes.1 as f64, 1.2),
    ])
}

/// `run -- true` in a folder without git, compared with a shell that starts `true` and waits for it.
pub fn run(short: bool) -> Result<Vec<Row>> {
    let (binary, folder) = (binary(short)?, folder()?);
    let command = || {
        let mut command = Command::new(&binary);
        // The store is named, because the folder is inside a repository, which has its own store.
        let store = StoreUrl::sqlite(folder.path().join("bench.db")).to_string();
        command.args(["-q", "--store", &store, "run", "--", "/bin/true"]);
        // The command runs outside that repository.
        command.current_dir("/").stdout(Stdio::null());
        command
    };
    let ours = || run_successfully(&mut command());
    ours()?;
    let bare = || run_successfully(Command::new("sh").args(["-c", "/bin/true; exit $?"]));
    let mut floor = Floor::new(folder.path())?;
    let (mut runs, mut bares, mut fsync) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..if short { 20 } else { 100 } {
        bares.time(bare)?;
        runs.time(ours)?;
        fsync.time(|| floor.write(&[b'x'; 4096]))?;
    }
    let (ours, bare) = (runs, bares);
    let syncs = count_fsyncs(&mut command()).unwrap_or(3);
    let allowed = bare.median() * 3 + fsync.median() * u32::try_from(syncs)?;
    let base = bare.median() + fsync.median() * u32::try_from(syncs)?;
    let mut line = Row::times("`run -- true` without git", ours.median(), base, 3.0);
    line.bound = allowed.as_secs_f64() / base.as_secs_f64();
    let micros = bare.median().as_secs_f64() * 1e6;
    line.floor.push_str(&format!(" (an equivalent shell {micros:.0} µs, {syncs} fsyncs)"));
    Ok(vec![line])
}
