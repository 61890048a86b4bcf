//! Handles on runs: rejoining, tasks and their state, and timers that survive failures of the program.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use milepost::internal::engine::RunOptions;
use milepost::model::{BlobId, CriterionStatus, EventType, RunId, Source, TaskStatus};
use milepost::store::{
    BlobEntry, CollectReport, Decide, EventPage, EventQuery, FindLiveBlobs, HeaderQuery, Maintenance,
    MaintenanceReport, OpenOptions, Receipt, RetentionEntry, Row, RunQuery, RunRow, Store, StoreError,
    StoreInfo, StoreUrl, StoredRun,
};
use milepost::{Error, Milepost, Profile, ReasonCode, Run, Save, Status};
use milepost::{ListQuery, Reference};
use milepost::{TaskGuard, TimerGuard};
use rstest::rstest;

use crate::engine::{Kind, World, open, run};

impl World {
    fn events_of(&self, kind: EventType) -> Vec<String> {
        let events = self.mp.events(Some(&run("r")), 0, 0).unwrap().events;
        events.into_iter().filter(|e| e.kind == kind).map(|e| e.data.get().to_owned()).collect()
    }
}

/// A store whose writes fail while the flag is set, as on a full disk.
pub(crate) struct Full(Arc<dyn Store>, Arc<AtomicBool>);

impl Full {
    pub(crate) fn new(store: Arc<dyn Store>, full: Arc<AtomicBool>) -> Self {
        Self(store, full)
    }
}

impl Store for Full {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        if self.1.load(Ordering::SeqCst) {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(StoreError::Write { location: "the disk".into(), source: source.into() });
        }
        self.0.write(run, decide)
    }
    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        self.0.run(run)
    }
    fn runs(&self, query: &RunQuery) -> Result<Vec<RunRow>, StoreError> {
        self.0.runs(query)
    }
    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        self.0.headers(query)
    }
    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        self.0.body(run, sequence)
    }
    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
        self.0.events(query)
    }
    fn messages(
        &self,
        run: &RunId,
    ) -> Result<Vec<Result<milepost::model::Message, milepost::store::Damage>>, StoreError> {
        self.0.messages(run)
    }
    fn retention_entries(&self, run: &RunId, newest: Option<u64>) -> Result<Vec<RetentionEntry>, StoreError> {
        self.0.retention_entries(run, newest)
    }
    fn put_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError> {
        self.0.put_blobs(contents)
    }
    fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        self.0.missing_blobs(ids)
    }
    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        self.0.blob(id)
    }
    fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError> {
        self.0.blobs(after, limit)
    }
    fn blob_bytes(&self) -> Result<u64, StoreError> {
        self.0.blob_bytes()
    }
    fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        self.0.blob_roots()
    }
    fn collect_blobs(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError> {
        self.0.collect_blobs(find_live)
    }
    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError> {
        self.0.delete_run(run, only_at)
    }
    fn maintain(&self, what: Maintenance<'_>) -> Result<MaintenanceReport, StoreError> {
        self.0.maintain(what)
    }
    fn info(&self) -> Result<StoreInfo, StoreError> {
        self.0.info()
    }
}

fn is_free<T: Clone + Send + Sync + 'static>(value: T) -> T {
    value
}

