//! SIGKILL in the middle of saves: at random moments, and before every single call that changes a file.
//! An id on stdout is an acknowledgement; after every kill the next command must work at once.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::project::{Dice, Kind, Project};
use super::{End, Lab};
use crate::shell::has;

/// Calls before which a save is killed, at the first, the second, and so on.
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
/// Saves that go on at once.
const LOOPS: u64 = 2;

pub fn sqlite(lab: &Lab) -> Result<End> {
    run(lab, Kind::Sqlite)
}

pub fn files(lab: &Lab) -> Result<End> {
    run(lab, Kind::Files)
}

/// What happened so far.
#[derive(Default)]
struct Tally {
    killed: u64,
    acknowledged: Vec<String>,
}

fn run(lab: &Lab, kind: Kind) -> Result<End> {
    let project = Project::new(lab, kind)?;
    let seed = u64::from(std::process::id());
    let start = Instant::now();
    project.save(&["--run", "r", "--profile", "pai", "--summary", "first"])?;
    let usual = start.elapsed().max(Duration::from_millis(2));
    let kills = lab.pick(40, 1000);
    let done = AtomicU64::new(0);
    let parts: Vec<Result<Tally>> = std::thread::scope(|scope| {
        let (project, done) = (&project, &done);
        let one = |n| scope.spawn(move || at_random(project, seed + n, usual, kills, done));
        let loops: Vec<_> = (0..LOOPS).map(one).collect();
        loops
            .into_iter()
            .map(|l| l.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a loop panicked"))))
            .collect()
    });
    let mut tally = Tally::default();
    for part in parts {
        let part = part?;
        tally.killed += part.killed;
        tally.acknowledged.extend(part.acknowledged);
    }
    let (listed, mut strays) = sweep(&project, &tally.acknowledged)?;
    // A small store of its own, since everything in it is verified after every kill.
    let small = Project::new(lab, kind)?;
    let mut exactly = Tally::default();
    if has("strace") {
        at_every_call(lab, &small, &mut exactly)?;
        strays += sweep(&small, &exactly.acknowledged)?.1;
    }
    let by_call = match exactly.killed {
        0 => "no strace, so none before a given call".into(),
        n => format!("{n} before a given call"),
    };
    let (killed, acknowledged) = (tally.killed, tally.acknowledged.len() + exactly.acknowledged.len());
    Ok(End::Held(format!(
        "{killed} killed at random and {by_call}; {acknowledged} acknowledged, all there; {listed} listed, \
         verified; {strays} stray files swept"
    )))
}

/// Everything is there, and the doctor leaves no temporary file; gives what is listed and how many files there were.
fn sweep(project: &Project, acknowledged: &[String]) -> Result<(usize, usize)> {
    let listed = project.holds(acknowledged)?;
    let strays = project.strays()?.len();
    project.run(&["doctor", "--fix"])?.expect(0)?;
    ensure!(project.strays()?.is_empty(), "stray files outlive doctor --fix: {:?}", project.strays()?);
    project.run(&["doctor"])?.expect(0)?;
    project.holds(acknowledged)?;
    Ok((listed, strays))
}

fn at_random(project: &Project, seed: u64, usual: Duration, kills: u64, done: &AtomicU64) -> Result<Tally> {
    let mut dice = Dice(seed);
    let mut tally = Tally::default();
    let input = project.folder.join(format!("input-{seed}.json"));
    while done.load(Ordering::Relaxed) < kills {
        let size = 1024 << dice.below(8);
        let state = dice.letters(size.min(200 * 1024));
        std::fs::write(
            &input,
            format!("{{\"state\": {{\"n\": {}, \"text\": \"{state}\"}}}}", dice.below(1 << 40)),
        )?;
        let path = input.display().to_string();
        let args = ["save", "--no-capture", "--run", "r", "--profile", "pai", "--input", &path];
        let mut child = project.command(&[], &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_nanos(dice.below(usual.as_nanos() as u64 * 5 / 4)));
        child.kill()?;
        let mut out = String::new();
        child.stdout.take().map(|mut pipe| pipe.read_to_string(&mut out)).transpose()?;
        // One that had ended before is no kill; its answer must hold like any other.
        if !child.wait()?.success() {
            tally.killed += 1;
            done.fetch_add(1, Ordering::Relaxed);
        }
        tally.acknowledged.extend(acknowledged(&out));
        let next = next_command(project, &mut dice)?;
        tally.acknowledged.extend(next);
    }
    Ok(tally)
}

/// What comes after a kill works, and soon.
fn next_command(project: &Project, dice: &mut Dice) -> Result<Option<String>> {
    let answer = match dice.below(20) {
        0 => project.run(&["verify"])?,
        n if n < 8 => project.run(&["show", "latest"])?,
        _ => {
            let summary = dice.letters(12);
            project.run(&["save", "--no-capture", "--run", "r", "--summary", &summary])?
        }
    };
    let answer = answer.expect(0)?;
    ensure!(answer.took < Duration::from_secs(8), "`{}` took {:?} after a kill", answer.line, answer.took);
    Ok(answer.line.starts_with("save").then(|| answer.out.trim().to_owned()))
}

fn acknowledged(out: &str) -> Option<String> {
    out.strip_suffix('\n').map(|id| id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// Kills before the first, second, … of every call, until the save ends before the call comes.
fn at_every_call(lab: &Lab, project: &Project, tally: &mut Tally) -> Result<()> {
    tally.acknowledged.push(project.save(&["--run", "r", "--profile", "pai", "--summary", "first"])?);
    let (calls, most) = (lab.pick(&CALLS[..3], &CALLS[..]), lab.pick(6, 80));
    let mut dice = Dice(1);
    for call in calls {
        for n in 1..=most {
            let inject = format!("inject={call}:signal=KILL:when={n}");
            let trace = format!("trace={call}");
            let summary = dice.letters(3000);
            let args = ["save", "--no-capture", "--run", "r", "--profile", "pai", "--summary", &summary];
            let strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
            let mut command: Command = project.command(&strace, &args);
            let output = command.output()?;
            tally.acknowledged.extend(acknowledged(&String::from_utf8_lossy(&output.stdout)));
            if output.status.success() {
                break;
            }
            tally.killed += 1;
            project.holds(&tally.acknowledged)?;
            tally.acknowledged.push(project.save(&[
                "--run",
                "r",
                "--summary",
                &format!("after {call} {n}"),
            ])?);
        }
    }
    Ok(())
}
