//! Advice for the library's errors: the exit code and the hint of each. Every error is named, so that a new one does not
//! compile without a decision. Messages and reason codes are the library's own.

use milepost::interop::InteropError;
use milepost::model::{RunId, ValidationError};
use milepost::store::{ForeignReason, StoreError};
use milepost::{Error, ReasonCode};

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

/// The exit code for an error of the library, and what to do about it.
pub(crate) fn advice(error: &Error) -> (Exit, Option<String>) {
    let no_hint = |exit| (exit, None);
    let hint = |exit, text: &str| (exit, Some(text.to_owned()));
    match error {
        Error::Id(_) => hint(
            Exit::Usage,
            "use letters, digits, '.', '_' and '-', at most 128, starting with a letter or digit",
        ),
        Error::Schema(invalid) => hint(
            Exit::Failed,
            limit_hint(invalid).unwrap_or("`milepost schema` prints what a checkpoint may hold"),
        ),
        Error::Value { source, .. } => hint(
            Exit::Usage,
            limit_hint(source).unwrap_or("`milepost help COMMAND` lists what each argument accepts"),
        ),
        Error::Damaged(_) => hint(
            Exit::Damaged,
            "`milepost verify` lists everything that is damaged, `milepost doctor` what can be done",
        ),
        Error::Newer { .. } => hint(Exit::Newer, "update milepost; nothing was changed"),
        Error::NotFound { .. } => hint(Exit::NotFound, "`milepost list` shows what is there"),
        Error::Ambiguous { .. } => hint(Exit::NotFound, "give more of the id, or name the run with --run"),
        Error::NoRun(_) => hint(Exit::NotFound, "`milepost runs` lists the runs"),
        Error::WhichRun { .. } => {
            hint(Exit::NotFound, "name the run with --run ID or MILEPOST_RUN; `milepost runs` lists them")
        }
        Error::NoState { .. } => {
            hint(Exit::Nothing, "save one with `milepost save --input FILE`, its member `state`")
        }
        Error::RestoreRefused { flag, .. } => hint(Exit::Unconfirmed, &format!("add {flag} if you mean it")),
        Error::OwnerAlive { .. } => hint(Exit::Failed, "wait until it ends, or use another run id"),
        Error::NotResumable { run, reason, .. } => (Exit::Failed, Some(not_resumable_hint(run, *reason))),
        Error::RunExists(_) => {
            hint(Exit::Usage, "use another id, or go on with it: `milepost run --rejoin --run ID`")
        }
        Error::StepNotBegun { .. } => {
            hint(Exit::Usage, "`milepost step begin ID` begins it, `step skip ID` leaves it out")
        }
        Error::CaptureMoved => hint(Exit::Busy, "try again"),
        Error::MissingOption(name) => {
            hint(Exit::Usage, &format!("say .{name}(…) before the session is built"))
        }
        Error::SessionRunning => hint(Exit::Usage, "stop it first, or go on with it"),
        Error::OverBudget(over) if over.shrunk() => hint(Exit::Failed, "allow at least 60 tokens"),
        Error::OverBudget(over) => {
            let needed = over.needed();
            hint(
                Exit::Failed,
                &format!("allow {needed} tokens, or add --overflow shrink or --overflow exceed"),
            )
        }
        Error::BriefExists { .. } => hint(
            Exit::Failed,
            "give it an id of its own (`checkpoint:` in its front matter); `milepost brief new` makes one",
        ),
        Error::ZeroInterval => hint(Exit::Usage, "give an interval such as 30s, 5m or 2h"),
        Error::Provider(_) | Error::ProviderPanicked(_) | Error::TimerThread(_) => no_hint(Exit::Failed),
        Error::Forked { .. } => hint(Exit::Failed, "open the run again in this process"),
        Error::Interop(InteropError::Nothing { .. }) => hint(
            Exit::Usage,
            "`milepost help import` lists the formats; PATH is the folder, or the one around it",
        ),
        Error::Interop(InteropError::Document { source, .. }) => {
            let is_newer = source.reason() == ReasonCode::StoreNewer;
            let exit = if is_newer { Exit::Newer } else { Exit::Failed };
            hint(exit, "nothing was imported; export the bundle again")
        }
        Error::Interop(InteropError::Database { .. }) => no_hint(Exit::Failed),
        Error::Interop(_) => no_hint(Exit::Usage),
        Error::Conflict { .. } => hint(Exit::Failed, "copy into an empty store, or delete that run there"),
        Error::SecretsLeave { .. } => {
            hint(Exit::Unconfirmed, "look at them, then add --yes to let them leave")
        }
        Error::ConfigUntrusted { adoptable: true, .. } => hint(
            Exit::Untrusted,
            "run `milepost trust` to review it, or name a store with --store for this command",
        ),
        Error::ConfigUntrusted { .. } => hint(
            Exit::Untrusted,
            "remove or replace it; if another user's file is meant, set MILEPOST_TRUST to its folder",
        ),
        Error::File { what: "removed", .. } => {
            hint(Exit::Failed, "mend its permissions; `milepost doctor --fix` removes it then")
        }
        Error::File { what: "written", .. } => {
            hint(Exit::Failed, "check the permissions of its folder and the free space")
        }
        Error::File { .. } => hint(Exit::Usage, "check the path and its permissions"),
        Error::Store(error) => store_advice(error),
    }
}