#[rstest]
fn an_orchestrator_goes_on_where_it_was(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let opened =
        |w: &World| w.mp.run("r").profile(Profile::Build).plan("plan.toml").title("Night").rejoin_or_start();
    let first = is_free(opened(&world).unwrap());
    assert!(!first.rejoined());
    assert_eq!(first.state::<Vec<u32>>().unwrap(), None);
    let mut state = vec![1];
    let saved = first.begin_task("a").unwrap().complete_with(&state).unwrap();
    assert_eq!((saved.sequence(), saved.source()), (1, Source::StepBoundary));
    state.push(2);
    first.put(&state).unwrap();
    first.begin_task("b").unwrap().fail("no such file").unwrap();
    let crashed = first.begin_task("c").unwrap();
    std::mem::forget(crashed);
    let second = opened(&world).unwrap();
    assert!(second.rejoined());
    assert_eq!(
        second.state().unwrap(),
        Some(state),
        "every checkpoint of the handle contains the state that was put"
    );
    assert!(second.is_done("a") && !second.is_done("b") && !second.is_done("c") && !second.is_done("zz"));
    let status = |r: &Run, task: &str| r.find_task(task).unwrap().unwrap().status().to_owned();
    assert_eq!((status(&second, "b").as_str(), status(&second, "c").as_str()), ("failed", "in_progress"));
    drop(second.begin_task("c").unwrap());
    assert_eq!(status(&second, "c"), "interrupted");
    second.begin_task("c").unwrap().skip().unwrap();
    let record = world.mp.run_detail(second.id()).unwrap().summary().record().clone().unwrap();
    assert_eq!((record.title().as_deref(), record.plan().as_deref()), (Some("Night"), Some("plan.toml")));
    assert_eq!((record.sessions(), record.profile()), (2, Profile::Build));
    assert!(record.working().log()[0].text.contains("no such file"));
    let last = second.finish(Status::Completed).unwrap();
    assert_eq!(last.status(), Status::Completed);
    assert!(second.finish(Status::InProgress).is_err());
}

#[test]
fn a_task_that_is_done_holds_its_own_state_whatever_other_threads_put() {
    let world = World::new(Kind::Files);
    let handle = world.mp.run("r").rejoin_or_start().unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                handle.put("another's").unwrap();
            }
        });
        for n in 0..40 {
            let saved = handle.begin_task(&format!("t{n}")).unwrap().complete_with(&n).unwrap();
            let reference = Reference::Numbered(run("r"), saved.sequence());
            let state = world.mp.show(&reference, None).unwrap().body().unwrap().state.unwrap();
            // Set before the assertion can fail, so that the other thread ends.
            over.store(state.get() != n.to_string() || n == 39, Ordering::Relaxed);
            assert_eq!(state.get(), n.to_string());
        }
    });
}

#[test]
fn a_live_owner_is_named_and_a_handle_that_was_dropped_is_no_owner() {
    let dir = tempfile::tempdir().unwrap();
    for url in [StoreUrl::sqlite(dir.path().join("m.db")), StoreUrl::files(dir.path().join("store"))] {
        let mp = Milepost::at(&url, &OpenOptions::new().create(true)).unwrap();
        let held = mp.run("r").rejoin_or_start().unwrap();
        let clone = held.clone();
        let refused = mp.run("r").rejoin_or_start().unwrap_err();
        assert_eq!(refused.reason(), ReasonCode::ResumeRunActive);
        assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
        drop(held);
        assert!(mp.run("r").rejoin_or_start().is_err(), "a clone still exists");
        drop(clone);
        let again = mp.run("r").rejoin_or_start().unwrap();
        assert!(again.rejoined());
        again.finish(Status::Failed).unwrap();
        mp.run("r").rejoin_or_start().unwrap();
        assert!(matches!(mp.run("r").start(), Err(Error::RunExists(_))));
        assert!(matches!(mp.run("../x").rejoin_or_start(), Err(Error::Id(_))));
        assert!(!mp.new_run().start().unwrap().rejoined());
        // A process in another pid namespace is not visible, but its lock is.
        let owner = milepost::internal::owner::describe(std::process::id()).unwrap();
        let mut owner = serde_json::to_value(owner).unwrap();
        owner["pid_namespace"] = "pid:[1]".into();
        let owner = serde_json::from_value(owner).unwrap();
        let far: RunId = "far".parse().unwrap();
        let run_options = RunOptions { owner: Some(owner), ..RunOptions::default() };
        mp.save(&far, Save::new().run_options(run_options)).unwrap();
        let folder = url.owners_folder().unwrap();
        let lock = milepost::internal::owner::lock::acquire(&folder, &far).unwrap().unwrap();
        assert_eq!(mp.run("far").rejoin_or_start().unwrap_err().reason(), ReasonCode::ResumeRunActive);
        drop(lock);
        mp.run("far").rejoin_or_start().unwrap();
    }
}

