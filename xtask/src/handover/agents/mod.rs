//! How each agent reports a session. Takes what happened, in the same form for all agents, and returns what
//! the agent sends to Milepost: the payloads of its hooks, lines of its transcript, or calls of the OpenCode
//! plugin. The shapes are those of `crates/milepost-cli/tests/fixtures/agent-hooks`. Writes no files.

mod claude;
mod codex;
mod gemini;
mod opencode;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::story::{SessionEnd, TodoItem};

/// The agents that can be played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AgentKind {
    ClaudeCode,
    Codex,
    Gemini,
    OpenCode,
}

impl AgentKind {
    pub const ALL: [Self; 4] = [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::OpenCode];

    /// The name in `milepost hook NAME` and in stories.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
        }
    }

    pub fn from_name(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|agent| agent.name() == name)
            .with_context(|| format!("unknown agent {name}; known: {}", Self::ALL.map(Self::name).join(", ")))
    }
}

impl fmt::Display for AgentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an agent sends.
#[derive(Debug)]
pub enum Report {
    /// JSON on the standard input of `milepost hook AGENT`.
    Hook(Value),
    /// A line that the agent adds to its transcript.
    TranscriptLine(Value),
    /// A file that the agent writes outside the project or in a folder of its own.
    File(PathBuf, String),
    /// A call of a hook of the OpenCode plugin.
    Plugin { hook: &'static str, input: Value, output: Value },
}

/// How a session starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionSource {
    Startup,
    Clear,
}

/// A finished tool call. Paths are relative to the project.
#[derive(Debug)]
pub enum ToolCall {
    Shell {
        command: String,
        exit: i64,
        output: String,
        folder: Option<String>,
    },
    /// A file was written. `before` is its earlier content, if it existed.
    Edit {
        path: String,
        before: Option<String>,
        after: String,
    },
    Read {
        path: String,
        content: String,
    },
    Search(String),
    Todo(Vec<TodoItem>),
    Plan {
        text: String,
        approved: bool,
    },
    Ask {
        question: String,
        options: Vec<String>,
        answer: String,
    },
}

/// The identity of a session, which every payload repeats.
#[derive(Debug, Clone)]
pub struct SessionIdentity {
    pub id: String,
    pub home: PathBuf,
    pub project: PathBuf,
    pub transcript: PathBuf,
}

impl SessionIdentity {
    /// The session `n` of a story.
    pub fn new(agent: AgentKind, n: usize, home: &Path, project: &Path) -> Self {
        let id = match agent {
            AgentKind::ClaudeCode | AgentKind::Gemini => uuid(n as u64 * 1000, 4),
            AgentKind::Codex => uuid(n as u64 * 1000, 7),
            AgentKind::OpenCode => opencode_id("ses", n as u64 * 1000),
        };
        let transcript = home.join(match agent {
            AgentKind::ClaudeCode => {
                let folder = project.to_string_lossy().replace(['/', '.'], "-");
                format!(".claude/projects/{folder}/{id}.jsonl")
            }
            AgentKind::Codex => {
                format!(".codex/sessions/2026/11/16/rollout-2026-11-16T05-36-44-{id}.jsonl")
            }
            AgentKind::Gemini => {
                format!(".gemini/tmp/project/chats/session-2026-11-16T05-36-{}.jsonl", &id[..8])
            }
            AgentKind::OpenCode => "none".to_owned(),
        });
        Self { id, home: home.to_owned(), project: project.to_owned(), transcript }
    }

    /// The absolute path of a file of the project.
    fn path(&self, relative: &str) -> String {
        self.project.join(relative).to_string_lossy().into_owned()
    }

    /// A payload with the fields that Claude Code, Codex and Gemini share.
    fn payload(&self, event: &str, more: Value) -> Value {
        let mut payload = json!({
            "session_id": self.id,
            "transcript_path": self.transcript,
            "cwd": self.project,
            "hook_event_name": event,
        });
        merge(&mut payload, more);
        payload
    }
}

/// Reports a session as one agent does. Each method returns what the agent sends, in order.
pub trait Reporter {
    fn start(&mut self, source: SessionSource) -> Vec<Report>;
    /// Called with the text that Milepost added to the context when the session started.
    fn receive_context(&mut self, _text: &str) {}
    fn prompt(&mut self, text: &str) -> Vec<Report>;
    fn tool(&mut self, call: &ToolCall) -> Vec<Report>;
    /// The turn ends with a message of the agent.
    fn turn_end(&mut self, message: &str) -> Vec<Report>;
    fn compaction(&mut self) -> Vec<Report>;
    fn session_end(&mut self, end: SessionEnd) -> Vec<Report>;
}

