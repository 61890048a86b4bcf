//! Compares two checkpoints. Takes two bodies and returns changes by path and the files that were added or
//! removed. As in coalescing, ids, times, source and memory do not count as changes. Outcomes are not
//! compared: they belong to the time between checkpoints, and the engine collects them. Pure.

mod brief;
mod json;
pub(crate) mod patch;
pub(crate) mod unified;

#[cfg(test)]
mod tests;

use derive_getters::Getters;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use crate::model::{Body, FieldRole, LogLine, Member, PathText, RawJson, ValidationError};

/// A value that differs between two checkpoints.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// The path of the value: members and positions as in a JSON pointer, elements with an id as `[id]`, the
    /// order of such elements as `[]`, and sections of the brief by heading.
    pub(crate) path: String,
    /// The earlier value; `None` if it was absent.
    pub(crate) before: Option<RawJson>,
    /// The later value; `None` if it is absent.
    pub(crate) after: Option<RawJson>,
}

impl Serialize for FieldChange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // `op` distinguishes a null value from an absent one: both are written as null.
        let op = match (&self.before, &self.after) {
            (None, _) => "added",
            (_, None) => "removed",
            _ => "changed",
        };
        let mut members = serializer.serialize_struct("FieldChange", 4)?;
        members.serialize_field("path", &self.path)?;
        members.serialize_field("op", op)?;
        members.serialize_field("before", &self.before)?;
        members.serialize_field("after", &self.after)?;
        members.end()
    }
}

/// Files that only one of two checkpoints mentions.
#[derive(Getters, Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct FileChanges {
    /// Files that only the later checkpoint mentions.
    pub(crate) added: Vec<PathText>,
    /// Files that only the earlier checkpoint mentions.
    pub(crate) removed: Vec<PathText>,
}

/// All differences between two checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Difference {
    /// The values that differ, in reading order.
    pub changed: Vec<FieldChange>,
    /// The files that only one of the checkpoints mentions.
    pub files: FileChanges,
}

/// Members in reading order; all others follow by name.
const READING_ORDER: [&str; 12] = [
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

/// Compares the bodies of two checkpoints.
pub(crate) fn compare(from: &Body, to: &Body) -> Result<Difference, ValidationError> {
    let (before, after) = (members(from)?, members(to)?);
    let mut changed = Vec::new();
    let others = before.keys().chain(after.keys()).map(AsRef::as_ref);
    let others: BTreeSet<_> = others.filter(|name| !READING_ORDER.contains(name)).collect();
    for name in READING_ORDER.into_iter().chain(others) {
        json::compare(name, text(&before, name), text(&after, name), &mut changed)?;
    }
    changed.retain(|change| match (&change.before, &change.after) {
        (Some(_), Some(_)) => true,
        // Added and removed files are reported below; here, only changes within a file.
        _ if is_whole_file(&change.path) => false,
        (Some(one), None) | (None, Some(one)) => !is_known_leaf(&change.path) || !is_empty_value(one),
        (None, None) => false,
    });
    brief::compare(from.brief.as_deref(), to.brief.as_deref(), &mut changed)?;
    log(from, to, &mut changed)?;
    let (before, after) = (mentioned_files(from), mentioned_files(to));
    let files = FileChanges {
        added: after.difference(&before).cloned().collect(),
        removed: before.difference(&after).cloned().collect(),
    };
    Ok(Difference { changed, files })
}

/// The text of a member. An absent list or object counts as empty, so that additions and removals are
/// reported item by item.
fn text<'m>(members: &'m HashMap<Cow<'static, str>, RawJson>, name: &str) -> Option<&'m str> {
    match (members.get(name), name) {
        (Some(raw), _) => Some(raw.get()),
        (None, "criteria" | "tasks" | "decisions") => Some("[]"),
        (None, "phase" | "step_state" | "context_digest") => Some("{}"),
        (None, _) => None,
    }
}

/// Whether a path names all of `files` or a whole element of it, rather than a value in an element.
fn is_whole_file(path: &str) -> bool {
    // Slashes in ids are escaped.
    path == "/files" || path.strip_prefix("/files[").is_some_and(|rest| !rest.contains("]/"))
}

fn is_known_leaf(path: &str) -> bool {
    ["/phase/", "/step_state/", "/context_digest/"].iter().any(|member| path.starts_with(member))
}

/// Whether a value counts as absent: null, an empty list, or an object of such values.
fn is_empty_value(raw: &RawJson) -> bool {
    fn nothing(value: &serde_json::Value) -> bool {
        match value {
            serde_json::Value::Null => true,
            serde_json::Value::Array(list) => list.is_empty(),
            serde_json::Value::Object(members) => members.values().all(nothing),
            _ => false,
        }
    }
    serde_json::from_str(raw.get()).is_ok_and(|value| nothing(&value))
}

/// The members that are compared as JSON, by name. Null and empty lists count as absent.
fn members(body: &Body) -> Result<HashMap<Cow<'static, str>, RawJson>, ValidationError> {
    let compared = |member: &Member| match member.role {
        FieldRole::Work | FieldRole::Workspace => !matches!(member.value.get(), "null" | "[]"),
        FieldRole::Identity | FieldRole::Outcome | FieldRole::Text => false,
    };
    let members = body.members()?.into_iter().filter(compared);
    Ok(members.map(|member| (member.name, member.value)).collect())
}

/// Compares the logs. The log drops its oldest lines, which does not count as a change.
fn log(from: &Body, to: &Body, changed: &mut Vec<FieldChange>) -> Result<(), ValidationError> {
    let known = |body: &Body| -> BTreeSet<_> { body.log.iter().map(|l| (l.at, l.text.clone())).collect() };
    let (before, after) = (known(from), known(to));
    let forgotten = |line: &LogLine| to.log.first().is_some_and(|oldest| line.at < oldest.at);
    for (i, line) in from.log.iter().enumerate().filter(|(_, line)| !forgotten(line)) {
        if !after.contains(&(line.at, line.text.clone())) {
            changed.push(FieldChange {
                path: format!("/log/{i}"),
                before: Some(RawJson::of(&line.text)?),
                after: None,
            });
        }
    }
    for (i, line) in to.log.iter().enumerate() {
        if !before.contains(&(line.at, line.text.clone())) {
            changed.push(FieldChange {
                path: format!("/log/{i}"),
                before: None,
                after: Some(RawJson::of(&line.text)?),
            });
        }
    }
    Ok(())
}

/// All files that a checkpoint mentions.
fn mentioned_files(body: &Body) -> BTreeSet<PathText> {
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
