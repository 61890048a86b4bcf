//! Advice for the library's errors: the exit code and the hint of each. Both lists name every error, so that a new one does
//! not compile without a decision. Messages and reason codes are the library's own.

use milepost::interop::InteropError;
use milepost::model::ValidationError;
use milepost::store::{ForeignReason, StoreError};
use milepost::{Error, ReasonCode, TimerError};

/// Exit codes of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
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

/// The exit code for an error of the library.
pub(crate) fn exit_code(error: &Error) -> Exit {
    match error {
        Error::Id(_) => Exit::Usage,
        Error::Schema(_) => Exit::Failed,
        Error::Value { .. } => Exit::Usage,
        Error::Url(_) => Exit::Usage,
        Error::Damaged(_) => Exit::Damaged,
        Error::Newer { .. } => Exit::Newer,
        Error::NotFound { .. } => Exit::NotFound,
        Error::Ambiguous { .. } => Exit::NotFound,
        Error::NoRun(_) | Error::WhichRun { .. } => Exit::NotFound,
        Error::NoState { .. } => Exit::Nothing,
        Error::RestoreRefused { .. } => Exit::Unconfirmed,
        Error::OwnerAlive { .. } => Exit::Failed,
        Error::NotResumable { .. } => Exit::Failed,
        Error::RunExists(_) => Exit::Usage,
        Error::StepNotBegun { .. } => Exit::Usage,
        Error::CaptureMoved => Exit::Busy,
        Error::MissingOption(_) | Error::SessionRunning => Exit::Usage,
        Error::OverBudget(_) => Exit::Failed,
        Error::BriefExists { .. } => Exit::Failed,
        Error::Timer(TimerError::Interval) => Exit::Usage,
        Error::Timer(TimerError::Thread(_)) | Error::Forked { .. } => Exit::Failed,
        Error::Interop(InteropError::Database { .. }) => Exit::Failed,
        Error::Interop(InteropError::Document { source, .. }) => {
            if source.reason() == ReasonCode::StoreNewer { Exit::Newer } else { Exit::Failed }
        }
        Error::Interop(_) => Exit::Usage,
        Error::Conflict { .. } => Exit::Failed,
        Error::SecretsLeave { .. } => Exit::Unconfirmed,
        Error::ConfigUntrusted { .. } => Exit::Untrusted,
        Error::File { what: "written", .. } => Exit::Failed,
        Error::File { what: "removed", .. } => Exit::Failed,
        Error::File { .. } => Exit::Usage,
        Error::Store(error) => match error {
            StoreError::Busy { .. } => Exit::Busy,
            StoreError::Missing { .. } => Exit::NoStore,
            StoreError::Untrusted { .. } => Exit::Untrusted,
            StoreError::Newer { .. } => Exit::Newer,
            StoreError::Damaged(_) => Exit::Damaged,
            StoreError::NoRun(_) => Exit::NotFound,
            StoreError::NoCheckpoint(..) => Exit::NotFound,
            StoreError::Exists(_) | StoreError::Named(_) => Exit::Failed,
            StoreError::MarksMoved(..) => Exit::Busy,
            StoreError::Rules(_) => Exit::Failed,
            StoreError::ReadOnly { .. } | StoreError::Write { .. } | StoreError::Unknown { .. } => {
                Exit::Failed
            }
            StoreError::NotAcknowledged { .. } => Exit::Failed,
            StoreError::Read { .. } | StoreError::Denied { .. } => Exit::Failed,
        },
    }
}

/// What to do about an error of the library.
pub(crate) fn hint(error: &Error) -> Option<String> {
    Some(match error {
        Error::Id(_) => {
            "use letters, digits, '.', '_' and '-', at most 128, starting with a letter or digit".into()
        }
        Error::Schema(invalid) | Error::Value { source: invalid, .. } if is_over_a_setting(invalid) => {
            "store a reference (`files`) instead of the content, or raise [limits] in milepost.toml"
                .into()
        }
        Error::Schema(_) => "`milepost schema` prints what a checkpoint may hold".into(),
        Error::Value { .. } | Error::Url(_) => return None,
        Error::Damaged(_) => {
            "`milepost verify` lists everything that is damaged, `milepost doctor` what can be done"
                .into()
        }
        Error::Newer { .. } => "update milepost; nothing was changed".into(),
        Error::NotFound { .. } => "`milepost list` shows what is there".into(),
        Error::Ambiguous { .. } => "give more of the id, or name the run with --run".into(),
        Error::NoRun(_) => "`milepost runs` lists the runs".into(),
        Error::WhichRun { .. } => {
            "name the run with --run ID or MILEPOST_RUN; `milepost runs` lists them".into()
        }
        Error::NoState { .. } => "save one with `milepost save --input FILE`, its member `state`".into(),
        Error::RestoreRefused { flag, .. } => format!("add {flag} if you mean it"),
        Error::OwnerAlive { .. } => "wait until it ends, or use another run id".into(),
        Error::NotResumable { run, reason, .. } => match reason {
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
        Error::ConfigUntrusted { adoptable: true, .. } => {
            "run `milepost trust` to review it, or name a store with --store for this command".into()
        }
        Error::ConfigUntrusted { .. } => {
            "remove or replace it; if another user's file is meant, set MILEPOST_TRUST to its folder"
                .into()
        }
        Error::File { what: "removed", .. } => {
            "mend its permissions; `milepost doctor --fix` removes it then".into()
        }
        Error::RunExists(_) => "use another id, or go on with it: `milepost run --rejoin --run ID`".into(),
        Error::StepNotBegun { .. } => {
            "`milepost step begin ID` begins it, `step skip ID` leaves it out".into()
        }
        Error::CaptureMoved => "try again".into(),
        Error::MissingOption(name) => format!("say .{name}(…) before the session is built"),
        Error::SessionRunning => "stop it first, or go on with it".into(),
        Error::OverBudget(over) if over.shrunk() => "allow at least 60 tokens".into(),
        Error::OverBudget(over) => {
            format!("allow {} tokens, or add --overflow shrink or --overflow exceed", over.needed())
        }
        Error::BriefExists { .. } => {
            "give it an id of its own (`checkpoint:` in its front matter); `milepost brief new` makes one"
                .into()
        }
        Error::Timer(TimerError::Interval) => "give an interval such as 30s, 5m or 2h".into(),
        Error::Forked { .. } => "open the run again in this process".into(),
        Error::Interop(InteropError::Nothing { .. }) => {
            "`milepost help import` lists the formats; PATH is the folder, or the one around it".into()
        }
        Error::Interop(InteropError::Document { .. }) => {
            "nothing was imported; export the bundle again".into()
        }
        Error::Interop(_) => return None,
        Error::Conflict { .. } => "copy into an empty store, or delete that run there".into(),
        Error::SecretsLeave { .. } => "look at them, then add --yes to let them leave".into(),
        Error::Timer(TimerError::Thread(_)) | Error::File { .. } => return None,
        Error::Store(error) => match error {
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
