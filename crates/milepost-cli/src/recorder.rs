//! Saves checkpoints of a supervised command, with captures of the workspace. A save goes to the store, or to
//! the outbox if the store cannot be written. If both fail, the next tick tries again.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use milepost::internal::capture;
use milepost::internal::capture::{CaptureBaseline, CaptureOptions, PeakWatch, Process, WorkspaceCapture};
use milepost::internal::engine::Outbox;
use milepost::internal::engine::RunOptions;
use milepost::internal::model::CaptureWhen;
use milepost::model::{Outcome, Profile, RunId, RunRecord, Source, Status};
use milepost::store::StoreError;
use milepost::{Error, Milepost, Run, RunBuilder, Save, Saved, Settings};

use crate::context::{Context, SaveResult, StoreSource, save_or_enqueue};

/// Maximum time for sending a checkpoint to the server of the store.
const SEND_TIME: Duration = Duration::from_secs(10);

/// Where a checkpoint of the run ended up.
pub(crate) type RecordedSave = SaveResult<Saved>;

/// Returns the output of the running command so far, if there is any.
pub(crate) type OutputSoFar = Box<dyn Fn() -> Option<Outcome> + Send>;

/// Saves the checkpoints of one run.
pub(crate) struct Recorder {
    source: StoreSource,
    /// The project's configuration file and why it is refused, if it is.
    refusal: Option<(PathBuf, String)>,
    outbox: Option<Outbox>,
    settings: Settings,
    pub(crate) id: RunId,
    session: String,
    run_options: RunOptions,
    rejoin: bool,
    /// Whether opening a completed run starts a new round.
    new_round: bool,
    /// What to capture of the workspace; `None` if capturing is turned off.
    scope: Option<CaptureOptions>,
    /// Measures the command's memory use, once it runs.
    pub(crate) memory: Arc<OnceLock<Arc<PeakWatch>>>,
    /// The command's output, once it runs, if it can be read.
    pub(crate) output_so_far: Option<OutputSoFar>,
    /// The output in the newest checkpoint.
    saved_output: String,
    /// The store, once it is open.
    mp: Option<Milepost>,
    /// The run, once it is open.
    run: Option<Run>,
    /// Whether the run was removed, so that nothing may be saved any more.
    discarded: bool,
    /// Number of checkpoints made.
    pub(crate) checkpoints: u64,
    /// Number of files touched, from the newest checkpoint that reports it.
    pub(crate) touched: Option<u64>,
}

/// A capture of the workspace that takes longer than the command can wait.
pub(crate) type LateCapture = Receiver<Option<WorkspaceCapture>>;

impl Recorder {
    /// Creates a recorder for a run. Opens nothing yet.
    pub(crate) fn new(
        context: &Context<'_>,
        settings: Settings,
        id: RunId,
        session: String,
        run_options: RunOptions,
        rejoin: bool,
        scope: Option<CaptureOptions>,
    ) -> Self {
        Self {
            source: context.store_source(true).for_long_use(),
            refusal: context.config.refusal.clone().map(|why| (context.config.file.clone(), why)),
            outbox: context.outbox(),
            settings,
            id,
            session,
            run_options,
            rejoin,
            new_round: rejoin,
            scope,
            memory: Arc::default(),
            output_so_far: None,
            saved_output: String::new(),
            mp: None,
            run: None,
            discarded: false,
            checkpoints: 0,
            touched: None,
        }
    }

    /// The time between periodic checkpoints, by the run's profile.
    pub(crate) fn interval(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(30 * 60);
        self.profile().interval().unwrap_or(USUAL)
    }

    /// The run's profile, or the one that it will get.
    fn profile(&self) -> Profile {
        let asked = self.run_options.profile.or_else(|| self.record().map(|record| record.profile()));
        asked.unwrap_or_else(|| self.settings.default_profile())
    }

    /// The record of a run that already existed.
    fn record(&self) -> Option<Box<RunRecord>> {
        let run = self.run.as_ref().filter(|run| run.rejoined())?;
        run.milepost().store().run(&self.id).ok()??.row.record.ok()
    }

    /// The run's recorded status.
    pub(crate) fn recorded_status(&self) -> Option<Status> {
        let state = self.run.as_ref()?.milepost().store().run(&self.id).ok()??;
        state.row.record.ok().map(|record| record.status())
    }

    /// Number of checkpoints in this session, including those that the command saved itself.
    pub(crate) fn session_checkpoints(&self) -> Option<u64> {
        let state = self.run.as_ref()?.milepost().store().run(&self.id).ok()??;
        let record = state.row.record.ok()?;
        (record.session_id() == Some(&self.session)).then(|| record.session_checkpoints())
    }

