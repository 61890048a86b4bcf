//! Every error of the library, and the one place where errors become reason codes, hints and exit codes.

use std::path::PathBuf;

use crate::brief::OverBudget;
use crate::interop::InteropError;
use crate::model::{IdError, RunId, ValidationError, closed_enum};
use crate::seal::SealError;
use crate::store::identity::ForeignReason;
use crate::store::{Damage, DamageKind, StoreError, UrlError};
use crate::trigger::TimerError;

closed_enum! {
    /// Words that programs can rely on.
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

/// Exit codes of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It failed.
    Failed = 1,
    /// Wrong flag, argument, id or value.
    Usage = 2,
    /// Done in part, or with an older good checkpoint.
    Partly = 3,
    /// There is nothing.
    Nothing = 4,
    /// Damage was found.
    Damaged = 5,
    /// There is no store.
    NoStore = 10,
    /// The store is busy.
    Busy = 11,
    /// The store or the project's configuration is not trusted.
    Untrusted = 12,
    /// The store is newer than this program.
    Newer = 13,
    /// A reference was not found, or is ambiguous.
    NotFound = 14,
    /// It needs `--yes` or `--force`.
    Unconfirmed = 15,
    /// A command that runs another failed itself.
    Supervisor = 125,
    /// The program to run cannot be executed.
    NotExecutable = 126,
    /// The program to run is not there.
    NoProgram = 127,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An id that cannot name anything.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Input that breaks a contract.
    #[error("the checkpoint is not valid")]
    Schema(#[source] ValidationError),
    /// A value given by a flag or a setting.
    #[error("{name} is not valid")]
    Value {
        /// The flag or setting.
        name: String,
        /// What is wrong.
        source: ValidationError,
    },
    /// An address that names no store.
    #[error(transparent)]
    Url(#[from] UrlError),
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
    /// Several checkpoints have this name.
    #[error("\"{reference}\" names {} checkpoints: {}", candidates.len(), candidates.join(", "))]
    Ambiguous {
        /// What was looked for.
        reference: String,
        /// What was found.
        candidates: Vec<String>,
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
    OverBudget(#[from] OverBudget),
    /// A brief whose own id is taken.
    #[error("the brief's id \"{id}\" is taken by {place}")]
    BriefExists {
        /// The id.
        id: String,
        /// What has it.
        place: String,
    },
    /// A timer that cannot be.
    #[error(transparent)]
    Timer(#[from] TimerError),
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
    Interop(#[from] InteropError),
    /// A checkpoint that is there already under this number, with another content.
    #[error("{reference} is there already with another content, or after it the run has gone on")]
    Conflict {
        /// The run and number.
        reference: String,
    },
    /// A bundle that would take secrets along.
    #[error("{} of what leaves hold secrets: {}", places.len(), places.join(", "))]
    SecretsLeave {
        /// Where they are.
        places: Vec<String>,
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

impl From<ValidationError> for Error {
    fn from(invalid: ValidationError) -> Self {
        Self::Schema(invalid)
    }
}

impl Error {
    /// The word for programs.
    pub fn reason(&self) -> ReasonCode {
        self.verdict().0
    }

    /// The exit code of the command line.
    pub fn exit(&self) -> Exit {
        self.verdict().1
    }

    fn verdict(&self) -> (ReasonCode, Exit) {
        use ReasonCode as R;
        match self {
            Self::Id(_) => (R::CheckpointIdInvalid, Exit::Usage),
            Self::Schema(_) => (R::CheckpointSchemaInvalid, Exit::Failed),
            Self::Value { .. } => (R::CheckpointSchemaInvalid, Exit::Usage),
            Self::Url(_) => (R::Usage, Exit::Usage),
            Self::Damaged(damage) => (damage_reason(damage), Exit::Damaged),
            Self::Newer { .. } => (R::StoreNewer, Exit::Newer),
            Self::NotFound { .. } => (R::CheckpointNotFound, Exit::NotFound),
            Self::Ambiguous { .. } => (R::CheckpointRefAmbiguous, Exit::NotFound),
            Self::NoRun(_) | Self::WhichRun { .. } => (R::RunNotFound, Exit::NotFound),
            Self::NoState { .. } => (R::CheckpointNotFound, Exit::Nothing),
            Self::RestoreRefused { .. } => (R::RestoreRefused, Exit::Unconfirmed),
            Self::OwnerAlive { .. } => (R::ResumeRunActive, Exit::Failed),
            Self::NotResumable { reason, .. } => (*reason, Exit::Failed),
            Self::RunExists(_) => (R::CheckpointIdInvalid, Exit::Usage),
            Self::StepNotBegun { .. } => (R::CheckpointSchemaInvalid, Exit::Usage),
            Self::CaptureMoved => (R::StoreBusy, Exit::Busy),
            Self::MissingOption(_) | Self::SessionRunning => (R::Usage, Exit::Usage),
            Self::OverBudget(_) => (R::BriefOverBudget, Exit::Failed),
            Self::BriefExists { .. } => (R::CheckpointIdInvalid, Exit::Failed),
            Self::Timer(TimerError::Interval) => (R::Usage, Exit::Usage),
            Self::Timer(TimerError::Thread(_)) | Self::Forked { .. } => (R::Usage, Exit::Failed),
            Self::Interop(InteropError::Database { .. }) => (R::Usage, Exit::Failed),
            Self::Interop(InteropError::Document { source, .. }) => {
                (source.reason(), if source.reason() == R::StoreNewer { Exit::Newer } else { Exit::Failed })
            }
            Self::Interop(_) => (R::Usage, Exit::Usage),
            Self::Conflict { .. } => (R::CheckpointIdInvalid, Exit::Failed),
            Self::SecretsLeave { .. } => (R::ConfirmationNeeded, Exit::Unconfirmed),
            Self::ConfigUntrusted { .. } => (R::ConfigUntrusted, Exit::Untrusted),
            Self::File { what: "written", .. } => (R::CheckpointAtomicWriteFailed, Exit::Failed),
            Self::File { what: "removed", .. } => (R::CheckpointRetentionPruneFailed, Exit::Failed),
            Self::File { .. } => (R::Usage, Exit::Usage),
            Self::Store(error) => match error {
                StoreError::Busy { .. } => (R::StoreBusy, Exit::Busy),
                StoreError::Missing { .. } => (R::StoreMissing, Exit::NoStore),
                StoreError::Untrusted { .. } => (R::StoreUntrusted, Exit::Untrusted),
                StoreError::Newer { .. } => (R::StoreNewer, Exit::Newer),
                StoreError::Damaged(damage) => (damage_reason(damage), Exit::Damaged),
                StoreError::NoRun(_) => (R::RunNotFound, Exit::NotFound),
                StoreError::NoCheckpoint(..) => (R::CheckpointNotFound, Exit::NotFound),
                StoreError::Exists(_) | StoreError::Named(_) => (R::CheckpointIdInvalid, Exit::Failed),
                StoreError::MarksMoved(..) => (R::StoreBusy, Exit::Busy),
                StoreError::Rules(_) => (R::CheckpointSchemaInvalid, Exit::Failed),
                StoreError::ReadOnly { .. } | StoreError::Write { .. } | StoreError::Unknown { .. } => {
                    (R::CheckpointAtomicWriteFailed, Exit::Failed)
                }
                StoreError::NotAcknowledged { .. } => (R::CheckpointNotAcknowledged, Exit::Failed),
                StoreError::Read { .. } | StoreError::Denied { .. } => (R::StoreUnreadable, Exit::Failed),
            },
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Id(_) => {
                "use letters, digits, '.', '_' and '-', at most 128, starting with a letter or digit".into()
            }
            Self::Schema(invalid) | Self::Value { source: invalid, .. } if is_over_a_setting(invalid) => {
                "store a reference (`files`) instead of the content, or raise [limits] in milepost.toml"
                    .into()
            }
            Self::Schema(_) => "`milepost schema` prints what a checkpoint may hold".into(),
            Self::Value { .. } | Self::Url(_) => return None,
            Self::Damaged(_) => {
                "`milepost verify` lists everything that is damaged, `milepost doctor` what can be done"
                    .into()
            }
            Self::Newer { .. } => "update milepost; nothing was changed".into(),
            Self::NotFound { .. } => "`milepost list` shows what is there".into(),
            Self::Ambiguous { .. } => "give more of the id, or name the run with --run".into(),
            Self::NoRun(_) => "`milepost runs` lists the runs".into(),
            Self::WhichRun { .. } => {
                "name the run with --run ID or MILEPOST_RUN; `milepost runs` lists them".into()
            }
            Self::NoState { .. } => "save one with `milepost save --input FILE`, its member `state`".into(),
            Self::RestoreRefused { flag, .. } => format!("add {flag} if you mean it"),
            Self::OwnerAlive { .. } => "wait until it ends, or use another run id".into(),
            Self::NotResumable { run, reason, .. } => match reason {
                ReasonCode::ResumeRunActive => {
                    "wait until it ends; --take-over is for one that is stalled".into()
                }
                ReasonCode::ResumeUnknownInterruptionClass => {
                    "look whether it still runs there; --take-over if it does not".into()
                }
                ReasonCode::ResumeMissingCheckpoint => format!("`milepost runs {run}` shows what it left"),
                ReasonCode::ResumeClaimed => "`milepost status` shows both".into(),
                _ => format!(
                    "`milepost show latest --run {run}` shows where it stopped; [resume] in milepost.toml has the limits"
                ),
            },
            Self::ConfigUntrusted { adoptable: true, .. } => {
                "run `milepost trust` to review it, or name a store with --store for this command".into()
            }
            Self::ConfigUntrusted { .. } => {
                "remove or replace it; if another user's file is meant, set MILEPOST_TRUST to its folder"
                    .into()
            }
            Self::File { what: "removed", .. } => {
                "mend its permissions; `milepost doctor --fix` removes it then".into()
            }
            Self::RunExists(_) => "use another id, or go on with it: `milepost run --rejoin --run ID`".into(),
            Self::StepNotBegun { .. } => {
                "`milepost step begin ID` begins it, `step skip ID` leaves it out".into()
            }
            Self::CaptureMoved => "try again".into(),
            Self::MissingOption(name) => format!("say .{name}(…) before the session is built"),
            Self::SessionRunning => "stop it first, or go on with it".into(),
            Self::OverBudget(OverBudget { shrunk: true, .. }) => "allow at least 60 tokens".into(),
            Self::OverBudget(over) => {
                format!("allow {} tokens, or add --overflow shrink or --overflow exceed", over.needed)
            }
            Self::BriefExists { .. } => {
                "give it an id of its own (`checkpoint:` in its front matter); `milepost brief new` makes one"
                    .into()
            }
            Self::Timer(TimerError::Interval) => "give an interval such as 30s, 5m or 2h".into(),
            Self::Forked { .. } => "open the run again in this process".into(),
            Self::Interop(InteropError::Nothing { .. }) => {
                "`milepost help import` lists the formats; PATH is the folder, or the one around it".into()
            }
            Self::Interop(InteropError::Document { .. }) => {
                "nothing was imported; export the bundle again".into()
            }
            Self::Interop(_) => return None,
            Self::Conflict { .. } => "copy into an empty store, or delete that run there".into(),
            Self::SecretsLeave { .. } => "look at them, then add --yes to let them leave".into(),
            Self::Timer(TimerError::Thread(_)) | Self::File { .. } => return None,
            Self::Store(error) => match error {
                StoreError::Busy { .. } => {
                    "try again; if it lasts, a stopped process may hold the lock".into()
                }
                StoreError::Missing { .. } => {
                    "`milepost init` makes one, and so does the first `milepost save`".into()
                }
                StoreError::Denied { path, .. } => format!(
                    "check the owner and the permissions of {}, or name another store with --store",
                    path.display()
                ),
                StoreError::Untrusted { why, .. } => untrusted_hint(why),
                StoreError::Newer { .. } => "update milepost; nothing was changed".into(),
                StoreError::Damaged(_) => "`milepost doctor` says what can be saved".into(),
                StoreError::NoRun(_) => "`milepost runs` lists the runs".into(),
                StoreError::NoCheckpoint(..) => "`milepost list` shows what is there".into(),
                StoreError::MarksMoved(..) => "try again".into(),
                StoreError::Exists(_)
                | StoreError::Named(_)
                | StoreError::Rules(_)
                | StoreError::Read { .. } => return None,
                StoreError::ReadOnly { .. } => {
                    "check the permissions, or name another store with --store".into()
                }
                StoreError::Write { source, .. } if is_refused_file(source.as_ref()) => {
                    "earlier checkpoints are intact; remove what is there instead of a regular file and try again".into()
                }
                StoreError::Write { .. } => {
                    "earlier checkpoints are intact; free some space and try again".into()
                }
                StoreError::NotAcknowledged { .. } => {
                    "check the disk (`dmesg`), then repeat it; the next write first writes and syncs everything again".into()
                }
                StoreError::Unknown { .. } => "look whether it is there before you repeat it".into(),
            },
        })
    }
}

/// Whether it is too large by what can be set; other bounds are fixed.
fn is_over_a_setting(invalid: &ValidationError) -> bool {
    ["for one field", "for a checkpoint"].iter().any(|end| invalid.message.ends_with(end))
}

/// Whether a file was refused because it is a link or no regular file.
fn is_refused_file(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::InvalidInput)
}

fn untrusted_hint(why: &ForeignReason) -> String {
    match why {
        ForeignReason::OtherOwner { .. } => {
            "work as that user, or set MILEPOST_TRUST to a folder above it if you trust them".into()
        }
        ForeignReason::Tracked => "take it out of git (`git rm --cached`) and ignore it".into(),
        ForeignReason::NotRegular { .. } => "remove it, or name another store with --store".into(),
        ForeignReason::NoState { .. } => "set MILEPOST_TRUST to a folder above it if you trust it".into(),
        ForeignReason::NoRecord | ForeignReason::Copy { .. } | ForeignReason::OtherMachine => {
            "`milepost trust` shows what it holds and asks; MILEPOST_TRUST names folders to trust".into()
        }
    }
}

fn damage_reason(damage: &Damage) -> ReasonCode {
    match damage.kind {
        DamageKind::Integrity => ReasonCode::CheckpointIntegrityMismatch,
        DamageKind::Schema => ReasonCode::CheckpointSchemaInvalid,
    }
}
