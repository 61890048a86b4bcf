//! The library's error type and its reason codes. This is the only place that maps errors to reason codes.
//! Each message is one line without advice; hints and exit codes belong to the command line.

use std::path::PathBuf;

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

#[cfg(feature = "brief")]
use crate::brief::OverBudget;
#[cfg(feature = "interop")]
use crate::interop::InteropError;
use crate::model::{IdError, RunId, ValidationError, closed_enum};
use crate::restore::RestoreError;
use crate::seal::SealError;
use crate::store::{Damage, ServerProblem, StoreError};
use crate::trigger::TimerError;

closed_enum! {
    /// Reason codes: stable names for errors and resume decisions that programs can match on.
    #[cfg_attr(not(feature = "internal"), non_exhaustive)]
    pub enum ReasonCode {
        /// The input or the content of a checkpoint is invalid.
        CheckpointSchemaInvalid = "checkpoint_schema_invalid",
        /// Stored bytes differ from the bytes that were written.
        CheckpointIntegrityMismatch = "checkpoint_integrity_mismatch",
        /// A write failed and changed nothing, or its result is unknown because the reply was lost.
        CheckpointAtomicWriteFailed = "checkpoint_atomic_write_failed",
        /// A write could not be synced to disk. It was not acknowledged, but it may still become visible.
        CheckpointNotAcknowledged = "checkpoint_not_acknowledged",
        /// Pruning could not remove a checkpoint, a run or a file.
        CheckpointRetentionPruneFailed = "checkpoint_retention_prune_failed",
        /// No checkpoint matches the reference, or the matching one has no state.
        CheckpointNotFound = "checkpoint_not_found",
        /// The reference matches several checkpoints.
        CheckpointRefAmbiguous = "checkpoint_ref_ambiguous",
        /// An id is malformed or already in use.
        CheckpointIdInvalid = "checkpoint_id_invalid",
        /// Another process is writing to the store, or changed the run first.
        StoreBusy = "store_busy",
        /// The store does not exist.
        StoreMissing = "store_missing",
        /// The store or the checkpoint was written by a newer version of Milepost.
        StoreNewer = "store_newer",
        /// The store could not be read.
        StoreUnreadable = "store_unreadable",
        /// The server of the store cannot be reached, or does not accept this user or connection.
        StoreUnavailable = "store_unavailable",
        /// The server's reply to a commit was lost, and whether the commit was made cannot be found out.
        StoreCommitUnknown = "store_commit_unknown",
        /// The store is foreign and this user has not trusted it.
        StoreUntrusted = "store_untrusted",
        /// The project's configuration contains a setting that this user has not trusted.
        ConfigUntrusted = "config_untrusted",
        /// Writing a file was refused: it would overwrite existing data or restore the state of another run.
        RestoreRefused = "restore_refused",
        /// Restoring files was refused: some of them were changed by someone else since.
        RestoreConflict = "restore_conflict",
        /// The store does not have the content of a file, or a checkpoint has no snapshot of the files.
        FilesUnavailable = "files_unavailable",
        /// The state that was read contains values that redaction replaced.
        StateRedacted = "state_redacted",
        /// The run can be continued.
        ResumeAllowed = "resume_allowed",
        /// The run has no intact checkpoint to continue from, or it is already completed.
        ResumeMissingCheckpoint = "resume_missing_checkpoint",
        /// The run's owner is alive.
        ResumeRunActive = "resume_run_active",
        /// The step that was in progress must not be repeated.
        ResumeNonIdempotentStep = "resume_non_idempotent_step",
        /// Another run has claimed this run and continues it.
        ResumeClaimed = "resume_claimed",
        /// The run has reached the maximum number of resume attempts.
        ResumeAttemptLimitReached = "resume_attempt_limit_reached",
        /// The previous resume attempt is too recent.
        ResumeBlockedCooldown = "resume_blocked_cooldown",
        /// It is unknown whether the run's owner is alive.
        ResumeUnknownInterruptionClass = "resume_unknown_interruption_class",
        /// The run does not exist, or the choice between several open runs is ambiguous.
        RunNotFound = "run_not_found",
        /// The required parts of a brief do not fit the token budget.
        BriefOverBudget = "brief_over_budget",
        /// A flag, an argument or a setting is invalid.
        Usage = "usage",
        /// The operation removes or discloses data and was not confirmed.
        ConfirmationNeeded = "confirmation_needed",
        /// The command succeeded, but its output could not be written.
        OutputFailed = "output_failed",
        /// The index for searches cannot be used.
        SearchUnavailable = "search_unavailable",
        /// An agent's settings file cannot be edited and was not changed.
        AgentSettingsInvalid = "agent_settings_invalid",
        /// The values of a thread are encrypted with another key, or there is no key.
        ThreadKeyInvalid = "thread_key_invalid",
        /// The page cannot be served, for example because the port is in use.
        ListenFailed = "listen_failed",
    }
}

