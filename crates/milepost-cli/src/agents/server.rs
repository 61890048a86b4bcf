//! The MCP server's entry in JSON settings: a member `milepost` among the agent's servers.

use super::content::{Refusal, Standing, Traces};
use super::edit::{Document, ItemPath};

/// The name of the entry, with every agent.
pub(super) const NAME: &str = "milepost";

/// How an agent writes a server down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `mcpServers`, with `type`, `command` and `args`.
    Claude,
    /// `mcpServers`, with `command` and `args`.
    Gemini,
    /// `mcp`, with `type`, one list for the command, and `enabled`.
    OpenCode,
}

impl Form {
    fn list(self) -> &'static str {
        if self == Self::OpenCode { "mcp" } else { "mcpServers" }
    }

    fn entry(self) -> &'static str {
        match self {
            Self::Claude => r#"{"type": "stdio", "command": "milepost", "args": ["mcp"]}"#,
            Self::Gemini => r#"{"command": "milepost", "args": ["mcp"]}"#,
            Self::OpenCode => r#"{"type": "local", "command": ["milepost", "mcp"], "enabled": true}"#,
        }
    }

    pub(super) fn install(self, document: &mut Document, traces: &mut Traces) -> Result<(), Refusal> {
        let list = self.list();
        match self.standing(document) {
            Standing::Current | Standing::Foreign(_) => return Ok(()),
            Standing::Stale(_) => {
                if let Some(place) = document.find(&[list, NAME]) {
                    document.replace(&place, self.entry())?;
                }
                return Ok(());
            }
            Standing::Absent => {}
        }
        match document.find(&[list]) {
            None => document.push(&[], Some(list), &format!("{{\"{NAME}\": {}}}", self.entry()))?,
            Some(place) if document.is_object(&place) => {
                traces.was_empty(document, &place, list);
                document.push(&place, Some(NAME), self.entry())?;
            }
            Some(_) => return Err(Refusal::shape(&format!("{list} is not an object"))),
        }
        Ok(())
    }

    pub(super) fn uninstall(self, document: &mut Document, traces: &Traces) -> Result<(), Refusal> {
        let list = self.list();
        if matches!(self.standing(document), Standing::Absent | Standing::Foreign(_)) {
            return Ok(());
        }
        let Some(place) = document.find(&[list, NAME]) else { return Ok(()) };
        document.remove(&place)?;
        let parent = &place[..place.len() - 1];
        if document.is_empty(parent) && !traces.empty.iter().any(|kept| kept == list) {
            document.remove(parent)?;
        }
        Ok(())
    }

    pub(super) fn standing(self, document: &Document) -> Standing {
        let Some(place) = document.find(&[self.list(), NAME]) else { return Standing::Absent };
        let words = self.words(document, &place);
        verdict(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The program and its arguments.
    fn words(self, document: &Document, place: &ItemPath) -> Vec<String> {
        let mut words = Vec::new();
        for name in ["command", "args"] {
            let Some(place) = document.find_from(place, &[name]) else { continue };
            words.extend(document.string(&place).map(str::to_owned));
            let elements = document.children(&place);
            words.extend(elements.iter().filter_map(|(_, place)| document.string(place)).map(str::to_owned));
        }
        words
    }
}

/// What an entry is, by the words of its command: the program may be named by a path of the user's.
pub(super) fn verdict(words: &[&str]) -> Standing {
    let Some((program, arguments)) = words.split_first() else {
        return Standing::Foreign("an MCP server named milepost without a command".into());
    };
    if program.rsplit(['/', '\\']).next().is_none_or(|name| name.trim_end_matches(".exe") != "milepost") {
        return Standing::Foreign(format!("an MCP server named milepost that runs {program}"));
    }
    match arguments {
        ["mcp"] => Standing::Current,
        other => Standing::Stale(format!("the MCP server is started with {}", other.join(" "))),
    }
}
