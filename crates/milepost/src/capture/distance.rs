//! How far a commit is from what is checked out here: for a run that comes from another clone.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::git::{self, Git};
use crate::store::project_paths::ProjectPaths;

/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much it may print, unless a difference is asked for.
const SHORT: u64 = 4096;
/// The largest difference that is given out.
const LARGEST: u64 = 64 << 20;

/// Where this place stands, seen from a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Distance {
    /// On that commit.
    Same,
    /// So many commits are missing here.
    Behind(u64),
    /// So many commits more are here.
    Ahead(u64),
    /// Both have commits that the other lacks.
    Diverged {
        /// Commits that are only here.
        ahead: u64,
        /// Commits that are missing here.
        behind: u64,
    },
    /// The commit is not in this repository.
    Missing,
    /// It cannot be said, and why.
    Unknown(String),
}

impl std::fmt::Display for Distance {
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
pub fn distance(folder: &Path, commit: &str) -> Distance {
    if !git::is_object_name(commit) {
        return Distance::Unknown(format!("\"{commit}\" is not a commit"));
    }
    let there = match Caller::new(folder) {
        Ok(Some(there)) => there,
        Ok(None) => return Distance::Unknown("not in a git repository".into()),
        Err(why) => return Distance::Unknown(why),
    };
    let object = format!("{commit}^{{commit}}");
    match there.ask(&["cat-file", "-e", &object], SHORT) {
        Ok((true, _)) => {}
        Ok((false, _)) => return Distance::Missing,
        Err(why) => return Distance::Unknown(why),
    }
    let range = format!("{commit}...HEAD");
    let counted = there.ask(&["rev-list", "--left-right", "--count", &range, "--"], SHORT);
    let numbers: Option<(u64, u64)> = counted.as_ref().ok().filter(|(ok, _)| *ok).and_then(|(_, text)| {
        let mut words = text.split_whitespace().map(str::parse);
        Some((words.next()?.ok()?, words.next()?.ok()?))
    });
    match (numbers, counted) {
        (Some((0, 0)), _) => Distance::Same,
        (Some((behind, 0)), _) => Distance::Behind(behind),
        (Some((0, ahead)), _) => Distance::Ahead(ahead),
        (Some((behind, ahead)), _) => Distance::Diverged { ahead, behind },
        (None, Err(why)) => Distance::Unknown(why),
        (None, Ok(_)) => Distance::Unknown("this repository has no commit".into()),
    }
}

/// The commit that is checked out, and what of it was changed and not committed, as git writes it. Submodules count by
/// their commit.
pub fn uncommitted(folder: &Path) -> Result<(String, String), String> {
    const NONE: &str = "this is no git repository with a commit";
    let there = Caller::new(folder)?.ok_or(NONE)?;
    let (ok, head) = there.ask(&["rev-parse", "--verify", "HEAD"], SHORT)?;
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
    match there.ask(&diff, LARGEST)? {
        (true, text) => Ok((head.trim().to_owned(), text)),
        (false, _) => Err("git diff failed".into()),
    }
}

/// Git on the repository of a folder, with one time limit for all that is asked.
struct Caller {
    git: Git,
    deadline: Instant,
}

impl Caller {
    /// `None` outside of repositories, and where there is no such folder.
    fn new(folder: &Path) -> Result<Option<Self>, String> {
        let deadline = git::within(PATIENCE);
        let Some(repository) = ProjectPaths::find(folder).ok().and_then(|place| place.repository) else {
            return Ok(None);
        };
        let git = Git::new(&repository, deadline).map_err(|e| e.to_string())?;
        Ok(Some(Self { git, deadline }))
    }

    /// Runs git; gives whether it ended well, and its output.
    fn ask(&self, args: &[&str], limit: u64) -> Result<(bool, String), String> {
        let done = self.git.output(args, self.deadline, limit).map_err(|e| e.to_string())?;
        let text = String::from_utf8(done.output).map_err(|_| "the difference is not UTF-8".to_owned())?;
        Ok((done.status.success(), text))
    }
}
