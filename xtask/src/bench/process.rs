//! Benchmarks of whole processes: `save`, `show` and `hook`, compared with a bare process and one fsync.
//! Also counts fsyncs with strace.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::measure::{Floor, Row, Sample, Work, binary, folder, open, packaged_binary, pairs, store};

fn save(binary: &Path, folder: &Path, input: &Path) -> Command {
    let mut command = Command::new(binary);
    command.arg("-C").arg(folder).arg("--store").arg(store(folder).to_string());
    command.args(["save", "--run", "bench", "--no-capture", "--input"]).arg(input);
    // Keeps the trust records of temporary stores out of the user's state folder.
    command.env("XDG_STATE_HOME", folder).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn write_input(path: &Path, work: &mut Work) -> Result<()> {
    work.step(0.05);
    let mut file = fs::File::create(path)?;
    Ok(write!(file, "{{\"state\":{}}}", work.json())?)
}

pub(super) fn run_successfully(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}

/// A whole `save` and a whole `show`, compared with a process that does nothing, plus one fsync for the save.
pub fn whole_process(short: bool) -> Result<Vec<Row>> {
    let (binary, folder) = (packaged_binary(short)?, folder()?);
    let mut work = Work::new(4 * 1024);
    let (before, rounds) = (60, if short { 30 } else { 200 });
    // Syncs all inputs beforehand, because pending writes would delay every fsync.
    let mut inputs = Vec::new();
    for n in 0..before + rounds {
        let input = folder.path().join(format!("input-{n}.json"));
        write_input(&input, &mut work)?;
        fs::File::open(&input)?.sync_all()?;
        inputs.push(input);
    }
    let measured = inputs.split_off(before);
    for input in &inputs {
        run_successfully(&mut save(&binary, folder.path(), input))?;
    }
    let mut floor = Floor::new(folder.path())?;
    let (mut saves, mut fsyncs, mut bare) = (Sample::default(), Sample::default(), Sample::default());
    for input in &measured {
        bare.time(|| run_successfully(Command::new("true").stdout(Stdio::null())))?;
        saves.time(|| run_successfully(&mut save(&binary, folder.path(), input)))?;
        fsyncs.time(|| floor.write(&[b'x'; 4096]))?;
    }
    let allowed = bare.median() * 4 + fsyncs.median();
    let base = bare.median() + fsyncs.median();
    let mut line = Row::times("whole process: `save --no-capture`, 4 KB", saves.median(), base, 4.0);
    line.bound = allowed.as_secs_f64() / base.as_secs_f64();
    line.floor.push_str(&format!(" (a bare process {:.0} µs, one fsync)", bare.median().as_secs_f64() * 1e6));
    let show = || {
        let mut command = Command::new(&binary);
        command.arg("-C").arg(folder.path()).arg("--store").arg(store(folder.path()).to_string());
        run_successfully(command.args(["show", "latest"]).stdout(Stdio::null()))
    };
    let (shows, bares) =
        pairs(rounds, show, || run_successfully(Command::new("true").stdout(Stdio::null())))?;
    Ok(vec![line, Row::times("whole process: `show latest`, 4 KB", shows.median(), bares.median(), 4.0)])
}

/// A store with a long history, and the event of an agent's tool call.
pub(super) struct HookCase {
    folder: tempfile::TempDir,
    database: std::path::PathBuf,
    payload: std::path::PathBuf,
}

impl HookCase {
    pub(super) fn new(history: u64) -> Result<Self> {
        // Not in the folder of cargo's builds, which is in a repository: there, a hook after a command runs `git status`.
        let folder = tempfile::tempdir()?;
        let database = folder.path().join("bench.db");
        drop(super::history::seed(&database, history)?);
        let payload = folder.path().join("payload.json");
        let text = format!(
            "{{\"session_id\":\"s1\",\"cwd\":{:?},\"hook_event_name\":\"PostToolUse\",\"tool_name\":\"Bash\",\
             \"tool_input\":{{\"command\":\"cargo test\"}},\"tool_response\":{{\"stdout\":\"{}\",\"stderr\":\"\",\"exit_code\":0}},\
             \"duration_ms\":120}}",
            folder.path(),
            "test result: ok. ".repeat(100)
        );
        fs::File::create(&payload)?.write_all(text.as_bytes())?;
        fs::File::open(&payload)?.sync_all()?;
        Ok(Self { folder, database, payload })
    }

    /// The whole process of a hook, as an argument of the program `before` if there is one.
    pub(super) fn command(&self, before: &[&str], binary: &Path) -> Result<Command> {
        let binary = binary.display().to_string();
        let words: Vec<&str> = before.iter().copied().chain([binary.as_str()]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("-C").arg(self.folder.path());
        command.arg("--store").arg(format!("sqlite:{}", self.database.display()));
        command.args(["hook", "claude-code", "--strict"]).stdin(fs::File::open(&self.payload)?);
        command.env("XDG_STATE_HOME", self.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

/// A whole `hook` process after a tool call, on a store with a long history.
pub fn hook(short: bool) -> Result<Vec<Row>> {
    let binary = packaged_binary(short)?;
    let history = if short { 200 } else { 10_000 };
    let case = HookCase::new(history)?;
    let folder = &case.folder;
    let hook = || run_successfully(&mut case.command(&[], &binary)?);
    for _ in 0..40 {
        hook()?;
    }
    let mut floor = Floor::new(folder.path())?;
    let (mut hooks, mut fsyncs, mut bare) = (Sample::default(), Sample::default(), Sample::default());
    for _ in 0..if short { 30 } else { 200 } {
        bare.time(|| run_successfully(Command::new("true").stdout(Stdio::null())))?;
        hooks.time(hook)?;
        fsyncs.time(|| floor.write(&[b'x'; 4096]))?;
    }
    let allowed = bare.median().mul_f64(4.5) + fsyncs.median();
    let base = bare.median() + fsyncs.median();
    let what = format!("whole process: `hook` after a tool, {history} checkpoints in the store");
    let mut line = Row::times(what, hooks.median(), base, 4.5);
    line.bound = allowed.as_secs_f64() / base.as_secs_f64();
    line.floor.push_str(&format!(" (a bare process {:.0} µs, one fsync)", bare.median().as_secs_f64() * 1e6));
    Ok(vec![line])
}

/// Counts the fsyncs of one-shot saves, and of saves through the library on an open store.
pub fn fsyncs(short: bool) -> Result<Vec<Row>> {
    if Command::new("strace").arg("-V").stdout(Stdio::null()).status().is_err() {
        println!("| fsyncs | skipped: strace is missing; `cargo xtask setup` installs it | | | | |");
        return Ok(Vec::new());
    }
    let binary = binary(short)?;
    let mut lines = Vec::new();
    for size in [4, 64] {
        let folder = folder()?;
        let input = folder.path().join("input.json");
        let mut work = Work::new(size * 1024);
        write_input(&input, &mut work)?;
        run_successfully(&mut save(&binary, folder.path(), &input))?;
        let rounds = if short { 40 } else { 200 };
        let mut total = 0;
        for _ in 0..rounds {
            write_input(&input, &mut work)?;
            total += count_fsyncs(&mut save(&binary, folder.path(), &input))?;
        }
        let what = format!("fsyncs of a one-shot `save`, {size} KB, mean of {rounds}");
        lines.push(Row::count(what, total as f64 / f64::from(rounds), 1.0, 2.2));
    }
    let me = std::env::current_exe()?;
    for size in ["4", "64"] {
        // The saver performs N saves on one open store. The difference between two runs is the cost of the
        // saves.
        let saves = |n: &str| count_fsyncs(Command::new(&me).args(["saver", size, n]).stdout(Stdio::null()));
        let (few, many) = (saves("1")?, saves("201")?);
        let what = format!("fsyncs of a save on an open store, {size} KB, mean of 200");
        lines.push(Row::count(what, (many - few) as f64 / 200.0, 1.0, 1.05));
    }
    Ok(lines)
}

/// Runs a command under strace and counts its fsyncs.
pub(super) fn count_fsyncs(command: &mut Command) -> Result<u64> {
    let log = tempfile::NamedTempFile::new()?;
    let mut traced = Command::new("strace");
    traced.args(["-f", "-e", "trace=fsync,fdatasync", "-o"]).arg(log.path()).arg(command.get_program());
    traced.args(command.get_args()).stdout(Stdio::null()).stderr(Stdio::null());
    traced.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run_successfully(&mut traced).context("strace is required; `cargo xtask setup` installs it")?;
    Ok(fs::read_to_string(log.path())?.lines().filter(|line| line.contains("sync(")).count() as u64)
}

/// `cargo xtask saver KB N`: saves N times on one open store, for `fsyncs`.
pub fn saver(size: &str, saves: &str) -> Result<()> {
    let folder = folder()?;
    let engine = open(folder.path())?;
    let run = "bench".parse()?;
    let mut work = Work::new(size.parse::<usize>()? * 1024);
    for _ in 0..saves.parse()? {
        work.step(0.05);
        engine.save(&run, milepost::Save::new().state_text(&work.json())?)?;
    }
    Ok(())
}
