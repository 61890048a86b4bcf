//! The engine on real stores, with a clock that only the tests advance.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use milepost::internal::clock::FrozenClock;
use milepost::internal::engine::Pointer;
use milepost::internal::engine::RunOptions;
use milepost::internal::engine::StartOptions;
use milepost::internal::engine::source_details;
use milepost::internal::store::FilesStore;
use milepost::internal::store::ProjectPaths;
use milepost::internal::store::SqliteStore;
use milepost::model::{Item, LogLine, Profile, RunId, Source, Status, Task};
use milepost::store::{OpenOptions, Store};
use milepost::{Error, Milepost, ReasonCode, Save};
use milepost::{ListQuery, MarkChange, Reference, RestoreOptions, Settings, VerifyScope};
use milepost_testkit::fault::Faults;
use rstest::rstest;

/// Which store a test runs on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sqlite,
    Files,
}

pub(crate) struct World {
    pub(crate) mp: Milepost,
    pub(crate) clock: FrozenClock,
    pub(crate) dir: tempfile::TempDir,
    kind: Kind,
}

pub(crate) const START: &str = "2026-11-15T12:00:00Z";

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub(crate) fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

/// An outbox in a folder, with its own key.
pub(crate) fn outbox(dir: &std::path::Path) -> milepost::internal::engine::Outbox {
    let key = milepost::internal::trust::UserState::at(dir.join("state")).unwrap().create_key().unwrap();
    let store = milepost::store::StoreUrl::sqlite(dir.join("m.db"));
    milepost::internal::engine::Outbox::new(dir.join("outbox"), &store, Some(key))
}

pub(crate) fn open(kind: Kind, dir: &std::path::Path) -> Arc<dyn Store> {
    let options = OpenOptions::new().create(true);
    match kind {
        Kind::Sqlite => Arc::new(SqliteStore::open(&dir.join("m.db"), &options).unwrap()),
        Kind::Files => Arc::new(FilesStore::open(&dir.join("store"), &options).unwrap()),
    }
}

impl World {
    pub(crate) fn new(kind: Kind) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = FrozenClock::at(at(START));
        let mp = Milepost::on(open(kind, dir.path())).with_clock(Arc::new(clock.clone()));
        Self { mp, clock, dir, kind }
    }

    pub(crate) fn with(mut self, settings: Settings) -> Self {
        self.mp = self.mp.with_settings(settings);
        self
    }

    pub(crate) fn wait(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        self.mp.list(&ListQuery::default().run(Some(run(name)))).unwrap().checkpoints.len()
    }

    pub(crate) fn latest(&self, name: &str) -> String {
        self.mp
            .show(&Reference::Latest(0), Some(&run(name)))
            .unwrap()
            .entry()
            .header
            .summary()
            .clone()
            .unwrap()
    }
}

pub(crate) fn say(text: &str) -> Save {
    Save::new().summary(text)
}

#[rstest]
fn triggers_without_a_change_are_one_checkpoint_for_three_seconds(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
) {
    let world = World::new(kind);
    let r = run("r");
    world.mp.save(&r, say("x")).unwrap();
    world.wait(60_000);
    let kept = world.mp.save(&r, say("x").source(Source::StepBoundary).reason("task_done")).unwrap();
    assert!(!kept.coalesced(), "a minute apart");
    world.wait(3_000);
    let folded = world.mp.save(&r, say("x").source(Source::ErrorBoundary).reason("context_shift")).unwrap();
    assert!(folded.coalesced(), "3.000 s is within the window");
    assert_eq!(folded.snapshot_id(), kept.snapshot_id());
    let entry = world.mp.find(&Reference::Latest(0), Some(&r)).unwrap();
    assert_eq!(source_details(&entry), ["step_boundary", "error_boundary", "task_done", "context_shift"]);
    world.wait(1);
    // Counted from the kept checkpoint's creation, not from the last fold.
    assert!(!world.mp.save(&r, say("x")).unwrap().coalesced(), "3.001 s is outside the window");
    world.wait(100);
    assert!(
        !world.mp.save(&r, say("x").status(Status::Paused)).unwrap().coalesced(),
        "a status change is never coalesced"
    );
    world.wait(100);
    assert!(
        !world.mp.save(&r, say("y").status(Status::Paused)).unwrap().coalesced(),
        "another summary is never coalesced"
    );
    let done = world.mp.save(&r, say("y").status(Status::Failed)).unwrap();
    assert!(!done.coalesced());
    assert!(
        !world.mp.save(&r, say("y").status(Status::Failed)).unwrap().coalesced(),
        "a terminal status is never coalesced"
    );
}

