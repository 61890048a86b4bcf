//! Reads the contents of committed files from git, as they are in a worktree: with line endings converted, but
//! without running filter programs. Takes object names and paths, and returns contents or the reason why one
//! is not available.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, BufRead, Read as _};
use std::time::{Duration, Instant};

use super::file::may_hold_secrets;
use super::manifest::FileContent;
use crate::capture::GitObject;
use crate::git::{Git, GitError, is_object_name};
use crate::model::id::random_suffix;
use crate::model::{BlobId, PathText};
use crate::store::Repository;

/// Maximum number of files to read in one call.
const MAX_FILES: usize = 2_000;

const GONE: &str = "git no longer has the committed version";

/// A file to read: its path and its version in a commit.
pub(super) struct Wanted {
    pub(super) path: Vec<u8>,
    pub(super) object: GitObject,
}

/// A content that was read: its description, and its bytes for a regular file.
pub(super) type Content = (FileContent, Vec<u8>);

/// Reads the contents of committed files. The result has the same order as `wanted`.
pub(super) fn read(git: &Git, wanted: &[Wanted], limit: u64, deadline: Instant) -> Vec<Content> {
    let mut contents: Vec<Option<Content>> =
        wanted.iter().map(|file| special(file).map(|c| (c, vec![]))).collect();
    let mut to_read: Vec<usize> = (0..wanted.len()).filter(|n| contents[*n].is_none()).collect();
    let surplus = to_read.split_off(to_read.len().min(MAX_FILES));
    for n in surplus {
        contents[n] = Some(omitted("too many committed files changed at once"));
    }
    let outcome = filtered(git, wanted, &to_read, deadline).and_then(|filters| {
        for (n, filter) in filters {
            contents[n] = Some(omitted(format!("git's filter \"{filter}\" would have to run")));
        }
        to_read.retain(|n| contents[*n].is_none());
        let sizes = sizes(git, wanted, &to_read, deadline)?;
        for (n, size) in to_read.iter().zip(sizes) {
            match size {
                Some(size) if size > limit => contents[*n] = Some(omitted(super::file::too_large(limit))),
                Some(_) => {}
                None => contents[*n] = Some(omitted(GONE)),
            }
        }
        to_read.retain(|n| contents[*n].is_none());
        let files: Vec<&Wanted> = to_read.iter().map(|n| &wanted[*n]).collect();
        read_objects(git, &files, limit, deadline)
    });
    match outcome {
        Ok(read) => to_read.iter().zip(read).for_each(|(n, content)| contents[*n] = Some(content)),
        Err(e) => to_read.iter().for_each(|n| contents[*n] = Some(omitted(e.to_string()))),
    }
    contents.into_iter().map(|content| content.unwrap_or_else(|| omitted("git did not return it"))).collect()
}

fn omitted(reason: impl Into<String>) -> Content {
    (FileContent::omitted(reason, None), Vec::new())
}

/// The content of a path that is not read from git.
fn special(file: &Wanted) -> Option<FileContent> {
    match file.object.mode.as_str() {
        "160000" => Some(FileContent::Submodule { commit: file.object.name.clone() }),
        _ if may_hold_secrets(&file.path) => Some(FileContent::omitted(super::SECRET_REASON, None)),
        _ => None,
    }
}

/// The files for which git would run a filter program, with the name of the filter.
fn filtered(
    git: &Git,
    wanted: &[Wanted],
    files: &[usize],
    deadline: Instant,
) -> Result<Vec<(usize, String)>, GitError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut input = Vec::new();
    for n in files {
        input.extend_from_slice(&wanted[*n].path);
        input.push(0);
    }
    let args = ["check-attr", "-z", "--stdin", "filter"];
    let read = |out: &mut dyn BufRead| {
        let mut bytes = Vec::new();
        out.take(64 << 20).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let done = git.run_with_input(args, input, deadline, read)?;
    if !done.status.success() {
        return Err(GitError::Refused(done.stderr.unwrap_or_else(|| "git check-attr failed".into())));
    }
    let numbers: HashMap<&[u8], usize> = files.iter().map(|n| (&wanted[*n].path[..], *n)).collect();
    let mut pieces = done.output.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let (Some(path), Some(_), Some(value)) = (pieces.next(), pieces.next(), pieces.next()) {
        if let (Some(n), false) = (numbers.get(path), [&b"unspecified"[..], b"unset"].contains(&value)) {
            found.push((*n, String::from_utf8_lossy(value).into_owned()));
        }
    }
    Ok(found)
}

