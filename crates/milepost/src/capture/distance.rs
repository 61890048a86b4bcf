//! How far a commit is from what is checked out here: for a run that comes from another clone.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long git may take.
const PATIENCE: Duration = Duration::from_secs(5);

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
    let hex = commit.len() >= 4 && commit.bytes().all(|b| b.is_ascii_hexdigit());
    if !hex {
        return Distance::Unknown(format!("{commit:?} is not a commit"));
    }
    match git(folder, &["rev-parse", "--git-dir"]) {
        Ok((true, _)) => {}
        Ok((false, _)) => return Distance::Unknown("not in a git repository".into()),
        Err(why) => return Distance::Unknown(why),
    }
    let object = format!("{commit}^{{commit}}");
    match git(folder, &["cat-file", "-e", &object]) {
        Ok((true, _)) => {}
        Ok((false, _)) => return Distance::Missing,
        Err(why) => return Distance::Unknown(why),
    }
    let range = format!("{commit}...HEAD");
    let counted = git(folder, &["rev-list", "--left-right", "--count", &range]);
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

/// The commit that is checked out, and what of it was changed and not committed, as git writes it.
pub fn uncommitted(folder: &Path) -> Result<(String, String), String> {
    let (ok, head) = git(folder, &["rev-parse", "--verify", "HEAD"])?;
    if !ok {
        return Err("this is no git repository with a commit".into());
    }
    let diff = [
        "-c",
        "core.quotepath=off",
        "diff",
        "--binary",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "HEAD",
    ];
    match git(folder, &diff)? {
        (true, text) => Ok((head.trim().to_owned(), text)),
        (false, _) => Err("git diff failed".into()),
    }
}

/// Runs git; gives whether it ended well, and its output.
fn git(folder: &Path, args: &[&str]) -> Result<(bool, String), String> {
    let mut command = Command::new("git");
    command.arg("--no-optional-locks").arg("-C").arg(folder).args(args);
    command.env("GIT_TERMINAL_PROMPT", "0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|e| format!("git could not be started: {e}"))?;
    let stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map_or(Ok(0), |mut out| out.read_to_end(&mut bytes));
        read.map(|_| bytes)
    });
    let begun = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Err("git took too long".into());
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(2)),
            Err(e) => return Err(e.to_string()),
        }
    };
    let bytes = reader.join().map_err(|_| "git's output was lost".to_owned())?.map_err(|e| e.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "the difference is not UTF-8".to_owned())?;
    Ok((status.success(), text))
}
