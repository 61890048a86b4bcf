//! Saves checkpoints of a command that is run, with what the workspace looks like: in the store, in the outbox where the
//! store cannot be written, and again at the next tick where neither could.

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use milepost::internal::capture;
use milepost::internal::capture::{CaptureBaseline, CaptureOptions, PeakWatch, Process, WorkspaceCapture};
use milepost::internal::engine::Outbox;
use milepost::internal::engine::RunOptions;
use milepost::internal::model::CaptureWhen;
use milepost::model::{Profile, RunId, RunRecord, Source, Status};
use milepost::store::{OpenOptions, StoreError, StoreUrl};
use milepost::{Error, Milepost, Run, RunBuilder, Save, Saved, Settings};

use crate::context::{Context, SaveResult, save_or_enqueue};

/// Where a checkpoint of the run ended up.
pub(crate) type RecordedSave = SaveResult<Saved>;

/// Saves the checkpoints of one run.
pub(crate) struct Recorder {
    url: StoreUrl,
    options: OpenOptions,
    /// Why the project's configuration must not decide about the store, if it does.
    refusal: Option<(PathBuf, String)>,
    outbox: Option<Outbox>,
    settings: Settings,
    pub(crate) id: RunId,
    session: String,
    run_options: RunOptions,
    rejoin: bool,
    /// Where to look at the workspace; `None` where that is not wanted.
    scope: Option<CaptureOptions>,
    /// How much memory the command uses, once it runs.
    pub(crate) memory: Arc<OnceLock<Arc<PeakWatch>>>,
    /// The store, once it could be opened.
    mp: Option<Milepost>,
    /// The run, once it could be opened.
    run: Option<Run>,
    /// How many checkpoints were made.
    pub(crate) checkpoints: u64,
    /// How many files were touched, by the newest checkpoint that says so.
    pub(crate) touched: Option<u64>,
}

/// A look at the workspace that takes longer than the command can wait.
pub(crate) type LateCapture = Receiver<Option<WorkspaceCapture>>;

