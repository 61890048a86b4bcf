//! Stories of interrupted work. Takes the JSON text of a story and returns its sessions, with repeated events
//! expanded, and its labels. `xtask/corpus/handover/README.md` describes the format. Does no I/O.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::agents::AgentKind;

/// A piece of work over several sessions, and what the next session must be told about it.
pub struct Story {
    pub name: String,
    /// Files that are committed before the work begins: paths and contents.
    pub files: BTreeMap<String, String>,
    pub sessions: Vec<Session>,
    pub facts: Vec<Fact>,
    pub stale: Vec<StaleFact>,
}

pub struct Session {
    /// The agent that runs this session. `None` means the agent under test.
    pub agent: Option<AgentKind>,
    pub events: Vec<Event>,
    pub end: SessionEnd,
}

/// How a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// The process is killed and reports nothing more.
    Kill,
    /// The user quits while work is still open.
    Exit,
    /// A usage limit stops the turn.
    Limit,
    /// The request to the model fails.
    Error,
    /// The user clears the context. The next session runs in the same process.
    Clear,
}

/// One event of a session, the same for all agents.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    Prompt(String),
    /// The agent ends its turn with a message.
    Say(String),
    Shell {
        command: String,
        exit: i64,
        output: String,
        /// The folder in which the command runs, relative to the project.
        folder: Option<String>,
    },
    Edit(String),
    Read(String),
    Search(String),
    Delete(String),
    Rename(String, String),
    Commit(String),
    Branch(String),
    /// The agent's whole to-do list.
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
    Compact,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TodoItem {
    pub title: String,
    pub status: String,
}

impl TodoItem {
    pub fn is_open(&self) -> bool {
        matches!(self.status.as_str(), "pending" | "in_progress")
    }
}

/// The class of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactClass {
    Constraint,
    Failure,
    Todo,
    Decision,
    File,
    LastMessage,
}

impl FactClass {
    pub const ALL: [Self; 6] =
        [Self::Constraint, Self::Failure, Self::Todo, Self::Decision, Self::File, Self::LastMessage];

    pub fn name(self) -> &'static str {
        match self {
            Self::Constraint => "constraint",
            Self::Failure => "failure",
            Self::Todo => "todo",
            Self::Decision => "decision",
            Self::File => "file",
            Self::LastMessage => "last_message",
        }
    }
}

/// What the next session must be told: one of several verbatim texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fact {
    pub class: FactClass,
    pub any: Vec<String>,
}

/// What the next session must not be told as if it were current.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaleFact {
    pub class: FactClass,
    pub text: String,
    #[serde(default)]
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStory {
    #[serde(rename = "about")]
    _about: String,
    #[serde(rename = "language")]
    _language: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    sessions: Vec<RawSession>,
    facts: Vec<Fact>,
    #[serde(default)]
    stale: Vec<StaleFact>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSession {
    agent: Option<String>,
    events: Vec<Value>,
    end: SessionEnd,
}

/// The kinds of events, and the members that each may have in addition.
const KINDS: [(&str, &[&str]); 15] = [
    ("prompt", &[]),
    ("say", &[]),
    ("shell", &["exit", "output", "cwd"]),
    ("edit", &[]),
    ("read", &[]),
    ("search", &[]),
    ("delete", &[]),
    ("rename", &[]),
    ("commit", &[]),
    ("branch", &[]),
    ("todo", &[]),
    ("plan", &["approved"]),
    ("ask", &["options", "answer"]),
    ("compact", &[]),
    ("repeat", &["events"]),
];

const STATUSES: [&str; 4] = ["pending", "in_progress", "completed", "cancelled"];

impl Story {
    /// Parses a story. Does not check its labels.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let raw: RawStory = serde_json::from_str(text)?;
        ensure!(!raw.sessions.is_empty(), "the story has no sessions");
        let sessions = (1..)
            .zip(raw.sessions)
            .map(|(n, session)| session.parse().with_context(|| format!("session {n}")));
        Ok(Self {
            name: name.to_owned(),
            files: raw.files,
            sessions: sessions.collect::<Result<_>>()?,
            facts: raw.facts,
            stale: raw.stale,
        })
    }

    /// All events, in order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &Event> {
        self.sessions.iter().flat_map(|session| &session.events)
    }

    /// The newest to-do list.
    pub fn newest_todo(&self) -> &[TodoItem] {
        let newest = self.events().rev().find_map(|event| match event {
            Event::Todo(list) => Some(list.as_slice()),
            _ => None,
        });
        newest.unwrap_or_default()
    }
}

impl RawSession {
    fn parse(self) -> Result<Session> {
        let mut events = Vec::new();
        for (n, value) in (1..).zip(&self.events) {
            expand(value, &mut events).with_context(|| format!("event {n}"))?;
        }
        let agent = self.agent.as_deref().map(AgentKind::from_name).transpose()?;
        Ok(Session { agent, events, end: self.end })
    }
}

/// Parses an event and appends it, or the events that it repeats.
fn expand(value: &Value, events: &mut Vec<Event>) -> Result<()> {
    let Some(count) = value.get("repeat") else {
        events.push(parse_event(value)?);
        return Ok(());
    };
    let count = count.as_u64().context("`repeat` must be a number")?;
    let repeated = value["events"].as_array().context("`repeat` needs `events`")?;
    for n in 1..=count {
        for event in repeated {
            ensure!(event.get("repeat").is_none(), "`repeat` must not contain `repeat`");
            events.push(parse_event(&numbered(event, n))?);
        }
    }
    Ok(())
}

