//! What git says: branch, commit, and every path that is not as it was, whatever its bytes and whatever the user has
//! configured. Git is the program itself, asked in a form that is made for programs, and it takes no lock.

use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use super::program::{self, Failed};
use super::{Bounds, Own, Sighting, Since, bytes_of, path_of, relative};
use crate::model::{GitFacts, PathText, Renamed};

/// Settings of the user's that would change the answer, or have git start or write something.
const SETTINGS: [&str; 10] = [
    "core.fsmonitor=false",
    "core.excludesFile=/dev/null",
    "core.untrackedCache=keep",
    // Also for submodules, which are asked by git itself.
    "status.showUntrackedFiles=all",
    "status.renames=true",
    "status.renameLimit=1000",
    "diff.renames=true",
    "diff.renameLimit=1000",
    "diff.ignoreSubmodules=none",
    "status.submoduleSummary=false",
];

/// Variables that would send git elsewhere, as they do in a hook of git's, or have it write something.
const FOREIGN: [&str; 26] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_GRAFT_FILE",
    "GIT_SHALLOW_FILE",
    "GIT_REPLACE_REF_BASE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_QUARANTINE_PATH",
    "GIT_ATTR_SOURCE",
    "GIT_LITERAL_PATHSPECS",
    "GIT_GLOB_PATHSPECS",
    "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
    "GIT_TRACE",
    "GIT_TRACE2",
    "GIT_TRACE2_EVENT",
    "GIT_TRACE2_PERF",
    "GIT_EXTERNAL_DIFF",
];

/// What an empty folder is called, by the length of a repository's object names.
const EMPTY: [&str; 2] = [
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
];

/// Looks at a repository, and adds what it finds.
pub(super) fn look(
    worktree: &Path,
    root: &Path,
    since: &Since,
    own: &Own,
    bounds: &Bounds,
    deadline: Instant,
    sighting: &mut Sighting,
) {
    let names = Names { worktree: worktree.to_owned(), root: root.to_owned() };
    let paths = bounds.paths;
    let mut status = git(worktree);
    status.args(["status", "--porcelain=v2", "-z", "--branch", "--no-ahead-behind", "--untracked-files=all"]);
    status.args(["--ignore-submodules=none", "--find-renames", "--no-column"]);
    let reader = names.clone();
    let own_paths = own.clone();
    let read = move |out: &mut dyn BufRead| Status::read(out, &reader, &own_paths, paths);
    match answer(&mut status, deadline, bounds, read) {
        Ok((status, complaints)) => {
            sighting.git = status.facts;
            sighting.skipped.extend(complaints);
            if status.left_out > 0 {
                sighting.skipped.push(format!("git: {} more paths than {paths}", status.left_out));
            }
        }
        Err(why) => {
            sighting.git.error = Some(why);
            return;
        }
    }
    let Some(head) = sighting.git.head.clone() else {
        // No commit yet: there is nothing that could have been committed.
        sighting.committed_known = true;
        return;
    };
    let base = match &since.base {
        // The run begins here, or nothing was committed since the last look.
        None => head.as_str(),
        Some(base) if base.is_empty() => EMPTY[usize::from(head.len() > 40)],
        Some(base) => base,
    };
    if since.head.as_ref() == Some(&head) || *base == head {
        sighting.committed_known = true;
        return;
    }
    let mut diff = git(worktree);
    diff.args(["diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--no-textconv"]);
    diff.args(["--ignore-submodules=none", base, &head, "--"]);
    let own_paths = own.clone();
    let read = move |out: &mut dyn BufRead| committed(out, &names, &own_paths, paths);
    match answer(&mut diff, deadline, bounds, read) {
        Ok(((committed, left_out), _)) => {
            sighting.committed = committed;
            sighting.committed_known = true;
            if left_out > 0 {
                sighting.skipped.push(format!("commits: {left_out} more paths than {paths}"));
            }
        }
        Err(why) => sighting.skipped.push(format!("files of commits since {base}: {why}")),
    }
}

/// Git in a worktree, as every other person would find it.
fn git(worktree: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(worktree).args(["--no-optional-locks", "--no-pager"]);
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    for name in FOREIGN {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C").env("GIT_OPTIONAL_LOCKS", "0").env("GIT_TERMINAL_PROMPT", "0");
    // What a partial clone has not fetched stays where it is.
    command.env("GIT_NO_LAZY_FETCH", "1");
    command
}

fn answer<T: Send + 'static>(
    command: &mut Command,
    deadline: Instant,
    bounds: &Bounds,
    read: impl FnOnce(&mut dyn BufRead) -> io::Result<T> + Send + 'static,
) -> Result<(T, Option<String>), String> {
    let done = program::run(command, deadline, read).map_err(|failed| match failed {
        Failed::Io(e) if e.kind() == io::ErrorKind::NotFound => {
            "git is not installed, or not in PATH".to_owned()
        }
        Failed::Io(e) => format!("git could not be run: {e}"),
        Failed::TooLong => format!("git took longer than {} s", bounds.time.as_secs_f64()),
    })?;
    let complaint = said(&done.complaints);
    if !done.status.success() {
        return Err(complaint.unwrap_or_else(|| format!("git failed: {}", done.status)));
    }
    Ok((done.output, complaint))
}

