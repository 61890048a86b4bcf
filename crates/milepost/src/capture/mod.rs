//! Reads the state of the workspace: git, watched folders, memory. In: the folders to read, and what a run remembers of
//! earlier captures. Out: a capture, which also says what could not be read. Must not fail, take a lock, write, or take
//! longer than its limits. Nothing else reads the workspace.

pub mod commit_distance;
mod git;
mod manifest;
mod memory;
mod reference;
mod to_workspace;
mod tracked;
mod watched_folders;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use manifest::read_manifests;
pub use memory::{PeakWatch, Process};
pub use reference::file_reference;
pub use tracked::is_tracked;

use crate::model::{CaptureHistory, GitFacts, MemoryUsage, PathText, WatchedFiles, Workspace};
use crate::store::project_paths::{self, ProjectPaths};
use crate::store::{Repository, StoreUrl};

/// The folder that is watched wherever it exists.
pub const DEFAULT_WATCHED_FOLDER: &str = ".aiwg";

/// What `git.error` says outside of repositories.
pub const NO_REPOSITORY: &str = "not a git repository";

/// How much a capture may hold and cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Paths of git's lists together, of the watched folders, and of the touched files.
    pub paths: usize,
    /// Bytes of all paths.
    pub bytes: usize,
    /// How long a capture may take.
    pub time: Duration,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self { paths: 100_000, bytes: 8 << 20, time: Duration::from_secs(5) }
    }
}

/// What to capture.
#[derive(Debug, Clone, Default)]
pub struct CaptureOptions {
    /// The project's root; paths are relative to it.
    pub root: PathBuf,
    /// Folders to watch, beside `.aiwg` where it exists: absolute, or relative to the root.
    pub watch: Vec<PathBuf>,
    /// More folders to watch, for this run: its later captures watch them too.
    pub watch_in_run: Vec<PathBuf>,
    /// The store, whose files are no part of the work.
    pub store: Option<StoreUrl>,
    /// The user's home folder: a repository there is not read.
    pub home: Option<PathBuf>,
    /// Reads a repository even if its root is the home folder or `/`.
    pub allow_home_repository: bool,
    /// Whose memory counts.
    pub process: Process,
    /// Limits of size and time.
    pub limits: CaptureLimits,
}

impl CaptureOptions {
    /// Captures a project with the default options.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), ..Self::default() }
    }
}

/// What a run remembers of earlier captures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CaptureBaseline {
    /// The commit the run began at; empty where there was none.
    pub base: Option<String>,
    /// The commit up to which touched files are known.
    pub head: Option<String>,
}

/// A capture of the workspace, before it is joined with earlier captures of the run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkspaceCapture {
    /// The state of the git repository.
    pub git: GitFacts,
    /// Files that commits since the run's first one have changed.
    pub committed: Vec<PathText>,
    /// Whether `committed`, with what the run knew before, is all of them.
    pub committed_known: bool,
    /// The files in the watched folders.
    pub watched: WatchedFiles,
    /// Memory of the watched processes.
    pub memory: Option<MemoryUsage>,
    /// What was left out, and why.
    pub skipped: Vec<String>,
    /// The folders that were asked for this run, so that its other commands look there too.
    pub watch: Vec<String>,
    /// The captures that the run had when this one was made; a save that finds others reads them again.
    pub(crate) after: Option<CaptureHistory>,
}

impl WorkspaceCapture {
    /// A capture of nothing, that says why.
    pub fn failed(why: impl Into<String>) -> Self {
        let why = why.into();
        let git = GitFacts { error: Some(why.clone()), ..GitFacts::default() };
        Self { git, skipped: vec![why], ..Self::default() }
    }
}

impl From<Workspace> for WorkspaceCapture {
    /// The capture of a checkpoint that was not saved yet.
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

/// Captures the workspace; git and the watched folders are read in parallel.
pub fn capture_workspace(options: &CaptureOptions, since: &CaptureBaseline) -> WorkspaceCapture {
    let deadline = Instant::now() + options.limits.time;
    let root = std::fs::canonicalize(&options.root).unwrap_or_else(|_| options.root.clone());
    let store = StorePaths::of(options.store.as_ref());
    let repository = find_repository(options, &root);
    let folders = watched_folders::watched_folders(&root, options);
    let mut capture = WorkspaceCapture::default();
    std::thread::scope(|threads| {
        let spawn =
            |work| std::thread::Builder::new().name("milepost-watch".into()).spawn_scoped(threads, work);
        let watching = || watched_folders::list_files(&root, &folders, &store, &options.limits, deadline);
        // A thread of its own only where there is something to do meanwhile.
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

/// Whether a capture takes no time: there is no repository, and nothing is watched.
pub fn is_instant(options: &CaptureOptions) -> bool {
    let root = std::fs::canonicalize(&options.root).unwrap_or_else(|_| options.root.clone());
    watched_folders::watched_folders(&root, options).is_empty() && find_repository(options, &root).is_err()
}

/// The repository to read, or why none is read.
fn find_repository(options: &CaptureOptions, root: &Path) -> Result<Repository, String> {
    let paths = ProjectPaths::find(root).map_err(|e| format!("{} cannot be read: {e}", root.display()))?;
    let Some(repository) = paths.repository else { return Err(NO_REPOSITORY.to_owned()) };
    let worktree = repository.worktree();
    let home = options.home.as_ref().and_then(|home| std::fs::canonicalize(home).ok());
    if !options.allow_home_repository
        && (worktree.parent().is_none() || home.is_some_and(|home| home == worktree))
    {
        return Err(format!(
            "the repository's root is {}: not looked at unless [capture] allow_home = true",
            worktree.display()
        ));
    }
    Ok(repository)
}

/// Files of Milepost's own, which are no part of the work.
#[derive(Debug, Clone)]
struct StorePaths {
    folder: Option<PathBuf>,
    /// A database that lies in a folder of the user's, with what lies beside it under its name.
    file: Option<(PathBuf, String)>,
}

impl StorePaths {
    fn of(store: Option<&StoreUrl>) -> Self {
        let real = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            std::fs::canonicalize(&path).unwrap_or(path)
        };
        let Some((store, path)) = store.and_then(|store| Some((store, store.path()?))) else {
            return Self { folder: None, file: None };
        };
        if store.is_folder() {
            return Self { folder: Some(real(path)), file: None };
        }
        let file = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let folder = file.parent().map(real);
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned());
        Self { folder: None, file: folder.zip(name) }
    }

    /// Whether a path, absolute and real, is the store's or the outbox's.
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
    }
}

/// A path relative to `root`, with `..` where it lies outside; both absolute.
fn relative_path(root: &Path, path: &Path) -> PathBuf {
    let common = root.components().zip(path.components()).take_while(|(a, b)| a == b).count();
    let up = root.components().skip(common).map(|_| OsStr::new(".."));
    up.chain(path.components().skip(common).map(|part| part.as_os_str())).collect()
}

#[cfg(unix)]
fn bytes_of(path: &Path) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes()
}

#[cfg(not(unix))]
fn bytes_of(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
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