impl Recorder {
    /// Names the run; opens nothing yet.
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
            url: context.url(),
            options: context.open_options(true),
            refusal: context.config.refusal.clone().map(|why| (context.config.file.clone(), why)),
            outbox: context.outbox(),
            settings,
            id,
            session,
            run_options,
            rejoin,
            scope,
            memory: Arc::default(),
            mp: None,
            run: None,
            checkpoints: 0,
            touched: None,
        }
    }

    /// How often the run's profile saves by itself.
    pub(crate) fn interval(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(30 * 60);
        self.profile().interval().unwrap_or(USUAL)
    }

    /// The run's profile, or the one it would have.
    fn profile(&self) -> Profile {
        let asked = self.run_options.profile.or_else(|| self.record().map(|record| record.profile()));
        asked.unwrap_or_else(|| self.settings.default_profile())
    }

    /// What the run's record says, where it was there before.
    fn record(&self) -> Option<Box<RunRecord>> {
        let run = self.run.as_ref().filter(|run| run.rejoined())?;
        run.milepost().store().run(&self.id).ok()??.row.record.ok()
    }

    /// How the run stands, by its own word.
    pub(crate) fn recorded_status(&self) -> Option<Status> {
        let state = self.run.as_ref()?.milepost().store().run(&self.id).ok()??;
        state.row.record.ok().map(|record| record.status())
    }

    /// Opens the run with its first checkpoint, for which the workspace is looked at for at most so long: the command waits.
    pub(crate) fn save_first(
        &mut self,
        save: Save,
        most: Duration,
    ) -> (Result<Option<RecordedSave>, Error>, Option<LateCapture>) {
        let mp = match self.engine() {
            Ok(mp) => mp,
            Err(e) => return (Err(e), None),
        };
        let (capture, late) = self.capture_within(mp, most);
        (self.save_or_enqueue(save, capture, |run, save| run.save(save).map(Some)), late)
    }

    /// Looks for at most so long; what takes longer comes later, and the checkpoint says so.
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
                let why = format!("the look at the workspace took longer than {} s", most.as_secs_f64());
                let why = format!("{why}: it goes on beside the command, for a checkpoint of its own");
                (Some(WorkspaceCapture::failed(why)), Some(late))
            }
        }
    }

    /// Saves what was seen once the command ran already.
    pub(crate) fn save_late(&mut self, capture: WorkspaceCapture) -> Result<Option<RecordedSave>, Error> {
        self.save_or_enqueue(Save::new().reason("late_capture"), Some(capture), Run::save_by_timer)
    }

    /// What the timer does; nothing for a run that the command itself has ended.
    pub(crate) fn tick(&mut self) -> Result<Option<RecordedSave>, Error> {
        let capture = self.capture_if_due(Source::Timer)?;
        self.save_or_enqueue(Save::new().source(Source::Timer), capture, Run::save_by_timer)
    }

    /// Saves a checkpoint, where it can be kept.
    pub(crate) fn save(&mut self, save: Save) -> Result<Option<RecordedSave>, Error> {
        let capture = self.capture_if_due(save.draft().source.unwrap_or(Source::Manual))?;
        self.save_or_enqueue(save, capture, |run, save| run.save(save).map(Some))
    }

    /// The scope of a look that happens now.
    fn scope_now(&self) -> Option<CaptureOptions> {
        let process = self.memory.get().map_or(Process::None, |watch| Process::Watched(watch.clone()));
        self.scope.clone().map(|scope| CaptureOptions { process, ..scope })
    }

    /// Looks at the workspace, if the run's profile wants that.
    fn capture_if_due(&mut self, source: Source) -> Result<Option<WorkspaceCapture>, Error> {
        let mp = self.engine()?;
        Ok(self
            .scope_now()
            .and_then(|scope| capture_with_or_without_store(mp.as_ref(), &self.id, &scope, source)))
    }

    /// The engine that the run was opened with; `None` where the store cannot be written, and the outbox can.
    fn engine(&mut self) -> Result<Option<Milepost>, Error> {
        // A run that could not be opened so far is opened by what is kept of it.
        let opened = if self.rejoin { self.opened().map(|_| ()) } else { Ok(()) };
        match opened.and_then(|()| self.store()) {
            Ok(mp) => Ok(Some(mp)),
            Err(Error::Store(StoreError::ReadOnly { .. })) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Looks on a thread of its own.
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
        Ok(Some(saved))
    }

    /// Saves into the run. A new one is opened by its first checkpoint, in one write.
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

    /// The store, opened if it is not yet.
    fn store(&mut self) -> Result<Milepost, Error> {
        if let Some(mp) = &self.mp {
            return Ok(mp.clone());
        }
        if let Some((path, why)) = self.refusal.clone() {
            return Err(Error::ConfigUntrusted { path, why, adoptable: true });
        }
        if let Some(why) = self.options.foreign.clone() {
            return Err(StoreError::Untrusted { location: self.url.to_string(), why }.into());
        }
        let mp = Milepost::at(&self.url, &self.options)?.with_settings(self.settings.clone());
        // What waited comes before what is saved now; what cannot be taken in waits on, and every command says so.
        if let Some(outbox) = &self.outbox {
            let taken = outbox.deliver(&mp);
            // What waited may be of this run.
            self.rejoin |=
                taken.is_ok_and(|taken| taken.saved.iter().any(|saved| *saved.run_id() == self.id));
        }
        Ok(self.mp.insert(mp).clone())
    }

    fn builder(&mut self) -> Result<RunBuilder, Error> {
        let builder = self.store()?.run(self.id.as_str());
        Ok(builder.session(&self.session).run_options(self.run_options.clone()))
    }

    /// The run, opened if it is not yet.
    fn opened(&mut self) -> Result<&Run, Error> {
        let run = match self.run.take() {
            Some(run) => run,
            None => self.builder()?.rejoin_or_start()?,
        };
        Ok(self.run.insert(run))
    }
}

/// What the workspace looks like, with or without a store that tells what the run knows.
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
