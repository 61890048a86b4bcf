//! Maps each library error to an exit code and a hint. The match names every variant, so a new variant does
//! not compile until it has both. Messages and reason codes belong to the library.

use milepost::interop::InteropError;
use milepost::model::{RunId, ValidationError};
use milepost::store::{ForeignReason, ServerProblem, StoreError};
use milepost::{Error, ReasonCode};

/// Exit codes of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The command failed.
    Failed = 1,
    /// Invalid flag, argument, id or value.
    Usage = 2,
    /// Partly done, or an older intact checkpoint was used instead.
    Partly = 3,
    /// There is nothing to return, or the answer is no.
    Nothing = 4,
    /// Damage was found.
    Damaged = 5,
    /// The store does not exist.
    NoStore = 10,
    /// The store is busy.
    Busy = 11,
    /// The store or the project's configuration is not trusted.
    Untrusted = 12,
    /// The store's format is newer than this program supports.
    Newer = 13,
    /// A reference was not found, or is ambiguous.
    NotFound = 14,
    /// The command needs confirmation, such as `--yes` or `--force`.
    Unconfirmed = 15,
    /// A command that runs another program failed itself.
    Supervisor = 125,
    /// The program to run cannot be executed.
    NotExecutable = 126,
    /// The program to run was not found.
    NoProgram = 127,
}

