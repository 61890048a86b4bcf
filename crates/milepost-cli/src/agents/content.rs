//! What is set up in one file of an agent's: entries in settings of the user's, or a file that is all ours.
//! In: the text of a file. Out: the text as it should be, or why it is left alone. Pure.

use super::edit::Document;
use super::hooks::Hooks;
use super::json::{Dialect, SyntaxError};
use super::server::Form;
use super::table;

/// What is set up in a file.
#[derive(Debug, Clone, Copy)]
pub(super) enum Content {
    /// Entries in JSON settings.
    Settings { dialect: Dialect, hooks: Option<&'static Hooks>, server: Option<Form> },
    /// The server's table in TOML settings.
    Table,
    /// A file of ours.
    Whole { part: Part, text: &'static str },
}

/// What an agent can have of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Hooks,
    Command,
    Mcp,
}

impl Part {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::Command => "command",
            Self::Mcp => "mcp",
        }
    }
}

/// How a part stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is not there.
    Absent,
    /// It is as this version sets it up.
    Current,
    /// It is ours, and not as this version sets it up.
    Stale(String),
    /// Something of the user's stands in its place.
    Foreign(String),
}

/// What is left of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    Nothing,
    Something,
}

/// Why a file is left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    pub(super) fn shape(what: &str) -> Self {
        Self(what.to_owned())
    }
}

impl From<SyntaxError> for Refusal {
    fn from(error: SyntaxError) -> Self {
        Self(error.to_string())
    }
}

/// What removal cannot see in the file: which objects and lists were there, and empty, before anything went in.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Traces {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) empty: Vec<String>,
}

impl Traces {
    /// Notes a container that is empty now.
    pub(super) fn was_empty(&mut self, document: &Document, place: &[usize], name: &str) {
        if document.is_empty(place) && !self.empty.iter().any(|known| known == name) {
            self.empty.push(name.to_owned());
        }
    }
}

/// The line that makes a file ours. Without it the file is the user's.
pub(super) const MARK: &str = "Written by `milepost agents install`";

impl Content {
    /// The text with what belongs in it.
    pub(super) fn install(&self, text: Option<&str>, traces: &mut Traces) -> Result<String, Refusal> {
        match self {
            Self::Settings { dialect, hooks, server } => {
                let mut document = Document::parse(text.unwrap_or_default(), *dialect)?;
                if let Some(hooks) = hooks {
                    hooks.install(&mut document, traces)?;
                }
                if let Some(server) = server {
                    server.install(&mut document, traces)?;
                }
                Ok(document.text())
            }
            Self::Table => table::install(text.unwrap_or_default()),
            Self::Whole { text: ours, .. } => match text {
                Some(theirs) if is_of_the_user(theirs) => Ok(theirs.to_owned()),
                _ => Ok((*ours).to_owned()),
            },
        }
    }

    /// The text without what is ours, and whether nothing is left that a file is needed for.
    pub(super) fn uninstall(&self, text: &str, traces: &Traces) -> Result<(String, Rest), Refusal> {
        let left = match self {
            Self::Settings { dialect, hooks, server } => {
                let mut document = Document::parse(text, *dialect)?;
                let before = document.text();
                if hooks.is_some() {
                    Hooks::uninstall(&mut document, traces)?;
                }
                if let Some(server) = server {
                    server.uninstall(&mut document, traces)?;
                }
                // A blank file becomes an object only to be looked at.
                if document.text() == before { text.to_owned() } else { document.text() }
            }
            Self::Table => table::uninstall(text)?,
            Self::Whole { .. } if is_of_the_user(text) => text.to_owned(),
            Self::Whole { .. } => String::new(),
        };
        let blank = left != text && matches!(left.trim(), "" | "{}");
        Ok((left, if blank { Rest::Nothing } else { Rest::Something }))
    }

    /// How each part in this file stands.
    pub(super) fn standing(&self, text: Option<&str>) -> Result<Vec<(Part, Standing)>, Refusal> {
        Ok(match self {
            Self::Settings { dialect, hooks, server } => {
                let document = Document::parse(text.unwrap_or_default(), *dialect)?;
                let hooks = hooks.map(|hooks| (Part::Hooks, hooks.standing(&document)));
                let server = server.map(|server| (Part::Mcp, server.standing(&document)));
                hooks.into_iter().chain(server).collect()
            }
            Self::Table => vec![(Part::Mcp, table::standing(text.unwrap_or_default())?)],
            Self::Whole { part, text: ours } => {
                let standing = match text {
                    None => Standing::Absent,
                    Some(text) if text == *ours => Standing::Current,
                    Some(text) if is_of_the_user(text) => {
                        Standing::Foreign("a file of your own is there".into())
                    }
                    Some(_) => Standing::Stale("it is not what this version writes".into()),
                };
                vec![(*part, standing)]
            }
        })
    }

    /// Which parts live in this file.
    pub(super) fn parts(&self) -> Vec<Part> {
        match self {
            Self::Settings { hooks, server, .. } => {
                let hooks = hooks.map(|_| Part::Hooks);
                hooks.into_iter().chain(server.map(|_| Part::Mcp)).collect()
            }
            Self::Table => vec![Part::Mcp],
            Self::Whole { part, .. } => vec![*part],
        }
    }
}

fn is_of_the_user(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(MARK)
}