#[rstest]
fn the_first_of_a_session_and_a_reopened_run_are_kept(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    world.mp.save(&r, say("x")).unwrap();
    let mut other = say("x");
    other = other.session("second");
    assert!(!world.mp.save(&r, other).unwrap().coalesced(), "another session begins");
    let entry = world.mp.find(&Reference::Latest(0), Some(&r)).unwrap();
    assert_eq!(world.mp.complete(&entry).unwrap().len(), 2);
    assert_eq!(
        world.mp.run_detail(&r).unwrap().summary().record().clone().unwrap().status(),
        Status::Completed
    );
    assert!(!world.mp.save(&r, say("x")).unwrap().coalesced(), "the run is open again");
    assert_eq!(
        world.mp.run_detail(&r).unwrap().summary().record().clone().unwrap().status(),
        Status::InProgress
    );
}

#[rstest]
fn idle_timers_refresh_and_never_flush_history(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    let task = world.mp.save(&r, say("task").reason("task_done")).unwrap();
    for _ in 0..60 {
        world.wait(30_000);
        assert!(world.mp.save(&r, Save::new().source(Source::Timer)).unwrap().coalesced());
    }
    assert_eq!(world.count("r"), 1);
    let entry = world.mp.find(&Reference::Latest(0), Some(&r)).unwrap();
    assert_eq!(entry.header.snapshot_id(), task.snapshot_id());
    assert_eq!(entry.marks.refreshed_at, Some(milepost::Clock::now(&world.clock)));
    let every = run("session");
    for _ in 0..3 {
        world.wait(30_000);
        world.mp.save(&every, Save::new().source(Source::Timer).profile(Profile::Session)).unwrap();
    }
    assert_eq!(world.count("session"), 3, "the session profile keeps every tick");
}

#[rstest]
fn latest_is_the_last_written_whatever_the_clock_says(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    for text in ["one", "two", "three"] {
        world.mp.save(&r, say(text)).unwrap();
    }
    assert_eq!(world.latest("r"), "three");
    world.clock.set(at("2026-11-15T11:00:00Z"));
    assert!(
        !world.mp.save(&r, say("three")).unwrap().coalesced(),
        "saves never coalesce if the clock went back"
    );
    world.mp.save(&r, say("four")).unwrap();
    assert_eq!(world.latest("r"), "four");
    let listed = world.mp.list(&ListQuery::default()).unwrap().checkpoints;
    let sequences: Vec<_> = listed.iter().map(|l| l.entry().header.sequence()).collect();
    assert_eq!(sequences, [5, 4, 3, 2, 1]);
    // A year ahead and back again: latest is still the last written.
    world.clock.set(at("2027-11-15T11:00:00Z"));
    world.mp.save(&r, say("future")).unwrap();
    world.clock.set(at(START));
    world.mp.save(&r, say("present")).unwrap();
    assert_eq!(world.latest("r"), "present");
}

#[rstest]
fn fifty_and_the_terminals_stay(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let (r, other) = (run("r"), run("other"));
    for i in 0..3 {
        world.mp.save(&other, say(&format!("{i}"))).unwrap();
    }
    world.mp.save(&r, say("f0").status(Status::Failed)).unwrap();
    let failed = world.mp.save(&r, say("f1").status(Status::Failed)).unwrap();
    let completed = world.mp.save(&r, say("c").status(Status::Completed)).unwrap();
    let mut pinned = say("pin");
    pinned = pinned.pin(true);
    let pinned = world.mp.save(&r, pinned).unwrap();
    for i in 0..60 {
        world.mp.save(&r, say(&format!("{i}"))).unwrap();
    }
    let listed = world.mp.list(&ListQuery::default().run(Some(r.clone()))).unwrap().checkpoints;
    let ids: Vec<_> = listed.iter().map(|l| l.entry().header.snapshot_id().clone()).collect();
    assert_eq!(ids.len(), 53, "50, the latest failed, the latest completed and the pinned one");
    assert_eq!(
        ids[50..].iter().collect::<Vec<_>>(),
        [pinned.snapshot_id(), completed.snapshot_id(), failed.snapshot_id()]
    );
    assert_eq!(world.count("other"), 3, "runs never evict each other");
    // All of them still verify, although their neighbours were removed.
    let report = world.mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap();
    assert_eq!((report.checked(), report.damaged()), (56, &vec![]));
}

