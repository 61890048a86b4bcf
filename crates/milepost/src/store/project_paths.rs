//! Locates a project's store: in the git common directory, or in `.milepost/` outside git. Takes a folder and
//! returns the project's root, worktree, branch and store path. The store need not exist. Reads a few small
//! files and runs no programs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::repository::{DotGit, Repository, dot_git};

/// Name of the database file.
pub(crate) const DATABASE: &str = "milepost.db";
/// Name of the folder that contains the outbox and, outside repositories, the store.
pub(crate) const FOLDER: &str = ".milepost";

/// Name of the project's configuration file. Outside git it also marks the project's root.
pub(crate) const CONFIG: &str = "milepost.toml";

/// The paths of a project and its store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPaths {
    /// The project's root: the worktree's root, or the folder that contains `.milepost`.
    pub root: PathBuf,
    /// The worktree's root; `None` outside git.
    pub worktree: Option<PathBuf>,
    /// The repository, for calling git; `None` outside git.
    pub repository: Option<Repository>,
    /// The branch: its name, or the first digits of the commit when detached.
    pub branch: Option<String>,
    /// The store's database file.
    pub database: PathBuf,
    /// The project's configuration file: the nearest one from the current folder up to the root. If there
    /// is none, the path in the root.
    pub config: PathBuf,
}

impl ProjectPaths {
    /// Searches from `folder` upwards, never beyond the root of a repository. A folder whose `.git` must not
    /// be used (a symbolic link, or a pointer to a git directory that does not point back) is a project
    /// outside git.
    pub fn find(folder: &Path) -> io::Result<Self> {
        let folder = crate::fs::canonicalize(folder)?;
        // A repository takes precedence over `.milepost` and `milepost.toml` in its subfolders.
        for at in folder.ancestors() {
            match dot_git(at) {
                DotGit::Absent => {}
                DotGit::Repository(repository) => return Ok(Self::in_repository(repository, &folder)),
                DotGit::Refused => return Ok(Self::outside_git(at, &folder)),
            }
        }
        let is_root = |at: &&Path| {
            at.join(FOLDER).join(DATABASE).exists() || fs::symlink_metadata(at.join(CONFIG)).is_ok()
        };
        Ok(Self::outside_git(folder.ancestors().find(is_root).unwrap_or(&folder), &folder))
    }

    /// The folder of the configuration file, relative to the root; empty for the root itself.
    pub fn config_folder(&self) -> &Path {
        let folder = self.config.parent().and_then(|folder| folder.strip_prefix(&self.root).ok());
        folder.unwrap_or(Path::new(""))
    }

    fn in_repository(repository: Repository, folder: &Path) -> Self {
        Self {
            config: nearest_config(folder, repository.worktree()),
            root: repository.worktree().to_owned(),
            worktree: Some(repository.worktree().to_owned()),
            branch: repository.branch(),
            database: repository.common_dir().join("milepost").join(DATABASE),
            repository: Some(repository),
        }
    }

    fn outside_git(root: &Path, folder: &Path) -> Self {
        let database = root.join(FOLDER).join(DATABASE);
        let config = nearest_config(folder, root);
        Self { root: root.to_owned(), worktree: None, repository: None, branch: None, database, config }
    }

    /// The outbox folder, which stores saves while the store is not writable.
    pub fn outbox(&self) -> PathBuf {
        self.root.join(FOLDER).join("outbox")
    }
}

/// The configuration file that applies to a folder at or under a project's root. A symbolic link counts, so
/// that the code that reads it can refuse it.
fn nearest_config(folder: &Path, root: &Path) -> PathBuf {
    let inside = folder.ancestors().take_while(|at| at.starts_with(root));
    let mut files = inside.map(|at| at.join(CONFIG));
    files.find(|file| fs::symlink_metadata(file).is_ok()).unwrap_or_else(|| root.join(CONFIG))
}

/// The name of the file system of `folder` if SQLite's shared memory is not safe on it.
pub(crate) fn unsafe_file_system(folder: &Path) -> Option<&'static str> {
    #[cfg(target_os = "linux")]
    {
        // From the kernel's include/uapi/linux/magic.h.
        let known: [(u64, &str); 7] = [
            (0x6969, "nfs"),
            (0xFF53_4D42, "cifs"),
            (0xFE53_4D42, "smb"),
            (0x517B, "smb"),
            (0x0102_1997, "9p"),
            // virtiofs reports this number too.
            (0x6573_5546, "fuse"),
            (0x0BD0_0BD0, "lustre"),
        ];
        let kind = rustix::fs::statfs(folder).ok()?.f_type as u64 & 0xFFFF_FFFF;
        known.iter().find(|(magic, _)| *magic == kind).map(|(_, name)| *name)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = folder;
        None
    }
}
