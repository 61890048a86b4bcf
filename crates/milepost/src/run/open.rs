//! Opens a run for this process. Takes options and returns a handle. An existing run can be rejoined after a
//! crash, but must not be opened while its owner is alive.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use super::{Inner, Run};
use crate::Error;
use crate::engine::{IfCompleted, Milepost, RunOptions, Save, Saved, StartOptions};
use crate::model::{Profile, RunId, Task};
use crate::owner::lock::{self, OwnerLock};
use crate::owner::{self, Liveness};

/// A builder that opens a run.
#[must_use]
#[derive(Debug, Clone)]
pub struct RunBuilder {
    mp: Milepost,
    id: Option<String>,
    session: Option<String>,
    run_options: RunOptions,
    /// The interrupted run that the new run continues.
    continues: Option<RunId>,
    if_completed: IfCompleted,
}

impl Milepost {
    /// A builder for the run with this id; `rejoin_or_start` opens it.
    pub fn run(&self, id: impl Into<String>) -> RunBuilder {
        RunBuilder { id: Some(id.into()), ..self.new_run() }
    }

    /// A builder for a new run with a generated id.
    pub fn new_run(&self) -> RunBuilder {
        let run_options = RunOptions { location: self.location.clone(), ..RunOptions::default() };
        RunBuilder {
            mp: self.clone(),
            id: None,
            session: None,
            run_options,
            continues: None,
            if_completed: IfCompleted::Keep,
        }
    }
}

setters! {
    impl RunBuilder {
        /// Sets the profile, even if the run already exists.
        pub fn profile(profile: Profile) => run_options.profile = Some(profile);

        /// Sets the path of the plan that the run follows.
        pub fn plan(path: impl Into<String>) => run_options.plan = Some(path.into());

        /// Sets the title of the run.
        pub fn title(title: impl Into<String>) => run_options.title = Some(title.into());

        /// Sets the id of the new session.
        pub fn session(id: impl Into<String>) => session = Some(id.into());

        /// Continues an interrupted run, as listed by `Milepost::resumable_runs`. Opening the new run claims
        /// the interrupted one and takes over its tasks, decisions and state. If several processes try this,
        /// one of them succeeds and the others get `Error::NotResumable`.
        pub fn continuing(run: &RunId) => continues = Some(run.clone());

        /// Sets all options at once, except the owner, which is always this process.
        #[cfg_attr(feature = "internal", visibility::make(pub))]
        pub(crate) fn run_options(run_options: RunOptions) => run_options = run_options;
    }
}

impl RunBuilder {
    /// Starts a new round if the run is completed: its tasks, criteria and steps start over, while its state
    /// and its history stay. Items that are pending enter a checkpoint first. A run that is not completed is
    /// continued where it was.
    pub fn new_round(mut self) -> Self {
        self.if_completed = IfCompleted::NewRound;
        self
    }

    /// Continues the run if it exists, or starts it. A completed run stays completed until a task begins or a
    /// checkpoint is saved in it, unless `new_round` is set. Fails with an error that names the owner if the
    /// owner is alive.
    pub fn rejoin_or_start(self) -> Result<Run, Error> {
        self.open(false)
    }

    /// Starts the run, which must not exist yet.
    pub fn start(self) -> Result<Run, Error> {
        self.open(true)
    }

    /// Starts the run, which must not exist yet, and saves its first checkpoint in the same write.
    pub fn start_with(mut self, mut save: Save) -> Result<(Run, Saved), Error> {
        let (mp, id) = (self.mp.clone(), self.named()?);
        mp.check_run_name(&id, save.redaction.unwrap_or(mp.settings().redaction))?;
        self.run_options.owner = owner::describe(std::process::id());
        let lock = mp.owners.as_ref().and_then(|folder| lock::acquire(folder, &id).ok().flatten());
        save.run_options = self.run_options;
        save.draft.session_id = self.session;
        save.only_new = true;
        let saved = mp.save(&id, save)?;
        Ok((Run::new(mp, id, false, HashSet::new(), lock), saved))
    }

    fn named(&self) -> Result<RunId, Error> {
        Ok(match &self.id {
            Some(id) => id.parse::<RunId>()?,
            None => RunId::generate(self.mp.now()),
        })
    }

    fn open(mut self, only_new: bool) -> Result<Run, Error> {
        let id = self.named()?;
        let mp = self.mp;
        // Checked before locking, because the lock file is named after the run.
        mp.check_run_name(&id, mp.settings().redaction)?;
        self.run_options.owner = owner::describe(std::process::id());
        // If the lock file cannot be used, the run is opened without the lock. The owner in the run's record
        // then decides whether it may be opened.
        let taken = mp.owners.as_ref().map(|folder| lock::acquire(folder, &id));
        let lock = match taken {
            Some(Ok(None)) => {
                // The record alone would allow a second handle in this process, and a second process if the
                // run is completed but its owner has not released it yet.
                let record = mp.record_of(&id)?;
                if let Some(record) = &record
                    && let Some(owner) = &record.owner
                    && (owner::is_this_process(owner) || mp.liveness(record, None) == Some(Liveness::Alive))
                {
                    return Err(mp.owned_by(&id, owner));
                }
                None
            }
            Some(Ok(lock)) => lock,
            Some(Err(_)) | None => None,
        };
        let start = StartOptions {
            run_id: Some(id.clone()),
            session_id: self.session,
            run_options: self.run_options,
            only_new,
            if_completed: self.if_completed,
            ..StartOptions::default()
        };
        let (started, state) = match &self.continues {
            Some(from) => {
                let start = StartOptions { only_new: true, ..start };
                (mp.continue_run(from, start, false)?.started, mp.newest_state(from)?)
            }
            None => (mp.start_with_lock(start, lock.is_some())?, None),
        };
        let tasks = &started.record.working.tasks;
        let done: HashSet<String> = Task::ids(tasks, Task::is_completed).into_iter().collect();
        let run = Run::new(mp, id, started.rejoined, done, lock);
        *super::lock(&run.inner.state) = state;
        Ok(run)
    }
}

impl Run {
    fn new(mp: Milepost, id: RunId, rejoined: bool, done: HashSet<String>, lock: Option<OwnerLock>) -> Self {
        let pid = std::process::id();
        let (done, lock) = (Mutex::new(done), Mutex::new(lock));
        Self { inner: Arc::new(Inner { mp, id, pid, rejoined, state: Mutex::new(None), done, lock }) }
    }
}
