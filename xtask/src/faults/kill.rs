//! SIGKILL during saves: at random moments, and before every system call that changes a file.
//! An id on stdout is an acknowledgement. After every kill the next command must work immediately.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::project::{Project, Rng, StoreKind};
use super::{Environment, Outcome};
use crate::shell::is_installed;

/// System calls before which a save is killed: at the first occurrence, the second, and so on.
pub const CALLS: [&str; 12] = [
    "pwrite64",
    "fdatasync",
    "fsync",
    "write",
    "rename",
    "renameat",
    "renameat2",
    "ftruncate",
    "unlink",
    "openat",
    "flock",
    "mkdir",
];
/// Concurrent loops of saves.
const LOOPS: u64 = 2;

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

/// The number of killed saves, and the acknowledged ids.
#[derive(Default)]
struct KillCounts {
    killed: u64,
    acknowledged: Vec<String>,
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    let project = Project::new(env, kind)?;
    let seed = u64::from(std::process::id());
    let start = Instant::now();
    project.save(&["--run", "r", "--profile", "pai", "--summary", "first"])?;
    let usual = start.elapsed().max(Duration::from_millis(2));
    let kills = env.pick(40, 1000);
    let done = AtomicU64::new(0);
    let parts: Vec<Result<KillCounts>> = std::thread::scope(|scope| {
        let (project, done) = (&project, &done);
        let one = |n| scope.spawn(move || kill_at_random(project, seed + n, usual, kills, done));
        let loops: Vec<_> = (0..LOOPS).map(one).collect();
        loops
            .into_iter()
            .map(|l| l.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a loop panicked"))))
            .collect()
    });
    let mut counts = KillCounts::default();
    for part in parts {
        let part = part?;
        counts.killed += part.killed;
        counts.acknowledged.extend(part.acknowledged);
    }
    let (listed, mut strays) = check_and_clean(&project, &counts.acknowledged)?;
    // A separate small store, because all of it is verified after every kill.
    let small = Project::new(env, kind)?;
    let mut exactly = KillCounts::default();
    if is_installed("strace") {
        kill_at_every_call(env, &small, &mut exactly)?;
        strays += check_and_clean(&small, &exactly.acknowledged)?.1;
    }
    let by_call = match exactly.killed {
        0 => "none before a given call, because strace is missing".into(),
        n => format!("{n} before a given call"),
    };
    let (killed, acknowledged) = (counts.killed, counts.acknowledged.len() + exactly.acknowledged.len());
    Ok(Outcome::Passed(format!(
        "{killed} killed at random and {by_call}; all {acknowledged} acknowledged checkpoints exist; {listed} listed \
         and verified; {strays} stray files removed"
    )))
}

/// Checks that every acknowledged checkpoint exists, and that `doctor --fix` removes all temporary files.
/// Returns the number of listed checkpoints and of removed files.
fn check_and_clean(project: &Project, acknowledged: &[String]) -> Result<(usize, usize)> {
    let listed = project.check_acknowledged(acknowledged)?;
    let strays = project.temporary_files()?.len();
    project.run(&["doctor", "--fix"])?.expect(0)?;
    ensure!(
        project.temporary_files()?.is_empty(),
        "stray files remain after doctor --fix: {:?}",
        project.temporary_files()?
    );
    project.run(&["doctor"])?.expect(0)?;
    project.check_acknowledged(acknowledged)?;
    Ok((listed, strays))
}

fn kill_at_random(
    project: &Project,
    seed: u64,
    usual: Duration,
    kills: u64,
    done: &AtomicU64,
) -> Result<KillCounts> {
    let mut rng = Rng(seed);
    let mut counts = KillCounts::default();
    let input = project.folder.join(format!("input-{seed}.json"));
    while done.load(Ordering::Relaxed) < kills {
        let size = 1024 << rng.below(8);
        let state = rng.letters(size.min(200 * 1024));
        std::fs::write(
            &input,
            format!("{{\"state\": {{\"n\": {}, \"text\": \"{state}\"}}}}", rng.below(1 << 40)),
        )?;
        let path = input.display().to_string();
        let args = ["save", "--no-capture", "--run", "r", "--profile", "pai", "--input", &path];
        let mut child = project.command(&[], &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_nanos(rng.below(usual.as_nanos() as u64 * 5 / 4)));
        child.kill()?;
        let mut out = String::new();
        child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out)).transpose()?;
        // A save that ended before the kill does not count as killed, but its acknowledgement counts.
        if !child.wait()?.success() {
            counts.killed += 1;
            done.fetch_add(1, Ordering::Relaxed);
        }
        counts.acknowledged.extend(acknowledged(&out));
        let next = next_command(project, &mut rng)?;
        counts.acknowledged.extend(next);
    }
    Ok(counts)
}

/// After a kill, runs a random command, which must succeed quickly. Returns the id if it was a save.
fn next_command(project: &Project, rng: &mut Rng) -> Result<Option<String>> {
    let output = match rng.below(20) {
        0 => project.run(&["verify"])?,
        n if n < 8 => project.run(&["show", "latest"])?,
        _ => {
            let summary = rng.letters(12);
            project.run(&["save", "--no-capture", "--run", "r", "--summary", &summary])?
        }
    };
    let output = output.expect(0)?;
    ensure!(
        output.duration < Duration::from_secs(8),
        "`{}` took {:?} after a kill",
        output.line,
        output.duration
    );
    Ok(output.line.starts_with("save").then(|| output.stdout.trim().to_owned()))
}

fn acknowledged(out: &str) -> Option<String> {
    out.strip_suffix('\n').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Kills saves before the first, second, … occurrence of every call, until a save completes first.
fn kill_at_every_call(env: &Environment, project: &Project, counts: &mut KillCounts) -> Result<()> {
    counts.acknowledged.push(project.save(&["--run", "r", "--profile", "pai", "--summary", "first"])?);
    let (calls, most) = (env.pick(&CALLS[..3], &CALLS[..]), env.pick(6, 80));
    let mut rng = Rng(1);
    for call in calls {
        for n in 1..=most {
            let inject = format!("inject={call}:signal=KILL:when={n}");
            let trace = format!("trace={call}");
            let summary = rng.letters(3000);
            let args = ["save", "--no-capture", "--run", "r", "--profile", "pai", "--summary", &summary];
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let mut command: Command = project.command(&strace, &args);
            let output = command.output()?;
            counts.acknowledged.extend(acknowledged(&String::from_utf8_lossy(&output.stdout)));
            if output.status.success() {
                break;
            }
            counts.killed += 1;
            project.check_acknowledged(&counts.acknowledged)?;
            counts.acknowledged.push(project.save(&[
                "--run",
                "r",
                "--summary",
                &format!("after {call} {n}"),
            ])?);
        }
    }
    Ok(())
}