/// The reporter for a session.
pub fn reporter(agent: AgentKind, session: SessionIdentity) -> Box<dyn Reporter> {
    match agent {
        AgentKind::ClaudeCode => Box::new(claude::Claude::new(session)),
        AgentKind::Codex => Box::new(codex::Codex::new(session)),
        AgentKind::Gemini => Box::new(gemini::Gemini::new(session)),
        AgentKind::OpenCode => Box::new(opencode::OpenCode::new(session)),
    }
}

/// Adds the members of one object to another.
fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

/// The edit that turns one content into another by replacing its last line: the old and the new string.
fn replacement<'a>(before: &'a str, after: &'a str) -> (&'a str, &'a str) {
    let start = before.trim_end_matches('\n').rfind('\n').map_or(0, |at| at + 1);
    (&before[start..], after.get(start..).unwrap_or(after))
}

/// The first word of a question, as its short title.
fn header(question: &str) -> String {
    question.split_whitespace().next().unwrap_or("Question").chars().take(12).collect()
}

/// The options of a question, as the question tools of all agents list them.
fn labels(options: &[String]) -> Value {
    options.iter().map(|label| json!({ "label": label, "description": label })).collect()
}

/// Quotes a word for a shell, if necessary.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Letters and digits that look random and depend only on `seed`.
fn scrambled(seed: u64) -> [u64; 2] {
    [1, 2].map(|n| {
        let mut x = seed.wrapping_mul(2).wrapping_add(n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    })
}

/// A UUID of the given version.
fn uuid(seed: u64, version: u64) -> String {
    let [a, b] = scrambled(seed);
    format!(
        "{:08x}-{:04x}-{version}{:03x}-a{:03x}-{:012x}",
        a >> 32,
        (a >> 16) & 0xffff,
        a & 0xfff,
        b >> 52,
        b & 0xffff_ffff_ffff
    )
}

/// An id in OpenCode's form.
fn opencode_id(prefix: &str, seed: u64) -> String {
    let [a, b] = scrambled(seed);
    format!("{prefix}_{:012x}{:014x}", a & 0xffff_ffff_ffff, b & 0xff_ffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    macro_rules! recorded {
        ($($name:literal),*) => {
            [$(include_str!(concat!("../../../../crates/milepost-cli/tests/fixtures/agent-hooks/", $name, ".json"))),*]
        };
    }

    /// Everything that an agent sends in a session with every kind of event.
    fn session(agent: AgentKind) -> Vec<Report> {
        let identity =
            SessionIdentity::new(agent, 1, Path::new("/home/user"), Path::new("/home/user/project"));
        let mut reporter = reporter(agent, identity);
        let item = |title: &str, status: &str| TodoItem { title: title.into(), status: status.into() };
        let calls = [
            ToolCall::Edit { path: "a.txt".into(), before: None, after: "x\n".into() },
            ToolCall::Edit { path: "a.txt".into(), before: Some("x\n".into()), after: "x\ny\n".into() },
            ToolCall::Shell { command: "cat b".into(), exit: 1, output: "no file".into(), folder: None },
            ToolCall::Shell { command: "ls".into(), exit: 0, output: "a".into(), folder: Some("src".into()) },
            ToolCall::Read { path: "a.txt".into(), content: "x".into() },
            ToolCall::Search("x".into()),
            ToolCall::Todo(vec![item("Write", "completed"), item("Test", "pending")]),
            ToolCall::Plan { text: "1. Write".into(), approved: true },
            ToolCall::Ask { question: "Which?".into(), options: vec!["This".into()], answer: "This".into() },
        ];
        let mut sent = reporter.start(SessionSource::Startup);
        sent.extend(reporter.prompt("Build it"));
        sent.extend(calls.iter().flat_map(|call| reporter.tool(call)));
        sent.extend(reporter.compaction());
        sent.extend(reporter.turn_end("Done."));
        sent.extend(reporter.session_end(SessionEnd::Exit));
        sent
    }

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().map(|members| members.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    #[test]
    fn payloads_have_the_fields_of_recorded_ones() {
        let recordings = [
            (
                AgentKind::ClaudeCode,
                &recorded!("claude-code", "claude-code-lifecycle", "claude-code-work")[..],
            ),
            (AgentKind::Codex, &recorded!("codex", "codex-work")[..]),
            (AgentKind::Gemini, &recorded!("gemini", "gemini-work")[..]),
        ];
        for (agent, texts) in recordings {
            let sent: Vec<Value> = session(agent)
                .into_iter()
                .filter_map(|report| if let Report::Hook(payload) = report { Some(payload) } else { None })
                .collect();
            let mut compared = BTreeSet::new();
            for text in texts {
                let events: Vec<Value> = serde_json::from_str(text).unwrap();
                for payload in events.iter().map(|event| &event["stdin"]).filter(|stdin| stdin.is_object()) {
                    let kind = |of: &Value| (of["hook_event_name"].clone(), of["tool_name"].clone());
                    let Some(own) = sent.iter().find(|own| kind(own) == kind(payload)) else { continue };
                    assert_eq!(keys(own), keys(payload), "{agent}: {payload}");
                    assert_eq!(keys(&own["tool_input"]), keys(&payload["tool_input"]), "{agent}: {payload}");
                    assert_eq!(own["tool_response"].is_string(), payload["tool_response"].is_string());
                    compared.insert(kind(payload).0.to_string() + &kind(payload).1.to_string());
                }
            }
            assert!(compared.len() >= 7, "{agent}: {compared:?}");
        }
    }

    #[test]
    fn calls_of_the_plugin_have_the_fields_of_recorded_ones() {
        let sent = session(AgentKind::OpenCode);
        let mut compared = 0;
        let events: Vec<Value> = serde_json::from_str(recorded!("opencode-work")[0]).unwrap();
        for event in &events {
            let (hook, data) = (event["event"].as_str().unwrap(), &event["data"]);
            for report in &sent {
                let Report::Plugin { hook: own, input, output } = report else { continue };
                if *own != hook || input["tool"] != data["i"]["tool"] || data["o"].is_null() {
                    continue;
                }
                assert_eq!(keys(input), keys(&data["i"]), "{hook}");
                assert_eq!(keys(output), keys(&data["o"]), "{hook}");
                assert!(keys(&output["metadata"]).is_superset(&keys(&data["o"]["metadata"])), "{hook}");
                compared += 1;
            }
        }
        assert!(compared >= 4, "{compared}");
    }

    #[test]
    fn an_exit_code_of_codex_is_only_in_the_transcript() {
        let sent = session(AgentKind::Codex);
        let command = |report: &&Report| match report {
            Report::Hook(payload) => payload["tool_input"]["command"] == "cat b",
            _ => false,
        };
        let at = sent.iter().position(|report| command(&report)).unwrap();
        let Report::Hook(payload) = &sent[at] else { unreachable!() };
        assert_eq!(payload["tool_response"], "no file");
        let ends: Vec<&Value> = sent[..at]
            .iter()
            .filter_map(|report| if let Report::TranscriptLine(line) = report { Some(line) } else { None })
            .map(|line| &line["payload"]["item"])
            .filter(|item| item["id"] == payload["tool_use_id"])
            .collect();
        assert!(matches!(ends[..], [item] if item["exit_code"] == 1));
    }

    #[test]
    fn claude_reports_changes_of_its_list_one_by_one() {
        let identity = SessionIdentity::new(
            AgentKind::ClaudeCode,
            1,
            Path::new("/home/user"),
            Path::new("/home/user/project"),
        );
        let mut reporter = reporter(AgentKind::ClaudeCode, identity);
        let mut calls = |items: &[(&str, &str)]| {
            let item = |(title, status): &(&str, &str)| TodoItem {
                title: (*title).into(),
                status: (*status).into(),
            };
            let reports = reporter.tool(&ToolCall::Todo(items.iter().map(item).collect()));
            reports
                .iter()
                .map(|report| {
                    let Report::Hook(payload) = report else { unreachable!() };
                    let input = &payload["tool_input"];
                    let what = input["subject"].as_str().or(input["status"].as_str()).unwrap();
                    format!("{} {what}", payload["tool_name"].as_str().unwrap())
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            calls(&[("Write", "in_progress"), ("Test", "pending")]),
            ["TaskCreate Write", "TaskUpdate in_progress", "TaskCreate Test"]
        );
        assert_eq!(calls(&[("Write", "completed"), ("Test", "pending")]), ["TaskUpdate completed"]);
        assert_eq!(calls(&[("Test", "pending")]), [] as [&str; 0]);
        assert_eq!(calls(&[("Ship", "pending")]), ["TaskCreate Ship", "TaskUpdate deleted"]);
    }
}