/// What git complained about, on one line.
fn said(complaints: &str) -> Option<String> {
    const LINES: usize = 3;
    let mut lines = complaints.lines().map(str::trim).filter(|line| !line.is_empty());
    let shown: Vec<_> = lines.by_ref().take(LINES).collect();
    let rest = lines.count();
    let more = if rest > 0 { format!(" (and {rest} more lines)") } else { String::new() };
    (!shown.is_empty()).then(|| format!("git: {}{more}", shown.join("; ")))
}

/// From git's paths, which count from the worktree, to the project's.
#[derive(Clone)]
struct Names {
    worktree: PathBuf,
    root: PathBuf,
}

impl Names {
    /// The path as the project says it; `None` for one of Milepost's own.
    fn path(&self, bytes: &[u8], own: &Own) -> Option<PathText> {
        let bytes = bytes.strip_suffix(b"/").unwrap_or(bytes);
        let absolute = self.worktree.join(path_of(bytes));
        if own.holds(&absolute) {
            return None;
        }
        if self.worktree == self.root {
            return Some(PathText::of(bytes));
        }
        Some(PathText::of(bytes_of(&relative(&self.root, &absolute))))
    }
}

/// What `git status` says, read as it comes.
struct Status {
    facts: GitFacts,
    left_out: usize,
}

impl Status {
    fn read(out: &mut dyn BufRead, names: &Names, own: &Own, most: usize) -> io::Result<Self> {
        let mut status = Self { facts: GitFacts::default(), left_out: 0 };
        let mut detached = false;
        let mut line = Vec::new();
        while next(out, &mut line)? {
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
                b"? " => status.add(names.path(rest, own), most, |facts| &mut facts.untracked),
                b"1 " => status.changed(rest, path_after(rest, 7), names, own, most),
                b"u " => status.add(names.path(path_after(rest, 9), own), most, |facts| &mut facts.modified),
                b"2 " => {
                    let (entry, mut from) = (rest.to_vec(), Vec::new());
                    next(out, &mut from)?;
                    status.renamed(&entry, &from, names, own, most);
                }
                _ => {}
            }
        }
        let facts = &mut status.facts;
        if detached {
            let head = facts.head.as_deref().unwrap_or_default();
            facts.branch = Some(format!("(detached at {})", &head[..head.len().min(12)]));
        }
        for list in [&mut facts.modified, &mut facts.staged, &mut facts.untracked] {
            list.sort_unstable();
            list.dedup();
        }
        Ok(status)
    }

    fn add(
        &mut self,
        path: Option<PathText>,
        most: usize,
        list: impl Fn(&mut GitFacts) -> &mut Vec<PathText>,
    ) {
        let Some(path) = path else { return };
        let facts = &self.facts;
        let held = facts.modified.len() + facts.staged.len() + facts.untracked.len() + facts.renamed.len();
        if held < most {
            list(&mut self.facts).push(path);
        } else {
            self.left_out += 1;
        }
    }

    /// One entry: `XY` says how index and commit, and worktree and index, differ.
    fn changed(&mut self, entry: &[u8], path: &[u8], names: &Names, own: &Own, most: usize) {
        if entry.first().is_some_and(|x| *x != b'.') {
            self.add(names.path(path, own), most, |facts| &mut facts.staged);
        }
        if entry.get(1).is_some_and(|y| *y != b'.') {
            self.add(names.path(path, own), most, |facts| &mut facts.modified);
        }
    }

    fn renamed(&mut self, entry: &[u8], from: &[u8], names: &Names, own: &Own, most: usize) {
        let to = path_after(entry, 8);
        self.changed(entry, to, names, own, most);
        // A copy leaves where it came from as it was.
        if path_after(entry, 7).first() != Some(&b'R') {
            return;
        }
        // Renamed in the worktree alone: where it was is gone from there, too.
        if entry.get(1) == Some(&b'R') {
            self.add(names.path(from, own), most, |facts| &mut facts.modified);
        }
        if let (Some(from), Some(to)) = (names.path(from, own), names.path(to, own)) {
            self.facts.renamed.push(Renamed { from, to, extra: Default::default() });
        }
    }
}

/// What stands behind so many fields: a path, which may hold blanks itself.
fn path_after(entry: &[u8], fields: usize) -> &[u8] {
    entry.splitn(fields + 1, |byte| *byte == b' ').nth(fields).unwrap_or_default()
}

/// The next piece, up to a zero byte; false at the end.
fn next(out: &mut dyn BufRead, piece: &mut Vec<u8>) -> io::Result<bool> {
    piece.clear();
    let read = out.read_until(0, piece)?;
    if piece.last() == Some(&0) {
        piece.pop();
    }
    Ok(read > 0)
}

fn committed(
    out: &mut dyn BufRead,
    names: &Names,
    own: &Own,
    most: usize,
) -> io::Result<(Vec<PathText>, usize)> {
    let (mut found, mut left_out) = (Vec::new(), 0);
    let mut piece = Vec::new();
    while next(out, &mut piece)? {
        if found.len() < most {
            found.extend(names.path(&piece, own));
        } else {
            left_out += 1;
        }
    }
    Ok((found, left_out))
}
