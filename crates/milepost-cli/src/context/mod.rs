//! The context of a command: the configuration, the output, and the store, which is opened only on demand.
//! Takes settings, provides an engine, the current run, and the options for opening a run.

mod fallback;
mod projects;
mod server;
mod store;
mod visible;

pub(crate) use self::fallback::{SaveResult, save_or_enqueue};
#[cfg(feature = "ui")]
pub(crate) use self::projects::OpenedProject;
pub(crate) use self::projects::{KnownProject, ProjectError};
use self::server::ServerUse;
pub(crate) use self::server::StoreSource;
pub(crate) use self::store::lost_writes;

use std::cell::{Cell, OnceCell, RefCell};

use milepost::internal::capture::SnapshotOptions;
use milepost::internal::capture::{CaptureBaseline, CaptureOptions, Process, WorkspaceCapture};
use milepost::internal::clock::SystemClock;
use milepost::internal::engine::{QueuedSave, RunResolution};
use milepost::internal::engine::{RunLocation, RunOptions};
use milepost::internal::model::{CaptureWhen, StoreLimits};
use milepost::internal::store::identity::ForeignReason;
use milepost::internal::{engine, trigger};
use milepost::model::{Change, Profile, RunId, RunRecord, Source};
use milepost::store::StoreUrl;
use milepost::{Error, Milepost, Redaction, Save, Saved, Settings};

use crate::config::{Config, ProjectChoice, Retain};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::present::Output;

/// The configuration, output and store of a command.
pub(crate) struct Context<'a> {
    pub(crate) config: Config,
    pub(crate) output: &'a Output,
    audience: Audience,
    /// Whether the user was warned that the store is foreign.
    warned: Cell<bool>,
    /// Whether the note about hidden runs was printed.
    noted_hidden: Cell<bool>,
    /// Why the store is foreign, once that was determined.
    foreign: OnceCell<Option<ForeignReason>>,
    /// Whether the command has read a store that lost acknowledged writes.
    read_incomplete: Cell<bool>,
    /// How a hook uses the store on a server.
    server_use: Cell<ServerUse>,
    /// The project that an argument of the command selects in a store on a server.
    selected_project: RefCell<Option<ProjectChoice>>,
    /// The store that the command opened, if it is on a server.
    opened: RefCell<Option<Milepost>>,
}

/// Who a command's output is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// A person or a script.
    Person,
    /// A person, through the local page.
    #[cfg_attr(not(feature = "ui"), allow(dead_code, reason = "only the page works for it"))]
    Page,
    /// An agent's hook, which must be fast.
    Hook,
    /// An agent, through the MCP server.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only the server works for agents"))]
    Agent,
}

impl Audience {
    /// Whether a person reads the output.
    fn is_person(self) -> bool {
        matches!(self, Self::Person | Self::Page)
    }

    /// Whether the process ends with the command, so that it need not close what it opened.
    fn is_one_shot(self) -> bool {
        matches!(self, Self::Person | Self::Hook)
    }
}

/// The run to change.
pub(crate) enum Target {
    /// The current run, or a new one.
    CurrentOrNew,
    /// The current run, which must exist.
    Current,
    /// A specific run.
    Run(RunId),
}

/// The result of a change.
pub(crate) struct Applied {
    pub(crate) run: RunId,
    /// The new checkpoint, if the change was a boundary.
    pub(crate) saved: Option<Saved>,
    /// The outbox entry, if the store could not be written.
    pub(crate) queued: Option<QueuedSave>,
    /// The store that contains the change.
    pub(crate) mp: Option<Milepost>,
}

impl Applied {
    /// The run's record after the change. `None` if the change is in the outbox or the record cannot be read.
    pub(crate) fn record(&self) -> Option<Box<RunRecord>> {
        self.mp.as_ref()?.run_detail(&self.run).ok()?.summary().record().clone().ok()
    }
}

/// Reports an invalid change as an error in the arguments, because it did not come from a document.
fn as_argument_error(error: Error) -> Error {
    match error {
        Error::Schema(source) => Error::Value { name: "the given value".into(), source },
        other => other,
    }
}

impl<'a> Context<'a> {
    /// Creates the context for a person or a script. Opens nothing.
    pub(crate) fn new(config: Config, output: &'a Output) -> Self {
        Self::for_audience(config, output, Audience::Person)
    }

    /// Creates the context for a specific audience. Opens nothing.
    pub(crate) fn for_audience(config: Config, output: &'a Output, audience: Audience) -> Self {
        Self {
            config,
            output,
            audience,
            warned: Cell::new(false),
            noted_hidden: Cell::new(false),
            foreign: OnceCell::new(),
            read_incomplete: Cell::new(false),
            server_use: Cell::default(),
            selected_project: RefCell::default(),
            opened: RefCell::default(),
        }
    }

    /// Ends a successful command. Returns the exit code 3 if the store that it read was incomplete.
    pub(crate) fn end(&self) -> Result<()> {
        self.end_with_server()?;
        if self.read_incomplete.get() { Err(CommandError::ExitOnly(Exit::Partly)) } else { Ok(()) }
    }

