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
