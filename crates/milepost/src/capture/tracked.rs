//! Whether git tracks a store: what it tracks, everybody who can push to the repository can change.

use std::ffi::OsString;
use std::io::Read as _;
use std::time::Duration;

use crate::git::{self, Git, GitError};
use crate::store::{Repository, StoreUrl};

/// How long git may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Whether git tracks any file of a store. Returns true if git fails.
pub fn is_tracked(repository: &Repository, store: &StoreUrl) -> bool {
    let Ok(path) = store.path().strip_prefix(repository.worktree()) else { return false };
    let suffixes: &[&str] = match store {
        StoreUrl::Sqlite(_) => &["", "-wal", "-shm", "-journal", "-id", "-owners"],
        StoreUrl::Files(_) => &[""],
    };
    let with = |suffix: &&str| {
        let mut path = path.as_os_str().to_owned();
        path.push(suffix);
        path
    };
    let args = ["ls-files", "-z", "--cached", "--"].map(OsString::from);
    let deadline = git::within(TIME_LIMIT);
    let first_byte = |out: &mut dyn std::io::BufRead| out.take(1).read_to_end(&mut Vec::new());
    let asked = Git::new(repository, deadline)
        .and_then(|git| git.run(args.into_iter().chain(suffixes.iter().map(with)), deadline, first_byte));
    match asked {
        Ok(done) => done.output > 0 || !done.status.success(),
        // Without git nothing was pulled here either.
        Err(GitError::NotInstalled) => false,
        Err(_) => true,
    }
}