#[rstest]
fn fourteen_days_and_not_one_hour_less(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    world.mp.save(&r, say("old")).unwrap();
    world.wait((13 * 24 + 23) * 3_600_000);
    world.mp.save(&r, say("stays")).unwrap();
    assert_eq!(world.count("r"), 2);
    world.wait(2 * 3_600_000);
    world.mp.save(&r, say("goes")).unwrap();
    assert_eq!(world.count("r"), 2, "the checkpoint aged 14 days and an hour is removed");
    world.wait(400 * 24 * 3_600_000);
    world.mp.save(&run("x"), say("elsewhere")).unwrap();
    assert_eq!(world.latest("r"), "goes", "the newest is kept at any age");
}

#[rstest]
fn the_newest_state_outlives_fifty_saves_without_one(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    world.mp.save(&r, Save::new().state(&vec![1, 2, 3]).unwrap()).unwrap();
    for i in 0..70 {
        world.mp.save(&r, say(&format!("{i}"))).unwrap();
    }
    assert_eq!(world.mp.state_of::<Vec<u32>>(&r).unwrap(), Some(vec![1, 2, 3]));
    assert_eq!(world.mp.state_of::<Vec<u32>>(&run("none")).unwrap(), None);
}

#[rstest]
fn items_are_in_the_next_checkpoint_and_in_the_run_before_it(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
) {
    let world = World::new(kind);
    let r = run("r");
    let note = LogLine { at: at(START), text: "hello".into(), extra: Default::default() };
    let items = [Item::Note(note), Item::Task(Task::new("t1", "done", Some("first")).unwrap())];
    world.mp.record(&r, &items, &Default::default()).unwrap();
    let pending = world.mp.run_detail(&r).unwrap().summary().record().clone().unwrap().working().clone();
    assert_eq!((pending.log().len(), pending.tasks()[0].id()), (1, "t1"));
    world.mp.save(&r, Save::new()).unwrap();
    let body = world.mp.show(&Reference::Latest(0), Some(&r)).unwrap().body().unwrap();
    assert_eq!((body.log.len(), body.tasks.len()), (1, 1));
    assert!(world.mp.store().run(&r).unwrap().unwrap().items.is_empty(), "consumed");
}

#[rstest]
fn lost_replies_save_once(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions::new().create(true);
    let faults = Faults { seed: 7, lost_replies: 300, lost_requests: 100 };
    let store: Arc<dyn Store> = match kind {
        Kind::Sqlite => {
            Arc::new(faults.around(SqliteStore::open(&dir.path().join("m.db"), &options).unwrap()))
        }
        Kind::Files => {
            Arc::new(faults.around(FilesStore::open(&dir.path().join("store"), &options).unwrap()))
        }
    };
    let mp = Milepost::on(store);
    let r = run("r");
    for i in 1..=120u64 {
        let mut save = say(&format!("{i}")).profile(Profile::Pai);
        save = save.tag(format!("t{i}"));
        // Replies can be lost more often than the engine retries. The caller then looks up the latest
        // checkpoint.
        let saved = mp.save(&r, save);
        if let Ok(saved) = saved {
            assert_eq!(saved.sequence(), i);
        } else {
            assert_eq!(mp.find(&Reference::Latest(0), Some(&r)).unwrap().header.sequence(), i);
        }
    }
    let plain = Milepost::on(open(kind, dir.path()));
    let listed = plain.list(&ListQuery::default().run(Some(r))).unwrap().checkpoints;
    assert_eq!(listed.len(), 120);
}

