//! Where a project's store is: the git common directory, or `.milepost/` beside the work. Reads folders, runs nothing.
//! In: a folder. Out: the project's root, worktree, branch and the store's path, whether or not it exists yet.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the store's file.
pub const DATABASE: &str = "milepost.db";
/// Name of the folder outside repositories, and of the outbox's parent.
pub const FOLDER: &str = ".milepost";

/// Name of the project's configuration, which also marks its root.
pub const CONFIG: &str = "milepost.toml";

/// Where work happens and where its store belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The project's root: the worktree's, or the folder that holds `.milepost`.
    pub root: PathBuf,
    /// The worktree, in a repository.
    pub worktree: Option<PathBuf>,
    /// The branch: its name, or the first digits of the commit when detached.
    pub branch: Option<String>,
    /// The store's file.
    pub database: PathBuf,
}

impl Place {
    /// Looks from `folder` upwards, never across a repository's edge.
    pub fn find(folder: &Path) -> io::Result<Self> {
        let folder = fs::canonicalize(folder)?;
        // A repository comes first, whatever lies in its folders.
        for at in folder.ancestors() {
            if let Some(git) = git_dir(at) {
                let common = common_dir(&git);
                return Ok(Self {
                    root: at.to_owned(),
                    worktree: Some(at.to_owned()),
                    branch: branch(&git),
                    database: common.join("milepost").join(DATABASE),
                });
            }
        }
        for at in folder.ancestors() {
            let database = at.join(FOLDER).join(DATABASE);
            if database.exists() || at.join(CONFIG).is_file() {
                return Ok(Self { root: at.to_owned(), worktree: None, branch: None, database });
            }
        }
        let database = folder.join(FOLDER).join(DATABASE);
        Ok(Self { root: folder, worktree: None, branch: None, database })
    }

    /// Where saves wait while the store cannot be written.
    pub fn outbox(&self) -> PathBuf {
        self.root.join(FOLDER).join("outbox")
    }
}

/// The git directory of a worktree's root: `.git` itself, or what the file `.git` points to.
fn git_dir(root: &Path) -> Option<PathBuf> {
    let dot_git = root.join(".git");
    let kind = fs::metadata(&dot_git).ok()?;
    let git = if kind.is_dir() {
        dot_git
    } else {
        let text = fs::read_to_string(&dot_git).ok()?;
        root.join(text.strip_prefix("gitdir:")?.trim())
    };
    // An empty folder called .git is not a repository.
    git.join("HEAD").exists().then_some(git)
}

/// The directory that all worktrees share.
fn common_dir(git: &Path) -> PathBuf {
    let common = fs::read_to_string(git.join("commondir")).ok().map(|text| git.join(text.trim()));
    let common = common.unwrap_or_else(|| git.to_owned());
    fs::canonicalize(&common).unwrap_or(common)
}

fn branch(git: &Path) -> Option<String> {
    let head = fs::read_to_string(git.join("HEAD")).ok()?;
    let head = head.trim();
    match head.strip_prefix("ref: ") {
        // Repositories with reftables keep a placeholder here.
        Some("refs/heads/.invalid") => None,
        Some(name) => Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()),
        None => Some(head.chars().take(12).collect()),
    }
}

/// The name of a file system on which SQLite's shared memory is not safe, if `folder` is on one.
pub fn unsafe_file_system(folder: &Path) -> Option<&'static str> {
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
