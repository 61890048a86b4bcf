//! Hostile content in every field that can be recorded. It must be shown as text and run nothing, and a server of the
//! test's, to which the content refers, must never be asked.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use super::agent::Agent;
use super::sandbox::Sandbox;
use super::server::PageServer;
use super::{Environment, Outcome};
use crate::faults::Size;

/// The run with most of the content.
const RUN: &str = "evil";
/// The name of the project's folder.
const PROJECT: &str = "<svg onload=pwn()>&quot;'";

pub(super) fn run(env: &Environment) -> Result<Outcome> {
    let browser = match &env.browser {
        Ok(browser) => browser,
        Err(reason) => return Ok(Outcome::Skipped(reason.clone())),
    };
    // Whoever loads an image from here tells the author of the content that it was read.
    let beacon = TcpListener::bind("127.0.0.1:0")?;
    beacon.set_nonblocking(true)?;
    let beacon_address = format!("http://127.0.0.1:{}", beacon.local_addr()?.port());
    let sandbox = Sandbox::new(&env.milepost)?;
    let texts = Texts::new(&beacon_address);
    let recorded = record(&sandbox, &texts)?;
    let server = PageServer::start(&sandbox, &sandbox.home)?;
    let settings = json!({ "projectName": PROJECT, "run": RUN, "short": env.size == Size::Short, "least": 12, "most": env.pick(14, 90) });
    let figures = browser.run("hostile", &server, settings)?;
    ensure!(beacon.accept().is_err(), "a page made the browser load something from the content's author");
    let memory = server.kib("VmHWM")? >> 10;
    ensure!(memory < 200, "the server used {memory} MiB of memory");
    Ok(Outcome::Passed(format!("{recorded} fields, {figures}; the server used {memory} MiB")))
}

/// Hostile texts.
struct Texts {
    all: Vec<String>,
    /// All of them in one.
    joined: String,
    markdown: String,
}

impl Texts {
    fn new(beacon: &str) -> Self {
        let mut all: Vec<String> = [
            "<script>pwn()</script>",
            "\"><script src=//evil.example/x.js></script>",
            "<img src=x onerror=pwn()>",
            "</title></textarea></style></script><svg onload=pwn()>",
            "<style>*{display:none}</style>",
            "<math><mtext><table><mglyph><style><img src=x onerror=pwn()>",
            "<svg><animate onbegin=pwn() attributeName=x dur=1s><set attributeName=onmouseover to=pwn()>",
            "' onmouseover='pwn()' autofocus onfocus=pwn() x='",
            "{{7*7}}pwn ${7*7}pwn {% raw %} <%= 7*7 %>pwn #{7*7} @(pwn())",
            "\u{1b}[2J\u{1b}]0;owned\u{7}\u{1b}[31mred\u{1b}[0m",
            "\u{202e}gnp.exe \u{2066}hidden\u{2069} \u{200f}",
            "\u{9b}31m \u{7f}\u{8}\u{8}\u{8}over",
            "javascript:pwn()",
            "--></noscript><base href=//evil.example/><meta http-equiv=refresh content='0;url=javascript:pwn()'>",
            "\r\nSet-Cookie: a=b\r\n\r\n<script>pwn()</script>",
        ]
        .map(str::to_owned)
        .to_vec();
        all.push(format!("<img src='{beacon}/image.png'><link rel=stylesheet href='{beacon}/style.css'>"));
        let joined = all.join(" ");
        let markdown = format!(
            "# <script>pwn()</script> {{#evil .evil onclick=pwn()}}\n\n{}\n\n\
             [a](javascript:pwn()) [b](JaVaScRiPt:pwn()) [c](data:text/html,<script>pwn()</script>)\n\
             [d](vbscript:pwn()) [e](  javascript:pwn()) [f](java\tscript:pwn()) <javascript:pwn()> [g](//evil.example)\n\
             [h](https://evil.example/\"onmouseover=pwn()) [i](file:///etc/passwd) [j](blob:x)\n\n\
             ![image]({beacon}/pixel.png) ![svg](data:image/svg+xml,<svg/onload=pwn()>) [![in]({beacon}/in.png)]({beacon}/l)\n\n\
             <img src='{beacon}/raw.png'> <iframe src='{beacon}/frame'></iframe>\n\n\
             [ref]: javascript:pwn()\n[ref] [ref][ref]\n\n<div onclick=pwn()>\n\n| <b>x</b> | {} |\n|---|---|\n| `</code>` | ~~x~~ |\n\n\
             ```html\n</code></pre><script>pwn()</script>\n```\n\n{}\n",
            all.join("\n\n"),
            all[0],
            "> ".repeat(300)
        );
        Self { all, joined, markdown }
    }
}