/// The sizes of objects; `None` for those that git no longer has.
fn sizes(
    git: &Git,
    wanted: &[Wanted],
    files: &[usize],
    deadline: Instant,
) -> Result<Vec<Option<u64>>, GitError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let input: String = files.iter().map(|n| format!("{}\n", wanted[*n].object.name)).collect();
    let read = |out: &mut dyn BufRead| out.take(16 << 20).lines().collect::<io::Result<Vec<_>>>();
    let args = ["cat-file", "--batch-check=%(objecttype) %(objectsize)"];
    let done = git.run_with_input(args, input.into_bytes(), deadline, read)?;
    let size = |line: &String| line.strip_prefix("blob ").and_then(|size| size.parse().ok());
    let sizes: Vec<_> = done.output.iter().map(size).collect();
    if sizes.len() == files.len() { Ok(sizes) } else { Err(GitError::Refused("git cat-file failed".into())) }
}

/// Reads objects with `git cat-file`. With `--filters`, git does not print the length of what it prints, so
/// a request for an object that cannot exist follows each one and marks its end.
fn read_objects(
    git: &Git,
    files: &[&Wanted],
    limit: u64,
    deadline: Instant,
) -> Result<Vec<Content>, GitError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let marker = format!("milepost-{}", random_suffix(16));
    let mut input = Vec::new();
    for file in files {
        input.extend_from_slice(format!("{} ", file.object.name).as_bytes());
        input.extend_from_slice(&file.path);
        input.extend_from_slice(format!("\0{marker} x\0").as_bytes());
    }
    let end = format!("\n{marker} missing\n").into_bytes();
    let count = files.len();
    let read = move |out: &mut dyn BufRead| {
        (0..count).map(|_| read_until_marker(out, &end, limit)).collect::<io::Result<Vec<_>>>()
    };
    let done = git.run_with_input(["cat-file", "--batch", "--filters", "-z"], input, deadline, read)?;
    Ok(files.iter().zip(done.output).map(|(file, bytes)| content(file, bytes, limit)).collect())
}

/// Reads one answer of `git cat-file`, up to the marker. Returns `None` for one that exceeds the limit.
fn read_until_marker(out: &mut dyn BufRead, end: &[u8], limit: u64) -> io::Result<Option<Vec<u8>>> {
    let (mut bytes, mut is_too_large) = (Vec::new(), false);
    loop {
        let start = bytes.len();
        if out.read_until(b'\n', &mut bytes)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The line break before the marker belongs to the marker.
        let from = start.saturating_sub(1);
        if bytes[from..] == *end || (start == 0 && bytes == end[1..]) {
            bytes.truncate(from);
            return Ok((!is_too_large).then_some(bytes));
        }
        if bytes.len() as u64 > limit.saturating_add(4096) {
            is_too_large = true;
            // Keep the last line break, with which the marker may begin.
            bytes.drain(..bytes.len() - 1);
        }
    }
}

/// The content in an answer: a line with name, type and size, and then the bytes.
fn content(file: &Wanted, answer: Option<Vec<u8>>, limit: u64) -> Content {
    let Some(mut bytes) = answer else { return omitted(super::file::too_large(limit)) };
    let header_end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let header = String::from_utf8_lossy(&bytes[..header_end]).into_owned();
    if header.split(' ').nth(1) != Some("blob") {
        return omitted(GONE);
    }
    bytes.drain(..(header_end + 1).min(bytes.len()));
    if bytes.len() as u64 > limit {
        return omitted(super::file::too_large(limit));
    }
    match file.object.mode.as_str() {
        "120000" => (FileContent::Symlink { target: PathText::of(&bytes) }, Vec::new()),
        mode => {
            let executable = mode == "100755";
            let size = bytes.len() as u64;
            (FileContent::File { blob: BlobId::of(&bytes), size, executable }, bytes)
        }
    }
}

/// The paths that differ between two commits, with their versions in both.
pub(super) fn changed_between(
    git: &Git,
    from: &str,
    to: &str,
    deadline: Instant,
) -> Result<Vec<MovedPath>, GitError> {
    let args = [
        "diff-tree",
        "-r",
        "-z",
        "--raw",
        "--no-abbrev",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=none",
        "--end-of-options",
        from,
        to,
        "--",
    ];
    let done = git.output(args, deadline, 256 << 20)?;
    if !done.status.success() {
        return Err(GitError::Refused(done.stderr.unwrap_or_else(|| "git diff-tree failed".into())));
    }
    let mut pieces = done.output.split(|byte| *byte == 0);
    let mut moved = Vec::new();
    while let (Some(about), Some(path)) = (pieces.next(), pieces.next()) {
        let fields: Vec<&[u8]> =
            about.strip_prefix(b":").unwrap_or(about).split(|byte| *byte == b' ').collect();
        let [old_mode, new_mode, old, new, ..] = fields[..] else { break };
        moved.push(MovedPath {
            path: path.to_owned(),
            before: GitObject::of(old_mode, old),
            after: GitObject::of(new_mode, new),
        });
    }
    Ok(moved)
}

