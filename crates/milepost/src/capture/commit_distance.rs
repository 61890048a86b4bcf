//! Compares a commit with what is checked out, for a run that comes from another clone, and makes the diff of what is
//! not committed. In: a folder and a commit. Out: the distance or the diff. Must not change the repository.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::git::{self, Git};
use crate::store::project_paths::ProjectPaths;

/// How long git may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);
/// How much it may print, unless a difference is asked for.
const ANSWER_LIMIT: u64 = 4096;
/// The largest difference that is given out.
const DIFF_LIMIT: u64 = 64 << 20;

/// How the commit that is checked out relates to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitDistance {
    /// On that commit.
    Same,
    /// This many commits are missing.
    Behind(u64),
    /// This many commits are only in what is checked out.
    Ahead(u64),
    /// Both have commits that the other lacks.
    Diverged {
        /// Commits that are only in what is checked out.
        ahead: u64,
        /// Commits that are missing.
        behind: u64,
    },
    /// The commit is not in this repository.
    Missing,
    /// It cannot be said, and why.
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

/// Compares a commit with what is checked out in `folder`. Takes no lock and changes nothing.
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
        (None, Ok(_)) => CommitDistance::Unknown("this repository has no commit".into()),
    }
}

/// The commit that is checked out, and what of it was changed and not committed, as git writes it. Submodules count by
/// their commit.
pub fn uncommitted_diff(folder: &Path) -> Result<(String, String), String> {
    const NONE: &str = "this is no git repository with a commit";
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

/// Git on the repository of a folder, with one time limit for all that is asked.
struct GitQuery {
    git: Git,
    deadline: Instant,
}

impl GitQuery {
    /// `None` outside of repositories, and where query is no such folder.
    fn new(folder: &Path) -> Result<Option<Self>, String> {
        let deadline = git::deadline_in(TIME_LIMIT);
        let Some(repository) = ProjectPaths::find(folder).ok().and_then(|paths| paths.repository) else {
            return Ok(None);
        };
        let git = Git::new(&repository, deadline).map_err(|e| e.to_string())?;
        Ok(Some(Self { git, deadline }))
    }

    /// Runs git; gives whether it ended well, and its output.
    fn run(&self, args: &[&str], limit: u64) -> Result<(bool, String), String> {
        let done = self.git.output(args, self.deadline, limit).map_err(|e| e.to_string())?;
        let text = String::from_utf8(done.output).map_err(|_| "the difference is not UTF-8".to_owned())?;
        Ok((done.status.success(), text))
    }
}
