//! What Milepost sets up in one of an agent's files: entries in the user's settings, or a whole file of its
//! own. Takes the text of a file and returns it with or without our part, or the reason not to change it.
//! Reads no files.

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::edit::Document;
use super::hooks::HookSettings;
use super::json::{Dialect, SyntaxError};
use super::program::ProgramName;
use super::server::McpServer;
use super::toml_server;

/// What is set up in a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    /// Entries in JSON settings.
    Settings { dialect: Dialect, hooks: Option<&'static HookSettings>, server: Option<&'static McpServer> },
    /// The MCP server's table in TOML settings.
    TomlServer,
    /// A whole file that Milepost writes.
    OwnFile { part: Part, text: &'static str },
}

/// A part of the setup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Part {
    Hooks,
    Command,
    Mcp,
}

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Hooks => "hooks",
            Self::Command => "command",
            Self::Mcp => "mcp",
        }
    }
}

/// Whether a part is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InstallState {
    Absent,
    Current,
    /// It is ours, but differs from what this version installs.
    Stale(String),
    /// The user has something else under the same name.
    Foreign(String),
    /// The file cannot be read or parsed.
    Invalid(String),
}

impl InstallState {
    /// The state's name in documents and tables, and its explanation, if any.
    pub(crate) fn name(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Absent => ("absent", None),
            Self::Current => ("current", None),
            Self::Stale(why) => ("stale", Some(why)),
            Self::Foreign(what) => ("yours", Some(what)),
            Self::Invalid(why) => ("invalid", Some(why)),
        }
    }

    /// Whether the part exists and is ours.
    pub(super) fn is_installed(&self) -> bool {
        matches!(self, Self::Current | Self::Stale(_))
    }
}

impl Serialize for InstallState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (state, message) = self.name();
        let mut members = serializer.serialize_struct("InstallState", 2)?;
        members.serialize_field("state", state)?;
        members.serialize_field("message", &message)?;
        members.end()
    }
}

/// What remains of a file after an uninstall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remainder {
    Blank,
    Text,
}

/// Why a file is not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    pub(super) fn new(reason: &str) -> Self {
        Self(reason.to_owned())
    }
}

impl From<SyntaxError> for Refusal {
    fn from(error: SyntaxError) -> Self {
        Self(error.to_string())
    }
}

/// What an uninstall cannot derive from the file: the objects and lists that were empty before the install.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct PriorState {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) empty: Vec<String>,
}

impl PriorState {
    pub(super) fn note_empty(&mut self, document: &Document, path: &[usize], name: &str) {
        if document.is_empty(path) && !self.empty.iter().any(|known| known == name) {
            self.empty.push(name.to_owned());
        }
    }
}

/// Marks a file as written by Milepost. A file without this text belongs to the user.
pub(super) const MARK: &str = "Written by `milepost agents install`";

impl Content {
    /// Returns the text with our part.
    pub(super) fn install(
        &self,
        text: Option<&str>,
        prior: &mut PriorState,
        program: &ProgramName,
    ) -> Result<String, Refusal> {
        match self {
            Self::Settings { dialect, hooks, server } => {
                let mut document = Document::parse(text.unwrap_or_default(), *dialect)?;
                if let Some(hooks) = hooks {
                    hooks.install(&mut document, prior, program)?;
                }
                if let Some(server) = server {
                    server.install(&mut document, prior, program)?;
                }
                Ok(document.text())
            }
            Self::TomlServer => toml_server::install(text.unwrap_or_default(), program),
            Self::OwnFile { text: ours, .. } => match text {
                Some(theirs) if is_users_own(theirs) => Ok(theirs.to_owned()),
                _ => Ok(program.in_text(ours).into_owned()),
            },
        }
    }

    /// Returns the text without our part, and whether it is blank now.
    pub(super) fn uninstall(&self, text: &str, prior: &PriorState) -> Result<(String, Remainder), Refusal> {
        let left = match self {
            Self::Settings { dialect, hooks, server } => {
                let mut document = Document::parse(text, *dialect)?;
                let before = document.text();
                if hooks.is_some() {
                    HookSettings::uninstall(&mut document, prior)?;
                }
                if let Some(server) = server {
                    server.uninstall(&mut document, prior)?;
                }
                // Parsing turns a blank file into an empty object, which must not be written back.
                if document.text() == before { text.to_owned() } else { document.text() }
            }
            Self::TomlServer => toml_server::uninstall(text)?,
            Self::OwnFile { .. } if is_users_own(text) => text.to_owned(),
            Self::OwnFile { .. } => String::new(),
        };
        let blank = left != text && matches!(left.trim(), "" | "{}");
        Ok((left, if blank { Remainder::Blank } else { Remainder::Text }))
    }

    /// The state of each part in this file.
    pub(super) fn install_state(
        &self,
        text: Option<&str>,
        program: &ProgramName,
    ) -> Result<Vec<(Part, InstallState)>, Refusal> {
        Ok(match self {
            Self::Settings { dialect, hooks, server } => {
                let document = Document::parse(text.unwrap_or_default(), *dialect)?;
                let hooks = hooks.map(|hooks| (Part::Hooks, hooks.install_state(&document, program)));
                let server = server.map(|server| (Part::Mcp, server.install_state(&document, program)));
                hooks.into_iter().chain(server).collect()
            }
            Self::TomlServer => {
                vec![(Part::Mcp, toml_server::install_state(text.unwrap_or_default(), program)?)]
            }
            Self::OwnFile { part, text: ours } => {
                let state = match text {
                    None => InstallState::Absent,
                    Some(text) if text == program.in_text(ours) => InstallState::Current,
                    Some(text) if is_users_own(text) => {
                        InstallState::Foreign("a file of your own already exists there".into())
                    }
                    Some(_) => InstallState::Stale("it differs from what this version writes".into()),
                };
                vec![(*part, state)]
            }
        })
    }

    /// The parts in this file.
    pub(super) fn parts(&self) -> Vec<Part> {
        match self {
            Self::Settings { hooks, server, .. } => {
                let hooks = hooks.map(|_| Part::Hooks);
                hooks.into_iter().chain(server.map(|_| Part::Mcp)).collect()
            }
            Self::TomlServer => vec![Part::Mcp],
            Self::OwnFile { part, .. } => vec![*part],
        }
    }
}

fn is_users_own(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(MARK)
}
