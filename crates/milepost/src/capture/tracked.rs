//! Determines whether git tracks a store. Takes a repository and a store, and returns true if git tracks any
//! of the store's files or fails. Everyone who can push to the repository can change a tracked store.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use crate::git::{self, Git, GitError};
use crate::store::project_paths::ProjectPaths;
use crate::store::{Repository, StoreUrl};

/// Maximum duration of the git command.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Whether git tracks any file of a store, in the project's repository or in the one that contains the
/// store's folder, such as a submodule. Returns true if git fails.
pub fn is_tracked(project: Option<&Repository>, store: &StoreUrl) -> bool {
    let store = store.resolved();
    let Some(path) = store.path() else { return false };
    let folder = if store.is_folder() { path } else { path.parent().unwrap_or(Path::new("/")) };
    let nearest = match ProjectPaths::find(folder) {
        Ok(paths) if paths.repository.is_none() && paths.root.join(".git").symlink_metadata().is_ok() => {
            // Milepost does not recognise this `.git`, but git may follow it.
            return true;
        }
        Ok(paths) => paths.repository,
        Err(_) => return true,
    };
    let other = nearest.as_ref().filter(|nearest| Some(*nearest) != project);
    project.into_iter().chain(other).any(|repository| tracks_store(repository, &store))
}

fn tracks_store(repository: &Repository, store: &StoreUrl) -> bool {
    let files = store.local_files();
    let Ok(paths) =
        files.iter().map(|file| file.strip_prefix(repository.worktree())).collect::<Result<Vec<_>, _>>()
    else {
        return false;
    };
    let args = ["ls-files", "-z", "--cached", "--"].map(OsString::from);
    let paths = paths.into_iter().map(|path| match path.as_os_str() {
        root if root.is_empty() => ".".into(),
        path => path.to_owned(),
    });
    let deadline = git::deadline_in(TIME_LIMIT);
    let first_byte = |out: &mut dyn std::io::BufRead| out.take(1).read_to_end(&mut Vec::new());
    let asked = Git::new(repository, deadline)
        .and_then(|git| git.run(args.into_iter().chain(paths), deadline, first_byte));
    match asked {
        Ok(done) => done.output > 0 || !done.status.success(),
        // Without git, the store cannot have been pulled.
        Err(GitError::NotInstalled) => false,
        Err(_) => true,
    }
}
