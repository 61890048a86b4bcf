//! Compares a commit with the checked-out commit, for a run that comes from another clone, and produces the
//! diff of the uncommitted changes. Must not change the repository.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::git::{self, Git};
use crate::store::project_paths::ProjectPaths;

/// Maximum duration of all git commands together.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// Maximum size of git's output, except for a diff.
const ANSWER_LIMIT: u64 = 4096;
/// Maximum size of a diff.
const DIFF_LIMIT: u64 = 64 << 20;

/// The relation of the checked-out commit to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitDistance {
    /// Both are the same commit.
    Same,
    /// The checked-out commit lacks this number of commits.
    Behind(u64),
    /// The checked-out commit has this number of additional commits.
    Ahead(u64),
    /// Both have commits that the other lacks.
    Diverged {
        /// Number of commits that only the checked-out commit has.
        ahead: u64,
        /// Number of commits that the checked-out commit lacks.
        behind: u64,
    },
    /// The commit is not in this repository.
    Missing,
    /// The distance cannot be determined, for this reason.
    Unknown(String),
}

impl std::fmt::Display for CommitDistance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Same => f.write_str("on the same commit"),
            Self::Behind(n) => write!(f, "{n} behind"),
            Self::Ahead(n) => write!(f, "{n} ahead"),
            Self::Diverged { ahead, behind } => write!(f, "{ahead} ahead, {behind} behind"),
            Self::Missing => f.write_str("commit missing"),
            Self::Unknown(why) => f.write_str(why),
        }
    }
}

/// Compares a commit with the commit checked out in `folder`. Takes no lock and changes nothing.
pub fn commit_distance(folder: &Path, commit: &str) -> CommitDistance {
    if !git::is_object_name(commit) {
        return CommitDistance::Unknown(format!("\"{commit}\" is not a commit"));
    }
    let query = match GitQuery::new(folder) {
        Ok(Some(query)) => query,
        Ok(None) => return CommitDistance::Unknown("not in a git repository".into()),
        Err(why) => return CommitDistance::Unknown(why),
    };
    let object = format!("{commit}^{{commit}}");
    match query.run(&["cat-file", "-e", &object], ANSWER_LIMIT) {
        Ok((true, _)) => {}
        Ok((false, _)) => return CommitDistance::Missing,
        Err(why) => return CommitDistance::Unknown(why),
    }
    let range = format!("{commit}...HEAD");
    let counted = query.run(&["rev-list", "--left-right", "--count", &range, "--"], ANSWER_LIMIT);
    let numbers: Option<(u64, u64)> = counted.as_ref().ok().filter(|(ok, _)| *ok).and_then(|(_, text)| {
        let mut counts = text.split_whitespace().map(str::parse);
        Some((counts.next()?.ok()?, counts.next()?.ok()?))
    });
    match (numbers, counted) {
        (Some((0, 0)), _) => CommitDistance::Same,
        (Some((behind, 0)), _) => CommitDistance::Behind(behind),
        (Some((0, ahead)), _) => CommitDistance::Ahead(ahead),
        (Some((behind, ahead)), _) => CommitDistance::Diverged { ahead, behind },
        (None, Err(why)) => CommitDistance::Unknown(why),
        (None, Ok(_)) => CommitDistance::Unknown("this repository has no commits".into()),
    }
}

/// Returns the checked-out commit and git's diff of the uncommitted changes. Submodules are compared by
/// their commit.
pub fn uncommitted_diff(folder: &Path) -> Result<(String, String), String> {
    const NONE: &str = "not a git repository with a commit";
    let query = GitQuery::new(folder)?.ok_or(NONE)?;
    let (ok, head) = query.run(&["rev-parse", "--verify", "HEAD"], ANSWER_LIMIT)?;
    if !ok {
        return Err(NONE.into());
    }
    let diff = [
        "-c",
        "core.quotepath=off",
        "diff",
        "--binary",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=dirty",
        "--submodule=short",
        "HEAD",
        "--",
    ];
    match query.run(&diff, DIFF_LIMIT)? {
        (true, text) => Ok((head.trim().to_owned(), text)),
        (false, _) => Err("git diff failed".into()),
    }
}

/// Git on the repository of a folder, with one time limit for all queries.
pub(super) struct GitQuery {
    git: Git,
    deadline: Instant,
}

impl GitQuery {
    /// Returns `None` if the folder does not exist or is not in a repository.
    pub(super) fn new(folder: &Path) -> Result<Option<Self>, String> {
        let deadline = git::deadline_in(TIME_LIMIT);
        let Some(repository) = ProjectPaths::find(folder).ok().and_then(|paths| paths.repository) else {
            return Ok(None);
        };
        let git = Git::new(&repository, deadline).map_err(|e| e.to_string())?;
        Ok(Some(Self { git, deadline }))
    }

    /// Runs git. Returns whether it succeeded, and its output.
    pub(super) fn run(&self, args: &[&str], limit: u64) -> Result<(bool, String), String> {
        let done = self.git.output(args, self.deadline, limit).map_err(|e| e.to_string())?;
        let text = String::from_utf8(done.output).map_err(|_| "git's output is not UTF-8".to_owned())?;
        Ok((done.status.success(), text))
    }
}
