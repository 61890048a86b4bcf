//! Reads the state of a repository: branch, commit and every changed path. Takes a repository and the run's
//! baseline, and adds the facts to the capture. Handles paths of any bytes and any user settings. Must not
//! take a lock.

use std::io::{self, BufRead, Read as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::{CaptureBaseline, CaptureLimits, StorePaths, WorkspaceCapture, path_of, relative_path};
use crate::fs::stored_bytes;
use crate::git::{Git, GitError, is_object_name};
use crate::model::{GitFacts, PathText, RenamedFile};
use crate::store::Repository;

/// Overrides for user settings that would change the output.
const SETTINGS: [&str; 6] = [
    "core.excludesFile=/dev/null",
    "status.showUntrackedFiles=all",
    "status.renames=true",
    "status.renameLimit=1000",
    "diff.renames=true",
    "diff.renameLimit=1000",
];

/// Maximum length of a path. No file system allows a longer one, but a commit can contain it.
const PATH_LIMIT: usize = 64 << 10;

/// Git does not inspect submodules: it would run itself there, with their configuration.
const STATUS_ARGS: [&str; 9] = [
    "status",
    "--porcelain=v2",
    "-z",
    "--branch",
    "--no-ahead-behind",
    "--untracked-files=all",
    "--ignore-submodules=dirty",
    "--find-renames",
    "--no-column",
];

/// Object names of the empty tree in SHA-1 and SHA-256 repositories.
pub(crate) const EMPTY_TREE_IDS: [&str; 2] = [
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
];

/// Reads a repository and adds the facts to `capture`.
pub(super) fn capture_git(
    repository: &Repository,
    root: &Path,
    since: &CaptureBaseline,
    store: &StorePaths,
    bounds: &CaptureLimits,
    deadline: Instant,
    capture: &mut WorkspaceCapture,
) {
    let mapping = PathMapping {
        worktree: repository.worktree().to_owned(),
        root: root.to_owned(),
        store: store.clone(),
        max_paths: bounds.paths,
    };
    let git = match Git::new(repository, deadline) {
        Ok(git) => git,
        Err(e) => {
            capture.git.error = Some(describe_error(e, bounds));
            return;
        }
    };
    let status_mapping = mapping.clone();
    let read = move |out: &mut dyn BufRead| StatusOutput::read(out, status_mapping);
    match run_git(&git, &STATUS_ARGS, deadline, bounds, read) {
        Ok((status, complaints)) => {
            capture.git = status.facts;
            capture.changed = status.changed;
            capture.skipped.extend(complaints);
            if status.left_out > 0 {
                capture
                    .skipped
                    .push(format!("git: {} paths over the limit of {}", status.left_out, bounds.paths));
            }
        }
        Err(why) => {
            capture.git.error = Some(why);
            return;
        }
    }
    let Some(head) = capture.git.head.clone() else {
        // Without a commit, no file was committed.
        capture.committed_known = true;
        return;
    };
    let base = match &since.base {
        // The run starts at this commit.
        None => head.as_str(),
        Some(base) if base.is_empty() => EMPTY_TREE_IDS[usize::from(head.len() > 40)],
        Some(base) if is_object_name(base) => base,
        Some(_) => {
            let why = "committed files: the first commit of the run is not an object name";
            return capture.skipped.push(why.into());
        }
    };
    if since.head.as_ref() == Some(&head) || *base == head {
        capture.committed_known = true;
        return;
    }
    let diff = [
        "diff-tree",
        "-r",
        "-z",
        "--name-only",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=none",
        "--end-of-options",
        base,
        &head,
        "--",
    ];
    let read = move |out: &mut dyn BufRead| read_committed_paths(out, &mapping);
    match run_git(&git, &diff, deadline, bounds, read) {
        Ok(((committed, left_out), _)) => {
            capture.committed = committed;
            capture.committed_known = true;
            if left_out > 0 {
                capture
                    .skipped
                    .push(format!("committed files: {left_out} paths over the limit of {}", bounds.paths));
            }
        }
        Err(why) => capture.skipped.push(format!("files committed since {base}: {why}")),
    }
}

/// The arguments of a subcommand, preceded by the settings that its output depends on.
fn with_settings<'a>(args: &[&'a str]) -> Vec<&'a str> {
    SETTINGS.into_iter().flat_map(|setting| ["-c", setting]).chain(args.iter().copied()).collect()
}

/// Runs git. Returns the parsed output and git's error messages.
fn run_git<T: Send + 'static>(
    git: &Git,
    args: &[&str],
    deadline: Instant,
    bounds: &CaptureLimits,
    read: impl FnOnce(&mut dyn BufRead) -> io::Result<T> + Send + 'static,
) -> Result<(T, Option<String>), String> {
    let done = git.run(with_settings(args), deadline, read).map_err(|e| describe_error(e, bounds))?;
    if !done.status.success() {
        return Err(done.stderr.unwrap_or_else(|| format!("git failed: {}", done.status)));
    }
    Ok((done.output, done.stderr))
}

