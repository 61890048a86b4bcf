//! The list of files in a composed brief: what was created, modified, renamed or deleted.

use std::collections::{HashMap, HashSet};

use super::{Composer, clip};
use crate::brief::artifact::inline_path;
use crate::brief::blocks::code_span;
use crate::model::{FileChange, FileRef, PathText};

/// A file in the list.
struct ListedFile {
    path: String,
    status: &'static str,
    change: String,
}

/// Whether a file belongs to Milepost itself and so is not part of the work.
pub(super) fn is_own_file(path: &str) -> bool {
    path == "milepost.toml" || path.split('/').any(|part| part == ".milepost")
}

fn path_text(path: &PathText) -> String {
    match path {
        PathText::Text(text) => text.clone(),
        PathText::Bytes { b64 } => format!("base64:{b64}"),
    }
}

/// Whether a change is committed now. The checkpoint cannot tell, because it may be older than the change.
fn commit_state(change: &FileChange) -> &'static str {
    match change.is_committed {
        Some(true) => "committed",
        Some(false) => "not committed",
        None => "changed since the work began",
    }
}

impl Composer<'_> {
    pub(super) fn artifact_lines(&self) -> Vec<String> {
        let files = self.files();
        if files.is_empty() {
            return Vec::new();
        }
        let (shown, rest) = choose(files, self.detail.files);
        let mut lines = if self.detail.file_table { table(&shown) } else { names(&shown) };
        if !rest.is_empty() {
            let snapshot = self.facts.body.map(|body| body.snapshot_id.to_string()).unwrap_or_default();
            lines.push(String::new());
            lines.push(format!(
                "{} more files ({}) are in the checkpoint: `milepost show {snapshot}`",
                rest.len(),
                folder_counts(&rest)
            ));
        }
        lines
    }

    /// All files. Those that tools wrote come first, with the newest at the top.
    fn files(&self) -> Vec<ListedFile> {
        let mut files: Vec<ListedFile> = Vec::new();
        let mut known = HashSet::new();
        let mut add = |path: String, status: &'static str, change: &str| {
            if !is_own_file(&path) && known.insert(path.clone()) {
                files.push(ListedFile { path, status, change: change.to_owned() });
            }
        };
        let Some(body) = self.facts.body else { return files };
        let git = body.workspace.as_ref().and_then(|workspace| workspace.git.as_ref());
        let changes = &self.facts.project.changes;
        for file in body.files.iter().rev() {
            if file.sha256.is_some() || file.size.is_some() {
                continue;
            }
            let change = changes.iter().find(|change| change.path == file.path);
            match change {
                Some(change) => add(file.path.clone(), change.status, commit_state(change)),
                None => add(file.path.clone(), "modified", "written by a tool"),
            }
        }
        for change in changes {
            let note = match &change.from {
                Some(from) => format!("from {}", inline_path(from)),
                None => commit_state(change).to_owned(),
            };
            add(change.path.clone(), change.status, &note);
        }
        if let Some(workspace) = &body.workspace {
            if let Some(git) = git {
                for renamed in &git.renamed {
                    let from = format!("from {}", inline_path(&path_text(&renamed.from)));
                    add(path_text(&renamed.to), "renamed", &from);
                }
                git.untracked.iter().for_each(|p| add(path_text(p), "created", "untracked"));
                git.staged.iter().for_each(|p| add(path_text(p), "modified", "staged"));
                git.modified.iter().for_each(|p| add(path_text(p), "modified", "not committed"));
            }
            let touched = workspace.files_modified.iter();
            touched.for_each(|p| add(path_text(p), "modified", "touched since the run began"));
            let watched = workspace.watched.iter().flat_map(|watched| &watched.files);
            watched.for_each(|p| add(path_text(p), "watched", "in a watched folder"));
        }
        // References to files elsewhere, such as transcripts, are left out when space is short.
        let wanted = |file: &&FileRef| self.detail.ids || !file.path.starts_with('/');
        for file in body.files.iter().filter(wanted) {
            let digest =
                file.sha256.as_deref().map_or(String::new(), |sha| format!(", sha256 {}", clip(sha)));
            add(file.path.clone(), "referenced", &format!("listed in the checkpoint{digest}"));
        }
        files
    }
}

/// The line that counts the files that are not listed takes about as much space as this many names.
const COUNT_LINE: usize = 5;

/// Splits the files into those to show and the rest. If there are too many, shows some from every folder, and
/// only a few of those whose names differ only in numbers: the first file of one folder says more than the
/// twentieth of another.
fn choose(files: Vec<ListedFile>, limit: usize) -> (Vec<ListedFile>, Vec<ListedFile>) {
    if files.len() <= limit + COUNT_LINE {
        return (files, Vec::new());
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut count = |key: String| {
        let count = counts.entry(key).or_default();
        *count += 1;
        *count
    };
    let mut ranked: Vec<(usize, usize, ListedFile)> = Vec::new();
    for (n, file) in files.into_iter().enumerate() {
        let pattern: String = file.path.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        let alike = count(format!("alike {pattern}"));
        let in_folder = count(format!("in {}", folder_of(&file.path)));
        ranked.push((in_folder + 3 * (alike - 1), n, file));
    }
    ranked.sort_by_key(|(rank, n, _)| (*rank, *n));
    let mut rest = ranked.split_off(ranked.len().min(limit));
    ranked.sort_by_key(|(_, n, _)| *n);
    rest.sort_by_key(|(_, n, _)| *n);
    let plain = |list: Vec<(usize, usize, ListedFile)>| list.into_iter().map(|(_, _, file)| file).collect();
    (plain(ranked), plain(rest))
}

fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// The folders of files that are not listed, with the number of files in each; the largest first.
fn folder_counts(files: &[ListedFile]) -> String {
    const FOLDERS: usize = 5;
    let mut counts: HashMap<&str, usize> = HashMap::new();
    files.iter().for_each(|file| *counts.entry(folder_of(&file.path)).or_default() += 1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(folder, n)| (std::cmp::Reverse(*n), *folder));
    let mut parts: Vec<_> =
        counts.iter().take(FOLDERS).map(|(folder, n)| format!("{n} in {folder}")).collect();
    if counts.len() > FOLDERS {
        parts.push("others elsewhere".to_owned());
    }
    parts.join(", ")
}

fn table(files: &[ListedFile]) -> Vec<String> {
    let mut lines =
        vec![String::new(), "| File | Status | Key Change |".into(), "|------|--------|------------|".into()];
    let row = |file: &ListedFile| {
        let path = code_span(&file.path).replace('|', "\\|");
        format!("| {path} | {} | {} |", file.status, clip(&file.change).replace('|', "\\|"))
    };
    lines.extend(files.iter().map(row));
    lines
}

/// The files by name only, in one line per status.
fn names(files: &[ListedFile]) -> Vec<String> {
    let mut statuses: Vec<&str> = Vec::new();
    for file in files {
        if !statuses.contains(&file.status) {
            statuses.push(file.status);
        }
    }
    let line = |status: &&str| {
        let of_status = files.iter().filter(|file| file.status == *status);
        let names: Vec<_> = of_status.map(|file| code_span(&file.path)).collect();
        format!("- {status}: {}", names.join(", "))
    };
    statuses.iter().map(line).collect()
}
