//! Why something stays, goes or is compressed, in words for people.

use std::fmt;

/// Why a checkpoint stays or goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Stays: nothing was written after it.
    Newest,
    /// Stays: among the newest so many.
    AmongLast(u64),
    /// Stays: every one is kept.
    KeepAll,
    /// Stays: the newest that failed.
    LatestFailed,
    /// Stays: the newest that was completed.
    LatestCompleted,
    /// Stays: the newest that holds a state.
    LatestState,
    /// Stays: the newest that holds a workspace.
    LatestCapture,
    /// Stays: the first of its run.
    First,
    /// Stays: pinned.
    Pinned,
    /// Stays: tagged.
    Tagged,
    /// Stays: younger than so many seconds.
    Within(u64),
    /// Stays: the newest of its hour.
    Hourly,
    /// Stays: the newest of its day.
    Daily,
    /// Stays: the newest of its week.
    Weekly,
    /// Stays, compressed: older than so many seconds.
    Compressed(u64),
    /// Goes: so many newer ones are kept.
    BeyondLast(u64),
    /// Goes: older than so many seconds.
    OlderThan(u64),
    /// Goes with its run, which ended more than so many seconds ago.
    RunEnded(u64),
    /// Goes: the store takes more than so many bytes, and its run is one of the oldest that have ended.
    StoreFull(u64),
    /// Stays: it should go, and could not be removed.
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
                    "the store takes more than {}: its run is among the oldest that have ended",
                    Size(*bytes)
                )
            }
        }
    }
}

/// A number of bytes in the largest unit that fits it.
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

/// A span of time in the largest unit that fits it.
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