/// The exit code for a library error, and a hint on how to fix it.
pub(crate) fn advice(error: &Error) -> (Exit, Option<String>) {
    let no_hint = |exit| (exit, None);
    let hint = |exit, text: &str| (exit, Some(text.to_owned()));
    match error {
        Error::Id(_) => hint(
            Exit::Usage,
            "use 1 to 128 letters, digits, '.', '_' or '-'; start with a letter or digit and do not end with '.'",
        ),
        Error::Schema(invalid) => hint(
            Exit::Failed,
            limit_hint(invalid).unwrap_or("`milepost schema` prints the JSON Schema of a checkpoint"),
        ),
        Error::NoFiles { .. } => hint(
            Exit::NotFound,
            "`milepost list` shows which checkpoints have files; [capture] in milepost.toml turns them on",
        ),
        Error::FileUnavailable { .. } => {
            hint(Exit::NotFound, "docs/files.md lists which files are not stored")
        }
        Error::Worktree { .. } => no_hint(Exit::Failed),
        Error::NothingToUndo { .. } => hint(Exit::Nothing, "`milepost undo --list` shows the restores"),
        Error::FilesNotRestored(_) => {
            hint(Exit::Failed, "no file was lost; run `milepost undo --list` to see what can be undone")
        }
        Error::PlanChanged => hint(Exit::Unconfirmed, "make a new plan and review it"),
        Error::Value { source, .. } => hint(
            Exit::Usage,
            limit_hint(source).unwrap_or("`milepost help COMMAND` lists what each argument accepts"),
        ),
        Error::Damaged(_) => hint(
            Exit::Damaged,
            "run `milepost verify` to list all damage and `milepost doctor` to see what can be repaired",
        ),
        Error::Newer { .. } => hint(Exit::Newer, "update milepost; nothing was changed"),
        Error::NotFound { reference } if reference == "latest" => {
            hint(Exit::NotFound, "there are no checkpoints yet; save one with `milepost save \"message\"`")
        }
        Error::NotFound { .. } => hint(Exit::NotFound, "run `milepost list` to see the checkpoints"),
        Error::Ambiguous { .. } => {
            hint(Exit::NotFound, "use a longer prefix of the id, or select the run with --run")
        }
        Error::Search(_) => hint(
            Exit::Failed,
            "the index is derived from the store; docs/search.md says where it is and that it can be deleted",
        ),
        Error::ThreadId(_) => hint(Exit::Usage, "use any text that is not empty"),
        Error::NoThread { .. } => {
            hint(Exit::Usage, "use another thread id, or delete the run with `milepost delete RUN`")
        }
        Error::ThreadKey { .. } => hint(Exit::Failed, "use the key that the values were saved with"),
        Error::NoRun(_) => hint(Exit::NotFound, "run `milepost runs` to list the runs"),
        Error::WhichRun { .. } => {
            hint(Exit::NotFound, "select a run with --run ID or MILEPOST_RUN; `milepost runs` lists them")
        }
        Error::NoState { .. } => hint(
            Exit::Nothing,
            "save one with `milepost save --input FILE`, where FILE is JSON with a `state` member",
        ),
        Error::RestoreRefused { flag, .. } => {
            hint(Exit::Unconfirmed, &format!("add {flag} to write it anyway"))
        }
        Error::OwnerAlive { .. } => {
            hint(Exit::Failed, "wait until that process exits, or use another run id")
        }
        Error::NotResumable { run, reason, .. } => (Exit::Failed, Some(not_resumable_hint(run, *reason))),
        Error::RunExists(_) => {
            hint(Exit::Usage, "use another id, or continue that run with `milepost run --rejoin --run ID`")
        }
        Error::StepNotBegun { .. } => hint(
            Exit::Usage,
            "run `milepost step begin ID` to begin it, or `milepost step skip ID` to skip it",
        ),
        Error::CaptureMoved => hint(Exit::Busy, "try again"),
        Error::MissingOption(name) => {
            hint(Exit::Usage, &format!("call .{name}(…) before you build the session"))
        }
        Error::SessionRunning => hint(Exit::Usage, "stop the running session first, or keep using it"),
        Error::OverBudget(over) if over.shrunk() => {
            hint(Exit::Failed, "raise the budget to at least 60 tokens")
        }
        Error::OverBudget(over) => {
            let needed = over.needed();
            hint(
                Exit::Failed,
                &format!(
                    "raise the budget to {needed} tokens, or add --overflow shrink or --overflow exceed"
                ),
            )
        }
        Error::BriefExists { .. } => hint(
            Exit::Failed,
            "set a unique id in its front matter (`checkpoint:`); `milepost brief new` generates one",
        ),
        Error::ZeroInterval => hint(Exit::Usage, "use an interval such as 30s, 5m or 2h"),
        Error::Provider(_) | Error::ProviderPanicked(_) | Error::TimerThread(_) => no_hint(Exit::Failed),
        Error::Forked { .. } => hint(Exit::Failed, "open the run again in this process"),
        Error::Interop(InteropError::Nothing { .. }) => hint(
            Exit::Usage,
            "`milepost help import` lists the formats; PATH must be the folder of one of them, or its parent",
        ),
        Error::Interop(InteropError::Document { source, .. }) => {
            let is_newer = source.reason() == ReasonCode::StoreNewer;
            let exit = if is_newer { Exit::Newer } else { Exit::Failed };
            hint(exit, "nothing was imported; export the bundle again")
        }
        Error::Interop(InteropError::Database { .. }) => no_hint(Exit::Failed),
        Error::Interop(_) => no_hint(Exit::Usage),
        Error::Conflict { .. } => {
            hint(Exit::Failed, "copy into an empty store, or delete the run in the destination store first")
        }
        Error::SecretsLeave { .. } => {
            hint(Exit::Unconfirmed, "review these values, then add --yes to export them anyway")
        }
        Error::ConfigUntrusted { adoptable: true, .. } => hint(
            Exit::Untrusted,
            "run `milepost trust` to review it, or select a store with --store for this command",
        ),
        Error::ConfigUntrusted { .. } => hint(
            Exit::Untrusted,
            "remove or replace the file; to use another user's file, set MILEPOST_TRUST to its folder",
        ),
        Error::File { what: "removed", .. } => {
            hint(Exit::Failed, "fix its permissions, then run `milepost doctor --fix` to remove it")
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
            hint(Exit::Busy, "try again; if it stays busy, a suspended process may hold the lock")
        }
        StoreError::Missing { .. } => hint(
            Exit::NoStore,
            "run `milepost init` to create one; the first `milepost save` also creates it",
        ),
        StoreError::Denied { path, .. } => {
            let path = path.display();
            let text =
                format!("check the owner and permissions of {path}, or select another store with --store");
            (Exit::Failed, Some(text))
        }
        StoreError::Untrusted { why, .. } => hint(Exit::Untrusted, untrusted_hint(why)),
        StoreError::Newer { .. } => hint(Exit::Newer, "update milepost; nothing was changed"),
        StoreError::Damaged(_) => hint(Exit::Damaged, "run `milepost doctor` to see what can be recovered"),
        StoreError::NoBlob(_) => no_hint(Exit::NotFound),
        StoreError::BlobsMissing(_) => hint(Exit::Failed, "run the command again"),
        StoreError::NoRun(_) => hint(Exit::NotFound, "run `milepost runs` to list the runs"),
        StoreError::NoCheckpoint(..) => hint(Exit::NotFound, "run `milepost list` to see the checkpoints"),
        StoreError::MarksMoved(..) => hint(Exit::Busy, "try again"),
        StoreError::Exists(_) | StoreError::Named(_) | StoreError::Rules(_) | StoreError::Read { .. } => {
            no_hint(Exit::Failed)
        }
        StoreError::ReadOnly { .. } => {
            hint(Exit::Failed, "check its permissions, or select another store with --store")
        }
        StoreError::Write { source, .. } if is_refused_file(source.as_ref()) => hint(
            Exit::Failed,
            "earlier checkpoints are intact; remove that path, which is not a regular file, and try again",
        ),
        StoreError::Write { .. } => {
            hint(Exit::Failed, "earlier checkpoints are intact; free some space and try again")
        }
        StoreError::NotAcknowledged { .. } => hint(
            Exit::Failed,
            "check the disk (`dmesg`), then try again; the next write first rewrites and syncs the unsynced data",
        ),
        StoreError::Server { problem, .. } => {
            let (exit, text) = server_advice(*problem);
            (exit, text.map(str::to_owned))
        }
        StoreError::Unknown { .. } => {
            hint(Exit::Failed, "check whether the change was made before you try again")
        }
    }
}