    /// The store's address.
    pub(crate) fn url(&self) -> StoreUrl {
        self.config.url()
    }

    /// The variables to set for a supervised command, so that milepost commands inside it use this run. Empty
    /// for a store that is not trusted, because those commands would take it for the user's own choice.
    pub(crate) fn child_environment(&self, run: &RunId) -> Vec<(&'static str, String)> {
        if self.config.check().is_err() || self.foreign().is_some() {
            return Vec::new();
        }
        let mut variables = vec![("MILEPOST_RUN", run.to_string())];
        variables.extend(self.store_environment());
        variables
    }

    /// The variable that selects this store in a program that Milepost starts. Nothing if the program finds the
    /// store by itself, in the configuration.
    pub(crate) fn store_environment(&self) -> Option<(&'static str, String)> {
        let url = self.url();
        let address = match &self.config.server {
            // The program may change its folder, so the address must be absolute.
            None => url.absolute().to_string(),
            // With its password, if it has one: other users cannot see the variables of a process.
            Some(_) if self.config.store_is_chosen => {
                format!("{}:{}", url.scheme(), url.location().display())
            }
            Some(_) => return None,
        };
        Some(("MILEPOST_STORE", address))
    }

    /// What to capture of the workspace; `None` if capturing is turned off.
    pub(crate) fn capture_options(&self) -> Option<CaptureOptions> {
        let settings = &self.config.capture;
        settings.capture.then(|| CaptureOptions {
            root: self.config.paths.root.clone(),
            watch: settings.watch.clone(),
            store: Some(self.config.local_url()),
            home: self.config.home.clone(),
            allow_home_repository: settings.allow_home,
            files: settings
                .files
                .then(|| SnapshotOptions { limits: settings.file_limits, ..SnapshotOptions::default() }),
            ..CaptureOptions::default()
        })
    }

    /// Like `capture_options`, with the memory use of the run's owner.
    pub(crate) fn owner_capture_options(&self) -> Option<CaptureOptions> {
        self.capture_options().map(|options| CaptureOptions { process: Process::Owner, ..options })
    }

    /// Captures the workspace for a checkpoint, if the run's profile requires it.
    pub(crate) fn capture_if_due(
        &self,
        mp: &Milepost,
        run: &RunId,
        source: Source,
    ) -> Result<Option<Box<WorkspaceCapture>>, Error> {
        let Some(options) = self.owner_capture_options() else { return Ok(None) };
        Ok(mp.capture_if_due(run, &options, source, self.config.requested_profile)?.map(Box::new))
    }

    /// Captures the workspace without a baseline, for a save that cannot use the store.
    pub(crate) fn capture_without_store(&self) -> Option<Box<WorkspaceCapture>> {
        let options = self.capture_options()?;
        let profile = self.config.profile.unwrap_or(Profile::Run);
        let wanted = profile.capture() != CaptureWhen::Never;
        wanted.then(|| {
            Box::new(milepost::internal::capture::capture_workspace(&options, &CaptureBaseline::default()))
        })
    }

    /// The engine's settings.
    pub(crate) fn settings(&self) -> Settings {
        self.settings_with(&self.config.retain)
    }

    /// The engine's settings, with a retention other than the configured one.
    pub(crate) fn settings_with(&self, retain: &Retain) -> Settings {
        Settings::default()
            .profile(self.config.profile)
            .keep_last(retain.keep_last)
            .max_age(retain.max_age)
            .keep_last_at_least(retain.keep_last_at_least)
            .max_age_at_least(retain.max_age_at_least)
            .keep_hourly(retain.keep_hourly)
            .keep_daily(retain.keep_daily)
            .keep_weekly(retain.keep_weekly)
            .keep_within(retain.keep_within)
            .store_limits(self.store_limits(retain))
            .limits(self.config.limits)
            .redaction(Redaction::On)
            .redaction_allow(self.config.redact_allow.clone())
            .resume(self.config.agents.resume)
            .pointer(self.config.pointer.clone())
            .hide_foreign_runs(self.is_for_agent())
    }

    /// The limits of the store. The size of a server's store includes other projects, so it has no limit here.
    fn store_limits(&self, retain: &Retain) -> StoreLimits {
        let max_bytes = if self.config.server.is_some() { 0 } else { retain.store_limits.max_bytes };
        StoreLimits { max_bytes, ..retain.store_limits }
    }

    /// The run that a flag or the environment names, which must exist.
    pub(crate) fn named_run(&self, mp: &Milepost) -> Result<Option<RunId>, Error> {
        self.config.run.as_ref().map(|run| mp.find_run(run.as_str())).transpose()
    }

    /// The run that a short id names. Any other name is returned unchanged, because it may be the id of a new
    /// run.
    pub(crate) fn expand_short_id(mp: &Milepost, run: RunId) -> RunId {
        /// The length of a run's short id.
        const SHORT: usize = 8;
        if run.as_str().len() != SHORT {
            return run;
        }
        let found = mp.find_run(run.as_str()).ok();
        found.filter(|found| found.short() == Some(run.as_str())).unwrap_or(run)
    }

