//! Keeps checkpoints of a command that is run, with what the workspace looks like: in the store, in the outbox where the
//! store cannot be written, and again at the next tick where neither could.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use milepost::capture::{PeakWatch, Process, Scope, Sighting, Since};
use milepost::clock::SystemClock;
use milepost::engine::outbox::{Outbox, Queued};
use milepost::engine::{Opening, Settings};
use milepost::model::{Profile, RunId, Source, Status};
use milepost::run::Run;
use milepost::store::{OpenOptions, StoreError, StoreUrl};
use milepost::{Error, Milepost, Save, Saved};

use crate::context::Context;

/// A checkpoint that is durable.
#[derive(Debug)]
pub(crate) enum Kept {
    /// In the store.
    Saved(Saved),
    /// In the outbox.
    Queued(Queued),
}

/// Keeps the checkpoints of one run.
pub(crate) struct Recorder {
    url: StoreUrl,
    wait: Duration,
    outbox: Option<Outbox>,
    settings: Settings,
    id: RunId,
    session: String,
    opening: Opening,
    rejoin: bool,
    /// Where to look at the workspace; `None` where that is not wanted.
    scope: Option<Scope>,
    /// How much memory the command uses, once it runs.
    memory: Arc<OnceLock<Arc<PeakWatch>>>,
    /// The run, once it could be opened.
    run: Option<Run>,
    checkpoints: u64,
    /// How many files were touched, by the newest checkpoint that says so.
    touched: Option<u64>,
}

/// A look at the workspace that takes longer than the command can wait.
pub(crate) type Late = Receiver<Option<Sighting>>;

impl Recorder {
    /// Names the run; opens nothing yet.
    pub(crate) fn new(
        context: &Context<'_>,
        settings: Settings,
        id: RunId,
        session: String,
        opening: Opening,
        rejoin: bool,
        scope: Option<Scope>,
    ) -> Self {
        Self {
            url: context.url(),
            wait: context.config.wait,
            outbox: context.outbox(),
            settings,
            id,
            session,
            opening,
            rejoin,
            scope,
            memory: Arc::default(),
            run: None,
            checkpoints: 0,
            touched: None,
        }
    }

    /// The run.
    pub(crate) fn run(&self) -> &RunId {
        &self.id
    }

    /// How many checkpoints were made.
    pub(crate) fn checkpoints(&self) -> u64 {
        self.checkpoints
    }

    /// How many files were touched, where that is known.
    pub(crate) fn touched(&self) -> Option<u64> {
        self.touched
    }

    /// Where the command's memory is watched, once it runs.
    pub(crate) fn memory(&self) -> Arc<OnceLock<Arc<PeakWatch>>> {
        self.memory.clone()
    }

    /// How often the run's profile saves by itself.
    pub(crate) fn interval(&self) -> Duration {
        const USUAL: Duration = Duration::from_secs(30 * 60);
        self.profile().interval().unwrap_or(USUAL)
    }

    /// The run's profile, or the one it would have.
    fn profile(&self) -> Profile {
        let detail = self.run.as_ref().and_then(|run| run.milepost().run_detail(&self.id).ok());
        let recorded = detail.and_then(|detail| detail.summary.record.ok()).map(|record| record.profile);
        recorded.or(self.opening.profile).or(self.settings.profile).unwrap_or(Profile::Session)
    }

    /// How the run stands, by its own word.
    pub(crate) fn standing(&self) -> Option<Status> {
        let detail = self.run.as_ref()?.milepost().run_detail(&self.id).ok()?;
        detail.summary.record.ok().map(|record| record.status)
    }

    /// Saves the first checkpoint, for which the workspace is looked at for at most so long: the command waits.
    pub(crate) fn first(
        &mut self,
        save: Save,
        most: Duration,
    ) -> (Result<Option<Kept>, Error>, Option<Late>) {
        let looking = match self.engine() {
            Ok(mp) => self.look_beside(mp, Source::Manual),
            Err(e) => return (Err(e), None),
        };
        let (sighting, late) = match looking.map(|late| (late.recv_timeout(most), late)) {
            Some((Ok(sighting), _)) => (sighting, None),
            Some((Err(RecvTimeoutError::Timeout), late)) => {
                let why = format!("the look at the workspace took longer than {} s", most.as_secs_f64());
                let why = format!("{why}: it goes on beside the command, for a checkpoint of its own");
                (Some(Sighting::nothing(why)), Some(late))
            }
            Some((Err(RecvTimeoutError::Disconnected), _)) | None => (None, None),
        };
        (self.keep(save, sighting, |run, save| run.save(save).map(Some)), late)
    }

    /// Saves what was seen once the command ran already.
    pub(crate) fn late(&mut self, sighting: Sighting) -> Result<Option<Kept>, Error> {
        self.keep(Save::new().reason("late_capture"), Some(sighting), Run::save_by_timer)
    }

