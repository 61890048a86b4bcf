//! The MCP server's entry in JSON settings: a member `milepost` in the agent's list of servers.

use super::content::{InstallState, PriorState, Refusal};
use super::edit::{Document, ItemPath};
use super::program::ProgramName;

/// The name of the entry, the same for every agent.
pub(super) const NAME: &str = "milepost";

/// How an agent's settings list MCP servers.
#[derive(Debug)]
pub(crate) struct McpServer {
    /// The member that contains all servers.
    pub(in crate::agents) list: &'static str,
    /// The JSON of our entry in that member.
    pub(in crate::agents) entry: &'static str,
}

impl McpServer {
    pub(super) fn install(
        &self,
        document: &mut Document,
        prior: &mut PriorState,
        program: &ProgramName,
    ) -> Result<(), Refusal> {
        let (list, entry) = (self.list, program.in_text(self.entry));
        match self.install_state(document, program) {
            InstallState::Current | InstallState::Foreign(_) | InstallState::Invalid(_) => return Ok(()),
            InstallState::Stale(_) => {
                if let Some(path) = document.find(&[list, NAME]) {
                    document.replace(&path, &entry)?;
                }
                return Ok(());
            }
            InstallState::Absent => {}
        }
        match document.find(&[list]) {
            None => document.push(&[], Some(list), &format!("{{\"{NAME}\": {entry}}}"))?,
            Some(path) if document.is_object(&path) => {
                prior.note_empty(document, &path, list);
                document.push(&path, Some(NAME), &entry)?;
            }
            Some(_) => return Err(Refusal::new(&format!("{list} is not an object"))),
        }
        Ok(())
    }

    pub(super) fn uninstall(&self, document: &mut Document, prior: &PriorState) -> Result<(), Refusal> {
        let list = self.list;
        if matches!(
            self.install_state(document, &ProgramName::OnPath),
            InstallState::Absent | InstallState::Foreign(_)
        ) {
            return Ok(());
        }
        let Some(path) = document.find(&[list, NAME]) else { return Ok(()) };
        document.remove(&path)?;
        let parent = &path[..path.len() - 1];
        if document.is_empty(parent) && !prior.empty.iter().any(|kept| kept == list) {
            document.remove(parent)?;
        }
        Ok(())
    }

    pub(super) fn install_state(&self, document: &Document, program: &ProgramName) -> InstallState {
        let Some(path) = document.find(&[self.list, NAME]) else { return InstallState::Absent };
        let command = Self::command(document, &path);
        classify_command(&command.iter().map(String::as_str).collect::<Vec<_>>(), program)
    }

    /// The program and arguments of an entry.
    fn command(document: &Document, path: &ItemPath) -> Vec<String> {
        let mut command = Vec::new();
        for name in ["command", "args"] {
            let Some(path) = document.find_from(path, &[name]) else { continue };
            command.extend(document.string(&path).map(str::to_owned));
            let elements = document.children(&path);
            command.extend(elements.iter().filter_map(|(_, path)| document.string(path)).map(str::to_owned));
        }
        command
    }
}

/// Classifies an entry by its command. The user may have replaced the program name with a path.
pub(super) fn classify_command(command: &[&str], wanted: &ProgramName) -> InstallState {
    let Some((program, arguments)) = command.split_first() else {
        return InstallState::Foreign("an MCP server named milepost without a command".into());
    };
    if program.rsplit(['/', '\\']).next().is_none_or(|name| name.trim_end_matches(".exe") != "milepost") {
        return InstallState::Foreign(format!("an MCP server named milepost that runs {program}"));
    }
    match arguments {
        ["mcp"] if !wanted.accepts(program) => {
            InstallState::Stale(format!("the MCP server is {program}, from another installation"))
        }
        ["mcp"] => InstallState::Current,
        other => InstallState::Stale(format!(
            "the MCP server's arguments are \"{}\" instead of \"mcp\"",
            other.join(" ")
        )),
    }
}
