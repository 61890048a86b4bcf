//! `cargo xtask mcp`: tests the real server with the official clients. The MCP Inspector's command-line mode
//! and the Python SDK list and call every tool. Both are installed under `target/`, from npm and PyPI;
//! nothing else changes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::npm;
use crate::shell::{build_program, is_installed, read_output, root, run_program};

/// Calls to every tool, ordered so that each one succeeds. Arguments use the Inspector's `name=value` form.
const CALLS: [(&str, &[&str]); 15] = [
    ("save", &["summary=parser half done", "phase=BUILD", "phase_number=4", "tag=[\"half\"]"]),
    ("tasks", &["tasks=[{\"id\":\"parse\",\"status\":\"in_progress\",\"title\":\"Parser\"}]"]),
    ("decide", &["text=SQLite it is"]),
    ("record", &["kind=shell", "name=make test", "result=FAIL", "duration_ms=1200"]),
    ("step", &["what=begin", "id=s1", "ordinal=1"]),
    ("step", &["what=done", "id=s1"]),
    ("list", &["limit=5"]),
    ("show", &["ref=half"]),
    ("diff", &["from=half"]),
    ("patch", &["from=half", "stat=true"]),
    ("file", &["ref=half", "path=notes.txt"]),
    ("restore", &["ref=half"]),
    ("undo", &["list=true"]),
    ("resume", &["budget=800"]),
    ("complete", &["ref=latest"]),
];

/// The tested clients. This version of the Inspector is the newest that runs on Node 20.
const INSPECTOR: &str = "@modelcontextprotocol/inspector@0.15.0";
const PYTHON: &str = "mcp==2.3.0";

pub fn run() -> Result<()> {
    for program in ["npm", "node", "python3"] {
        ensure!(is_installed(program), "{program} is required but not installed");
    }
    let milepost = build_program()?;
    let tools = root().join("target/mcp");
    std::fs::create_dir_all(&tools)?;
    with_inspector(&milepost, &inspector(&tools)?)?;
    with_python(&milepost, &python(&tools)?)?;
    println!("mcp: the Inspector and the Python SDK listed and called every tool");
    Ok(())
}

/// Installs the Inspector if needed and returns the path of its program.
fn inspector(tools: &Path) -> Result<PathBuf> {
    npm::program(&npm::install(&tools.join("inspector"), INSPECTOR)?, "mcp-inspector")
}

/// Creates a virtual environment with the SDK if needed and returns the path of its Python.
fn python(tools: &Path) -> Result<PathBuf> {
    let folder = tools.join("python");
    let python = folder.join("bin/python");
    if !folder.join("bin/mcp").exists() {
        run_program(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run_program(Command::new(&python).args(["-m", "pip", "install", "--quiet", PYTHON]))?;
    }
    Ok(python)
}

/// Creates a git repository with one file.
fn create_project(place: &Path) -> Result<PathBuf> {
    let folder = place.join("project");
    std::fs::create_dir(&folder)?;
    std::fs::write(folder.join("notes.txt"), "parser: half done\n")?;
    run_program(Command::new("git").args(["init", "--quiet"]).current_dir(&folder))?;
    Ok(folder)
}

fn with_inspector(milepost: &Path, inspector: &Path) -> Result<()> {
    let place = tempfile::tempdir()?;
    let folder = create_project(place.path())?;
    let ask = |words: &[&str]| -> Result<Value> {
        let mut command = Command::new(inspector);
        command.current_dir(&folder).env("HOME", place.path());
        command.arg("--cli").arg(milepost).arg("mcp").args(words);
        let text = read_output(&mut command)?;
        serde_json::from_str(&text).with_context(|| format!("{words:?} printed no JSON: {text}"))
    };
    let listed = ask(&["--method", "tools/list"])?;
    let names: BTreeSet<_> =
        listed["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    let called: BTreeSet<_> = CALLS.iter().map(|(tool, _)| *tool).collect();
    ensure!(names == called, "the Inspector lists {names:?}, not {called:?}");
    for (tool, arguments) in CALLS {
        let mut words = vec!["--method", "tools/call", "--tool-name", tool];
        words.extend(arguments.iter().flat_map(|argument| ["--tool-arg", argument]));
        let answer = ask(&words)?;
        let schema = answer["structuredContent"]["schema"].as_str().unwrap_or_default();
        if answer["isError"] == true || schema != format!("milepost.{tool}/1") {
            bail!("{tool} {arguments:?} failed in the Inspector: {answer}");
        }
        println!("mcp: inspector {tool}: ok");
    }
    let resources = ask(&["--method", "resources/list"])?;
    ensure!(
        resources["resources"].as_array().is_some_and(|all| all.len() == 2),
        "expected two resources, but got {resources}"
    );
    let brief = ask(&["--method", "resources/read", "--uri", "milepost://brief/latest"])?;
    ensure!(brief.to_string().contains("SQLite it is"), "the latest brief lacks the decision: {brief}");
    let prompt = ask(&["--method", "prompts/get", "--prompt-name", "resume"])?;
    ensure!(prompt["messages"][0]["role"] == "user", "the prompt has no user message: {prompt}");
    Ok(())
}

fn with_python(milepost: &Path, python: &Path) -> Result<()> {
    let place = tempfile::tempdir()?;
    let calls: Vec<Value> =
        CALLS.iter().map(|(tool, arguments)| serde_json::json!([tool, typed(arguments)])).collect();
    let script = place.path().join("client.py");
    std::fs::write(&script, include_str!("client.py"))?;
    let folder = create_project(place.path())?;
    let mut command = Command::new(python);
    command.arg(&script).arg(milepost).arg(serde_json::to_string(&calls)?);
    run_program(command.current_dir(&folder).env("HOME", place.path()))
}

/// Converts `name=value` arguments to JSON.
fn typed(arguments: &[&str]) -> Value {
    let pairs = arguments.iter().filter_map(|argument| argument.split_once('='));
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    pairs.map(|(name, text)| (name.to_owned(), value(text))).collect::<serde_json::Map<_, _>>().into()
}