#[rstest]
fn restoring_a_state_never_loses_what_was_there(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    let text = "{\"z\": 1.0, \"a\":9007199254740993,\"e\":\"\\u00e9\\u00E9\",\"m\":-0.0}";
    world.mp.save(&r, Save::new().state_text(text).unwrap()).unwrap();
    world.mp.save(&r, say("without")).unwrap();
    let state = world.mp.state(&Reference::Latest(0), Some(&r)).unwrap();
    assert_eq!(state.state().get(), text);
    assert_eq!(state.entry().header.sequence(), 1);
    let file = world.dir.path().join("state.json");
    let plain = RestoreOptions::default();
    assert_eq!(world.mp.restore(&state, &file, &plain).unwrap(), None);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    assert_eq!(world.mp.restore(&state, &file, &plain).unwrap(), None, "identical content is not a conflict");
    milepost::internal::fs::atomic::write(&file, b"mine", milepost::internal::fs::atomic::Mode::Shared)
        .unwrap();
    let refused = world.mp.restore(&state, &file, &plain).unwrap_err();
    assert_eq!(refused.reason(), ReasonCode::RestoreRefused);
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    let other = RestoreOptions::default().current_run(Some(run("other"))).force(true);
    assert_eq!(world.mp.restore(&state, &file, &other).unwrap_err().reason(), ReasonCode::RestoreRefused);
    let forced = other.allow_run_mismatch(true);
    let kept = world.mp.restore(&state, &file, &forced).unwrap().unwrap();
    assert_eq!(std::fs::read(kept).unwrap(), b"mine");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
}

#[rstest]
fn the_pointer_follows_and_leaves(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("seed.json");
    milepost::internal::fs::atomic::write(
        &file,
        b"{\"v\": 1.0, \"state\": {}}\n",
        milepost::internal::fs::atomic::Mode::Shared,
    )
    .unwrap();
    let (key, project) =
        (vec!["state".into(), "checkpointRef".into()], ProjectPaths::find(dir.path()).unwrap());
    let pointer = Pointer { file: file.clone(), key, commit: false, project };
    let world = World::new(kind).with(Settings::default().pointer(Some(pointer)));
    let read = || std::fs::read_to_string(&file).unwrap();
    let first = world.mp.save(&run("a"), say("a")).unwrap();
    assert_eq!(
        read(),
        format!("{{\"v\": 1.0, \"state\": {{\"checkpointRef\": \"{}\"}}}}\n", first.snapshot_id())
    );
    world.mp.save(&run("b"), say("b")).unwrap();
    assert!(world.mp.save(&run("a"), say("a")).unwrap().coalesced());
    assert!(
        read().contains(first.snapshot_id().as_str()),
        "a save that was folded into an earlier one also moves the pointer"
    );
    world.wait(10_000);
    world.mp.save(&run("b"), say("b")).unwrap();
    let entry = world.mp.find(&Reference::Latest(0), Some(&run("a"))).unwrap();
    world.mp.complete(&entry).unwrap();
    assert!(read().contains("cp_"), "completing another run does not change the pointer");
    world.mp.delete(&run("b")).unwrap();
    assert_eq!(read(), "{\"v\": 1.0, \"state\": {\"checkpointRef\": null}}\n");
    world.mp.save(&run("c"), say("c")).unwrap();
    world.mp.finish(&run("c"), Status::Completed, Save::new()).unwrap();
    assert!(read().contains("null"), "a completed run has no current checkpoint");
}

#[rstest]
fn tags_name_checkpoints_and_two_writers_of_marks_keep_both(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    for i in 0..30 {
        world.mp.save(&r, say(&format!("{i}"))).unwrap();
    }
    let entry = world.mp.find(&Reference::Numbered(r.clone(), 15), None).unwrap();
    std::thread::scope(|scope| {
        for i in 0..8 {
            let (mp, entry) = (&world.mp, &entry);
            scope.spawn(move || {
                let change = MarkChange::default().tag(vec![format!("t{i}")]);
                mp.mark(entry, &change).unwrap();
            });
        }
    });
    for i in 0..8 {
        let found = world.mp.find(&Reference::Name(format!("t{i}")), None).unwrap();
        assert_eq!(found.header.sequence(), 15);
    }
}

