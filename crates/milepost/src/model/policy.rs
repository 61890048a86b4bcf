//! Policy settings: profiles, retention and limits. These are values only; other modules act on them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ValidationError, closed_enum};

closed_enum! {
    /// A named group of settings for one kind of work.
    pub enum Profile {
        /// For any agent or long-running command.
        Run = "run",
        /// For a build with tasks.
        Build = "build",
        /// For a watched session. Every timer tick creates a checkpoint.
        Session = "session",
        /// For work in seven named phases.
        Pai = "pai",
        /// For Markdown briefs.
        Brief = "brief",
        /// For a thread of a program that keeps its state here, such as LangGraph. The program alone decides which
        /// checkpoints are removed.
        Thread = "thread",
    }
}

/// The capture interval for timer checkpoints of the `run` profile.
const CAPTURE: Duration = Duration::from_secs(30 * 60);

/// When a save captures the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureWhen {
    /// Never automatically.
    Never,
    /// With every checkpoint that a timer did not trigger.
    Boundaries,
    /// Like `Boundaries`, and also with a timer checkpoint after this much time without a capture.
    BoundariesAndEvery(Duration),
    /// With every checkpoint.
    Always,
}

/// The names of the phases of the `pai` profile, in order. The first phase has number 1.
pub const PAI_PHASES: [&str; 7] = ["OBSERVE", "THINK", "PLAN", "BUILD", "EXECUTE", "VERIFY", "LEARN"];

const DAY: Duration = Duration::from_secs(86_400);

impl Profile {
    /// Returns the interval between timer checkpoints, or `None` if the profile has no timer.
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::Run => Some(Duration::from_secs(120)),
            Self::Build => Some(Duration::from_secs(30)),
            Self::Session => Some(Duration::from_secs(30 * 60)),
            Self::Pai | Self::Brief | Self::Thread => None,
        }
    }

    /// Returns the retention policy of this profile.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn retention(self) -> Retention {
        let (keep_last, max_age) = match self {
            Self::Run | Self::Build | Self::Session => (KeepCount::Last(50), Some(14 * DAY)),
            Self::Pai => (KeepCount::All, Some(30 * DAY)),
            Self::Brief | Self::Thread => (KeepCount::All, None),
        };
        Retention { keep_last, max_age, keep_first: self == Self::Session, ..Retention::default() }
    }

    /// Returns when a save captures the workspace.
    pub fn capture(self) -> CaptureWhen {
        match self {
            Self::Run => CaptureWhen::BoundariesAndEvery(CAPTURE),
            Self::Build => CaptureWhen::Boundaries,
            Self::Session => CaptureWhen::Always,
            Self::Pai | Self::Brief | Self::Thread => CaptureWhen::Never,
        }
    }

    /// Returns true if a timer creates a checkpoint even if nothing has changed.
    pub fn keeps_every_tick(self) -> bool {
        self == Self::Session
    }
}

/// How many of the newest checkpoints to keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeepCount {
    /// Keep all checkpoints.
    #[default]
    All,
    /// Keep this many; at least 1.
    Last(u64),
}

impl KeepCount {
    /// Returns the value that keeps more checkpoints.
    pub fn larger(self, other: Self) -> Self {
        match (self, other) {
            (Self::Last(a), Self::Last(b)) => Self::Last(a.max(b)),
            _ => Self::All,
        }
    }
}

impl std::str::FromStr for KeepCount {
    type Err = ValidationError;

    fn from_str(text: &str) -> Result<Self, ValidationError> {
        match (text, text.parse::<u64>()) {
            ("all", _) => Ok(Self::All),
            (_, Ok(n)) if n >= 1 => Ok(Self::Last(n)),
            _ => {
                let message = format!("\"{text}\" is neither a number of 1 or more nor \"all\"");
                Err(ValidationError::document(message))
            }
        }
    }
}

impl std::fmt::Display for KeepCount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Last(n) => write!(f, "{n}"),
        }
    }
}

/// The retention policy of a run. `keep_last` and `max_age` select the checkpoints to remove; the other
/// settings protect checkpoints from both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// The number of newest checkpoints to keep.
    pub keep_last: KeepCount,
    /// The maximum age of a checkpoint; `None` for no limit.
    pub max_age: Option<Duration>,
    /// Whether to keep the first checkpoint of the run.
    pub keep_first: bool,
    /// Keep the newest checkpoint of each of the latest N hours that have one; 0 disables this. Hours, days
    /// and weeks are in UTC.
    pub keep_hourly: u64,
    /// Keep the newest checkpoint of each of the latest N days that have one; 0 disables this.
    pub keep_daily: u64,
    /// Keep the newest checkpoint of each of the latest N weeks that have one; 0 disables this. Weeks begin
    /// on Monday.
    pub keep_weekly: u64,
    /// Keep every checkpoint that is not older than this.
    pub keep_within: Option<Duration>,
}

impl Retention {
    /// The minimum that every run keeps: its newest checkpoint, the latest failed and completed ones, the
    /// latest ones with a state and with a workspace, and those that are pinned or tagged.
    pub const LEAST: Self = Self {
        keep_last: KeepCount::Last(1),
        max_age: None,
        keep_first: false,
        keep_hourly: 0,
        keep_daily: 0,
        keep_weekly: 0,
        keep_within: None,
    };

    /// Returns true if the policy never removes a checkpoint.
    pub fn keeps_everything(&self) -> bool {
        self.keep_last == KeepCount::All && self.max_age.is_none()
    }

    /// Returns true if the policy keeps hourly, daily or weekly checkpoints.
    pub fn has_buckets(&self) -> bool {
        self.keep_hourly > 0 || self.keep_daily > 0 || self.keep_weekly > 0
    }

    /// Returns true if the policy can protect many of the oldest checkpoints. A prune must then inspect the
    /// whole run to find any to remove.
    pub fn protects_many(&self) -> bool {
        self.has_buckets() || self.keep_within.is_some()
    }
}

/// The retention limits of a whole store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// How long after its end a run is removed with all its data; `None` for never.
    pub ended_after: Option<Duration>,
    /// The maximum size of the store in bytes; 0 for no limit. Above it, the oldest ended runs are reduced to
    /// [`Retention::LEAST`].
    pub max_bytes: u64,
    /// The maximum size of the contents of all files in bytes; 0 for no limit. Above it, the contents of the
    /// oldest snapshots are removed.
    pub max_file_bytes: u64,
    /// The age at which a checkpoint is compressed, in stores that keep documents as files; `None` for never.
    pub compress_after: Option<Duration>,
}

impl Default for StoreLimits {
    fn default() -> Self {
        // By default ended runs are never removed, so their latest failed and completed checkpoints remain.
        Self {
            ended_after: None,
            max_bytes: 1_000_000_000,
            max_file_bytes: 2_000_000_000,
            compress_after: None,
        }
    }
}

/// Size limits for the fields that a caller sets, in bytes; 0 for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimits {
    /// The maximum size of one field.
    pub field: u64,
    /// The maximum total size of all fields.
    pub checkpoint: u64,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self { field: 256 * 1024, checkpoint: 1024 * 1024 }
    }
}
