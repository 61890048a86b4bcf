//! A writer is stopped while it holds the lock: other writers fail with `store_busy` after their wait, and
//! readers still work. Once the stopped writer continues or dies, writing works again.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::project::{Project, StoreKind};
use super::{Environment, Outcome};
use crate::shell::{is_installed, read_output};

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    if !is_installed("strace") {
        return Ok(Outcome::Skipped("strace is missing".into()));
    }
    let project = Project::new(env, kind)?;
    project.save(&["--run", "r", "--summary", "before"])?;
    let mut waits = Vec::new();
    for signal in ["CONT", "KILL"] {
        let (mut tracer, pid) = stop(&project, signal)?;
        let refused =
            project.run(&["--wait", "1", "--json", "save", "--no-capture", "--run", "r", "--summary", "x"]);
        let reading = || -> Result<()> {
            for command in [&["show", "latest"][..], &["list"], &["verify"], &["status"]] {
                project.run(command)?.expect(0)?;
            }
            Ok(())
        };
        let read = reading();
        let status = release(&mut tracer, &pid, signal)?;
        let refused = refused?.expect(11)?.expect_reason(&["store_busy"])?;
        let wait = refused.duration.as_secs_f64();
        ensure!((0.9..2.0).contains(&wait), "store_busy after {wait:.2} s, with a wait of 1 s");
        waits.push(format!("{wait:.2} s"));
        read.context("reading while a writer is stopped")?;
        ensure!(
            status.success() == (signal == "CONT"),
            "the stopped writer ended with {status} after {signal}"
        );
        let next = project.run(&["save", "--no-capture", "--run", "r", "--summary", signal])?.expect(0)?;
        ensure!(next.duration < Duration::from_secs(2), "the next save took {:?}", next.duration);
        project.check_acknowledged(&[next.stdout.trim().to_owned()])?;
    }
    Ok(Outcome::Passed(format!(
        "saves failed with store_busy after {} (--wait 1); reads worked; the store was writable after SIGCONT and SIGKILL",
        waits.join(", ")
    )))
}

/// Sends the signal until the writer has ended. The writer stops at its first fdatasync and again at its
/// first fsync.
fn release(tracer: &mut Child, pid: &str, signal: &str) -> Result<ExitStatus> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        // The writer may already have ended.
        let _ = read_output(Command::new("kill").args([&format!("-{signal}"), pid]));
        std::thread::sleep(Duration::from_millis(20));
        if let Some(status) = tracer.try_wait()? {
            return Ok(status);
        }
    }
    read_output(Command::new("kill").args(["-KILL", pid]))?;
    tracer.wait()?;
    bail!("the stopped writer did not end after {signal}")
}

/// Starts a save that stops at its first sync. Returns its tracer, and its pid once it has stopped.
fn stop(project: &Project, name: &str) -> Result<(Child, String)> {
    let strace = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync,fsync", "-e"];
    let before: Vec<&str> = strace.into_iter().chain(["inject=fdatasync,fsync:signal=STOP:when=1"]).collect();
    let summary = format!("stopped, then {name}");
    let args = ["save", "--no-capture", "--run", "r", "--summary", &summary];
    let mut tracer = project.command(&before, &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let children = format!("/proc/{0}/task/{0}/children", tracer.id());
    let start = Instant::now();
    let mut still = 0;
    while start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
        let pid = std::fs::read_to_string(&children)?.trim().to_owned();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
        still = if matches!(state, Some('t' | 'T')) { still + 1 } else { 0 };
        if still == 10 {
            return Ok((tracer, pid));
        }
    }
    tracer.kill()?;
    tracer.wait()?;
    bail!("the writer did not stop")
}