/// A copy of a value in which `{n}` in every string is replaced by a number.
fn numbered(value: &Value, n: u64) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{n}", &n.to_string())),
        Value::Array(items) => items.iter().map(|item| numbered(item, n)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), numbered(member, n))).collect()
        }
        other => other.clone(),
    }
}

fn parse_event(value: &Value) -> Result<Event> {
    let members = value.as_object().context("an event must be an object")?;
    let Some((kind, more)) = KINDS.iter().find(|(kind, _)| members.contains_key(*kind)) else {
        bail!("unknown event {value}; known: {}", KINDS.map(|(kind, _)| kind).join(", "));
    };
    if let Some(unknown) = members.keys().find(|name| name != kind && !more.contains(&name.as_str())) {
        bail!("`{kind}` must not have `{unknown}`");
    }
    let own = || text(members, kind);
    Ok(match *kind {
        "prompt" => Event::Prompt(own()?),
        "say" => Event::Say(own()?),
        "shell" => Event::Shell {
            command: own()?,
            exit: members.get("exit").map_or(Some(0), Value::as_i64).context("`exit` must be a number")?,
            output: optional_text(members, "output")?.unwrap_or_default(),
            folder: optional_text(members, "cwd")?,
        },
        "edit" => Event::Edit(own()?),
        "read" => Event::Read(own()?),
        "search" => Event::Search(own()?),
        "delete" => Event::Delete(own()?),
        "rename" => {
            let [from, to]: [String; 2] =
                strings(&members["rename"])?.try_into().ok().context("`rename` needs two paths")?;
            Event::Rename(from, to)
        }
        "commit" => Event::Commit(own()?),
        "branch" => Event::Branch(own()?),
        "todo" => {
            let items = members["todo"].as_array().context("`todo` must be a list")?;
            Event::Todo(items.iter().map(todo_item).collect::<Result<_>>()?)
        }
        "plan" => Event::Plan {
            text: own()?,
            approved: members.get("approved").and_then(Value::as_bool).context("`plan` needs `approved`")?,
        },
        "ask" => Event::Ask {
            question: own()?,
            options: strings(members.get("options").unwrap_or(&Value::Null))?,
            answer: text(members, "answer")?,
        },
        _ => Event::Compact,
    })
}

fn todo_item(value: &Value) -> Result<TodoItem> {
    let [title, status]: [String; 2] =
        strings(value)?.try_into().ok().context("an item of `todo` needs a title and a status")?;
    ensure!(STATUSES.contains(&status.as_str()), "unknown status {status}; known: {}", STATUSES.join(", "));
    Ok(TodoItem { title, status })
}

fn text(members: &Map<String, Value>, name: &str) -> Result<String> {
    optional_text(members, name)?.with_context(|| format!("`{name}` is missing"))
}

fn optional_text(members: &Map<String, Value>, name: &str) -> Result<Option<String>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    members
        .get(name)
        .map(|value| text(value).with_context(|| format!("`{name}` must be a string")))
        .transpose()
}

fn strings(value: &Value) -> Result<Vec<String>> {
    serde_json::from_value(value.clone()).context("expected a list of strings")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(events: &str) -> Result<Vec<Event>> {
        let text = format!(
            r#"{{"about": "a", "language": "en", "sessions": [{{"events": {events}, "end": "kill"}}], "facts": []}}"#
        );
        Ok(Story::parse("story", &text)?.sessions.remove(0).events)
    }

    #[test]
    fn repeated_events_are_numbered() {
        let events = parse(
            r#"[{"repeat": 2, "events": [{"edit": "src/{n}.rs"}, {"todo": [["Write {n}", "pending"]]}]}, {"compact": true}]"#,
        )
        .unwrap();
        let todo =
            |n: u64| Event::Todo(vec![TodoItem { title: format!("Write {n}"), status: "pending".into() }]);
        assert_eq!(
            events,
            [
                Event::Edit("src/1.rs".into()),
                todo(1),
                Event::Edit("src/2.rs".into()),
                todo(2),
                Event::Compact
            ]
        );
    }

    #[test]
    fn omitted_members_have_defaults() {
        let events = parse(r#"[{"shell": "make"}]"#).unwrap();
        let expected = Event::Shell { command: "make".into(), exit: 0, output: String::new(), folder: None };
        assert_eq!(events, [expected]);
    }

    #[test]
    fn mistakes_are_named() {
        for (events, problem) in [
            (r#"[{"promt": "x"}]"#, "unknown event"),
            (r#"[{"shell": "x", "code": 1}]"#, "`shell` must not have `code`"),
            (r#"[{"plan": "x"}]"#, "`plan` needs `approved`"),
            (r#"[{"rename": ["a"]}]"#, "`rename` needs two paths"),
            (r#"[{"todo": [["a", "open"]]}]"#, "unknown status open"),
            (r#"[{"prompt": 3}]"#, "`prompt` must be a string"),
        ] {
            let error = parse(events).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(error.contains("session 1: event 1") && error.contains(problem), "{events}: {error}");
        }
    }
}