fn server_advice(problem: ServerProblem) -> (Exit, Option<&'static str>) {
    match problem {
        ServerProblem::Settings => {
            (Exit::Usage, Some("an address looks like postgres://USER@HOST:5432/DATABASE?schema=milepost"))
        }
        ServerProblem::Refused => (
            Exit::Failed,
            Some("check that the server is running and that the host and port in the address are correct"),
        ),
        ServerProblem::UnknownHost => (Exit::Failed, Some("check the host in the address and your network")),
        ServerProblem::TimedOut => (
            Exit::Failed,
            Some("check the host and port in the address, and that no firewall blocks the connection"),
        ),
        ServerProblem::ConnectionLost => {
            (Exit::Failed, Some("try again; if it happens again, check the server's log"))
        }
        ServerProblem::NoPassword => {
            (Exit::Failed, Some("add the password to ~/.pgpass, or set PGPASSWORD or PGPASSFILE"))
        }
        ServerProblem::WrongPassword => (
            Exit::Failed,
            Some("check the user in the address, and the password in ~/.pgpass, PGPASSWORD or the address"),
        ),
        ServerProblem::AccessRejected => (
            Exit::Failed,
            Some("check the user in the address; pg_hba.conf on the server lists who may connect, and how"),
        ),
        ServerProblem::UnknownDatabase => {
            (Exit::NoStore, Some("check the database in the address, or create it with `createdb`"))
        }
        ServerProblem::MissingRights => {
            (Exit::Failed, Some("ask the owner of the database to grant these rights to your user"))
        }
        ServerProblem::NoTls => (
            Exit::Failed,
            Some("turn on TLS on the server; in a network that you trust, set sslmode=prefer instead"),
        ),
        ServerProblem::UntrustedCertificate => {
            (Exit::Failed, Some("set sslrootcert to the file with the certificate of its issuer"))
        }
        ServerProblem::WrongHostName => {
            (Exit::Failed, Some("use the host name that the certificate was issued for"))
        }
        ServerProblem::TlsFailed => {
            (Exit::Failed, Some("check the options that start with ssl in the address, and the server's log"))
        }
        ServerProblem::TlsSettings => (
            Exit::Usage,
            Some("check the options sslmode, sslrootcert, sslcert and sslkey, and the files they name"),
        ),
        ServerProblem::TooManyConnections => (
            Exit::Busy,
            Some("try again later, raise max_connections on the server, or use a connection pooler"),
        ),
        ServerProblem::NotReady => (Exit::Busy, Some("try again in a moment")),
        ServerProblem::TooOld => (Exit::Failed, Some("update the server, or use another one")),
        ServerProblem::ReadOnly => {
            (Exit::Failed, Some("add the primary to the hosts in the address, or wait for its failover"))
        }
        ServerProblem::Other => (Exit::Failed, None),
    }
}

fn not_resumable_hint(run: &RunId, reason: ReasonCode) -> String {
    match reason {
        ReasonCode::ResumeRunActive => "wait until it ends, or add --take-over if it is stalled".into(),
        ReasonCode::ResumeUnknownInterruptionClass => {
            "check whether it is still running there; if not, add --take-over".into()
        }
        ReasonCode::ResumeMissingCheckpoint => format!("run `milepost runs {run}` to see what it recorded"),
        ReasonCode::ResumeClaimed => "run `milepost status` to see both runs".into(),
        _ => format!(
            "`milepost show latest --run {run}` shows where it stopped; [resume] in milepost.toml sets the limits"
        ),
    }
}

/// The hint for a value over a configurable limit. Fixed limits have no hint.
fn limit_hint(invalid: &ValidationError) -> Option<&'static str> {
    let is_over = ["for one field", "for a checkpoint"].iter().any(|end| invalid.message.ends_with(end));
    is_over
        .then_some("store a reference (`files`) instead of the content, or raise [limits] in milepost.toml")
}

/// Whether a write was refused because the path is a symbolic link or not a regular file.
fn is_refused_file(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::InvalidInput)
}

fn untrusted_hint(why: &ForeignReason) -> &'static str {
    match why {
        ForeignReason::OtherOwner { .. } => {
            "run milepost as that user, or set MILEPOST_TRUST to a parent folder if you trust them"
        }
        ForeignReason::Tracked => "remove it from git (`git rm --cached`) and add it to .gitignore",
        ForeignReason::NotRegular { .. } => "remove it, or select another store with --store",
        ForeignReason::NoState { .. } => "set MILEPOST_TRUST to a parent folder if you trust it",
        ForeignReason::NoRecord | ForeignReason::Copy { .. } | ForeignReason::OtherMachine => {
            "run `milepost trust` to review and trust it, or set MILEPOST_TRUST to a parent folder"
        }
    }
}
