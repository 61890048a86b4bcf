//! Opens a store: one on this machine, or one on a server together with its copy on this machine. Sends what waits
//! in that copy, and tells the user what could not be sent.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use milepost::internal::fs::atomic;
use milepost::store::{OpenOptions, StoreError, StoreUrl, SyncOptions, SyncedStore};
use milepost::{Error, Milepost, ReasonCode, SyncReport};

use super::{Audience, Context};
use crate::config::ProjectChoice;
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::present::status::ServerStatus;

/// Maximum time that a hook uses the server.
const HOOK_SERVER_TIME: Duration = Duration::from_secs(1);
/// Maximum time that a command spends on sending what waited before it began.
const SEND_BEFORE: Duration = Duration::from_secs(5);

/// How long a server counts as unreachable after a command could not reach it.
const OUTAGE_COUNTS: Duration = Duration::from_secs(60);
/// Maximum time that a command waits for such a server.
const TIME_AFTER_OUTAGE: Duration = Duration::from_millis(500);

/// How to open a store. Can be kept longer than a context.
#[derive(Clone)]
pub(crate) struct StoreSource {
    pub(crate) url: StoreUrl,
    pub(crate) options: OpenOptions,
    /// For a store on a server: its copy on this machine, if it may be used, and how both are used.
    server: Option<(Option<(StoreUrl, OpenOptions)>, SyncOptions)>,
}

impl StoreSource {
    /// The same store for a process that uses it for long, in which what was read must be read again.
    pub(crate) fn for_long_use(mut self) -> Self {
        if self.server.is_some() {
            self.options.one_shot = false;
        }
        self
    }

    /// Opens the store. Does not connect to a server yet.
    pub(crate) fn open(&self) -> Result<Milepost, Error> {
        let Some((local, options)) = self.server.clone() else {
            return Milepost::at(&self.url, &self.options);
        };
        Ok(Milepost::with_sync(SyncedStore::new(self.url.open(&self.options)?, local, options)))
    }
}

/// How a hook uses the store on a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ServerUse {
    /// Not at all: it writes on this machine only.
    #[default]
    Never,
    /// For a short time: it reads, and writes to runs that are only there.
    Briefly,
}