    /// Removes the run if this recorder created it and nothing happened in it. Returns false if the run
    /// remains, or if its first checkpoint is in the outbox.
    pub(crate) fn discard(&mut self) -> bool {
        let removed = match &self.run {
            None => self.checkpoints == 0,
            Some(run) => {
                let state = run.milepost().store().run(&self.id).ok().flatten();
                let is_unused = state.is_some_and(|state| state.row.count <= 1 && state.items.is_empty());
                !run.rejoined() && is_unused && run.milepost().delete(&self.id).is_ok()
            }
        };
        self.discarded = removed;
        removed
    }

    /// Opens the run with its first checkpoint. The capture may take at most `most`, because the command
    /// waits for it.
    pub(crate) fn save_first(
        &mut self,
        save: Save,
        most: Duration,
    ) -> (Result<Option<RecordedSave>, Error>, Option<LateCapture>) {
        let mp = match self.engine() {
            Ok(mp) => mp,
            Err(e) => {
                self.new_round = false;
                return (Err(e), None);
            }
        };
        let (capture, late) = self.capture_within(mp, most);
        let saved = self.save_or_enqueue(save, capture, |run, save| run.save(save).map(Some));
        // A run that can only be opened later, while the command works in it, must not lose its tasks.
        self.new_round = false;
        (saved, late)
    }

