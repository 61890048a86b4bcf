//! Reads the state of the workspace: git, watched folders, memory. Takes the folders to read and the facts
//! from earlier captures of the run, and returns a capture that also lists what could not be read. Must not
//! fail, take a lock, write, or exceed its limits. Nothing else reads the workspace.

pub mod commit_distance;
mod file_options;
mod git;
mod manifest;
mod memory;
mod project;
mod reference;
mod to_workspace;
mod tracked;
mod watched_folders;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use file_options::{EndedTool, FileLimits, SnapshotOptions};
pub(crate) use git::EMPTY_TREE_IDS;
#[cfg(feature = "internal")]
pub use git::read_git_status;
pub use git::{ChangedPath, GitObject};
pub use memory::{PeakWatch, Process};
pub use project::project_facts;
#[cfg(feature = "internal")]
pub use project::read_git_changes;
pub use reference::file_reference;
pub use tracked::is_tracked;

use crate::model::{BlobId, CaptureHistory, GitFacts, MemoryUsage, PathText, WatchedFiles, Workspace};
use crate::store::project_paths::{self, ProjectPaths};
use crate::store::{Repository, StoreUrl};

/// The folder that is watched by default, if it exists.
pub const DEFAULT_WATCHED_FOLDER: &str = ".aiwg";

/// The value of `git.error` outside of a repository.
pub const NO_REPOSITORY: &str = GitFacts::NO_REPOSITORY;

/// A snapshot whose contents are in the store, and what the commit that includes it must refer to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenSnapshot {
    /// The manifest of the snapshot.
    pub manifest: BlobId,
    /// Number of paths that the manifest lists.
    pub paths: u64,
    /// Number of listed paths without content.
    pub omitted: u64,
    /// Whether every path was examined before the deadline.
    pub is_complete: bool,
    /// The blobs that the commit refers to.
    pub blobs: Vec<BlobId>,
    /// The root that keeps the newest manifest of the worktree.
    pub root: String,
    /// What was omitted, and why, for the checkpoint.
    pub notes: Vec<String>,
    /// The cache of this snapshot. It must be removed if the snapshot cannot be committed.
    pub(crate) cache: PathBuf,
}

impl TakenSnapshot {
    /// Removes the cache, because the store no longer has contents that it refers to. The next snapshot reads
    /// every changed file again.
    pub(crate) fn forget(&self) {
        let _ = std::fs::remove_file(&self.cache);
    }
}

/// Limits on the size and duration of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Maximum number of paths in git's lists together, in the watched folders, and in the touched files.
    pub paths: usize,
    /// Maximum size of all paths, in bytes.
    pub bytes: usize,
    /// Maximum duration of a capture.
    pub time: Duration,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self { paths: 100_000, bytes: 8 << 20, time: Duration::from_secs(5) }
    }
}

/// What to capture.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CaptureOptions {
    /// The project's root. Paths are relative to it.
    pub root: PathBuf,
    /// Folders to watch in addition to `.aiwg`: absolute, or relative to the root.
    pub watch: Vec<PathBuf>,
    /// Further folders to watch in this run. Later captures of the run watch them too.
    pub watch_in_run: Vec<PathBuf>,
    /// The store, whose files are not part of the work.
    pub store: Option<StoreUrl>,
    /// Other files that are not part of the work, as absolute paths without symbolic links.
    pub exclude: Vec<PathBuf>,
    /// The user's home folder. A repository with this root is not read.
    pub home: Option<PathBuf>,
    /// Read a repository even if its root is the home folder or `/`.
    pub allow_home_repository: bool,
    /// The processes whose memory is measured.
    pub process: Process,
    /// Limits on size and time.
    pub limits: CaptureLimits,
    /// How to take a snapshot of the files; `None` takes none.
    pub files: Option<SnapshotOptions>,
}

impl CaptureOptions {
    /// The default options for the project at `root`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), files: Some(SnapshotOptions::default()), ..Self::default() }
    }
}

/// Facts from earlier captures of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureBaseline {
    /// The commit at which the run started; empty if there was none.
    pub base: Option<String>,
    /// The commit up to which touched files are known.
    pub head: Option<String>,
}

/// A capture of the workspace, before it is merged with earlier captures of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkspaceCapture {
    /// The state of the git repository.
    pub git: GitFacts,
    /// Files changed by commits since the run started.
    pub committed: Vec<PathText>,
    /// Whether `committed` is complete, together with the files from earlier captures.
    pub committed_known: bool,
    /// The files in the watched folders.
    pub watched: WatchedFiles,
    /// Memory of the measured processes.
    pub memory: Option<MemoryUsage>,
    /// What was omitted, and why.
    pub skipped: Vec<String>,
    /// Every path that differs from the current commit, with its version there.
    pub changed: Vec<ChangedPath>,
    /// The snapshot of the files, if one was taken.
    pub snapshot: Option<TakenSnapshot>,
    /// How many snapshots in a row did not examine every path in time.
    pub overdue: u32,
    /// The options to take the snapshot again with.
    pub(crate) retake_with: Option<std::sync::Arc<CaptureOptions>>,
    /// The folders requested for this run, so that its other commands watch them too.
    pub watch: Vec<String>,
    /// The run's capture history at the time of this capture. A save that finds a different history reads it
    /// again.
    pub(crate) after: Option<CaptureHistory>,
}

