//! Where a project's store is: the git common directory, or `.milepost/` beside the work. Reads a few small files, runs
//! nothing.
//! In: a folder. Out: the project's root, worktree, branch and the store's path, whether or not it exists yet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::repository::{DotGit, Repository, dot_git};

/// Name of the store's file.
pub(crate) const DATABASE: &str = "milepost.db";
/// Name of the folder outside repositories, and of the outbox's parent.
pub(crate) const FOLDER: &str = ".milepost";

/// Name of the project's configuration, which also marks its root.
pub(crate) const CONFIG: &str = "milepost.toml";

/// Where work happens and where its store belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectPaths {
    /// The project's root: the worktree's, or the folder that holds `.milepost`.
    pub root: PathBuf,
    /// The worktree, in a repository.
    pub worktree: Option<PathBuf>,
    /// The repository, for whoever calls git.
    pub repository: Option<Repository>,
    /// The branch: its name, or the first digits of the commit when detached.
    pub branch: Option<String>,
    /// The store's file.
    pub database: PathBuf,
    /// The project's configuration: the nearest one from the current folder up to the root, or the root's, which need not
    /// exist.
    pub config: PathBuf,
}

impl ProjectPaths {
    /// Looks from `folder` upwards, never across a repository's edge. A folder whose `.git` must not be used (a link, or
    /// a pointer to a git directory that does not name this folder) is a project outside git.
    pub fn find(folder: &Path) -> io::Result<Self> {
        let folder = fs::canonicalize(folder)?;
        // A repository comes first, whatever lies in its folders.
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

    /// The folder of the project's configuration, from the root; empty for the root itself.
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

    /// Where saves wait while the store cannot be written.
    pub fn outbox(&self) -> PathBuf {
        self.root.join(FOLDER).join("outbox")
    }
}

/// The configuration that counts in a folder at or below a project's root. A link counts too, so that whoever reads it
/// can refuse it.
fn nearest_config(folder: &Path, root: &Path) -> PathBuf {
    let inside = folder.ancestors().take_while(|at| at.starts_with(root));
    let mut files = inside.map(|at| at.join(CONFIG));
    files.find(|file| fs::symlink_metadata(file).is_ok()).unwrap_or_else(|| root.join(CONFIG))
}

/// The name of a file system on which SQLite's shared memory is not safe, if `folder` is on one.
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
            // Also what virtiofs reports.
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
