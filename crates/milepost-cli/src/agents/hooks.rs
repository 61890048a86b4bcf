//! Hook entries in an agent's settings: `{"hooks": {EVENT: [{"matcher", "hooks": [{"type", "command", …}]}]}}`.
//! Claude Code, Gemini and Codex share the shape. Entries of others are never touched; ours go at the end of an event,
//! since Codex trusts a hook by its position.

use super::content::{Refusal, Standing, Traces};
use super::edit::{Document, ItemPath};
use super::style::quote;

/// Which hooks an agent gets.
#[derive(Debug)]
pub(super) struct Hooks {
    /// The command, the same for every event. It is never changed lightly: Codex asks its user again for another one.
    pub(super) command: &'static str,
    /// Each event, and how long its hook may take, in the agent's unit.
    pub(super) events: &'static [(&'static str, u64)],
    /// Whether an entry has a name.
    pub(super) named: bool,
}

/// A shell line that runs the hook where the binary is there. Elsewhere it takes what the agent sends and says nothing.
/// It reads the same in sh, bash, zsh and fish: which of them an agent starts is its own matter.
macro_rules! command {
    ($agent:literal) => {
        concat!("command -v milepost >/dev/null 2>&1 && milepost hook ", $agent, " || cat >/dev/null")
    };
}
pub(super) use command;

/// What every command of ours has held, and no other has reason to.
const OURS: &str = "milepost hook ";

/// An entry of ours.
struct Found {
    event: String,
    command: ItemPath,
    entry: ItemPath,
}

impl Hooks {
    fn knows(&self, event: &str) -> bool {
        self.events.iter().any(|(known, _)| *known == event)
    }

    /// The JSON of an event's group with our entry.
    fn group(&self, timeout: u64) -> String {
        let name = if self.named { r#""name": "milepost", "# } else { "" };
        let command = quote(self.command);
        format!(
            r#"{{"matcher": "*", "hooks": [{{{name}"type": "command", "command": {command}, "timeout": {timeout}}}]}}"#
        )
    }

    pub(super) fn install(&self, document: &mut Document, traces: &mut Traces) -> Result<(), Refusal> {
        if document.find(&["hooks"]).is_none() {
            let events = self.events.iter();
            let groups: Vec<_> = events
                .map(|(event, timeout)| format!("{}: [{}]", quote(event), self.group(*timeout)))
                .collect();
            return Ok(document.push(&[], Some("hooks"), &format!("{{{}}}", groups.join(", ")))?);
        }
        // What an earlier or a later version has put where this one puts nothing.
        while let Some(extra) = found(document).into_iter().rfind(|found| !self.knows(&found.event)) {
            drop_entry(document, &extra, traces)?;
        }
        for (event, timeout) in self.events {
            let hooks = object(document, &["hooks"])?;
            let mut ours = found(document).into_iter().filter(|found| found.event == *event);
            if let Some(found) = ours.next() {
                if document.string(&found.command) != Some(self.command) {
                    document.replace(&found.command, &quote(self.command))?;
                }
                continue;
            }
            match document.find_from(&hooks, &[event]) {
                None => {
                    traces.was_empty(document, &hooks, "hooks");
                    document.push(&hooks, Some(event), &format!("[{}]", self.group(*timeout)))?;
                }
                Some(place) if document.is_array(&place) => {
                    traces.was_empty(document, &place, &format!("hooks.{event}"));
                    document.push(&place, None, &self.group(*timeout))?;
                }
                Some(_) => return Err(Refusal::shape(&format!("hooks.{event} is not an array"))),
            }
        }
        Ok(())
    }

    pub(super) fn uninstall(document: &mut Document, traces: &Traces) -> Result<(), Refusal> {
        while let Some(last) = found(document).pop() {
            drop_entry(document, &last, traces)?;
        }
        Ok(())
    }

    pub(super) fn standing(&self, document: &Document) -> Standing {
        let found = found(document);
        if found.is_empty() {
            return Standing::Absent;
        }
        let missing: Vec<_> = self
            .events
            .iter()
            .map(|(event, _)| *event)
            .filter(|event| !found.iter().any(|found| found.event == *event))
            .collect();
        let mut why = Vec::new();
        if !missing.is_empty() {
            why.push(format!("no hook for {}", missing.join(", ")));
        }
        let extra: Vec<_> =
            found.iter().map(|f| f.event.as_str()).filter(|event| !self.knows(event)).collect();
        if !extra.is_empty() {
            why.push(format!("a hook that is no longer used for {}", extra.join(", ")));
        }
        let other = found.iter().filter(|found| document.string(&found.command) != Some(self.command));
        let other: Vec<_> = other.map(|found| found.event.as_str()).collect();
        if !other.is_empty() {
            why.push(format!("another command for {}", other.join(", ")));
        }
        if why.is_empty() { Standing::Current } else { Standing::Stale(why.join("; ")) }
    }
}

/// Removes an entry, its group if nothing else is in it, and what has become empty and was not so before.
fn drop_entry(document: &mut Document, found: &Found, traces: &Traces) -> Result<(), Refusal> {
    document.remove(&found.entry)?;
    // hooks, event, group, its own "hooks", entry.
    let [hooks, event, group, entries, _] = found.entry[..] else { return Ok(()) };
    if !document.is_empty(&[hooks, event, group, entries]) {
        return Ok(());
    }
    document.remove(&[hooks, event, group])?;
    for (place, name) in [(&[hooks, event][..], format!("hooks.{}", found.event)), (&[hooks], "hooks".into())]
    {
        if !document.is_empty(place) || traces.empty.contains(&name) {
            return Ok(());
        }
        document.remove(place)?;
    }
    Ok(())
}

/// An object that has to be one.
fn object(document: &Document, names: &[&str]) -> Result<ItemPath, Refusal> {
    match document.find(names) {
        Some(place) if document.is_object(&place) => Ok(place),
        _ => Err(Refusal::shape(&format!("{} is not an object", names.join(".")))),
    }
}

/// Every entry of ours, in the order of the file.
fn found(document: &Document) -> Vec<Found> {
    let mut all = Vec::new();
    let Some(hooks) = document.find(&["hooks"]) else { return all };
    for (event, groups) in document.children(&hooks) {
        for (_, group) in document.children(&groups) {
            let Some(entries) = document.find_from(&group, &["hooks"]) else { continue };
            for (_, entry) in document.children(&entries) {
                let Some(command) = document.find_from(&entry, &["command"]) else { continue };
                if document.string(&command).is_some_and(|text| text.contains(OURS)) {
                    let event = event.unwrap_or_default().to_owned();
                    all.push(Found { event, command, entry });
                }
            }
        }
    }
    all
}