    /// The current run: the named one, or the one that the caller works in.
    pub(crate) fn current_run(&self, mp: &Milepost) -> Result<RunResolution, Error> {
        mp.current_run(&engine::Caller {
            named: self.config.run.clone().map(|run| Self::expand_short_id(mp, run)),
            session: self.config.agent_session.clone(),
            worktree: Some(self.worktree()),
        })
    }

    /// The run to write to: the current one, or a new one.
    pub(crate) fn run_to_write(&self, mp: &Milepost) -> Result<RunId, Error> {
        let open = match self.current_run(mp)? {
            RunResolution::Run(run) => return Ok(run),
            RunResolution::Unclear(open) => open,
        };
        let run = RunId::generate(mp.now());
        if !open.is_empty() {
            let open: Vec<_> = open.iter().map(ToString::to_string).collect();
            self.output.message(&format!(
                "{} open runs match ({}), so this starts a new run, {run}; use --run to select one",
                open.len(),
                open.join(", ")
            ));
        }
        Ok(run)
    }

    /// The current run, which must exist.
    pub(crate) fn require_run(&self, mp: &Milepost) -> Result<RunId, Error> {
        if let Some(run) = self.named_run(mp)? {
            return Ok(run);
        }
        match self.current_run(mp)? {
            RunResolution::Run(run) => Ok(run),
            RunResolution::Unclear(open) => {
                let open = open.iter().map(ToString::to_string).collect();
                Err(Error::WhichRun { open })
            }
        }
    }

    /// The run for a save in the outbox: the current run, or a new one if the store cannot be read.
    pub(crate) fn run_for_outbox(&self) -> RunId {
        if let Some(run) = &self.config.run {
            return run.clone();
        }
        match self.open_read_only().and_then(|mp| self.current_run(&mp)) {
            Ok(RunResolution::Run(run)) => run,
            Ok(RunResolution::Unclear(_)) | Err(_) => RunId::generate(milepost::Clock::now(&SystemClock)),
        }
    }

    /// Changes a run. If the default store cannot be written, the change is queued in the outbox as a
    /// separate save.
    pub(crate) fn apply(&self, changes: Vec<Change>, to: &Target) -> Result<Applied> {
        let stored = self.apply_in_store(changes.clone(), to);
        let result = save_or_enqueue(stored, self.outbox().as_ref(), &self.settings(), || {
            let run = match to {
                Target::Run(run) => run.clone(),
                Target::CurrentOrNew | Target::Current => self.run_for_outbox(),
            };
            let is_boundary = changes.iter().any(|change| trigger::boundary(change).is_some());
            let capture = if is_boundary { self.capture_without_store() } else { None };
            let save = self.new_save().with_changes(changes).capture(capture);
            (run, save)
        });
        Ok(match result.map_err(as_argument_error)? {
            SaveResult::Stored(applied) => applied,
            SaveResult::Queued(run, queued) => Applied { run, saved: None, queued: Some(queued), mp: None },
        })
    }

    fn apply_in_store(&self, changes: Vec<Change>, to: &Target) -> Result<Applied, Error> {
        let (mp, run) = match to {
            Target::Run(run) => (self.open_or_create()?, run.clone()),
            Target::CurrentOrNew => {
                let mp = self.open_or_create()?;
                let run = self.run_to_write(&mp)?;
                (mp, run)
            }
            Target::Current => {
                let mp = self.open_existing()?;
                let run = self.require_run(&mp)?;
                (mp, run)
            }
        };
        let mut save = self.new_save();
        if let Some(boundary) = changes.iter().find_map(trigger::boundary) {
            save = save.capture(self.capture_if_due(&mp, &run, boundary.source)?);
        }
        let saved = mp.apply(&run, changes, save)?;
        Ok(Applied { run, saved, queued: None, mp: Some(mp) })
    }

    /// A save for the current session, with the options for opening its run.
    pub(crate) fn new_save(&self) -> Save {
        let save = Save::new().run_options(self.run_options());
        match &self.config.session {
            Some(id) => save.session(id),
            None => save,
        }
    }

    /// The root of this worktree, or the project's root outside a repository.
    pub(crate) fn worktree(&self) -> String {
        let paths = &self.config.paths;
        paths.worktree.as_ref().unwrap_or(&paths.root).to_string_lossy().into_owned()
    }

    /// The options for opening a run.
    pub(crate) fn run_options(&self) -> RunOptions {
        let paths = &self.config.paths;
        RunOptions {
            profile: self.config.requested_profile,
            location: RunLocation {
                project: Some(paths.root.to_string_lossy().into_owned()),
                project_id: self.config.server.as_ref().and_then(|server| server.project.id()),
                worktree: paths.worktree.as_ref().map(|path| path.to_string_lossy().into_owned()),
                branch: paths.branch.clone(),
                head: None,
                user: self.config.user.clone(),
                host: self.config.server.as_ref().and_then(|_| milepost::internal::owner::host_name()),
            },
            ..RunOptions::default()
        }
    }
}