#[rstest]
fn fifty_idle_auto_saves_leave_the_task_checkpoint_in_place(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = world.mp.run("r").profile(Profile::Build).rejoin_or_start().unwrap();
    r.put(&"early").unwrap();
    r.save(Save::new()).unwrap();
    let task = r.begin_task("t").unwrap().complete_with(&[1, 2, 3]).unwrap();
    let mut auto = r.autosave(Duration::from_secs(30));
    let mut beat = r.heartbeat(Duration::from_secs(120));
    for _ in 0..60 {
        world.wait(30_000);
        assert!(auto.tick().unwrap().coalesced());
        assert!(beat.tick().unwrap().coalesced());
    }
    assert_eq!(world.count("r"), 2);
    assert_eq!(
        world.mp.find(&Reference::Latest(0), Some(r.id())).unwrap().header.snapshot_id(),
        task.snapshot_id()
    );
    r.put(&[4]).unwrap();
    let saved = auto.tick().unwrap();
    assert!(!saved.coalesced(), "a change creates a checkpoint");
    assert_eq!((saved.source(), r.state().unwrap()), (Source::Timer, Some(vec![4])));
}

#[rstest]
fn timers_leave_a_run_as_it_stands(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = world.mp.run("r").rejoin_or_start().unwrap();
    let status = || world.mp.run_detail(&run("r")).unwrap().summary().record().clone().unwrap().status();
    let mut auto = r.autosave(Duration::from_secs(30));
    let mut beat = r.heartbeat(Duration::from_secs(120));
    assert_eq!(beat.tick().unwrap().source(), Source::Timer);
    r.save(Save::new().status(Status::Paused)).unwrap();
    world.wait(60_000);
    assert!(beat.tick().is_none(), "the run is paused");
    r.put(&1).unwrap();
    assert_eq!(auto.tick().unwrap().status(), Status::Paused);
    assert_eq!(status(), Status::Paused);
    let error = r.save_after_error("a flaky test").unwrap();
    assert_eq!((error.source(), error.status()), (Source::ErrorBoundary, Status::InProgress));
    r.finish(Status::Failed).unwrap();
    r.put(&2).unwrap();
    assert!(auto.tick().is_none() && beat.tick().is_none());
    assert_eq!(status(), Status::Failed, "a timer does not reopen an ended run");
}

#[rstest]
fn a_provider_that_fails_or_panics_is_reported_and_the_next_tick_runs(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
) {
    let world = World::new(kind);
    let r = world.mp.run("r").rejoin_or_start().unwrap();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = told.clone();
    let mut n = 0;
    let mut auto = r
        .autosave(Duration::from_secs(30))
        .provider(move || {
            n += 1;
            match n % 3 {
                1 => Err("not now"),
                2 => panic!("in the provider"),
                _ => Ok(n),
            }
        })
        .on_error(move |e| {
            seen.lock().unwrap().push(e.to_string());
            panic!("in the callback");
        });
    for i in 1..=9 {
        world.wait(30_000);
        assert_eq!(auto.tick().is_some(), i % 3 == 0);
    }
    assert_eq!(world.count("r"), 3);
    assert_eq!(r.state().unwrap(), Some(9));
    assert_eq!(told.lock().unwrap().len(), 6);
    let events = world.events_of(EventType::Error);
    assert_eq!(events.len(), 6);
    assert!(
        events[0].contains("the provider failed: not now") && events[1].contains("panicked: in the provider")
    );
}

#[rstest]
fn a_full_disk_is_reported_and_told_once_there_is_space(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let full = Arc::new(AtomicBool::new(false));
    let store = Full(open(kind, world.dir.path()), full.clone());
    let mp = Milepost::on(Arc::new(store)).with_clock(Arc::new(world.clock.clone()));
    let r = mp.run("r").rejoin_or_start().unwrap();
    let failures = Arc::new(AtomicU64::new(0));
    let seen = failures.clone();
    let mut auto = r.autosave(Duration::from_secs(30)).on_error(move |e| {
        assert!(matches!(e, Error::Store(StoreError::Write { .. })));
        seen.fetch_add(1, Ordering::SeqCst);
    });
    r.begin_task("before").unwrap().complete_with(&0).unwrap();
    let cut = r.begin_task("cut").unwrap();
    full.store(true, Ordering::SeqCst);
    for i in 1..=4 {
        r.put(&i).unwrap();
        assert!(auto.tick().is_none());
    }
    assert!(cut.complete_with(&5).is_err());
    assert!(!r.is_done("cut"), "task and state are saved together or not at all");
    assert_eq!(r.state().unwrap(), Some(0));
    assert!(r.begin_task("next").is_err() && r.note("x").is_err() && r.finish(Status::Failed).is_err());
    full.store(false, Ordering::SeqCst);
    world.wait(30_000);
    assert!(!auto.tick().unwrap().coalesced());
    assert_eq!((r.state().unwrap(), failures.load(Ordering::SeqCst)), (Some(5), 4));
    let events = world.events_of(EventType::Error);
    assert_eq!(events.len(), 1);
    assert!(events[0].contains("\"times\":4"), "{events:?}");
    r.finish(Status::Completed).unwrap();
}

