//! What changed from one checkpoint to another. Pure.
//! In: two bodies. Out: changes by path, files that came and went. Ids, times, source and memory are no changes, as in
//! coalescing; outcomes belong to the time between checkpoints and are gathered by the engine.

mod brief;
mod json;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use crate::model::{Body, Invalid, PathText, Raw};

/// One value that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where: members and positions as in a JSON pointer, elements that have an id as `[id]`, sections of the brief by
    /// their heading.
    pub path: String,
    /// What stood there; `None` for nothing.
    pub before: Option<Raw>,
    /// What stands there; `None` for nothing.
    pub after: Option<Raw>,
}

/// Files that one checkpoint speaks of and the other does not.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct FileChanges {
    /// Only the later one.
    pub added: Vec<PathText>,
    /// Only the earlier one.
    pub removed: Vec<PathText>,
}

/// Everything that is not the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Values, in the order of their members.
    pub changed: Vec<Change>,
    /// Files touched.
    pub files: FileChanges,
}

/// Members that are compared as JSON, in the order people read them.
const MEMBERS: [&str; 12] = [
    "status",
    "phase",
    "task_summary",
    "criteria",
    "tasks",
    "step_state",
    "context_digest",
    "decisions",
    "files",
    "workspace",
    "state",
    "metadata",
];

/// Members that say which checkpoint it is, when and why it was made; and those that are compared by other means.
const APART: [&str; 14] = [
    "snapshot_id",
    "run_id",
    "session_id",
    "sequence",
    "parent",
    "created_at",
    "elapsed_ms",
    "source",
    "source_details",
    "command_outcomes",
    "outcomes_dropped",
    "brief",
    "log",
    "redacted",
];

/// Compares two bodies.
pub fn compare(from: &Body, to: &Body) -> Result<Difference, Invalid> {
    let (before, after) = (members(from)?, members(to)?);
    let mut changed = Vec::new();
    let others = before.keys().chain(after.keys()).map(String::as_str);
    let others: BTreeSet<_> =
        others.filter(|name| !MEMBERS.contains(name) && !APART.contains(name)).collect();
    for name in MEMBERS.into_iter().chain(others) {
        let (before, after) = (before.get(name), after.get(name));
        json::compare(name, before.map(Raw::get), after.map(Raw::get), &mut changed)?;
    }
    // Files that came or went are told below; here, how those changed that stayed.
    let stayed = |change: &Change| change.before.is_some() && change.after.is_some();
    changed.retain(|change| !change.path.starts_with("/files") || stayed(change));
    brief::compare(from.brief.as_deref(), to.brief.as_deref(), &mut changed)?;
    log(from, to, &mut changed)?;
    let (before, after) = (touched(from), touched(to));
    let files = FileChanges {
        added: after.difference(&before).cloned().collect(),
        removed: before.difference(&after).cloned().collect(),
    };
    Ok(Difference { changed, files })
}

/// The members by name; what is empty is as good as absent.
fn members(body: &Body) -> Result<HashMap<String, Raw>, Invalid> {
    let mut members = body.members()?;
    members.retain(|(_, raw)| !matches!(raw.get(), "null" | "[]"));
    Ok(members.into_iter().collect())
}

/// The log only grows, and forgets its oldest lines: what is new is what counts.
fn log(from: &Body, to: &Body, changed: &mut Vec<Change>) -> Result<(), Invalid> {
    let known: BTreeSet<_> = from.log.iter().map(|line| (line.at, &line.text)).collect();
    for (i, line) in to.log.iter().enumerate().filter(|(_, line)| !known.contains(&(line.at, &line.text))) {
        changed.push(Change { path: format!("/log/{i}"), before: None, after: Some(Raw::of(&line.text)?) });
    }
    Ok(())
}

/// Every file that a checkpoint speaks of.
fn touched(body: &Body) -> BTreeSet<PathText> {
    let mut files: BTreeSet<PathText> =
        body.files.iter().map(|file| PathText::Text(file.path.clone())).collect();
    let Some(workspace) = &body.workspace else { return files };
    files.extend(workspace.files_modified.iter().cloned());
    if let Some(git) = &workspace.git {
        let lists = [&git.modified, &git.staged, &git.untracked];
        files.extend(lists.into_iter().flatten().cloned());
        files.extend(git.renamed.iter().flat_map(|renamed| [renamed.from.clone(), renamed.to.clone()]));
    }
    files.extend(workspace.watched.iter().flat_map(|watched| watched.files.iter().cloned()));
    files
}
