//! Hook entries in an agent's settings:
//! `{"hooks": {EVENT: [{"matcher", "hooks": [{"type", "command", …}]}]}}`. Claude Code, Gemini and Codex
//! share this format. Other programs' entries are never changed. Ours go at the end of an event's list,
//! because Codex trusts a hook by its position.

use super::super::spec::HookedEvent;
use super::content::{InstallState, PriorState, Refusal};
use super::edit::{Document, ItemPath};
use super::program::{ProgramName, calls_hook};
use super::style::quote;

/// The hooks to install for an agent.
#[derive(Debug)]
pub(crate) struct HookSettings {
    /// The command, the same for every event. Avoid changing it: Codex users have to approve a changed
    /// command.
    pub(in crate::agents) command: &'static str,
    pub(in crate::agents) events: &'static [HookedEvent],
    /// Whether an entry has a name.
    pub(in crate::agents) named: bool,
}

/// A shell command that runs the hook if `milepost` is installed. Otherwise it consumes what the agent sends
/// and prints nothing. It works in sh, bash, zsh and fish, because agents use different shells. On Windows those
/// are PowerShell, cmd and Git Bash, which have no other form in common than the plain command.
macro_rules! hook_command {
    ($agent:literal) => {
        if cfg!(windows) {
            concat!("milepost hook ", $agent)
        } else {
            concat!("command -v milepost >/dev/null 2>&1 && milepost hook ", $agent, " || cat >/dev/null")
        }
    };
}
pub(in crate::agents) use hook_command;

/// A hook entry that Milepost installed.
struct InstalledHook {
    event: String,
    command: ItemPath,
    entry: ItemPath,
}

impl HookSettings {
    fn has_event(&self, name: &str) -> bool {
        self.events.iter().any(|event| event.name == name)
    }

    /// The command of a plugin's hooks. With `--plugin`, they give way to hooks that `agents install` set up.
    #[cfg(test)]
    pub(in crate::agents) fn plugin_command(&self) -> String {
        self.command.replace(" || cat", " --plugin || cat")
    }

    /// The JSON of an event's group in a plugin.
    #[cfg(test)]
    pub(in crate::agents) fn plugin_group(&self, timeout: u64) -> String {
        self.group(&self.plugin_command(), timeout)
    }

    /// The JSON of an event's group with our entry.
    fn group(&self, command: &str, timeout: u64) -> String {
        let name = if self.named { r#""name": "milepost", "# } else { "" };
        let command = quote(command);
        format!(
            r#"{{"matcher": "*", "hooks": [{{{name}"type": "command", "command": {command}, "timeout": {timeout}}}]}}"#
        )
    }

    pub(super) fn install(
        &self,
        document: &mut Document,
        prior: &mut PriorState,
        program: &ProgramName,
    ) -> Result<(), Refusal> {
        let command = program.hook_command(self.command);
        if document.find(&["hooks"]).is_none() {
            let events = self.events.iter();
            let groups: Vec<_> = events
                .map(|event| format!("{}: [{}]", quote(event.name), self.group(&command, event.timeout)))
                .collect();
            return Ok(document.push(&[], Some("hooks"), &format!("{{{}}}", groups.join(", ")))?);
        }
        // Remove hooks that another version installed for events that this version does not use.
        while let Some(extra) = installed(document).into_iter().rfind(|hook| !self.has_event(&hook.event)) {
            remove_entry(document, &extra, prior)?;
        }
        for HookedEvent { name, timeout, .. } in self.events {
            let hooks = find_object(document, &["hooks"])?;
            let mut ours = installed(document).into_iter().filter(|hook| hook.event == *name);
            if let Some(hook) = ours.next() {
                if document.string(&hook.command) != Some(command.as_ref()) {
                    document.replace(&hook.command, &quote(&command))?;
                }
                continue;
            }
            match document.find_from(&hooks, &[name]) {
                None => {
                    prior.note_empty(document, &hooks, "hooks");
                    document.push(&hooks, Some(name), &format!("[{}]", self.group(&command, *timeout)))?;
                }
                Some(path) if document.is_array(&path) => {
                    prior.note_empty(document, &path, &format!("hooks.{name}"));
                    document.push(&path, None, &self.group(&command, *timeout))?;
                }
                Some(_) => return Err(Refusal::new(&format!("hooks.{name} is not an array"))),
            }
        }
        Ok(())
    }

    pub(super) fn uninstall(document: &mut Document, prior: &PriorState) -> Result<(), Refusal> {
        while let Some(last) = installed(document).pop() {
            remove_entry(document, &last, prior)?;
        }
        Ok(())
    }

    pub(super) fn install_state(&self, document: &Document, program: &ProgramName) -> InstallState {
        let command = program.hook_command(self.command);
        let found = installed(document);
        if found.is_empty() {
            return InstallState::Absent;
        }
        let missing: Vec<_> = self
            .events
            .iter()
            .map(|event| event.name)
            .filter(|name| !found.iter().any(|hook| hook.event == *name))
            .collect();
        let mut why = Vec::new();
        if !missing.is_empty() {
            why.push(format!("no hook for {}", missing.join(", ")));
        }
        let extra: Vec<_> =
            found.iter().map(|hook| hook.event.as_str()).filter(|event| !self.has_event(event)).collect();
        if !extra.is_empty() {
            why.push(format!("a hook that is no longer used for {}", extra.join(", ")));
        }
        let other = found.iter().filter(|hook| document.string(&hook.command) != Some(command.as_ref()));
        let other: Vec<_> = other.map(|hook| hook.event.as_str()).collect();
        if !other.is_empty() {
            why.push(format!("another command for {}", other.join(", ")));
        }
        if why.is_empty() { InstallState::Current } else { InstallState::Stale(why.join("; ")) }
    }
}

/// Removes an entry, its group if that is then empty, and containers that become empty unless they were empty
/// before.
fn remove_entry(document: &mut Document, hook: &InstalledHook, prior: &PriorState) -> Result<(), Refusal> {
    document.remove(&hook.entry)?;
    // The path: `hooks`, event, group, the group's `hooks`, entry.
    let [hooks, event, group, entries, _] = hook.entry[..] else { return Ok(()) };
    if !document.is_empty(&[hooks, event, group, entries]) {
        return Ok(());
    }
    document.remove(&[hooks, event, group])?;
    for (path, name) in [(&[hooks, event][..], format!("hooks.{}", hook.event)), (&[hooks], "hooks".into())] {
        if !document.is_empty(path) || prior.empty.contains(&name) {
            return Ok(());
        }
        document.remove(path)?;
    }
    Ok(())
}

/// The path of a member that must be an object.
fn find_object(document: &Document, names: &[&str]) -> Result<ItemPath, Refusal> {
    match document.find(names) {
        Some(path) if document.is_object(&path) => Ok(path),
        _ => Err(Refusal::new(&format!("{} is not an object", names.join(".")))),
    }
}

/// The hook entries that Milepost installed, in file order.
fn installed(document: &Document) -> Vec<InstalledHook> {
    let mut all = Vec::new();
    let Some(hooks) = document.find(&["hooks"]) else { return all };
    for (event, groups) in document.children(&hooks) {
        for (_, group) in document.children(&groups) {
            let Some(entries) = document.find_from(&group, &["hooks"]) else { continue };
            for (_, entry) in document.children(&entries) {
                let Some(command) = document.find_from(&entry, &["command"]) else { continue };
                if document.string(&command).is_some_and(calls_hook) {
                    let event = event.unwrap_or_default().to_owned();
                    all.push(InstalledHook { event, command, entry });
                }
            }
        }
    }
    all
}