fn describe_error(error: GitError, bounds: &CaptureLimits) -> String {
    match error {
        GitError::TooSlow => format!("git took longer than {} s", bounds.time.as_secs_f64()),
        other => other.to_string(),
    }
}

/// Maps git's paths, which are relative to the worktree, to paths relative to the project.
#[derive(Clone)]
struct PathMapping {
    worktree: PathBuf,
    root: PathBuf,
    store: StorePaths,
    /// Maximum number of paths to keep.
    max_paths: usize,
}

impl PathMapping {
    /// The path relative to the project; `None` for a file of the store.
    fn to_project_path(&self, bytes: &[u8]) -> Option<PathText> {
        let bytes = bytes.strip_suffix(b"/").unwrap_or(bytes);
        let absolute = self.worktree.join(path_of(bytes));
        if self.store.contains(&absolute) {
            return None;
        }
        if self.worktree == self.root {
            return Some(PathText::of(bytes));
        }
        Some(PathText::of(&stored_bytes(&relative_path(&self.root, &absolute))))
    }
}

/// A path that differs from the current commit, as git reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedPath {
    /// The path, relative to the worktree.
    pub path: Vec<u8>,
    /// The file in the current commit; `None` if the commit does not contain it.
    pub committed: Option<GitObject>,
    /// Whether git tracks the path.
    pub is_tracked: bool,
}

/// A file in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitObject {
    /// The file mode, in octal: `100644`, `100755`, `120000` (symbolic link) or `160000` (submodule).
    pub mode: String,
    /// The name of the object.
    pub name: String,
}

impl GitObject {
    /// Parses a mode and an object name; `None` if there is no object.
    pub(crate) fn of(mode: &[u8], name: &[u8]) -> Option<Self> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        let (mode, name) = (text(mode)?, text(name)?);
        let is_absent = mode == "000000" || name.bytes().all(|byte| byte == b'0');
        (!is_absent && is_object_name(&name)).then_some(Self { mode, name })
    }
}

/// The parsed output of `git status`.
struct StatusOutput {
    facts: GitFacts,
    left_out: usize,
    mapping: PathMapping,
    changed: Vec<ChangedPath>,
}

impl StatusOutput {
    fn read(out: &mut dyn BufRead, mapping: PathMapping) -> io::Result<Self> {
        let mut status = Self { facts: GitFacts::default(), left_out: 0, mapping, changed: Vec::new() };
        let mut detached = false;
        let mut line = Vec::new();
        while read_record(out, &mut line)? {
            let (kind, rest) = line.split_at(line.len().min(2));
            match kind {
                b"# " => {
                    let text = String::from_utf8_lossy(rest);
                    match text.split_once(' ') {
                        Some(("branch.oid", "(initial)")) => {}
                        Some(("branch.oid", head)) => status.facts.head = Some(head.to_owned()),
                        Some(("branch.head", "(detached)")) => detached = true,
                        Some(("branch.head", name)) => status.facts.branch = Some(name.to_owned()),
                        _ => {}
                    }
                }
                b"? " => {
                    status.add_path(rest, |facts| &mut facts.untracked);
                    status.note_change(rest, None, false);
                }
                b"1 " => {
                    status.add_changed(rest, path_after(rest, 7));
                    status.note_change(path_after(rest, 7), committed_object(rest), true);
                }
                b"u " => {
                    status.add_path(path_after(rest, 9), |facts| &mut facts.modified);
                    // A conflicted path has no single version. Stage 2 is the one of the current commit.
                    let ours = GitObject::of(field(rest, 3), field(rest, 7));
                    status.note_change(path_after(rest, 9), ours, true);
                }
                b"2 " => {
                    let mut from = Vec::new();
                    read_record(out, &mut from)?;
                    status.add_renamed(rest, &from);
                    let is_rename = field(rest, 7).first() == Some(&b'R');
                    status.note_change(path_after(rest, 8), None, true);
                    if is_rename {
                        status.note_change(&from, committed_object(rest), true);
                    }
                }
                _ => {}
            }
        }
        let facts = &mut status.facts;
        if detached {
            let head = facts.head.as_deref().unwrap_or_default();
            facts.branch = Some(format!("(detached at {})", &head[..head.floor_char_boundary(12)]));
        }
        for list in [&mut facts.modified, &mut facts.staged, &mut facts.untracked] {
            list.sort_unstable();
            list.dedup();
        }
        Ok(status)
    }

    fn add_path(&mut self, path: &[u8], list: impl Fn(&mut GitFacts) -> &mut Vec<PathText>) {
        let Some(path) = self.mapping.to_project_path(path) else { return };
        let facts = &self.facts;
        let held = facts.modified.len() + facts.staged.len() + facts.untracked.len() + facts.renamed.len();
        if held < self.mapping.max_paths {
            list(&mut self.facts).push(path);
        } else {
            self.left_out += 1;
        }
    }

