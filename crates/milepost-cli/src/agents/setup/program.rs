//! How an agent's files name the program. Usually by its name, which works wherever it is installed. If the `milepost`
//! in PATH is a launcher that starts Node, by the path of the program itself, because hooks run often.

use std::borrow::Cow;
use std::path::Path;

use super::style::quote;

/// The name of the program in hooks and in entries of MCP servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ProgramName {
    /// `milepost`, found in PATH.
    #[default]
    OnPath,
    /// An absolute path.
    At(String),
}

/// The start of every hook command, before the arguments.
const ON_PATH: &str = "command -v milepost >/dev/null 2>&1 && milepost";
/// The program's name in entries of MCP servers and in the OpenCode plugin.
const QUOTED_NAME: &str = "\"milepost\"";

impl ProgramName {
    /// The program at a path. `None` if the path cannot be written into a command for every shell.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        let path = path.to_str()?.to_owned();
        // Agents on Windows run hooks in shells that read a backslash as an escape.
        let path = if cfg!(windows) { path.replace('\\', "/") } else { path };
        let is_plain = |c: char| !c.is_control() && !['\'', '"', '\\', '!', '`', '$'].contains(&c);
        path.chars().all(is_plain).then_some(Self::At(path))
    }

    /// A hook's command, given the one for a program in PATH.
    pub(super) fn hook_command(&self, on_path: &'static str) -> Cow<'static, str> {
        match self {
            Self::OnPath => Cow::Borrowed(on_path),
            Self::At(path) => Cow::Owned(on_path.replace(ON_PATH, &format!("test -x '{path}' && '{path}'"))),
        }
    }

    /// An entry or a source text that contains the program's name as a string.
    pub(super) fn in_text(&self, text: &'static str) -> Cow<'static, str> {
        match self {
            Self::OnPath => Cow::Borrowed(text),
            Self::At(path) => Cow::Owned(text.replace(QUOTED_NAME, &quote(path))),
        }
    }

    /// Whether an installed entry may name the program so. Another version of an npm package has another path.
    pub(super) fn accepts(&self, program: &str) -> bool {
        let is_in_package = program.contains("/node_modules/");
        !is_in_package || *self == Self::At(program.to_owned())
    }
}

/// Whether a hook command calls Milepost's hook, by name or by path.
pub(super) fn calls_hook(command: &str) -> bool {
    ["milepost hook ", "milepost' hook ", "milepost.exe' hook "].iter().any(|part| command.contains(part))
}
