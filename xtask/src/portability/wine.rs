//! Runs the program for Windows under Wine: saving, listing, commands with their exit codes, process trees, owners that were
//! killed, hooks, locks between processes. Uses a Wine prefix of its own.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::quiet;
use crate::shell::{is_installed, run_program, target};

/// How long a process may take to start or to be noticed as ended. The first start of Wine takes several seconds.
const PATIENCE: Duration = Duration::from_secs(60);

type Case = (&'static str, fn(&Project) -> Result<()>);

const CASES: [Case; 8] = [
    ("save", saves_and_lists),
    ("run", passes_exit_codes_on),
    ("tree", ends_the_process_tree_with_the_run),
    ("owner", notices_a_killed_owner),
    ("locks", writes_from_several_processes),
    ("files-store", writes_the_file_layout),
    ("hook", handles_events_of_an_agent),
    ("agents", installs_hooks_that_shells_of_windows_run),
];

/// Rust's standard library needs a function that Wine has only since version 9.
const RANDOM_LIBRARY: &str = "\
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *, unsigned long);
__declspec(dllexport) int __stdcall ProcessPrng(void *bytes, unsigned long long length)
{ return SystemFunction036(bytes, (unsigned long)length); }
";

pub struct Wine {
    folder: PathBuf,
}

impl Wine {
    /// Creates the prefix and starts the server. `None` without a working Wine.
    pub fn start() -> Result<Option<Self>> {
        let wine = Self { folder: target()?.join("portability/wine") };
        fs::create_dir_all(&wine.folder)?;
        if !is_installed("wine") || !is_installed("wineserver") {
            return Ok(None);
        }
        // The server and the services must not hold the pipes of a program that happens to start them.
        let starts = |program: &str, args: &[&str]| {
            let status =
                wine.command(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let version = ["reg", "add", r"HKCU\Software\Wine", "/v", "Version", "/d", "win10", "/f"];
        let is_ready =
            starts("wineserver", &["-p"]) && starts("wine", &["wineboot"]) && starts("wine", &version);
        Ok(is_ready.then_some(wine))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = quiet(program);
        command.env("WINEPREFIX", self.folder.join("prefix")).env("WINEDEBUG", "-all");
        // Asks for no browser and no .NET.
        command.env("WINEDLLOVERRIDES", "mscoree,mshtml=").env_remove("DISPLAY");
        command
    }

    /// Runs the cases with these names, or all.
    pub fn run_cases(&self, program: &Path, names: &[&str]) -> Result<()> {
        if let Some(name) = names.iter().find(|name| !CASES.iter().any(|(known, _)| known == *name)) {
            bail!("there is no case {name}; the cases are {}", CASES.map(|(name, _)| name).join(", "));
        }
        let bin = self.folder.join("bin");
        fs::create_dir_all(&bin)?;
        fs::copy(program, bin.join("milepost.exe")).with_context(|| program.display().to_string())?;
        fs::write(bin.join("random.c"), RANDOM_LIBRARY)?;
        let mut compile = Command::new("x86_64-w64-mingw32-gcc");
        compile.current_dir(&bin).args(["-shared", "-o", "bcryptprimitives.dll", "random.c", "-ladvapi32"]);
        run_program(&mut compile)?;
        let cases = CASES.iter().filter(|(name, _)| names.is_empty() || names.contains(name));
        for (name, case) in cases {
            let start = Instant::now();
            let project = Project::new(self)?;
            case(&project).with_context(|| format!("the case {name} of the program for Windows failed"))?;
            println!("portability: wine: {name} passed in {:.1} s", start.elapsed().as_secs_f64());
        }
        Ok(())
    }
}

impl Drop for Wine {
    /// Ends every program of the prefix.
    fn drop(&mut self) {
        let _ = self.command("wineserver").arg("-k").status();
    }
}

/// A temporary project folder outside of any repository, because git for Windows is not installed.
struct Project<'a> {
    wine: &'a Wine,
    folder: PathBuf,
    _temporary: tempfile::TempDir,
}

impl<'a> Project<'a> {
    fn new(wine: &'a Wine) -> Result<Self> {
        let temporary = tempfile::tempdir()?;
        let folder = temporary.path().join("project");
        fs::create_dir(&folder)?;
        let project = Self { wine, folder, _temporary: temporary };
        project.passes(&["init", "--agents", "none"])?;
        Ok(project)
    }

    /// The program, in the project, with user folders of its own.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.wine.command("wine");
        command.current_dir(&self.folder).arg(self.program()).args(args);
        let home = windows_path(&self.folder.with_file_name("home"));
        for name in ["APPDATA", "LOCALAPPDATA", "USERPROFILE"] {
            command.env(name, &home);
        }
        command
    }

    fn program(&self) -> PathBuf {
        self.wine.folder.join("bin/milepost.exe")
    }

    fn passes(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output()?;
        ensure!(output.status.success(), "milepost {}: {}", args.join(" "), describe(&output));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn json(&self, args: &[&str]) -> Result<Value> {
        let text = self.passes(&[args, &["--json"]].concat())?;
        serde_json::from_str(&text).with_context(|| format!("milepost {} printed {text}", args.join(" ")))
    }

    /// The program with this input.
    fn on_input(&self, input: &str, args: &[&str]) -> Result<Output> {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        child.stdin.take().context("no stdin")?.write_all(input.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// What `runs` reports of a run.
    fn run(&self, id: &str) -> Result<Option<Value>> {
        let runs = self.json(&["runs"])?;
        let mut runs = runs["runs"].as_array().into_iter().flatten();
        Ok(runs.find(|run| run["run_id"] == id).cloned())
    }

    /// Starts a run whose command waits for the end of its input, and waits until it is recorded as alive.
    fn start_waiting_run(&self, id: &str) -> Result<Child> {
        let program = windows_path(&self.program());
        let mut command = self.command(&["run", "--run", id, "--every", "1h", "--", &program, "mcp"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        wait_until(&format!("run {id} has a live owner"), || {
            Ok(self.run(id)?.is_some_and(|run| run["owner_alive"] == true))
        })?;
        Ok(child)
    }
}

fn saves_and_lists(project: &Project<'_>) -> Result<()> {
    project.passes(&["save", "--run", "r", "--summary", "first", "--tag", "start"])?;
    project.passes(&["save", "--run", "r", "--summary", "second"])?;
    let list = project.passes(&["list"])?;
    ensure!(list.contains("first") && list.contains("second"), "the list is {list}");
    ensure!(project.passes(&["show", "start"])?.contains("first"), "the tag leads elsewhere");
    let status = project.passes(&["status"])?;
    ensure!(
        !status.contains(r"\\?\"),
        "paths are shown in a form that other programs do not accept: {status}"
    );
    project.passes(&["verify"])?;
    project.passes(&["doctor"])?;
    Ok(())
}

fn passes_exit_codes_on(project: &Project<'_>) -> Result<()> {
    let exits = |args: &[&str], code: i32| -> Result<Output> {
        let output = project.command(&[&["run", "--"], args].concat()).output()?;
        ensure!(output.status.code() == Some(code), "run -- {}: {}", args.join(" "), describe(&output));
        Ok(output)
    };
    let output = exits(&["cmd", "/c", "echo hello& exit 3"], 3)?;
    ensure!(String::from_utf8_lossy(&output.stdout).contains("hello"), "{}", describe(&output));
    exits(&["cmd", "/c", "exit 0"], 0)?;
    exits(&["no-such-program"], 127)?;
    let log = project.folder.join("out.log");
    let output = project
        .command(&["run", "--log", &windows_path(&log), "--", "cmd", "/c", "echo to the log& exit 1"])
        .output()?;
    ensure!(output.status.code() == Some(1), "{}", describe(&output));
    let summary = project.passes(&["show", "latest", "--json"])?;
    ensure!(summary.contains("to the log"), "the end of the log is not in {summary}");
    ensure!(summary.contains("peak_rss"), "no memory was measured: {summary}");
    Ok(())
}

fn ends_the_process_tree_with_the_run(project: &Project<'_>) -> Result<()> {
    let mut outer = project.start_waiting_run("tree")?;
    ensure!(processes_with("milepost.exe\0mcp")?.len() == 1, "the command is not running");
    outer.kill()?;
    outer.wait()?;
    // Its stdin is still open: only the job can have ended it.
    let input = outer.stdin.take();
    wait_until("the command ends with its run", || Ok(processes_with("milepost.exe\0mcp")?.is_empty()))?;
    drop(input);
    Ok(())
}

fn notices_a_killed_owner(project: &Project<'_>) -> Result<()> {
    let mut outer = project.start_waiting_run("killed")?;
    let again =
        project.command(&["run", "--rejoin", "--run", "killed", "--", "cmd", "/c", "exit 0"]).output()?;
    ensure!(!again.status.success(), "a run with a live owner was started again: {}", describe(&again));
    outer.kill()?;
    outer.wait()?;
    wait_until("the owner is known to be dead", || {
        Ok(project.run("killed")?.is_some_and(|run| run["owner_alive"] == false))
    })?;
    let status = project.passes(&["status"])?;
    ensure!(status.contains("process_crash"), "the run does not count as crashed: {status}");
    let resumed = project.passes(&["resume"])?;
    ensure!(resumed.contains("killed"), "resume does not offer the run: {resumed}");
    Ok(())
}

fn writes_from_several_processes(project: &Project<'_>) -> Result<()> {
    const WRITERS: usize = 4;
    const EACH: usize = 5;
    let save = |writer: usize, n: usize| {
        let summary = format!("{writer}-{n}");
        project.passes(&["save", "--run", "r", "--no-capture", "--summary", &summary])
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || (0..EACH).try_for_each(|n| save(writer, n).map(drop))))
            .collect();
        writers.into_iter().try_for_each(|writer| match writer.join() {
            Ok(result) => result,
            Err(_) => bail!("a writer panicked"),
        })
    })?;
    let run = project.run("r")?.context("the run is not listed")?;
    ensure!(run["checkpoints"] == WRITERS * EACH, "checkpoints are missing: {run}");
    project.passes(&["verify"])?;
    Ok(())
}

fn writes_the_file_layout(project: &Project<'_>) -> Result<()> {
    let store = format!("files:{}", windows_path(&project.folder.join("files")));
    for n in 0..4 {
        // Replaces files that exist: the pointer to the newest checkpoint, and counters.
        project.passes(&[
            "--store",
            &store,
            "save",
            "--run",
            "r",
            "--no-capture",
            "--summary",
            &n.to_string(),
        ])?;
    }
    let list = project.passes(&["--store", &store, "list"])?;
    ensure!(list.lines().count() == 5, "the list is {list}");
    project.passes(&["--store", &store, "verify"])?;
    Ok(())
}

fn handles_events_of_an_agent(project: &Project<'_>) -> Result<()> {
    let cwd = windows_path(&project.folder);
    let event = |mut event: Value| -> Result<Output> {
        event["session_id"] = json!("s1");
        event["cwd"] = json!(cwd);
        project.on_input(&event.to_string(), &["hook", "claude-code"])
    };
    let events = [
        json!({"hook_event_name": "SessionStart", "source": "startup"}),
        json!({"hook_event_name": "UserPromptSubmit", "prompt": "make the tests of the parser pass"}),
        json!({"hook_event_name": "PostToolUse", "tool_name": "Write",
            "tool_input": {"file_path": format!("{cwd}\\parser.rs")}, "tool_response": {}}),
    ];
    for value in events {
        let output = event(value.clone())?;
        ensure!(output.status.success(), "the hook for {value}: {}", describe(&output));
    }
    let resumed = project.passes(&["resume"])?;
    ensure!(resumed.contains("parser"), "the prompt was not recorded: {resumed}");
    Ok(())
}

fn installs_hooks_that_shells_of_windows_run(project: &Project<'_>) -> Result<()> {
    project.passes(&["agents", "install", "claude-code", "--project", "--yes"])?;
    let settings = fs::read_to_string(project.folder.join(".claude/settings.json"))
        .or_else(|_| fs::read_to_string(project.folder.join(".claude/settings.local.json")))
        .context("no settings of Claude Code were written")?;
    ensure!(settings.contains("\"milepost hook claude-code\""), "the settings are {settings}");
    // As an agent runs it, with the program found through PATH.
    let mut hook = project.wine.command("wine");
    hook.current_dir(&project.folder).env("WINEPATH", windows_path(&project.wine.folder.join("bin")));
    hook.args(["cmd", "/c", "milepost hook claude-code"]);
    let mut child = hook.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let event = json!({"session_id": "s2", "cwd": windows_path(&project.folder),
        "hook_event_name": "UserPromptSubmit", "prompt": "rename the module"});
    child.stdin.take().context("no stdin")?.write_all(event.to_string().as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "cmd /c milepost hook: {}", describe(&output));
    Ok(())
}

/// A path of this machine as programs under Wine see it.
fn windows_path(path: &Path) -> String {
    format!("Z:{}", path.display()).replace('/', "\\")
}

/// The pids of processes of this machine whose command line ends with these arguments, separated by NUL.
fn processes_with(arguments: &str) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        // The run's own command line ends with the same arguments.
        if line.trim_end_matches('\0').ends_with(arguments) && !line.contains("\0run\0") {
            found.push(pid);
        }
    }
    Ok(found)
}

fn wait_until(what: &str, mut check: impl FnMut() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !check()? {
        ensure!(start.elapsed() < PATIENCE, "waited {} s in vain until {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn describe(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    format!("{}\nstdout: {}\nstderr: {}", output.status, text(&output.stdout), text(&output.stderr))
}