#[test]
fn a_busy_store_is_reported_and_the_next_tick_runs() {
    let dir = tempfile::tempdir().unwrap();
    for url in [StoreUrl::sqlite(dir.path().join("m.db")), StoreUrl::files(dir.path().join("store"))] {
        let open = |wait| Milepost::at(&url, &OpenOptions::new().create(true).wait(wait)).unwrap();
        let mp = open(Duration::from_millis(30));
        let r = mp.run("r").rejoin_or_start().unwrap();
        let told: Arc<Mutex<Vec<ReasonCode>>> = Arc::default();
        let seen = told.clone();
        let mut auto =
            r.autosave(Duration::from_secs(30)).on_error(move |e| seen.lock().unwrap().push(e.reason()));
        let (other, id) = (open(Duration::from_secs(10)), r.id().clone());
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let writer = std::thread::spawn(move || {
            let written = other.raw_store().write(&id, &mut |_| {
                begun.send(()).unwrap();
                let _ = released.recv();
                milepost::store::WriteDecision::NoChange
            });
            written.unwrap();
        });
        has_begun.recv().unwrap();
        assert!(auto.tick().is_none());
        drop(release);
        writer.join().unwrap();
        assert!(auto.tick().is_some());
        assert_eq!(*told.lock().unwrap(), [ReasonCode::StoreBusy]);
    }
}

#[test]
fn intervals_of_nothing_are_refused_and_months_are_not() {
    let world = World::new(Kind::Sqlite);
    let r = world.mp.run("r").rejoin_or_start().unwrap();
    let refused = r.autosave(Duration::ZERO).start().unwrap_err();
    assert_eq!(refused.reason(), ReasonCode::Usage);
    assert!(matches!(r.heartbeat(Duration::ZERO).start(), Err(Error::ZeroInterval)));
    for long in [Duration::from_secs(30 * 86_400), Duration::MAX] {
        let guard: TimerGuard = r.heartbeat(long).start().unwrap();
        guard.stop();
        guard.stop();
    }
    assert_eq!(world.count("r"), 0);
}

#[rstest]
fn a_real_timer_saves_what_was_put_from_many_threads(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let mp = Milepost::on(open(kind, dir.path()));
    let r = mp.run("r").rejoin_or_start().unwrap();
    let auto = r.autosave(Duration::from_millis(3)).start().unwrap();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let r = r.clone();
            scope.spawn(move || {
                r.put(&n).unwrap();
                let task: TaskGuard = r.begin_task(&format!("t{n}")).unwrap();
                r.criterion(&format!("c{n}"), CriterionStatus::Completed, "holds").unwrap();
                task.complete().unwrap();
            });
        }
    });
    r.put(&"last").unwrap();
    let start = Instant::now();
    while r.state::<serde_json::Value>().unwrap() != Some("last".into()) {
        assert!(start.elapsed() < Duration::from_secs(20), "no tick within 20 s");
        std::thread::sleep(Duration::from_millis(2));
    }
    auto.stop();
    let list = || mp.list(&ListQuery::default().run(Some(r.id().clone()))).unwrap().checkpoints.len();
    let before = list();
    r.put(&"never saved").unwrap();
    // `stop` waits for the timer's thread, so no save can follow.
    assert_eq!(list(), before, "nothing is saved after stop");
    assert!((0..6).all(|n| r.is_done(&format!("t{n}"))));
    assert!(r.tasks().unwrap().iter().all(|task| task.is(TaskStatus::Done)));
}