/// Records the texts everywhere. Returns the number of fields. A command may refuse some of the texts, but not all.
fn record(sandbox: &Sandbox, texts: &Texts) -> Result<usize> {
    let project = sandbox.project(PROJECT, &[("notes.txt", "one\n"), ("long.txt", "short\n")])?;
    let all = &*texts.joined;
    let huge = format!("{} {all}", "A".repeat(1 << 20));
    let mut fields = 0;
    // How often each command accepted a text.
    let mut accepted: BTreeMap<String, usize> = BTreeMap::new();
    let mut run = |words: &[&str]| {
        let count = accepted.entry(words[0].to_owned()).or_default();
        *count += usize::from(sandbox.run(&project, words).is_ok());
    };
    let _ = sandbox.git(&project, &["checkout", "-q", "-b", "<script>pwn()</script>&\"'`$(x)"]);
    run(&["start", "--run", RUN, "--title", all, "--plan", all]);
    run(&["save", "--run", RUN, all, "--reason", all, "--phase", all, "--tag", "<img-src=x-onerror=pwn()>"]);
    hostile_files(&project, texts)?;
    for text in &texts.all {
        run(&["decide", "--run", RUN, text]);
        run(&["note", "--run", RUN, text]);
        run(&["task", "set", "--run", RUN, text, "in_progress", "--title", text]);
        run(&["criterion", "set", "--run", RUN, text, "pending", "--subject", text]);
        run(&[
            "record",
            "--run",
            RUN,
            "--kind",
            "shell",
            "--name",
            text,
            "--result",
            "FAIL",
            "--duration-ms",
            "1",
            "--summary",
            text,
            "--reason-code",
            text,
        ]);
        run(&["save", "--run", RUN, text, "--tag", text]);
    }
    run(&["step", "begin", "--run", RUN, &texts.all[0], "--ordinal", "1"]);
    run(&["context", "set", "--run", RUN, "--protect", all, "--policy", all]);
    for words in [["save", "-m"], ["decide", "--"], ["note", "--"]] {
        // Longer than an argument may be, so it comes as the input of a save below.
        run(&[words[0], "--run", RUN, words[1], &huge[..100_000]]);
    }
    if let Some((name, _)) = accepted.iter().find(|(_, count)| **count == 0) {
        bail!("milepost {name} refuses every hostile text, so it tests nothing");
    }
    fields += accepted.values().sum::<usize>();
    let brief = sandbox.home.join("brief.md");
    std::fs::write(&brief, &texts.markdown)?;
    let brief = brief.to_string_lossy().into_owned();
    for input in inputs(texts, &huge) {
        let text = input.to_string();
        for words in [
            &["save", "--run", RUN, all, "--input", "-", "--no-redact"][..],
            &["save", "--run", "evil-state", "--input", "-", "--brief", &brief],
        ] {
            sandbox.run_with_input(&project, words, &text)?;
            fields += 1;
        }
    }
    fields += sessions(sandbox, &project, texts, &huge)?;
    Ok(fields)
}

/// States, metadata and further members of a checkpoint.
fn inputs(texts: &Texts, huge: &str) -> Vec<Value> {
    let all = &*texts.joined;
    let members: serde_json::Map<String, Value> =
        texts.all.iter().map(|text| (text.clone(), json!([text, { text: text }]))).collect();
    let mut deep = json!(all);
    for _ in 0..40 {
        deep = json!({ "<b>": [deep] });
    }
    vec![
        json!({ "state": members, "metadata": { "nul": "a\u{0}b", "text": all, "deep": deep } }),
        json!({ "state": { "long": &huge[..150_000], "list": vec![all; 20] }, "metadata": { "list": [all] } }),
        json!({ "state": all, "tasks": [{ "id": all, "title": all, "status": all, "subtasks": [{ "id": all, "title": all }] }] }),
        json!({ "session_id": all, "agent": all, "<script>": all }),
    ]
}

/// Files with hostile names and contents.
fn hostile_files(project: &Path, texts: &Texts) -> Result<()> {
    let names = texts.all.iter().map(|text| text.replace(['/', '\0'], "_").into_bytes());
    let more = [b"new\nline".to_vec(), b"not utf-8 \xff\xfe <b>".to_vec(), b"-rf *".to_vec()];
    for mut name in names.chain(more) {
        name.truncate(200);
        let _ = std::fs::write(project.join(OsStr::from_bytes(&name)), &texts.joined);
    }
    std::fs::write(project.join("long.txt"), format!("{}<script>pwn()</script>\n", "x".repeat(1 << 20)))?;
    std::fs::write(project.join("notes.txt"), texts.all.join("\n"))?;
    Ok(())
}

/// Sessions of an agent whose every message is hostile.
fn sessions(sandbox: &Sandbox, project: &Path, texts: &Texts, huge: &str) -> Result<usize> {
    let mut fields = 0;
    for session in ["evil-session", &texts.all[0], &texts.all[10], "../../../etc/passwd"] {
        let Ok(mut agent) = Agent::start(sandbox, project, "claude-code", session) else { continue };
        for text in texts.all.iter().map(String::as_str).chain([huge]) {
            agent.prompt(text)?;
            agent.shell(text, 1, text)?;
            fields += 2;
            if session != "evil-session" {
                break;
            }
        }
        let all = &*texts.joined;
        agent.todo(&[(all, "pending"), (&texts.all[1], "in_progress"), (&texts.all[2], all)])?;
        agent.report("SubagentStop", json!({ "agent_id": all, "agent_type": all, "agent_name": all }))?;
        agent.report("PreCompact", json!({ "trigger": all, "custom_instructions": all }))?;
        agent.report("Stop", json!({ "last_assistant_message": texts.markdown }))?;
        agent.report("Notification", json!({ "message": all, "notification_type": all }))?;
        fields += 5;
    }
    Ok(fields)
}