fn store_advice(error: &StoreError) -> (Exit, Option<String>) {
    let no_hint = |exit| (exit, None);
    let hint = |exit, text: &str| (exit, Some(text.to_owned()));
    match error {
        StoreError::Address(_) => no_hint(Exit::Usage),
        StoreError::Busy { .. } => {
            hint(Exit::Busy, "try again; if it lasts, a stopped process may hold the lock")
        }
        StoreError::Missing { .. } => {
            hint(Exit::NoStore, "`milepost init` makes one, and so does the first `milepost save`")
        }
        StoreError::Denied { path, .. } => {
            let path = path.display();
            let text =
                format!("check the owner and the permissions of {path}, or name another store with --store");
            (Exit::Failed, Some(text))
        }
        StoreError::Untrusted { why, .. } => hint(Exit::Untrusted, untrusted_hint(why)),
        StoreError::Newer { .. } => hint(Exit::Newer, "update milepost; nothing was changed"),
        StoreError::Damaged(_) => hint(Exit::Damaged, "`milepost doctor` says what can be saved"),
        StoreError::NoRun(_) => hint(Exit::NotFound, "`milepost runs` lists the runs"),
        StoreError::NoCheckpoint(..) => hint(Exit::NotFound, "`milepost list` shows what is there"),
        StoreError::MarksMoved(..) => hint(Exit::Busy, "try again"),
        StoreError::Exists(_) | StoreError::Named(_) | StoreError::Rules(_) | StoreError::Read { .. } => {
            no_hint(Exit::Failed)
        }
        StoreError::ReadOnly { .. } => {
            hint(Exit::Failed, "check the permissions, or name another store with --store")
        }
        StoreError::Write { source, .. } if is_refused_file(source.as_ref()) => hint(
            Exit::Failed,
            "earlier checkpoints are intact; remove what is there instead of a regular file and try again",
        ),
        StoreError::Write { .. } => {
            hint(Exit::Failed, "earlier checkpoints are intact; free some space and try again")
        }
        StoreError::NotAcknowledged { .. } => hint(
            Exit::Failed,
            "check the disk (`dmesg`), then repeat it; the next write first writes and syncs everything again",
        ),
        StoreError::Unknown { .. } => hint(Exit::Failed, "look whether it is there before you repeat it"),
    }
}

fn not_resumable_hint(run: &RunId, reason: ReasonCode) -> String {
    match reason {
        ReasonCode::ResumeRunActive => "wait until it ends; --take-over is for one that is stalled".into(),
        ReasonCode::ResumeUnknownInterruptionClass => {
            "look whether it still runs there; --take-over if it does not".into()
        }
        ReasonCode::ResumeMissingCheckpoint => format!("`milepost runs {run}` shows what it left"),
        ReasonCode::ResumeClaimed => "`milepost status` shows both".into(),
        _ => format!(
            "`milepost show latest --run {run}` shows where it stopped; [resume] in milepost.toml has the limits"
        ),
    }
}

/// The hint for a value that is larger than a limit that can be set; other limits are fixed.
fn limit_hint(invalid: &ValidationError) -> Option<&'static str> {
    let is_over = ["for one field", "for a checkpoint"].iter().any(|end| invalid.message.ends_with(end));
    is_over
        .then_some("store a reference (`files`) instead of the content, or raise [limits] in milepost.toml")
}

/// Whether a file was refused because it is a link or no regular file.
fn is_refused_file(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::InvalidInput)
}

fn untrusted_hint(why: &ForeignReason) -> &'static str {
    match why {
        ForeignReason::OtherOwner { .. } => {
            "work as that user, or set MILEPOST_TRUST to a folder above it if you trust them"
        }
        ForeignReason::Tracked => "take it out of git (`git rm --cached`) and ignore it",
        ForeignReason::NotRegular { .. } => "remove it, or name another store with --store",
        ForeignReason::NoState { .. } => "set MILEPOST_TRUST to a folder above it if you trust it",
        ForeignReason::NoRecord | ForeignReason::Copy { .. } | ForeignReason::OtherMachine => {
            "`milepost trust` shows what it holds and asks; MILEPOST_TRUST names folders to trust"
        }
    }
}