/// Any error that the library returns.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "internal"), non_exhaustive)]
pub enum Error {
    /// An id is malformed.
    #[error(transparent)]
    Id(#[from] IdError),
    /// The input is not a valid checkpoint.
    #[error("the checkpoint is not valid")]
    Schema(#[from] ValidationError),
    /// The checkpoint has no snapshot of the files, or its snapshot is not in the store.
    #[error("{reference} has no snapshot of the files")]
    NoFiles {
        /// The reference.
        reference: String,
    },
    /// The content of a file is not available.
    #[error("{path} is not available at {reference}: {why}")]
    FileUnavailable {
        /// The path.
        path: String,
        /// The reference.
        reference: String,
        /// Why not.
        why: String,
    },
    /// The files of the worktree could not be examined.
    #[error("cannot examine the files of {}: {why}", root.display())]
    Worktree {
        /// The root of the worktree.
        root: PathBuf,
        /// Why not.
        why: String,
    },
    /// There is no restore to undo.
    #[error("{}", match id {
        Some(id) => format!("no restore {id} in this worktree"),
        None => "no restore to undo in this worktree".to_owned(),
    })]
    NothingToUndo {
        /// The id of the restore, if one was named.
        id: Option<String>,
    },
    /// Changing files failed.
    #[error("the files were not restored")]
    FilesNotRestored(#[from] RestoreError),
    /// The files changed since the plan was made.
    #[error("the files changed since the plan was made")]
    PlanChanged,
    /// The value of a flag or a setting is invalid.
    #[error("{name} is not valid")]
    Value {
        /// The name of the flag or setting.
        name: String,
        /// What is wrong with the value.
        source: ValidationError,
    },
    /// The store returned an error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored checkpoint or run record is damaged.
    #[error("checkpoint {} is damaged", .0.snapshot_id.as_ref().map_or("(unnamed)", |id| id.as_str()))]
    Damaged(#[source] Box<Damage>),
    /// A stored checkpoint has a newer format than this version reads.
    #[error("checkpoint {run}@{sequence} cannot be read")]
    Newer {
        /// The id of the run.
        run: RunId,
        /// The number of the checkpoint within the run.
        sequence: u64,
        /// The error that names both format versions.
        source: SealError,
    },
    /// No checkpoint matches the reference.
    #[error("no checkpoint \"{reference}\"")]
    NotFound {
        /// The reference that was given.
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
    /// No run has this id.
    #[error("no run \"{0}\"")]
    NoRun(String),
    /// No run was named, and the open runs do not determine which one to use.
    #[error("{}", match open.as_slice() {
        [] => "no open run here".to_owned(),
        open => format!("{} runs are open: {}", open.len(), open.join(", ")),
    })]
    WhichRun {
        /// The ids of the open runs.
        open: Vec<String>,
    },
    /// Neither the checkpoint nor any earlier one in its run contains a state.
    #[error("no state in {reference} or any earlier checkpoint")]
    NoState {
        /// The id of the checkpoint.
        reference: String,
    },
    /// The file was not written: that would overwrite existing data or restore the state of another run.
    #[error("{} was not written: {why}", path.display())]
    RestoreRefused {
        /// The file that was not written.
        path: PathBuf,
        /// Why it was not written.
        why: String,
        /// The flag that permits the write.
        flag: &'static str,
    },
    /// The run's owner is alive.
    #[error("run {run} is active: its owner, {owner}, is alive")]
    OwnerAlive {
        /// The id of the run.
        run: RunId,
        /// The owner's name and pid, for display.
        owner: String,
    },
    /// The run cannot be continued.
    #[error("run {run} cannot be continued: {why}")]
    NotResumable {
        /// The id of the run.
        run: RunId,
        /// The reason code of the refusal.
        reason: ReasonCode,
        /// The reason as text, for display.
        why: String,
    },
    /// A run with this id already exists.
    #[error("run {0} already exists")]
    RunExists(RunId),
    /// A step cannot end because it has not begun.
    #[error("step \"{step}\" has not begun: {}", match open.as_slice() {
        [] => "no step is in progress".to_owned(),
        open => format!("in progress: {}", open.join(", ")),
    })]
    StepNotBegun {
        /// The id of the step.
        step: String,
        /// The ids of the steps in progress.
        open: Vec<String>,
    },
    /// Another capture of the run was saved while this one was being merged with the earlier captures.
    #[error("another capture of the run was saved first")]
    CaptureMoved,
    /// A required option was not set.
    #[error("the option {0} is missing")]
    MissingOption(&'static str),
    /// The session was already started.
    #[error("the session is already running")]
    SessionRunning,
    /// The required parts of a brief do not fit the token budget.
    #[error(transparent)]
    #[cfg(feature = "brief")]
    OverBudget(#[from] OverBudget),
    /// The id in a brief's front matter already belongs to another checkpoint.
    #[error("the brief id \"{id}\" is already used by {checkpoint}")]
    BriefExists {
        /// The id of the brief.
        id: String,
        /// The checkpoint that has this id.
        checkpoint: String,
    },
    /// The function that provides a timer's state returned an error.
    #[error("the provider failed: {0}")]
    Provider(String),
    /// The function that provides a timer's state panicked.
    #[error("the provider panicked: {0}")]
    ProviderPanicked(String),
    /// A timer was given an interval of 0.
    #[error("the timer interval must be greater than 0")]
    ZeroInterval,
    /// The operating system could not start the timer thread.
    #[error("the timer thread could not be started")]
    TimerThread(#[source] std::io::Error),
    /// The handle was copied into another process by a fork and cannot be used there.
    #[error("this handle to run {run} belongs to process {pid}, not to the current process")]
    Forked {
        /// The id of the run.
        run: RunId,
        /// The process that opened the handle.
        pid: u32,
    },
    /// Data in another tool's format, or a bundle, could not be read or written.
    #[error(transparent)]
    #[cfg(feature = "interop")]
    Interop(#[from] InteropError),
    /// The checkpoint cannot be copied: its number is in use, or the run already has later checkpoints.
    #[error("{reference} already exists with different content, or the run already has later checkpoints")]
    Conflict {
        /// The run and the number of the checkpoint, as `RUN@N`.
        reference: String,
    },
    /// The bundle contains secrets, and their export was not confirmed.
    #[error("the bundle contains secrets ({} found): {}", locations.len(), locations.join(", "))]
    SecretsLeave {
        /// The locations of the secrets in the bundle.
        locations: Vec<String>,
    },
    /// The project's configuration selects the store, and this user has not trusted it.
    #[error("{} is not trusted: {why}", path.display())]
    ConfigUntrusted {
        /// The configuration file.
        path: PathBuf,
        /// What is untrusted in the file.
        why: String,
        /// Whether trusting the file resolves the error: the file is valid, only its values are untrusted.
        adoptable: bool,
    },
    /// The id of a thread is not valid.
    #[error("the thread id is not valid: {0}")]
    ThreadId(&'static str),
    /// The run is not a thread: something else created it.
    #[error("run {run} is not a thread")]
    NoThread {
        /// The id of the run.
        run: RunId,
    },
    /// The values of a thread are encrypted with another key, or there is no key.
    #[error("the values of {run} cannot be read with this key")]
    ThreadKey {
        /// The id of the run.
        run: RunId,
    },
    /// The index for searches cannot be used.
    #[error("cannot search: {0}")]
    Search(String),
    /// One of the user's files could not be read, written or removed.
    #[error("{} could not be {what}", path.display())]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The failed operation: `read`, `written` or `removed`.
        what: &'static str,
        /// The I/O error.
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

    /// Returns a function that wraps an I/O error about `path`. `what` is `read`, `written` or `removed`.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn file(path: impl Into<PathBuf>, what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, what, source }
    }

    /// Returns the reason code of this error.
    pub fn reason(&self) -> ReasonCode {
        use ReasonCode as R;
        match self {
            Self::ThreadKey { .. } => R::ThreadKeyInvalid,
            Self::Id(_)
            | Self::ThreadId(_)
            | Self::NoThread { .. }
            | Self::RunExists(_)
            | Self::BriefExists { .. }
            | Self::Conflict { .. } => R::CheckpointIdInvalid,
            Self::Schema(_) | Self::Value { .. } | Self::StepNotBegun { .. } => R::CheckpointSchemaInvalid,
            Self::Damaged(damage) => damage.reason_code(),
            Self::Newer { .. } => R::StoreNewer,
            Self::NotFound { .. } | Self::NoState { .. } => R::CheckpointNotFound,
            Self::Ambiguous { .. } => R::CheckpointRefAmbiguous,
            Self::NoRun(_) | Self::WhichRun { .. } => R::RunNotFound,
            Self::RestoreRefused { .. } | Self::PlanChanged | Self::FilesNotRestored(_) => R::RestoreRefused,
            Self::NothingToUndo { .. } => R::CheckpointNotFound,
            Self::NoFiles { .. } | Self::FileUnavailable { .. } | Self::Worktree { .. } => {
                R::FilesUnavailable
            }
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
            Self::Search(_) => R::SearchUnavailable,
            Self::SecretsLeave { .. } => R::ConfirmationNeeded,
            Self::ConfigUntrusted { .. } => R::ConfigUntrusted,
            Self::File { what: "written", .. } => R::CheckpointAtomicWriteFailed,
            Self::File { what: "removed", .. } => R::CheckpointRetentionPruneFailed,
            Self::File { .. } => R::Usage,
            Self::Store(error) => match error {
                StoreError::Address(_) => R::Usage,
                StoreError::Server { problem: ServerProblem::Settings, .. } => R::Usage,
                StoreError::Server { .. } => R::StoreUnavailable,
                StoreError::Busy { .. } | StoreError::MarksMoved(..) => R::StoreBusy,
                StoreError::Missing { .. } => R::StoreMissing,
                StoreError::Untrusted { .. } => R::StoreUntrusted,
                StoreError::Newer { .. } => R::StoreNewer,
                StoreError::Damaged(damage) => damage.reason_code(),
                StoreError::NoRun(_) => R::RunNotFound,
                StoreError::NoBlob(_) => R::FilesUnavailable,
                StoreError::BlobsMissing(_) => R::CheckpointAtomicWriteFailed,
                StoreError::NoCheckpoint(..) => R::CheckpointNotFound,
                StoreError::Exists(_) | StoreError::Named(_) => R::CheckpointIdInvalid,
                StoreError::Rules(_) => R::CheckpointSchemaInvalid,
                StoreError::Unknown { .. } => R::StoreCommitUnknown,
                StoreError::ReadOnly { .. } | StoreError::Write { .. } => R::CheckpointAtomicWriteFailed,
                StoreError::NotAcknowledged { .. } => R::CheckpointNotAcknowledged,
                StoreError::Read { .. } | StoreError::Denied { .. } => R::StoreUnreadable,
            },
        }
    }
}

/// Serialises an error as its reason code and its message, with all causes on one line.
impl Serialize for Error {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("Error", 2)?;
        members.serialize_field("reason_code", &self.reason())?;
        members.serialize_field("message", &error_chain(self))?;
        members.end()
    }
}

/// Formats an error and its causes on one line.
pub fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