    /// Notes a changed path for the snapshot of the files.
    fn note_change(&mut self, path: &[u8], committed: Option<GitObject>, is_tracked: bool) {
        let is_ours = || self.mapping.to_project_path(path).is_none();
        if self.changed.len() < self.mapping.max_paths && !is_ours() {
            self.changed.push(ChangedPath { path: path.to_owned(), committed, is_tracked });
        }
    }

    /// Adds an entry that starts with `XY`: `X` is the change in the index, `Y` the change in the worktree.
    fn add_changed(&mut self, entry: &[u8], path: &[u8]) {
        if entry.first().is_some_and(|x| *x != b'.') {
            self.add_path(path, |facts| &mut facts.staged);
        }
        if entry.get(1).is_some_and(|y| *y != b'.') {
            self.add_path(path, |facts| &mut facts.modified);
        }
    }

    fn add_renamed(&mut self, entry: &[u8], from: &[u8]) {
        let to = path_after(entry, 8);
        self.add_changed(entry, to);
        // A copy does not change its source.
        if path_after(entry, 7).first() != Some(&b'R') {
            return;
        }
        // After a rename in the worktree only, the old path is missing there.
        if entry.get(1) == Some(&b'R') {
            self.add_path(from, |facts| &mut facts.modified);
        }
        let paths = self.mapping.to_project_path(from).zip(self.mapping.to_project_path(to));
        if let Some((from, to)) = paths {
            self.facts.renamed.push(RenamedFile { from, to, extra: Default::default() });
        }
    }
}

/// A field of an entry that is not its path.
fn field(entry: &[u8], n: usize) -> &[u8] {
    entry.split(|byte| *byte == b' ').nth(n).unwrap_or_default()
}

/// The version of an entry in the current commit, from its fields `mH` and `hH`.
fn committed_object(entry: &[u8]) -> Option<GitObject> {
    GitObject::of(field(entry, 2), field(entry, 5))
}

/// The path after this number of fields. The path itself may contain spaces.
fn path_after(entry: &[u8], fields: usize) -> &[u8] {
    entry.splitn(fields + 1, |byte| *byte == b' ').nth(fields).unwrap_or_default()
}

/// Reads the next record, up to a zero byte, and truncates it to [`PATH_LIMIT`]. Returns false at the end.
fn read_record(out: &mut dyn BufRead, piece: &mut Vec<u8>) -> io::Result<bool> {
    piece.clear();
    let read = out.take(PATH_LIMIT as u64).read_until(0, piece)?;
    if piece.last() == Some(&0) {
        piece.pop();
    } else if read == PATH_LIMIT {
        out.skip_until(0)?;
    }
    Ok(read > 0)
}

fn read_committed_paths(out: &mut dyn BufRead, mapping: &PathMapping) -> io::Result<(Vec<PathText>, usize)> {
    let (mut found, mut left_out) = (Vec::new(), 0);
    let mut piece = Vec::new();
    while read_record(out, &mut piece)? {
        if found.len() < mapping.max_paths {
            found.extend(mapping.to_project_path(&piece));
        } else {
            left_out += 1;
        }
    }
    Ok((found, left_out))
}

/// Parses the output of `git status --porcelain=v2 -z` in a worktree, for fuzzing. Keeps at most `max_paths` paths.
#[cfg(feature = "internal")]
pub fn read_git_status(
    mut output: &[u8],
    worktree: &Path,
    max_paths: usize,
) -> io::Result<(GitFacts, Vec<ChangedPath>)> {
    let mapping = PathMapping {
        worktree: worktree.to_owned(),
        root: worktree.to_owned(),
        store: StorePaths::of(None),
        max_paths,
    };
    StatusOutput::read(&mut output, mapping).map(|status| (status.facts, status.changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "internal")]
    #[test]
    fn a_commit_that_is_no_object_name_is_cut_between_characters() {
        let status = "# branch.oid aéééééé\0# branch.head (detached)\0";
        let (facts, _) = read_git_status(status.as_bytes(), Path::new("/p"), 1).unwrap();
        assert_eq!(facts.branch.as_deref(), Some("(detached at aééééé)"));
    }

    #[test]
    fn a_path_without_end_is_cut_off() {
        let long = [vec![b'x'; 3 * PATH_LIMIT], b"\0next\0last".to_vec()].concat();
        let (mut out, mut piece) = (&long[..], Vec::new());
        let mut lengths = Vec::new();
        while read_record(&mut out, &mut piece).unwrap() {
            lengths.push(piece.len());
        }
        assert_eq!(lengths, [PATH_LIMIT, 4, 4]);
    }
}