#[rstest]
fn a_live_owner_keeps_others_out(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    let start = |owner| {
        let run_options = RunOptions { owner, ..RunOptions::default() };
        StartOptions { run_id: Some(r.clone()), run_options, ..StartOptions::default() }
    };
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let owner = milepost::internal::owner::describe(child.id());
    assert!(!world.mp.start(start(owner)).unwrap().rejoined);
    let refused = world.mp.start(start(None)).unwrap_err();
    assert_eq!(refused.reason(), ReasonCode::ResumeRunActive);
    assert!(refused.to_string().contains(&child.id().to_string()));
    child.kill().unwrap();
    child.wait().unwrap();
    let again = world.mp.start(start(None)).unwrap();
    assert!(again.rejoined);
    assert_eq!(again.record.sessions(), 2);
}

#[rstest]
fn a_store_removed_under_a_live_process_is_made_again(#[values(Kind::Sqlite)] kind: Kind) {
    let world = World::new(kind);
    let r = run("r");
    world.mp.save(&r, say("before")).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(world.dir.path().join(format!("m.db{suffix}"))).unwrap();
    }
    world.mp.save(&r, say("after")).unwrap();
    let fresh = Milepost::on(open(world.kind, world.dir.path()));
    assert_eq!(
        fresh.show(&Reference::Latest(0), Some(&r)).unwrap().entry().header.summary().clone().unwrap(),
        "after"
    );
}

#[test]
fn a_damaged_record_is_rebuilt_from_what_is_intact() {
    let world = World::new(Kind::Sqlite);
    let r = run("r");
    let decision = milepost::model::Decision {
        at: at(START),
        supersedes: None,
        text: "SQLite".into(),
        extra: Default::default(),
    };
    let long = "s".repeat(500);
    world.mp.record(&r, &[Item::Decision(decision)], &Default::default()).unwrap();
    let first = world.mp.save(&r, say(&long).status(Status::Failed)).unwrap();
    world.mp.save(&r, say(&long)).unwrap();
    world
        .mp
        .complete(&world.mp.find(&Reference::Name(first.snapshot_id().to_string()), None).unwrap())
        .unwrap();
    let db = rusqlite::Connection::open(world.dir.path().join("m.db")).unwrap();
    // The newest record is in the append log.
    for table in ["run", "append_log"] {
        let damage = format!("UPDATE {table} SET record = replace(record, 'in_progress', 'in_progresX')");
        assert_ne!(db.execute(&damage, []).unwrap(), 0);
    }
    assert!(world.mp.run_detail(&r).unwrap().summary().record().is_err());
    assert_eq!(world.mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().len(), 1);
    let entry = world.mp.find(&Reference::Latest(0), Some(&r)).unwrap();
    world.mp.mark(&entry, &MarkChange::default().pin(Some(true))).unwrap();
    let record = world.mp.run_detail(&r).unwrap().summary().record().clone().unwrap();
    assert_eq!(record.working().decisions().len(), 1);
    assert_eq!(record.working().task_summary().as_deref(), Some(long.as_str()));
    let members = serde_json::to_value(&record).unwrap();
    assert_eq!((&members["completed_through"], &members["latest_failed"]), (&1.into(), &1.into()));
    let saved = world.mp.save(&r, say("goes on")).unwrap();
    assert_eq!(saved.sequence(), 3);
}

#[test]
fn limits_refuse_with_the_numbers_and_write_nothing() {
    let world = World::new(Kind::Sqlite);
    let big = format!("\"{}\"", "x".repeat(300 * 1024));
    let refused = world.mp.save(&run("r"), Save::new().state_text(&big).unwrap()).unwrap_err();
    assert_eq!(refused.reason(), ReasonCode::CheckpointSchemaInvalid);
    let Error::Schema(invalid) = refused else { panic!("{refused:?}") };
    assert_eq!(invalid.path, "/state");
    assert!(invalid.message.contains("307202") && invalid.message.contains("262144"), "{invalid}");
    assert!(world.mp.store().run(&run("r")).unwrap().is_none());
}