/// The paths among these that are in the index, but that a sparse worktree does not contain.
pub(super) fn not_checked_out(
    git: &Git,
    paths: &[&[u8]],
    deadline: Instant,
) -> Result<BTreeSet<Vec<u8>>, GitError> {
    /// The paths of one command must fit on its command line.
    const PATHS_AT_ONCE: usize = 200;
    let mut found = BTreeSet::new();
    for paths in paths.chunks(PATHS_AT_ONCE) {
        let args = ["ls-files", "-t", "-z", "--"].map(std::ffi::OsString::from);
        let paths = paths.iter().map(|path| super::file::path_of(path).as_os_str().to_owned());
        let done = git.output(args.into_iter().chain(paths), deadline, 16 << 20)?;
        if !done.status.success() {
            return Err(GitError::Refused(done.stderr.unwrap_or_else(|| "git ls-files failed".into())));
        }
        let listed = done.output.split(|byte| *byte == 0);
        found.extend(listed.filter_map(|entry| entry.strip_prefix(b"S ")).map(<[u8]>::to_vec));
    }
    Ok(found)
}

/// The paths among these that git ignores.
pub(super) fn ignored<'a>(
    repository: &Repository,
    paths: impl Iterator<Item = &'a [u8]>,
) -> Result<BTreeSet<Vec<u8>>, GitError> {
    const TIME: Duration = Duration::from_secs(20);
    let deadline = Instant::now() + TIME;
    Git::new(repository, deadline)?.ignored(paths, deadline)
}

/// A path that differs between two commits.
pub(super) struct MovedPath {
    pub(super) path: Vec<u8>,
    pub(super) before: Option<GitObject>,
    pub(super) after: Option<GitObject>,
}

/// Reads committed files for a checkpoint that does not list them.
pub(crate) struct CommittedReader {
    git: Git,
    deadline: Instant,
}

impl CommittedReader {
    /// Prepares to read from a repository. Returns the reason if git cannot be run.
    pub(crate) fn open(repository: &Repository, time: Duration) -> Result<Self, String> {
        let deadline = Instant::now() + time;
        let git = Git::new(repository, deadline).map_err(|e| e.to_string())?;
        Ok(Self { git, deadline })
    }

    /// The content of a path in a commit.
    pub(crate) fn read(&self, commit: &str, path: &[u8], limit: u64) -> (FileContent, Vec<u8>) {
        let missing = |why: String| (FileContent::omitted(why, None), Vec::new());
        if !is_object_name(commit) {
            return missing("the commit is not known".into());
        }
        let args: [&std::ffi::OsStr; 7] = [
            "ls-tree".as_ref(),
            "-z".as_ref(),
            "--full-tree".as_ref(),
            "--end-of-options".as_ref(),
            commit.as_ref(),
            "--".as_ref(),
            super::file::path_of(path).as_os_str(),
        ];
        let listed = match self.git.output(args, self.deadline, 1 << 20) {
            Ok(done) if done.status.success() => done.output,
            Ok(done) => return missing(done.stderr.unwrap_or_else(|| "git ls-tree failed".into())),
            Err(e) => return missing(e.to_string()),
        };
        // `<mode> <type> <name>TAB<path>NUL`
        let about: Vec<&[u8]> = listed.split(|byte| [b' ', b'\t'].contains(byte)).collect();
        let object = match about[..] {
            [mode, _, name, ..] => GitObject::of(mode, name),
            _ => None,
        };
        let Some(object) = object else { return (FileContent::Absent, Vec::new()) };
        if object.mode.starts_with("04") {
            return (FileContent::Absent, Vec::new());
        }
        let wanted = [Wanted { path: path.to_owned(), object }];
        let mut read = read(&self.git, &wanted, limit, self.deadline);
        read.pop().unwrap_or_else(|| missing("git did not return it".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_at_the_marker_even_if_its_length_is_unknown() {
        let end = b"\nmark missing\n";
        let answers = b"1 blob 5\na\r\nb\nmark missing\n2 blob 0\n\nmark missing\n3 missing\nmark missing\n";
        let mut out = &answers[..];
        let mut next = || read_until_marker(&mut out, end, 100).unwrap().unwrap();
        assert_eq!(next(), b"1 blob 5\na\r\nb");
        assert_eq!(next(), b"2 blob 0\n");
        assert_eq!(next(), b"3 missing");
        let long = [b"1 blob 9\n".to_vec(), b"line\n".repeat(5000), b"\nmark missing\nx".to_vec()].concat();
        let mut out = &long[..];
        assert_eq!(read_until_marker(&mut out, end, 100).unwrap(), None);
        assert_eq!(out, b"x");
    }
}
