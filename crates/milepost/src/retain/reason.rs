//! The reasons for keeping, compressing or removing a checkpoint, formatted for users.

use std::fmt;

/// Why a checkpoint is kept or removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Kept: the newest of its run.
    Newest,
    /// Kept: one of this many newest checkpoints.
    AmongLast(u64),
    /// Kept: the policy keeps all checkpoints.
    KeepAll,
    /// Kept: the newest with the status failed.
    LatestFailed,
    /// Kept: the newest with the status completed.
    LatestCompleted,
    /// Kept: the newest with a state.
    LatestState,
    /// Kept: the newest with a workspace.
    LatestCapture,
    /// Kept: the first of its run.
    First,
    /// Kept: pinned.
    Pinned,
    /// Kept: tagged.
    Tagged,
    /// Kept: not older than this many seconds.
    Within(u64),
    /// Kept: the newest of its hour.
    Hourly,
    /// Kept: the newest of its day.
    Daily,
    /// Kept: the newest of its week.
    Weekly,
    /// Kept and compressed: older than this many seconds.
    Compressed(u64),
    /// Removed: not one of this many newest checkpoints.
    BeyondLast(u64),
    /// Removed: older than this many seconds.
    OlderThan(u64),
    /// Removed with its run, which ended more than this many seconds ago.
    RunEnded(u64),
    /// Removed: the store is larger than this many bytes, and its run is one of the oldest ended runs.
    StoreFull(u64),
    /// Kept: removing it failed.
    NotRemoved,
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest => f.write_str("newest of its run"),
            Self::AmongLast(n) => write!(f, "among the last {n}"),
            Self::KeepAll => f.write_str("all are kept"),
            Self::LatestFailed => f.write_str("latest failed"),
            Self::LatestCompleted => f.write_str("latest completed"),
            Self::LatestState => f.write_str("holds the latest state"),
            Self::LatestCapture => f.write_str("holds the latest capture"),
            Self::First => f.write_str("first of its run"),
            Self::Pinned => f.write_str("pinned"),
            Self::Tagged => f.write_str("tagged"),
            Self::Within(seconds) => write!(f, "within {}", Span(*seconds)),
            Self::Hourly => f.write_str("newest of its hour"),
            Self::Daily => f.write_str("newest of its day"),
            Self::Weekly => f.write_str("newest of its week"),
            Self::Compressed(seconds) => write!(f, "older than {}", Span(*seconds)),
            Self::BeyondLast(n) => write!(f, "beyond the last {n}"),
            Self::OlderThan(seconds) => write!(f, "older than {}", Span(*seconds)),
            Self::RunEnded(seconds) => write!(f, "its run ended more than {} ago", Span(*seconds)),
            Self::NotRemoved => f.write_str("could not be removed"),
            Self::StoreFull(bytes) => {
                write!(
                    f,
                    "the store is larger than {}: its run is one of the oldest ended runs",
                    Size(*bytes)
                )
            }
        }
    }
}

/// A number of bytes, formatted in the first unit that divides it.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] =
            [(1 << 30, "GiB"), (1 << 20, "MiB"), (1_000_000_000, "GB"), (1_000_000, "MB")];
        match UNITS.iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{} {name}", self.0 / unit),
            None => write!(f, "{} bytes", self.0),
        }
    }
}

/// A time span in seconds, formatted in the largest unit that divides it.
struct Span(u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 3] = [(86_400, "day"), (3600, "hour"), (60, "minute")];
        let unit = UNITS.iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit));
        match unit.map(|(unit, name)| (self.0 / unit, name)) {
            Some((1, name)) => write!(f, "1 {name}"),
            Some((n, name)) => write!(f, "{n} {name}s"),
            None => write!(f, "{} s", self.0),
        }
    }
}