impl Context<'_> {
    /// Lets a hook use the server for a short time.
    pub(crate) fn use_server_briefly(&self) {
        self.server_use.set(ServerUse::Briefly);
    }

    /// Uses the runs of another project than this clone's, or of all projects.
    pub(crate) fn select_project(&self, project: Option<&str>) -> Result<()> {
        let Some(project) = project else { return Ok(()) };
        if self.config.server.is_none() {
            return Err(CommandError::usage("--project needs a store on a server")
                .with_hint("select one with --store postgres://HOST/DATABASE"));
        }
        let choice = project.parse::<ProjectChoice>();
        let choice = choice.map_err(|why| {
            CommandError::usage(format!("--project: {why}"))
                .with_hint("`milepost runs --project all` lists all runs")
        })?;
        self.selected_project.replace(Some(choice));
        Ok(())
    }

    /// How to open the store.
    pub(crate) fn store_source(&self, create: bool) -> StoreSource {
        let url = self.url();
        let options = self.open_options(create);
        let Some(server) = &self.config.server else { return StoreSource { url, options, server: None } };
        let is_hook = self.audience == Audience::Hook;
        let local_options = options.clone().create(false);
        let local = self.config.may_use_local().then(|| (server.local.clone(), local_options));
        let project = self.selected_project.borrow().as_ref().unwrap_or(&server.project).id();
        let mut options = options.project(project);
        if is_hook {
            options = options.deadline(Some(Instant::now() + HOOK_SERVER_TIME));
        } else if self.was_unreachable() {
            options = options.deadline(Some(Instant::now() + TIME_AFTER_OUTAGE));
        }
        let (users, all_users) = self.config.trusted_users();
        let sync = SyncOptions::default()
            .offline(is_hook && self.server_use.get() == ServerUse::Never)
            .local_first(is_hook)
            .trusted_users(users)
            .trusts_all_users(all_users);
        StoreSource { url, options, server: Some((local, sync)) }
    }

    /// Opens a store that an argument names, without a copy on this machine.
    pub(crate) fn open_named(&self, url: &StoreUrl, options: &OpenOptions) -> Result<Milepost, Error> {
        let Some(server) = self.config.server_at(url) else { return Milepost::at(url, options) };
        let (users, all_users) = self.config.trusted_users();
        let sync = SyncOptions::default().trusted_users(users).trusts_all_users(all_users);
        let id = server.project.id();
        let store = url.open(&options.clone().project(id.clone()))?;
        Ok(Milepost::with_sync(SyncedStore::new(store, None, sync)).in_project(id))
    }

    /// The store on the server alone, without its copy on this machine; `None` if the store is on this machine.
    pub(crate) fn open_server(&self) -> Result<Option<Milepost>, Error> {
        let server = self.config.server.as_ref();
        let opened = server.map(|_| self.open_named(&self.url(), &self.open_options(false)));
        Ok(opened.transpose()?.map(|mp| mp.with_settings(self.settings())))
    }

    /// The file whose age says when a command could not reach the server.
    fn outage_file(&self) -> Option<PathBuf> {
        let mut name = self.config.server.as_ref()?.local.path()?.as_os_str().to_owned();
        name.push("-unreachable");
        Some(name.into())
    }

    /// Whether a command could not reach the server a moment ago, so that this one does not wait for it as long.
    fn was_unreachable(&self) -> bool {
        let modified =
            self.outage_file().and_then(|file| std::fs::symlink_metadata(file).ok()?.modified().ok());
        modified.and_then(|then| then.elapsed().ok()).is_some_and(|age| age < OUTAGE_COUNTS)
    }

    /// Remembers whether the server could be reached.
    fn note_reachable(&self, is_reachable: bool) {
        let Some(file) = self.outage_file() else { return };
        // Without the file, the next command waits as long as this one did.
        let _ = match is_reachable {
            true => std::fs::remove_file(file),
            false if file.parent().is_some_and(Path::is_dir) => {
                atomic::write(&file, b"", atomic::Mode::Private)
            }
            false => Ok(()),
        };
    }

    /// Sends what waits from earlier commands, for a short time, before a command uses the store.
    pub(super) fn send_waiting(&self, mp: &Milepost) {
        if mp.synced().is_none() || self.audience == Audience::Hook {
            return;
        }
        self.opened.replace(Some(mp.clone()));
        if mp.waiting().is_ok_and(|waiting| !waiting.runs().is_empty()) {
            let sent = mp.sync(Some(Instant::now() + SEND_BEFORE), &mut |_| {});
            if let Ok(report) = &sent {
                self.report_sent(report);
            }
        }
    }

    /// Reports runs that were sent as other runs, or that could not be sent.
    pub(crate) fn report_sent(&self, report: &SyncReport) {
        for (run, split) in report.split() {
            self.output.message(&format!(
                "run {run} was continued elsewhere meanwhile; what this machine recorded is now run {split}"
            ));
        }
        for (run, error) in report.failed() {
            let why = milepost::internal::error_chain(error);
            self.output
                .message(&format!("Warning: run {run} could not be sent and stays on this machine: {why}"));
        }
    }

    /// Sends what this command wrote on this machine, and warns if the server could not be reached. Returns the
    /// exit code 3 if a read could not include what is on the server.
    pub(super) fn end_with_server(&self) -> Result<()> {
        let Some(mp) = self.opened.take() else { return Ok(()) };
        let Some(synced) = mp.synced() else { return Ok(()) };
        let wrote = synced.wrote_locally();
        if wrote {
            self.record_new_store();
            if synced.outage().is_none() {
                match mp.sync(None, &mut |_| {}) {
                    Ok(report) => self.report_sent(&report),
                    Err(e) if synced.outage().is_none() => {
                        let why = milepost::internal::error_chain(&e);
                        self.output.message(&format!("Warning: not sent to the server yet: {why}"));
                    }
                    Err(_) => {}
                }
            }
        }
        let outage = synced.outage();
        self.note_reachable(outage.is_none());
        let Some(outage) = outage else { return Ok(()) };
        if wrote {
            self.output.message(&format!(
                "Warning: saved on this machine only, because the server cannot be reached ({outage}). `milepost sync` \
                 or the next command sends it"
            ));
            return Ok(());
        }
        self.output.message(&format!(
            "Warning: the server cannot be reached, so only what is on this machine is shown ({outage})"
        ));
        Err(CommandError::ExitOnly(Exit::Partly))
    }

    /// Replaces "not found" if the server could not be asked: the run or checkpoint may exist there.
    pub(crate) fn explain_outage(&self, error: CommandError) -> CommandError {
        let opened = self.opened.borrow();
        let outage = opened.as_ref().and_then(|mp| mp.synced()).and_then(SyncedStore::outage);
        let is_absent = matches!(
            &error,
            CommandError::Library(
                Error::NotFound { .. }
                    | Error::NoRun(_)
                    | Error::Store(StoreError::NoRun(_) | StoreError::NoCheckpoint(..))
            )
        );
        match outage {
            Some(outage) if is_absent => {
                let message = format!("{error} on this machine, and the server cannot be reached ({outage})");
                CommandError::new(ReasonCode::StoreUnavailable, message)
                    .with_hint("it may exist on the server; try again when the server answers")
            }
            _ => error,
        }
    }

    /// The state of a store on a server; `None` for a store on this machine.
    pub(crate) fn server_status(&self, mp: &Milepost) -> Result<Option<ServerStatus>> {
        let (Some(server), Some(synced)) = (&self.config.server, mp.synced()) else { return Ok(None) };
        let waiting = mp.waiting()?;
        Ok(Some(ServerStatus {
            project: server.project.to_string(),
            user: synced.outage().is_none().then(|| mp.store().current_user().ok().flatten()).flatten(),
            reachable: synced.outage().is_none(),
            unsent_runs: waiting.runs().len() as u64,
            unsent_checkpoints: waiting.checkpoints(),
            unsent_since: waiting.since(),
            untrusted: self.untrusted_project(),
            host: milepost::internal::owner::host_name(),
        }))
    }

    /// One line if this clone does not share its runs with other clones yet.
    pub(crate) fn untrusted_project(&self) -> Option<String> {
        let server = self.config.server.as_ref()?;
        let ProjectChoice::Folder(_) = server.project else { return None };
        let remote = self.config.untrusted_remote()?;
        Some(format!(
            "runs of other clones of {remote} are not shown, and this clone's runs are not shown to them, until you run \
             `milepost trust`"
        ))
    }
}
