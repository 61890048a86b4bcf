//! Finds the git executable. Takes the user's search path and a repository, and returns the absolute path of
//! git and the search path for the programs it starts. Must not use a program in the repository or a relative
//! path: such a program could come with a clone.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::store::Repository;

/// The search path to use if `PATH` is not set.
#[cfg(unix)]
const DEFAULT_SEARCH_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
#[cfg(not(unix))]
const DEFAULT_SEARCH_PATH: &str = "";

/// The git executable and the search path passed to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executable {
    pub(super) path: PathBuf,
    pub(super) search_path: OsString,
}

/// Finds git in the search path of this process.
#[allow(clippy::disallowed_methods, reason = "starting a program by its name alone would read PATH, too")]
pub(super) fn find_git(repository: &Repository) -> Option<Executable> {
    find_in(std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_SEARCH_PATH.into()), repository)
}

fn find_in(search_path: OsString, repository: &Repository) -> Option<Executable> {
    // The main worktree of a linked one may also be in the search path.
    let common = repository.common_dir();
    let main = common.parent().filter(|_| common.ends_with(".git"));
    let of_project = |path: &Path| {
        path.starts_with(repository.worktree()) || main.is_some_and(|main| path.starts_with(main))
    };
    let folders: Vec<PathBuf> = std::env::split_paths(&search_path)
        .filter(|folder| folder.is_absolute() && !of_project(folder))
        .collect();
    let name = format!("git{}", std::env::consts::EXE_SUFFIX);
    // A symbolic link may still lead into the repository.
    let is_outside = |path: &PathBuf| crate::fs::canonicalize(path).is_ok_and(|real| !of_project(&real));
    let path =
        folders.iter().map(|folder| folder.join(&name)).find(|path| is_program(path) && is_outside(path))?;
    Some(Executable { path, search_path: std::env::join_paths(folders).ok()? })
}

fn is_program(path: &Path) -> bool {
    let Ok(about) = fs::metadata(path) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        about.is_file() && about.permissions().mode() & 0o111 != 0
    }
    #[cfg(not(unix))]
    about.is_file()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn only_absolute_folders_outside_the_repository_count() {
        let dir = tempfile::tempdir().unwrap();
        let root = crate::fs::canonicalize(dir.path()).unwrap();
        let project = root.join("project");
        let bin = |folder: &Path, mode: u32| {
            fs::create_dir_all(folder).unwrap();
            let file = fs::File::create(folder.join("git")).unwrap();
            file.set_permissions(fs::Permissions::from_mode(mode)).unwrap();
        };
        let repository = crate::git::tests::repository(&project);
        bin(&project.join("bin"), 0o755);
        bin(&root.join("data"), 0o644);
        bin(&root.join("good"), 0o755);
        symlink(project.join("bin"), root.join("link")).unwrap();
        let named = |name: &str| root.join(name).to_string_lossy().into_owned();
        let path =
            ["", ".", "./bin", "bin", &named("project/bin"), &named("link"), &named("data"), &named("good")];
        let found = find_in(path.join(":").into(), &repository).unwrap();
        assert_eq!(found.path, root.join("good/git"));
        assert_eq!(*found.search_path, *[&named("link"), &*named("data"), &named("good")].join(":"));
        assert_eq!(find_in(path[..7].join(":").into(), &repository), None);
    }
}
