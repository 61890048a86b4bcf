//! Facts about a project as it is now: its manifest files, and what changed since a commit. Takes a folder
//! and the commit at which the work began. Must not change the repository.

use std::collections::HashSet;
use std::path::Path;

use super::commit_distance::GitQuery;
use super::git::EMPTY_TREE_IDS;
use super::manifest::read_manifests;
use crate::git::is_object_name;
use crate::model::{FileChange, ProjectFacts};

/// Maximum number of commits to list.
const MAX_COMMITS: &str = "30";
/// Maximum size of git's output, in bytes. A larger list of files is ignored.
const OUTPUT_LIMIT: u64 = 1 << 20;

/// Reads the facts about the project in a folder. `base` is the commit at which the work began; empty if the
/// repository had no commit then.
pub fn project_facts(folder: &Path, base: Option<&str>) -> ProjectFacts {
    let mut facts = ProjectFacts { manifests: read_manifests(folder), ..ProjectFacts::default() };
    let Some(base) = base.filter(|base| base.is_empty() || is_object_name(base)) else { return facts };
    let Ok(Some(query)) = GitQuery::new(folder) else { return facts };
    let range = if base.is_empty() { "HEAD".to_owned() } else { format!("{base}..HEAD") };
    let log = ["log", "--no-show-signature", "--format=%h %s", "-n", MAX_COMMITS, &range, "--"];
    if let Ok((true, text)) = query.run(&log, OUTPUT_LIMIT) {
        let commits = text.lines().filter_map(|line| line.split_once(' '));
        facts.commits = commits.map(|(name, subject)| (name.to_owned(), subject.to_owned())).collect();
    }
    let base = if base.is_empty() { EMPTY_TREE_IDS[0] } else { base };
    let diff = [
        "-c",
        "diff.renameLimit=1000",
        "diff",
        "--name-status",
        "-z",
        "--find-renames",
        "--relative",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=all",
        base,
        "--",
    ];
    if let Ok((true, text)) = query.run(&diff, OUTPUT_LIMIT) {
        facts.changes = parse_changes(&text);
    }
    if !facts.changes.is_empty() {
        mark_committed(&mut facts.changes, &query);
    }
    let untracked = ["ls-files", "--others", "--exclude-standard", "-z", "--"];
    if let Ok((true, text)) = query.run(&untracked, OUTPUT_LIMIT) {
        let paths = text.split('\0').filter(|path| !path.is_empty());
        let change = |path: &str| FileChange {
            path: path.to_owned(),
            status: "created",
            from: None,
            is_committed: Some(false),
        };
        facts.changes.extend(paths.map(change));
    }
    facts
}

/// Records for each change of a tracked file whether it is committed: whether the file is the same in `HEAD`.
fn mark_committed(changes: &mut [FileChange], query: &GitQuery) {
    let diff = [
        "diff",
        "--name-only",
        "-z",
        "--no-renames",
        "--relative",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=all",
        "HEAD",
        "--",
    ];
    let Ok((true, text)) = query.run(&diff, OUTPUT_LIMIT) else { return };
    let uncommitted: HashSet<&str> = text.split('\0').collect();
    for change in changes {
        change.is_committed = Some(!uncommitted.contains(change.path.as_str()));
    }
}

/// Parses the output of `git diff --name-status -z`.
fn parse_changes(text: &str) -> Vec<FileChange> {
    let mut changes = Vec::new();
    let mut fields = text.split('\0').filter(|field| !field.is_empty());
    while let (Some(status), Some(path)) = (fields.next(), fields.next()) {
        let is_rename = status.starts_with('R');
        let to = if is_rename || status.starts_with('C') { fields.next() } else { Some(path) };
        let Some(to) = to else { break };
        let named = match status.chars().next() {
            Some('A' | 'C') => "created",
            Some('D') => "deleted",
            Some('R') => "renamed",
            _ => "modified",
        };
        let from = is_rename.then(|| path.to_owned());
        changes.push(FileChange { path: to.to_owned(), status: named, from, is_committed: None });
    }
    changes
}

/// Parses the output of `git diff --name-status -z`, for fuzzing.
#[cfg(feature = "internal")]
pub fn read_git_changes(output: &str) -> Vec<FileChange> {
    parse_changes(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_parsed() {
        let found = parse_changes("M\0a b.rs\0R087\0old.rs\0new.rs\0D\0gone\0A\0n.rs\0");
        let short: Vec<_> = found.iter().map(|c| (c.status, c.path.as_str(), c.from.as_deref())).collect();
        assert_eq!(
            short,
            [
                ("modified", "a b.rs", None),
                ("renamed", "new.rs", Some("old.rs")),
                ("deleted", "gone", None),
                ("created", "n.rs", None)
            ]
        );
        assert_eq!(parse_changes("R100\0only"), []);
    }
}