    /// What the timer does; nothing for a run that the command itself has ended.
    pub(crate) fn tick(&mut self) -> Result<Option<Kept>, Error> {
        let sighting = self.look(Source::Timer)?;
        self.keep(Save::new().source(Source::Timer), sighting, Run::save_by_timer)
    }

    /// Saves a checkpoint, where it can be kept.
    pub(crate) fn save(&mut self, save: Save) -> Result<Option<Kept>, Error> {
        let sighting = self.look(save.draft.source.unwrap_or(Source::Manual))?;
        self.keep(save, sighting, |run, save| run.save(save).map(Some))
    }

    /// The scope of a look that happens now.
    fn scope_now(&self) -> Option<Scope> {
        let process = self.memory.get().map_or(Process::Nobody, |watch| Process::Watched(watch.clone()));
        self.scope.clone().map(|scope| Scope { process, ..scope })
    }

    /// Looks at the workspace, if the run's profile wants that.
    fn look(&mut self, source: Source) -> Result<Option<Sighting>, Error> {
        let mp = self.engine()?;
        Ok(self.scope_now().and_then(|scope| seen(mp.as_ref(), &self.id, &scope, source)))
    }

    /// The engine that the run was opened with; `None` where the store cannot be written, and the outbox can.
    fn engine(&mut self) -> Result<Option<Milepost>, Error> {
        match self.opened() {
            Ok(run) => Ok(Some(run.milepost().clone())),
            Err(Error::Store(StoreError::ReadOnly { .. })) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Looks on a thread of its own.
    fn look_beside(&self, mp: Option<Milepost>, source: Source) -> Option<Late> {
        let (scope, id) = (self.scope_now()?, self.id.clone());
        let (send, late) = mpsc::channel();
        let look = move || drop(send.send(seen(mp.as_ref(), &id, &scope, source)));
        std::thread::Builder::new().name("milepost-first".into()).spawn(look).ok()?;
        Some(late)
    }

    fn keep(
        &mut self,
        mut save: Save,
        sighting: Option<Sighting>,
        how: impl Fn(&Run, Save) -> Result<Option<Saved>, Error>,
    ) -> Result<Option<Kept>, Error> {
        save.sighting = sighting.map(Box::new);
        let kept = match self.opened().and_then(|run| how(run, save.clone())) {
            Ok(Some(saved)) => Kept::Saved(saved),
            Ok(None) => return Ok(None),
            Err(e @ Error::Store(StoreError::ReadOnly { .. })) => match self.keep_in_outbox(save) {
                Some(queued) => Kept::Queued(queued),
                None => return Err(e),
            },
            Err(e) => return Err(e),
        };
        if let Kept::Saved(saved) = &kept {
            self.touched = saved.touched.or(self.touched);
        }
        let new = !matches!(&kept, Kept::Saved(saved) if saved.coalesced);
        self.checkpoints += u64::from(new);
        Ok(Some(kept))
    }

    /// The run, opened if it is not yet.
    fn opened(&mut self) -> Result<&Run, Error> {
        let run = match self.run.take() {
            Some(run) => run,
            None => self.open()?,
        };
        Ok(self.run.insert(run))
    }

    fn open(&mut self) -> Result<Run, Error> {
        let options = OpenOptions { create: true, wait: self.wait, ..OpenOptions::default() };
        let mp = Milepost::at(&self.url, &options)?.with_settings(self.settings.clone());
        // What waited comes before what is saved now; what cannot be taken in waits on, and every command says so.
        if let Some(outbox) = &self.outbox {
            let _ = outbox.take_in(&mp);
        }
        let builder = mp.run(self.id.as_str()).session(&self.session).opening(self.opening.clone());
        let run = if self.rejoin { builder.rejoin_or_start()? } else { builder.start()? };
        // What waited in the outbox may have made the run by the time of a second try.
        self.rejoin = true;
        Ok(run)
    }

    fn keep_in_outbox(&self, mut save: Save) -> Option<Queued> {
        save.opening.clone_from(&self.opening);
        save.draft.session_id = Some(self.session.clone());
        let outbox = self.outbox.as_ref()?;
        outbox.post(&self.id, save, self.settings.redaction, &self.settings.limits, &SystemClock).ok()
    }
}

/// What the workspace looks like, with or without a store that tells what the run knows.
fn seen(mp: Option<&Milepost>, run: &RunId, scope: &Scope, source: Source) -> Option<Sighting> {
    match mp.map(|mp| mp.look(run, scope, source, None)) {
        Some(Ok(sighting)) => sighting,
        Some(Err(_)) | None => Some(milepost::capture::look(scope, &Since::default())),
    }
}