impl WorkspaceCapture {
    /// An empty capture that states why it failed.
    pub fn failed(why: impl Into<String>) -> Self {
        let why = why.into();
        let git = GitFacts { error: Some(why.clone()), ..GitFacts::default() };
        Self { git, skipped: vec![why], ..Self::default() }
    }
}

impl From<Workspace> for WorkspaceCapture {
    /// Converts the workspace of a checkpoint that is not saved yet.
    fn from(workspace: Workspace) -> Self {
        Self {
            git: workspace.git.unwrap_or_default(),
            committed: workspace.files_modified,
            watched: workspace.watched.unwrap_or_default(),
            memory: workspace.memory,
            skipped: workspace.skipped,
            ..Self::default()
        }
    }
}

/// Captures the workspace. Reads git and the watched folders in parallel.
pub fn capture_workspace(options: &CaptureOptions, since: &CaptureBaseline) -> WorkspaceCapture {
    let deadline = Instant::now() + options.limits.time;
    let root = crate::fs::canonicalize(&options.root).unwrap_or_else(|_| options.root.clone());
    let mut store = StorePaths::of(options.store.as_ref());
    store.others.clone_from(&options.exclude);
    let repository = find_repository(options, &root);
    let folders = watched_folders::watched_folders(&root, options);
    let mut capture = WorkspaceCapture::default();
    std::thread::scope(|threads| {
        let spawn =
            |work| std::thread::Builder::new().name("milepost-watch".into()).spawn_scoped(threads, work);
        let watching = || watched_folders::list_files(&root, &folders, &store, &options.limits, deadline);
        // A separate thread is useful only if git is read at the same time.
        let thread = (repository.is_ok() && !folders.is_empty()).then(|| spawn(watching));
        capture.memory = memory::measure(&options.process);
        match &repository {
            Ok(repository) => {
                git::capture_git(repository, &root, since, &store, &options.limits, deadline, &mut capture);
            }
            Err(why) => capture.git.error = Some(why.clone()),
        }
        let (watched, skipped) = match thread {
            Some(Ok(thread)) => thread.join().unwrap_or_default(),
            Some(Err(_)) | None => watching(),
        };
        capture.watched = watched;
        capture.skipped.extend(skipped);
    });
    capture.watch = options.watch_in_run.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
    capture
}

/// Whether a capture takes no time: no repository and no watched folder exists.
pub fn is_instant(options: &CaptureOptions) -> bool {
    let root = crate::fs::canonicalize(&options.root).unwrap_or_else(|_| options.root.clone());
    watched_folders::watched_folders(&root, options).is_empty() && find_repository(options, &root).is_err()
}

/// The repository to read, or the reason why none is read.
pub(crate) fn find_repository(options: &CaptureOptions, root: &Path) -> Result<Repository, String> {
    let paths = ProjectPaths::find(root).map_err(|e| format!("{} cannot be read: {e}", root.display()))?;
    let Some(repository) = paths.repository else { return Err(NO_REPOSITORY.to_owned()) };
    let worktree = repository.worktree();
    let home = options.home.as_ref().and_then(|home| crate::fs::canonicalize(home).ok());
    if !options.allow_home_repository
        && (worktree.parent().is_none() || home.is_some_and(|home| home == worktree))
    {
        return Err(format!(
            "the repository's root is {}; it is not captured unless you set allow_home = true in [capture]",
            worktree.display()
        ));
    }
    Ok(repository)
}

/// Milepost's own files, which are not part of the work.
#[derive(Debug, Clone)]
struct StorePaths {
    folder: Option<PathBuf>,
    /// Folder and name of a database file in a user's folder. Files there with the same name and a suffix
    /// also belong to the store.
    file: Option<(PathBuf, String)>,
    /// Other files to ignore.
    others: Vec<PathBuf>,
}

impl StorePaths {
    fn of(store: Option<&StoreUrl>) -> Self {
        let real = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            crate::fs::canonicalize(&path).unwrap_or(path)
        };
        let Some((store, path)) = store.and_then(|store| Some((store, store.path()?))) else {
            return Self { folder: None, file: None, others: Vec::new() };
        };
        if store.is_folder() {
            return Self { folder: Some(real(path)), file: None, others: Vec::new() };
        }
        let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = file.parent().map(real);
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        Self { folder: None, file: folder.zip(name), others: Vec::new() }
    }

    /// Whether an absolute, canonical path belongs to the store or the outbox, or is ignored.
    fn contains(&self, path: &Path) -> bool {
        if path.components().any(|part| part.as_os_str() == OsStr::new(project_paths::FOLDER)) {
            return true;
        }
        let beside = |(folder, name): &(PathBuf, String)| {
            let rest = path.strip_prefix(folder).ok().and_then(|rest| rest.components().next());
            let first = rest.map(|part| part.as_os_str().to_string_lossy().into_owned());
            first.is_some_and(|first| {
                first
                    .strip_prefix(name.as_str())
                    .is_some_and(|end| end.is_empty() || end.starts_with(['-', '.']))
            })
        };
        self.folder.as_ref().is_some_and(|folder| path.starts_with(folder))
            || self.file.as_ref().is_some_and(beside)
            || self.others.iter().any(|other| other == path)
    }
}

/// A path relative to `root`, with `..` if it is outside. Both paths must be absolute.
fn relative_path(root: &Path, path: &Path) -> PathBuf {
    let common = root.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = root.components().skip(common).map(|_| OsStr::new(".."));
    up.chain(path.components().skip(common).map(|part| part.as_os_str())).collect()
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> &Path {
    Path::new(std::str::from_utf8(bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests;
