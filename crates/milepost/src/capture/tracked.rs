//! Whether git tracks a path: what it tracks, everybody who can push to the repository can change.

use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use crate::git::{self, Git, GitError};
use crate::store::Repository;

/// How long git may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Whether git tracks `path`, or anything below it. Where git cannot say, it is taken for tracked.
pub fn is_tracked(repository: &Repository, path: &Path) -> bool {
    let Ok(relative) = path.strip_prefix(repository.worktree()) else { return false };
    let deadline = git::within(TIME_LIMIT);
    let args = ["ls-files", "-z", "--cached", "--"].map(AsRef::as_ref);
    let first_byte = |out: &mut dyn std::io::BufRead| out.take(1).read_to_end(&mut Vec::new());
    let asked = Git::new(repository, deadline)
        .and_then(|git| git.run(args.into_iter().chain([relative.as_os_str()]), deadline, first_byte));
    match asked {
        Ok(done) => done.output > 0 || !done.status.success(),
        // Without git nothing was pulled here either.
        Err(GitError::NotInstalled) => false,
        Err(_) => true,
    }
}
