//! Settings that decide: profiles, retention, limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ValidationError, closed_enum};

closed_enum! {
    /// A bundle of settings for one kind of work.
    pub enum Profile {
        /// Any agent or long command.
        Run = "run",
        /// A build with tasks.
        Build = "build",
        /// A watched session; every tick is kept.
        Session = "session",
        /// Phases 1 to 7, by name.
        Pai = "pai",
        /// Markdown briefs.
        Brief = "brief",
    }
}

/// How often the workspace is looked at where that has an interval of its own.
const CAPTURE: Duration = Duration::from_secs(30 * 60);

/// When the workspace is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureWhen {
    /// Never by itself.
    Never,
    /// With every checkpoint but those of timers.
    Boundaries,
    /// And with a timer's, once so much time has passed since the last look.
    BoundariesAndEvery(Duration),
    /// With every checkpoint.
    Always,
}

/// Names of the phases under the `pai` profile.
pub const PAI_PHASES: [&str; 7] = ["OBSERVE", "THINK", "PLAN", "BUILD", "EXECUTE", "VERIFY", "LEARN"];

const DAY: Duration = Duration::from_secs(86_400);

impl Profile {
    /// How often a timer saves, if at all.
    pub fn interval(self) -> Option<Duration> {
        match self {
            Self::Run => Some(Duration::from_secs(120)),
            Self::Build => Some(Duration::from_secs(30)),
            Self::Session => Some(Duration::from_secs(30 * 60)),
            Self::Pai | Self::Brief => None,
        }
    }

    /// What is kept.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn retention(self) -> Retention {
        let (keep_last, max_age) = match self {
            Self::Run | Self::Build | Self::Session => (KeepCount::Last(50), Some(14 * DAY)),
            Self::Pai => (KeepCount::All, Some(30 * DAY)),
            Self::Brief => (KeepCount::All, None),
        };
        Retention { keep_last, max_age, keep_first: self == Self::Session, ..Retention::default() }
    }

    /// When the workspace is looked at.
    pub fn capture(self) -> CaptureWhen {
        match self {
            Self::Run => CaptureWhen::BoundariesAndEvery(CAPTURE),
            Self::Build => CaptureWhen::Boundaries,
            Self::Session => CaptureWhen::Always,
            Self::Pai | Self::Brief => CaptureWhen::Never,
        }
    }

    /// Whether a timer's checkpoint is kept although nothing changed.
    pub fn keeps_every_tick(self) -> bool {
        self == Self::Session
    }
}

/// How many of the newest checkpoints stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeepCount {
    /// All of them.
    #[default]
    All,
    /// This many; at least 1.
    Last(u64),
}

impl KeepCount {
    /// The one of the two that keeps more.
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
                let message = format!("\"{text}\" is not a number of 1 or more, nor \"all\"");
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

/// What a run keeps. Number and age decide what goes; everything else protects from both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// How many of the newest.
    pub keep_last: KeepCount,
    /// How old one may become; `None` for any age.
    pub max_age: Option<Duration>,
    /// Whether the first checkpoint of the run stays.
    pub keep_first: bool,
    /// Of so many hours that have a checkpoint, the newest one; 0 for none. Hours, days and weeks are UTC's.
    pub keep_hourly: u64,
    /// Of so many days.
    pub keep_daily: u64,
    /// Of so many weeks, which begin on Mondays.
    pub keep_weekly: u64,
    /// Everything younger than this.
    pub keep_within: Option<Duration>,
}

impl Retention {
    /// The least that a run keeps: its newest checkpoint, the latest failed, completed, state-holding and capturing ones,
    /// and those that are pinned or tagged.
    pub const LEAST: Self = Self {
        keep_last: KeepCount::Last(1),
        max_age: None,
        keep_first: false,
        keep_hourly: 0,
        keep_daily: 0,
        keep_weekly: 0,
        keep_within: None,
    };

    /// Whether nothing ever goes.
    pub fn keeps_everything(&self) -> bool {
        self.keep_last == KeepCount::All && self.max_age.is_none()
    }

    /// Whether the newest of hours, days or weeks stay.
    pub fn has_buckets(&self) -> bool {
        self.keep_hourly > 0 || self.keep_daily > 0 || self.keep_weekly > 0
    }

    /// Whether so many of the oldest can be protected that looking at a few of them is not enough.
    pub fn protects_many(&self) -> bool {
        self.has_buckets() || self.keep_within.is_some()
    }
}

/// What a store as a whole keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreLimits {
    /// How long after its end a run goes with all it has; `None` for never.
    pub ended_after: Option<Duration>,
    /// How many bytes the store may take before its oldest ended runs are reduced to what is always kept; 0 for any
    /// size.
    pub max_bytes: u64,
    /// How old a checkpoint is when it is compressed, in stores that keep documents as files; `None` for never.
    pub compress_after: Option<Duration>,
}

impl Default for StoreLimits {
    fn default() -> Self {
        // A run's latest failed and completed checkpoints stay for good, unless the user asks otherwise.
        Self { ended_after: None, max_bytes: 1_000_000_000, compress_after: None }
    }
}

/// How large what the caller gives may be, in bytes; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimits {
    /// One field.
    pub field: u64,
    /// All fields of the caller's together.
    pub checkpoint: u64,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self { field: 256 * 1024, checkpoint: 1024 * 1024 }
    }
}