    /// Captures the workspace for at most `most`. A slower capture arrives later, and the checkpoint says so.
    fn capture_within(
        &self,
        mp: Option<Milepost>,
        most: Duration,
    ) -> (Option<WorkspaceCapture>, Option<LateCapture>) {
        let Some(scope) = self.scope_now() else { return (None, None) };
        let is_new = !self.rejoin;
        if is_new && self.profile().capture() == CaptureWhen::Never {
            return (None, None);
        }
        let mp = mp.filter(|_| !is_new);
        if capture::is_instant(&scope) {
            return (capture_with_or_without_store(mp.as_ref(), &self.id, &scope, Source::Manual), None);
        }
        let Some(late) = self.capture_in_background(mp, scope) else { return (None, None) };
        match late.recv_timeout(most) {
            Ok(capture) => (capture, None),
            Err(RecvTimeoutError::Disconnected) => (None, None),
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("capturing the workspace took longer than {} s", most.as_secs_f64());
                let why = format!("{why}: it continues in the background, for a separate checkpoint");
                (Some(WorkspaceCapture::failed(why)), Some(late))
            }
        }
    }

    /// Saves a capture that finished after the command had started.
    pub(crate) fn save_late(&mut self, capture: WorkspaceCapture) -> Result<Option<RecordedSave>, Error> {
        self.save_with_output(Save::new().reason("late_capture"), Some(capture))
    }

    /// Makes a periodic checkpoint. Does nothing for a run that the command itself has ended.
    pub(crate) fn tick(&mut self) -> Result<Option<RecordedSave>, Error> {
        let capture = self.capture_if_due(Source::Timer)?;
        self.save_with_output(Save::new().source(Source::Timer), capture)
    }

    /// Saves as a timer does, with the command's output if it has changed since the last checkpoint.
    fn save_with_output(
        &mut self,
        mut save: Save,
        capture: Option<WorkspaceCapture>,
    ) -> Result<Option<RecordedSave>, Error> {
        let output = self.output_so_far.as_ref().and_then(|output| output());
        let Some(output) = output.filter(|output| output.summary != self.saved_output) else {
            return self.save_or_enqueue(save, capture, Run::save_by_timer);
        };
        let text = output.summary.clone();
        save.draft_mut().command_outcomes.push(output);
        let saved = self.save_or_enqueue(save, capture, Run::save_by_timer)?;
        self.saved_output = text;
        Ok(saved)
    }

    /// Saves a checkpoint in the store or the outbox.
    pub(crate) fn save(&mut self, save: Save) -> Result<Option<RecordedSave>, Error> {
        let capture = self.capture_if_due(save.draft().source.unwrap_or(Source::Manual))?;
        self.save_or_enqueue(save, capture, |run, save| run.save(save).map(Some))
    }

    /// The options for a capture at this moment.
    fn scope_now(&self) -> Option<CaptureOptions> {
        let process = self.memory.get().map_or(Process::None, |watch| Process::Watched(watch.clone()));
        self.scope.clone().map(|scope| CaptureOptions { process, ..scope })
    }

    /// Captures the workspace, if the run's profile requires it.
    fn capture_if_due(&mut self, source: Source) -> Result<Option<WorkspaceCapture>, Error> {
        let mp = self.engine()?;
        Ok(self
            .scope_now()
            .and_then(|scope| capture_with_or_without_store(mp.as_ref(), &self.id, &scope, source)))
    }

    /// The engine of the run's store; `None` if the store cannot be written, so that the outbox is used.
    fn engine(&mut self) -> Result<Option<Milepost>, Error> {
        // An existing run is opened here. A new run is opened by its first save.
        let opened = if self.rejoin { self.opened().map(|_| ()) } else { Ok(()) };
        match opened.and_then(|()| self.store()) {
            Ok(mp) => Ok(Some(mp)),
            Err(Error::Store(StoreError::ReadOnly { .. })) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Captures the workspace on a separate thread.
    fn capture_in_background(&self, mp: Option<Milepost>, scope: CaptureOptions) -> Option<LateCapture> {
        let id = self.id.clone();
        let (send, late) = mpsc::channel();
        let look =
            move || drop(send.send(capture_with_or_without_store(mp.as_ref(), &id, &scope, Source::Manual)));
        std::thread::Builder::new().name("milepost-first".into()).spawn(look).ok()?;
        Some(late)
    }

    fn save_or_enqueue(
        &mut self,
        mut save: Save,
        capture: Option<WorkspaceCapture>,
        how: impl Fn(&Run, Save) -> Result<Option<Saved>, Error>,
    ) -> Result<Option<RecordedSave>, Error> {
        if self.discarded {
            return Ok(None);
        }
        save = save.capture(capture.map(Box::new));
        let stored = self.save_in_store(save.clone(), how);
        let result = save_or_enqueue(stored, self.outbox.as_ref(), &self.settings, || {
            (self.id.clone(), save.run_options(self.run_options.clone()).session(&self.session))
        })?;
        let saved = match result {
            SaveResult::Stored(None) => return Ok(None),
            SaveResult::Stored(Some(saved)) => SaveResult::Stored(saved),
            SaveResult::Queued(run, queued) => SaveResult::Queued(run, queued),
        };
        if let SaveResult::Stored(saved) = &saved {
            self.touched = saved.touched().or(self.touched);
        }
        let new = !matches!(&saved, SaveResult::Stored(saved) if saved.coalesced());
        self.checkpoints += u64::from(new);
        // What could not be sent waits on this machine, and the next tick tries again.
        if let Some(mp) =
            self.mp.as_ref().filter(|mp| mp.synced().is_some_and(|synced| synced.wrote_locally()))
        {
            let _ = mp.sync(Some(Instant::now() + SEND_TIME), &mut |_| {});
        }
        Ok(Some(saved))
    }

    /// Saves into the run. A new run is opened with its first checkpoint, in one write.
    fn save_in_store(
        &mut self,
        save: Save,
        how: impl Fn(&Run, Save) -> Result<Option<Saved>, Error>,
    ) -> Result<Option<Saved>, Error> {
        if self.run.is_some() || self.rejoin {
            return how(self.opened()?, save);
        }
        let (run, saved) = self.builder()?.start_with(save)?;
        self.run = Some(run);
        self.rejoin = true;
        Ok(Some(saved))
    }

    /// Returns the store, and opens it if needed.
    fn store(&mut self) -> Result<Milepost, Error> {
        if let Some(mp) = &self.mp {
            return Ok(mp.clone());
        }
        if let Some((path, why)) = self.refusal.clone() {
            return Err(Error::ConfigUntrusted { path, why, adoptable: true });
        }
        if let Some(why) = self.source.options.foreign.clone() {
            return Err(StoreError::Untrusted { location: self.source.url.to_string(), why }.into());
        }
        let mp = self.source.open()?.with_settings(self.settings.clone());
        // Import the outbox before saving. Entries that cannot be imported remain there, and every command
        // reports them.
        if let Some(outbox) = &self.outbox {
            let taken = outbox.deliver(&mp);
            // The outbox may have contained saves of this run.
            self.rejoin |=
                taken.is_ok_and(|taken| taken.saved.iter().any(|saved| *saved.run_id() == self.id));
        }
        Ok(self.mp.insert(mp).clone())
    }

    fn builder(&mut self) -> Result<RunBuilder, Error> {
        let builder = self.store()?.run(self.id.as_str());
        let builder = if self.new_round { builder.new_round() } else { builder };
        Ok(builder.session(&self.session).run_options(self.run_options.clone()))
    }

    /// Returns the run, and opens it if needed.
    fn opened(&mut self) -> Result<&Run, Error> {
        let run = match self.run.take() {
            Some(run) => run,
            None => self.builder()?.rejoin_or_start()?,
        };
        Ok(self.run.insert(run))
    }
}

/// Captures the workspace: compared with the run's baseline, or without one if there is no readable store.
fn capture_with_or_without_store(
    mp: Option<&Milepost>,
    run: &RunId,
    scope: &CaptureOptions,
    source: Source,
) -> Option<WorkspaceCapture> {
    match mp.map(|mp| mp.capture_if_due(run, scope, source, None)) {
        Some(Ok(capture)) => capture,
        Some(Err(_)) | None => Some(capture::capture_workspace(scope, &CaptureBaseline::default())),
    }
}
