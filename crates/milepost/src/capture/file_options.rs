//! Options of the snapshot that a capture takes of the files: limits, time, and the tool that has just ended.
//! Contains only plain values.

use std::time::{Duration, Instant};

/// Limits on the contents of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Maximum size of a file, in bytes.
    pub file: u64,
    /// Maximum size of all contents that one snapshot adds, in bytes.
    pub snapshot: u64,
    /// Maximum number of paths.
    pub paths: usize,
    /// Maximum number of paths among them that git does not track.
    pub untracked: usize,
}

impl Default for FileLimits {
    fn default() -> Self {
        Self { file: 10 << 20, snapshot: 200 << 20, paths: 20_000, untracked: 5_000 }
    }
}

/// A tool of an agent that has just ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EndedTool {
    /// How long it ran, if the agent reports it. Otherwise it is assumed to have run since the agent's
    /// previous event.
    pub duration: Option<Duration>,
}

/// How a snapshot is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// When to stop reading files; `None` for 30 seconds after the capture.
    pub deadline: Option<Instant>,
    /// Limits on the contents.
    pub limits: FileLimits,
    /// The tool of an agent that has just ended, to which changes are attributed.
    pub tool: Option<EndedTool>,
    /// Whether to ignore the cache, because it refers to contents that the store no longer has.
    pub ignore_cache: bool,
}

impl SnapshotOptions {
    /// The time at which to stop reading files.
    pub(crate) fn stop_at(&self) -> Instant {
        const TIME: Duration = Duration::from_secs(30);
        self.deadline.unwrap_or_else(|| Instant::now() + TIME)
    }
}
