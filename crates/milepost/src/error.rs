//! Every error of the library, and the one place where errors become reason codes. Messages are one line without advice:
//! hints and exit codes belong to the command line.

use std::path::PathBuf;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

#[cfg(feature = "brief")]
use crate::brief::OverBudget;
#[cfg(feature = "interop")]
use crate::interop::InteropError;
use crate::model::{IdError, RunId, ValidationError, closed_enum};
use crate::seal::SealError;
use crate::store::{Damage, StoreError};
use crate::trigger::TimerError;

closed_enum! {
    /// Words that programs can rely on.
    #[cfg_attr(not(feature = "internal"), non_exhaustive)]
    pub enum ReasonCode {
        /// Input or content breaks a contract.
        CheckpointSchemaInvalid = "checkpoint_schema_invalid",
        /// Stored bytes are not what was written.
        CheckpointIntegrityMismatch = "checkpoint_integrity_mismatch",
        /// A write failed and changed nothing.
        CheckpointAtomicWriteFailed = "checkpoint_atomic_write_failed",
        /// A write could not be synced: it was not acknowledged and may still appear.
        CheckpointNotAcknowledged = "checkpoint_not_acknowledged",
        /// Something could not be removed.
        CheckpointRetentionPruneFailed = "checkpoint_retention_prune_failed",
        /// Nothing has this name.
        CheckpointNotFound = "checkpoint_not_found",
        /// Several have this name.
        CheckpointRefAmbiguous = "checkpoint_ref_ambiguous",
        /// An id that cannot name anything.
        CheckpointIdInvalid = "checkpoint_id_invalid",
        /// Somebody else is writing.
        StoreBusy = "store_busy",
        /// There is no store.
        StoreMissing = "store_missing",
        /// A newer program made the store.
        StoreNewer = "store_newer",
        /// The store could not be read.
        StoreUnreadable = "store_unreadable",
        /// The store came from elsewhere and this user has not trusted it.
        StoreUntrusted = "store_untrusted",
        /// The project's configuration asks for something that this user has not trusted.
        ConfigUntrusted = "config_untrusted",
        /// Writing a state would lose something.
        RestoreRefused = "restore_refused",
        /// A state was read back in which redaction had replaced something.
        StateRedacted = "state_redacted",
        /// It may be continued.
        ResumeAllowed = "resume_allowed",
        /// The run has no checkpoint that is intact.
        ResumeMissingCheckpoint = "resume_missing_checkpoint",
        /// The run's owner is alive.
        ResumeRunActive = "resume_run_active",
        /// The step that was under way must not be done twice.
        ResumeNonIdempotentStep = "resume_non_idempotent_step",
        /// Another run continues it.
        ResumeClaimed = "resume_claimed",
        /// It was continued as often as it may be.
        ResumeAttemptLimitReached = "resume_attempt_limit_reached",
        /// It was continued a moment ago.
        ResumeBlockedCooldown = "resume_blocked_cooldown",
        /// Nobody can tell whether its owner lives.
        ResumeUnknownInterruptionClass = "resume_unknown_interruption_class",
        /// The run is not there, or several could be meant.
        RunNotFound = "run_not_found",
        /// What must be kept of a brief does not fit the budget.
        BriefOverBudget = "brief_over_budget",
        /// A flag, argument or setting is wrong.
        Usage = "usage",
        /// It would remove something and was not confirmed.
        ConfirmationNeeded = "confirmation_needed",
        /// The command has done what it was asked for, and its answer could not be written.
        OutputFailed = "output_failed",
        /// An agent's settings cannot be edited and are left as they are.
        AgentSettingsInvalid = "agent_settings_invalid",
    }
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "internal"), non_exhaustive)]
pub enum Error {
    /// An id that cannot name anything.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Input that breaks a contract.
    #[error("the checkpoint is not valid")]
    Schema(#[from] ValidationError),
    /// A value given by a flag or a setting.
    #[error("{name} is not valid")]
    Value {
        /// The flag or setting.
        name: String,
        /// What is wrong.
        source: ValidationError,
    },
    /// The store's own errors.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored document that does not prove itself.
    #[error("checkpoint {} is damaged", .0.snapshot_id.as_ref().map_or("(unnamed)", |id| id.as_str()))]
    Damaged(#[source] Box<Damage>),
    /// A stored document of a newer format.
    #[error("checkpoint {run}@{sequence} cannot be read")]
    Newer {
        /// The run.
        run: RunId,
        /// Its number.
        sequence: u64,
        /// Why.
        source: SealError,
    },
    /// No checkpoint has this name.
    #[error("no checkpoint \"{reference}\"")]
    NotFound {
        /// What was looked for.
        reference: String,
    },
    /// The name matches several checkpoints or runs.
    #[error("\"{reference}\" matches {total} {kind}: {}{}", candidates.join(", "), match total - candidates.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    })]
    Ambiguous {
        /// The name as it was given.
        reference: String,
        /// `checkpoints` or `runs`.
        kind: &'static str,
        /// The ids of the first matches.
        candidates: Vec<String>,
        /// The number of matches.
        total: usize,
    },
    /// There is no such run.
    #[error("no run \"{0}\"")]
    NoRun(String),
    /// It is not clear which run is meant.
    #[error("{}", match open.as_slice() {
        [] => "no open run here".to_owned(),
        open => format!("{} open runs could be meant: {}", open.len(), open.join(", ")),
    })]
    WhichRun {
        /// The open runs.
        open: Vec<String>,
    },
    /// The checkpoint holds no state.
    #[error("no state in {reference} or before it")]
    NoState {
        /// The checkpoint.
        reference: String,
    },
    /// Writing a state would lose something.
    #[error("{} was not written: {why}", path.display())]
    RestoreRefused {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
        /// The flag that allows it.
        flag: &'static str,
    },
    /// The run's owner is alive.
    #[error("run {run} is active: its owner, {owner}, is alive")]
    OwnerAlive {
        /// The run.
        run: RunId,
        /// Its owner, for people.
        owner: String,
    },
    /// The run may not be continued.
    #[error("run {run} cannot be continued: {why}")]
    NotResumable {
        /// The run.
        run: RunId,
        /// What stands against it.
        reason: ReasonCode,
        /// The same for people.
        why: String,
    },
    /// A run of this name is there already.
    #[error("run {0} is there already")]
    RunExists(RunId),
    /// A step that cannot end, since it has not begun.
    #[error("step \"{step}\" has not begun: {}", match open.as_slice() {
        [] => "no step is in progress".to_owned(),
        open => format!("in progress: {}", open.join(", ")),
    })]
    StepNotBegun {
        /// The step.
        step: String,
        /// The steps that have begun and not ended.
        open: Vec<String>,
    },
    /// Another capture of the run was saved while this one was joined with what the run knew.
    #[error("another capture of the run came first")]
    CaptureMoved,
    /// An option that is needed and was not given.
    #[error("the option {0} is missing")]
    MissingOption(&'static str),
    /// A session that has been started is started again.
    #[error("the session is running already")]
    SessionRunning,
    /// What must be kept of a brief does not fit the budget.
    #[error(transparent)]
    #[cfg(feature = "brief")]
    OverBudget(#[from] OverBudget),
    /// A brief whose own id is taken.
    #[error("the brief's id \"{id}\" is taken by {checkpoint}")]
    BriefExists {
        /// The id.
        id: String,
        /// The checkpoint that has it.
        checkpoint: String,
    },
    /// The provider of a timer's state failed.
    #[error("the provider failed: {0}")]
    Provider(String),
    /// The provider of a timer's state panicked.
    #[error("the provider panicked: {0}")]
    ProviderPanicked(String),
    /// A timer with an interval of 0.
    #[error("the interval of a timer must be longer than 0")]
    ZeroInterval,
    /// The system did not start the thread of a timer.
    #[error("the timer's thread could not be started")]
    TimerThread(#[source] std::io::Error),
    /// A handle that a fork has copied into another process.
    #[error("this handle of run {run} belongs to process {pid}, not to this one")]
    Forked {
        /// The run.
        run: RunId,
        /// The process that opened it.
        pid: u32,
    },
    /// Something of another format could not be read or written.
    #[error(transparent)]
    #[cfg(feature = "interop")]
    Interop(#[from] InteropError),
    /// A checkpoint that is there already under this number, with another content.
    #[error("{reference} is there already with another content, or after it the run has gone on")]
    Conflict {
        /// The run and number.
        reference: String,
    },
    /// A bundle that would take secrets along.
    #[error("{} of what leaves hold secrets: {}", locations.len(), locations.join(", "))]
    SecretsLeave {
        /// Where they are.
        locations: Vec<String>,
    },
    /// The project's configuration decides where the store is, and this user has not trusted that.
    #[error("{} is not trusted: {why}", path.display())]
    ConfigUntrusted {
        /// The configuration file.
        path: PathBuf,
        /// What is not trusted in it.
        why: String,
        /// Whether trust would help: the file is sound, and only its values are not trusted.
        adoptable: bool,
    },
    /// A file of the user's could not be read or written.
    #[error("{} could not be {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read`, `written` or `removed`.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

impl From<TimerError> for Error {
    fn from(error: TimerError) -> Self {
        match error {
            TimerError::Interval => Self::ZeroInterval,
            TimerError::Thread(source) => Self::TimerThread(source),
        }
    }
}

impl Error {
    /// A name that matches several things, of which the first few are listed.
    pub(crate) fn ambiguous(reference: &str, kind: &'static str, ids: impl Iterator<Item = String>) -> Self {
        const LISTED: usize = 8;
        let mut candidates: Vec<String> = ids.collect();
        let total = candidates.len();
        candidates.truncate(LISTED);
        Self::Ambiguous { reference: reference.to_owned(), kind, candidates, total }
    }

    /// Makes an I/O error the error of a file that could not be `read`, `written` or `removed`.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn file(path: impl Into<PathBuf>, what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, what, source }
    }

    /// The word for programs.
    pub fn reason(&self) -> ReasonCode {
        use ReasonCode as R;
        match self {
            Self::Id(_) | Self::RunExists(_) | Self::BriefExists { .. } | Self::Conflict { .. } => {
                R::CheckpointIdInvalid
            }
            Self::Schema(_) | Self::Value { .. } | Self::StepNotBegun { .. } => R::CheckpointSchemaInvalid,
            Self::Damaged(damage) => damage.reason_code(),
            Self::Newer { .. } => R::StoreNewer,
            Self::NotFound { .. } | Self::NoState { .. } => R::CheckpointNotFound,
            Self::Ambiguous { .. } => R::CheckpointRefAmbiguous,
            Self::NoRun(_) | Self::WhichRun { .. } => R::RunNotFound,
            Self::RestoreRefused { .. } => R::RestoreRefused,
            Self::OwnerAlive { .. } => R::ResumeRunActive,
            Self::NotResumable { reason, .. } => *reason,
            Self::CaptureMoved => R::StoreBusy,
            #[cfg(feature = "brief")]
            Self::OverBudget(_) => R::BriefOverBudget,
            Self::MissingOption(_)
            | Self::SessionRunning
            | Self::Provider(_)
            | Self::ProviderPanicked(_)
            | Self::ZeroInterval
            | Self::TimerThread(_)
            | Self::Forked { .. } => R::Usage,
            #[cfg(feature = "interop")]
            Self::Interop(InteropError::Document { source, .. }) => source.reason(),
            #[cfg(feature = "interop")]
            Self::Interop(_) => R::Usage,
            Self::SecretsLeave { .. } => R::ConfirmationNeeded,
            Self::ConfigUntrusted { .. } => R::ConfigUntrusted,
            Self::File { what: "written", .. } => R::CheckpointAtomicWriteFailed,
            Self::File { what: "removed", .. } => R::CheckpointRetentionPruneFailed,
            Self::File { .. } => R::Usage,
            Self::Store(error) => match error {
                StoreError::Address(_) => R::Usage,
                StoreError::Busy { .. } | StoreError::MarksMoved(..) => R::StoreBusy,
                StoreError::Missing { .. } => R::StoreMissing,
                StoreError::Untrusted { .. } => R::StoreUntrusted,
                StoreError::Newer { .. } => R::StoreNewer,
                StoreError::Damaged(damage) => damage.reason_code(),
                StoreError::NoRun(_) => R::RunNotFound,
                StoreError::NoCheckpoint(..) => R::CheckpointNotFound,
                StoreError::Exists(_) | StoreError::Named(_) => R::CheckpointIdInvalid,
                StoreError::Rules(_) => R::CheckpointSchemaInvalid,
                StoreError::ReadOnly { .. } | StoreError::Write { .. } | StoreError::Unknown { .. } => {
                    R::CheckpointAtomicWriteFailed
                }
                StoreError::NotAcknowledged { .. } => R::CheckpointNotAcknowledged,
                StoreError::Read { .. } | StoreError::Denied { .. } => R::StoreUnreadable,
            },
        }
    }
}

/// What programs read of an error: its reason code, and its message with all causes on one line.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("Error", 2)?;
        members.serialize_field("reason_code", &self.reason())?;
        members.serialize_field("message", &error_chain(self))?;
        members.end()
    }
}

/// An error with its causes, on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
