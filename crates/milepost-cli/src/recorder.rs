//! Keeps checkpoints of a command that is run: in the store, in the outbox where the store cannot be written, and again
//! at the next tick where neither could.

use std::time::Duration;

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
    /// The run, once it could be opened.
    run: Option<Run>,
    checkpoints: u64,
}

impl Recorder {
    /// Names the run; opens nothing yet.
    pub(crate) fn new(
        context: &Context<'_>,
        settings: Settings,
        id: RunId,
        session: String,
        opening: Opening,
        rejoin: bool,
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
            run: None,
            checkpoints: 0,
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

    /// What the timer does; nothing for a run that the command itself has ended.
    pub(crate) fn tick(&mut self) -> Result<Option<Kept>, Error> {
        self.keep(Save::new().source(Source::Timer), Run::save_by_timer)
    }

    /// Saves a checkpoint, where it can be kept.
    pub(crate) fn save(&mut self, save: Save) -> Result<Option<Kept>, Error> {
        self.keep(save, |run, save| run.save(save).map(Some))
    }

    fn keep(
        &mut self,
        save: Save,
        how: impl Fn(&Run, Save) -> Result<Option<Saved>, Error>,
    ) -> Result<Option<Kept>, Error> {
        let kept = match self.keep_in_store(save.clone(), how) {
            Ok(Some(saved)) => Kept::Saved(saved),
            Ok(None) => return Ok(None),
            Err(e @ Error::Store(StoreError::ReadOnly { .. })) => match self.keep_in_outbox(save) {
                Some(queued) => Kept::Queued(queued),
                None => return Err(e),
            },
            Err(e) => return Err(e),
        };
        let new = !matches!(&kept, Kept::Saved(saved) if saved.coalesced);
        self.checkpoints += u64::from(new);
        Ok(Some(kept))
    }

    fn keep_in_store(
        &mut self,
        save: Save,
        how: impl Fn(&Run, Save) -> Result<Option<Saved>, Error>,
    ) -> Result<Option<Saved>, Error> {
        let run = match self.run.take() {
            Some(run) => run,
            None => self.open()?,
        };
        how(self.run.insert(run), save)
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