#[test]
fn the_pointers_commit_holds_its_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"];
        let output =
            std::process::Command::new("git").arg("-C").arg(dir.path()).args(identity).args(args).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["config", "user.name", "t"]);
    git(&["config", "user.email", "t@example.invalid"]);
    let write = |name: &str, text: &str| {
        milepost::internal::fs::atomic::write(
            &dir.path().join(name),
            text.as_bytes(),
            milepost::internal::fs::atomic::Mode::Shared,
        )
        .unwrap();
    };
    write("other.txt", "one\n");
    git(&["add", "other.txt"]);
    git(&["commit", "-qm", "first"]);
    write("other.txt", "two\n");
    git(&["add", "other.txt"]);
    write("untracked.txt", "x\n");
    let (key, project) = (vec!["checkpointRef".into()], ProjectPaths::find(dir.path()).unwrap());
    let pointer = Pointer { file: dir.path().join("seed.json"), key, commit: true, project };
    let world = World::new(Kind::Sqlite).with(Settings::default().pointer(Some(pointer)));
    let saved = world.mp.save(&run("r"), say("x")).unwrap();
    assert_eq!(*saved.pointer_error(), None);
    assert_eq!(git(&["show", "--name-only", "--format=", "HEAD"]).trim(), "seed.json");
    assert_eq!(git(&["status", "--porcelain"]), "M  other.txt\n?? untracked.txt\n");
    assert!(git(&["show", "HEAD:seed.json"]).contains(saved.snapshot_id().as_str()));
}

/// Overwrites the root page of a table in the database file.
pub(crate) fn destroy(db: &std::path::Path, table: &str) {
    use std::os::unix::fs::FileExt;
    let connection = rusqlite::Connection::open(db).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let root: u32 = connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?1", [table], |row| row.get(0))
        .unwrap();
    drop(connection);
    let file = std::fs::File::options().write(true).open(db).unwrap();
    file.write_all_at(&[0xA5; 4096], u64::from(root - 1) * 4096).unwrap();
}

#[rstest]
#[case("run", 60)]
#[case("event", 60)]
#[case("marks", 60)]
#[case("checkpoint_id", 60)]
#[case("whole", 3)]
#[case("append_log", 57)]
fn what_can_be_read_of_damaged_pages_is_saved(#[case] table: &str, #[case] readable: usize) {
    let world = World::new(Kind::Sqlite);
    let r = run("r");
    for i in 0..60 {
        let save = say(&format!("{i}")).profile(Profile::Pai);
        world.mp.save(&r, save.state_text(&format!("{:?}", "x".repeat(3000))).unwrap()).unwrap();
    }
    let db = world.dir.path().join("m.db");
    drop(world.mp);
    destroy(&db, table);
    let mp = || Milepost::on(open(Kind::Sqlite, world.dir.path()));
    let found = mp().doctor(false, None, &mut |_| {}).unwrap();
    assert!(found.problems[0].message.contains(&format!("{readable} of ")), "{found:?}");
    mp().doctor(true, None, &mut |_| {}).unwrap();
    assert!(world.dir.path().join("m.db.damaged-1").exists());
    let after = mp();
    assert_eq!(*after.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged(), vec![]);
    if readable > 0 {
        // The next save removes none of the recovered checkpoints, although the profile is lost.
        after.save(&r, say("next")).unwrap();
        let listed = after.list(&ListQuery::default().run(Some(r.clone()))).unwrap();
        assert_eq!(listed.checkpoints.len(), readable + 1);
    }
    assert_eq!(mp().doctor(false, None, &mut |_| {}).unwrap().problems, vec![]);
}

#[rstest]
fn the_time_of_a_checkpoint_is_that_of_its_id(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    world.clock.set(at("2026-11-15T12:00:00.9999Z"));
    let saved = world.mp.save(&run("r"), say("x")).unwrap();
    assert!(saved.snapshot_id().as_str().starts_with("cp_20261115T120000999Z_"), "{}", saved.snapshot_id());
    let header = world.mp.show(&Reference::Latest(0), None).unwrap().entry().header.clone();
    assert_eq!(header.created_at(), at("2026-11-15T12:00:00.999Z"), "truncated, never rounded up");
}
