//! Unit tests of the store of files through the `Store` trait, and the helpers that they share.

mod blobs;
mod damage;
mod tail;

use super::*;
use crate::model::{
    Body, CheckpointId, Event, EventType, Item, LogLine, Marks, Profile, RawJson, RunId, RunRecord,
};
use crate::seal::{Sealed, Unsealed, seal};
use crate::store::{CheckpointFilter, Commit, EVENTS_KEPT, ProblemKind, RunView, Slot};

const EARLY: &str = "2026-11-15T10:00:00Z";

fn run(name: &str) -> RunId {
    name.parse().unwrap()
}

fn open(dir: &Path) -> FilesStore {
    FilesStore::open(dir, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap()
}

fn record(run: &RunId) -> RunRecord {
    RunRecord::new(run.clone(), Profile::Run, EARLY.parse().unwrap())
}

fn document(run: &RunId, id: &str, slot: &Slot) -> Sealed {
    let body = Body {
        elapsed_ms: 5,
        state: Some(RawJson::parse("[1,2,3]").unwrap()),
        task_summary: Some(format!("about {id}")),
        ..Body::new(run, &id.parse().unwrap(), EARLY.parse().unwrap()).unwrap()
    };
    seal(Unsealed::new(body, true).unwrap(), slot).unwrap()
}

fn event(run: &RunId, id: &str) -> Event {
    Event {
        at: EARLY.parse().unwrap(),
        kind: EventType::CheckpointCreated,
        run_id: run.clone(),
        snapshot_id: Some(id.parse::<CheckpointId>().unwrap()),
        data: RawJson::parse("{\"check\":\"x\"}").unwrap(),
    }
}

fn note(text: &str) -> Item {
    let text = format!("{{\"type\":\"note\",\"item\":{}}}", serde_json::to_string(&line_of(text)).unwrap());
    serde_json::from_str(&text).unwrap()
}

fn line_of(text: &str) -> LogLine {
    serde_json::from_str(&format!("{{\"at\":\"{EARLY}\",\"text\":\"{text}\"}}")).unwrap()
}

fn change(
    store: &FilesStore,
    run: &RunId,
    mut with: impl FnMut(&RunView, &mut Commit),
) -> Result<Receipt, StoreError> {
    store.write(run, &mut |view| {
        let mut commit = Commit::new(view.record.clone().unwrap_or_else(|| record(run)));
        commit.record.attempts += 1;
        with(view, &mut commit);
        WriteDecision::Commit(Box::new(commit))
    })
}

fn put(store: &FilesStore, run: &RunId, id: &str) -> Receipt {
    change(store, run, |view, commit| {
        commit.puts.push(document(run, id, &view.slot));
        commit.events.push(event(run, id));
    })
    .unwrap()
}

fn rows(store: &FilesStore, run: &RunId) -> Vec<Row> {
    store.headers(&HeaderQuery { run: Some(run), oldest_first: true, ..HeaderQuery::default() }).unwrap()
}

fn sequences(store: &FilesStore, run: &RunId) -> Vec<u64> {
    rows(store, run).into_iter().filter_map(Row::intact).map(|e| e.header.sequence).collect()
}

/// Replaces a file without syncing it.
fn overwrite(path: &Path, bytes: &[u8]) {
    let temp = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    std::io::Write::write_all(&mut temp.as_file(), bytes).unwrap();
    temp.persist(path).unwrap();
}

/// Formats everything that a reader can find out about a run, and verifies the checksum of every body.
fn everything(store: &FilesStore, run: &RunId) -> String {
    let rows = rows(store, run);
    for row in &rows {
        let Row::Intact(entry) = row else { panic!("{row:?}") };
        Verified::read(store.body(run, entry.header.sequence).unwrap(), &entry.header).unwrap();
    }
    let state = store.run(run).unwrap().unwrap();
    let events = store.events(&EventQuery { run: Some(run), ..EventQuery::default() }).unwrap();
    format!("{rows:?} {:?} {:?} {:?} {:?}", state.row, state.items, events.events, events.damaged)
}

#[test]
fn opening_needs_a_store_unless_told_to_make_one() {
    let dir = tempfile::tempdir().unwrap();
    let missing = FilesStore::open(dir.path(), &OpenOptions::default());
    assert!(matches!(missing, Err(StoreError::Missing { .. })));
    drop(open(dir.path()));
    for lock in ["turn", "write"] {
        std::fs::remove_file(dir.path().join(".store").join(lock)).unwrap();
    }
    let store = FilesStore::open(dir.path(), &OpenOptions::default()).unwrap();
    // Reading creates no files, not even lock files.
    assert!(store.runs(&RunQuery::default()).unwrap().is_empty());
    assert!(!dir.path().join(".store/turn").exists());
    overwrite(&dir.path().join(".store/format"), b"2\n");
    assert!(matches!(
        change(&store, &run("r"), |_, _| {}),
        Err(StoreError::Newer { found: 2, known: 1, .. })
    ));
    assert!(matches!(FilesStore::open(dir.path(), &OpenOptions::default()), Err(StoreError::Newer { .. })));
}

#[test]
fn a_commit_is_there_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    let receipt = put(&store, &r, "a");
    assert_eq!(receipt.file, Some(dir.path().join("r/history/a.json")));
    put(&store, &r, "b");
    change(&store, &r, |_, commit| {
        commit.push = vec![note("x"), note("y")];
        commit.marks = vec![(1, Marks { tags: vec!["v1".into()], ..Marks::default() })];
    })
    .unwrap();
    change(&store, &r, |view, commit| {
        assert_eq!((view.waiting, view.details.as_ref().unwrap().items.len()), (2, 2));
        commit.consume = 1;
    })
    .unwrap();
    let latest = fs::read(dir.path().join("r/latest.json")).unwrap();
    assert_eq!(latest, store.body(&r, 2).unwrap());
    assert_eq!(open(dir.path()).run(&r).unwrap().unwrap().items, vec![note("y")]);
    let find = |find| store.headers(&HeaderQuery { find, ..HeaderQuery::default() }).unwrap().len();
    assert_eq!(
        [
            find(CheckpointFilter::All),
            find(CheckpointFilter::Id("a")),
            find(CheckpointFilter::Prefix("b")),
            find(CheckpointFilter::Name("v1"))
        ],
        [2, 1, 1, 1]
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &str| fs::metadata(dir.path().join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!([mode("r"), mode("r/history"), mode(".store")], [0o700; 3]);
        let files = ["r/log.jsonl", "r/latest.json", "r/history/a.json", ".store/stamp", ".store/format"];
        assert_eq!(files.map(mode), [0o600; 5]);
    }
}

#[test]
fn rules_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    assert_eq!(store.write(&r, &mut |_| WriteDecision::NoChange).unwrap(), Receipt::default());
    assert!(store.run(&r).unwrap().is_none() && !dir.path().join("r").exists());
    put(&store, &r, "a");
    let refused = |with: &dyn Fn(&RunView, &mut Commit)| change(&store, &r, with).unwrap_err();
    let early = refused(&|_, commit| commit.puts = vec![document(&r, "x", &Slot::issue(1, 9))]);
    assert!(matches!(early, StoreError::Rules(_)));
    let foreign = refused(&|view, commit| commit.puts = vec![document(&run("q"), "x", &view.slot)]);
    assert!(matches!(foreign, StoreError::Rules(_)));
    let again = refused(&|view, commit| commit.puts = vec![document(&r, "a", &view.slot)]);
    assert!(matches!(again, StoreError::Exists(_)));
    let elsewhere = change(&store, &run("q"), |view, c| c.puts = vec![document(&run("q"), "a", &view.slot)]);
    assert!(matches!(elsewhere, Err(StoreError::Exists(_))));
    assert!(matches!(refused(&|_, commit| commit.consume = 1), StoreError::Rules(_)));
    // Sequences may have gaps, and those of dropped checkpoints are not reused.
    change(&store, &r, |view, commit| {
        commit.puts = vec![document(&r, "b", &view.slot.at_sequence(7).unwrap())];
        commit.drops = vec![1];
    })
    .unwrap();
    change(&store, &r, |_, commit| commit.drops = vec![7]).unwrap();
    assert!(!dir.path().join("r/latest.json").exists());
    assert_eq!(fs::read_dir(dir.path().join("r/history")).unwrap().count(), 0);
    store.maintain(Maintenance::Compact).unwrap();
    put(&open(dir.path()), &r, "c");
    assert_eq!(sequences(&store, &r), [8]);
}

#[test]
fn dropping_the_newest_brings_the_one_before_to_latest() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    put(&store, &r, "a");
    put(&store, &r, "b");
    change(&store, &r, |_, commit| commit.drops = vec![2]).unwrap();
    assert_eq!(fs::read(dir.path().join("r/latest.json")).unwrap(), store.body(&r, 1).unwrap());
}

#[test]
fn what_a_crash_leaves_is_ignored_and_swept() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    put(&store, &r, "a");
    let orphan = document(&r, "orphan", &Slot::issue(2, 2));
    overwrite(&dir.path().join("r/history/orphan.json"), orphan.bytes());
    overwrite(&dir.path().join("r/history/.milepost-tmp-x"), b"half");
    overwrite(&dir.path().join("r/.milepost-tmp-y"), b"half");
    atomic::create_folder(&dir.path().join("fresh/history")).unwrap();
    overwrite(&dir.path().join("fresh/history/first.json"), b"{}");
    atomic::create_folder(&dir.path().join(".store/trash-old-1/history")).unwrap();
    assert_eq!(sequences(&store, &r), [1]);
    assert_eq!(store.runs(&RunQuery::default()).unwrap().len(), 1);
    // The same checkpoint can be added again, as a repeated import does.
    put(&store, &r, "orphan");
    overwrite(&dir.path().join("r/history/other.json"), orphan.bytes());
    let found = store.maintain(Maintenance::Inspect).unwrap();
    let kinds = |kind| found.problems.iter().filter(|p| p.kind == kind).count();
    assert_eq!(
        (kinds(ProblemKind::StrayFile), kinds(ProblemKind::Orphan), found.done),
        (3, 2, 0),
        "{found:?}"
    );
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 5);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap(), MaintenanceReport::default());
    assert!(!dir.path().join("fresh").exists());
    assert_eq!(sequences(&store, &r), [1, 2]);
}

#[test]
fn compaction_keeps_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (store, r) = (open(dir.path()), run("r"));
    for i in 0..40 {
        put(&store, &r, &format!("a{i}"));
    }
    change(&store, &r, |_, commit| {
        commit.push = vec![note("x"), note("y")];
        commit.marks = vec![(40, Marks { tags: vec!["t".into()], ..Marks::default() })];
        commit.drops = (3..30).collect();
    })
    .unwrap();
    let before = everything(&store, &r);
    let report = store.maintain(Maintenance::Compact).unwrap();
    assert!(report.done == 1 && report.bytes_freed > 0, "{report:?}");
    assert_eq!(everything(&store, &r), before);
    assert_eq!(everything(&open(dir.path()), &r), before);
    // A single damaged line of the new log loses nothing, unless it is the last line.
    let path = dir.path().join("r/log.jsonl");
    let log = fs::read(&path).unwrap();
    let last = log[..log.len() - 1].iter().rposition(|b| *b == b'\n').unwrap() + 1;
    for at in (0..last).step_by(97) {
        let mut bytes = log.clone();
        bytes[at] ^= 2;
        overwrite(&path, &bytes);
        assert_eq!(everything(&store, &r), before, "byte {at}");
    }
    overwrite(&path, &log);
    for _ in 0..600 {
        change(&store, &r, |_, commit| commit.events = vec![event(&r, "a0"), event(&r, "a1")]).unwrap();
    }
    let lines = fs::read(&path).unwrap().iter().filter(|b| **b == b'\n').count();
    assert!(lines < 400, "{lines}");
    let events = store.events(&EventQuery { limit: 5000, ..EventQuery::default() }).unwrap().events;
    assert_eq!(events.len() as u64, EVENTS_KEPT);
    assert!(events.is_sorted_by(|a, b| a.0.position() < b.0.position()));
    let after = EventQuery { after: Some(&events[990].0), limit: 3, ..EventQuery::default() };
    assert_eq!(store.events(&after).unwrap().events, events[997..]);
    assert_eq!(store.run(&r).unwrap().unwrap().row.record.unwrap().attempts, 641);
}

#[test]
fn stamps_never_go_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let stamp = |store: &FilesStore, name: &str| {
        let mut seen = 0;
        change(store, &run(name), |view, _| seen = view.slot.stamp()).unwrap();
        seen
    };
    let first = stamp(&store, "r");
    let second = stamp(&store, "q");
    assert!(second > first);
    assert!(store.delete_run(&run("q"), None).unwrap());
    assert!(!store.delete_run(&run("q"), None).unwrap());
    assert!(store.run(&run("q")).unwrap().is_none());
    let file = dir.path().join(".store/stamp");
    let mut last = second;
    for text in [None, Some(&b""[..]), Some(b"junk"), Some(b"other-boot 00000000000000000001 00")] {
        match text {
            None => fs::remove_file(&file).unwrap(),
            Some(text) => overwrite(&file, text),
        }
        let next = stamp(&open(dir.path()), "r");
        assert!(next > last, "{next} after {last}");
        last = next;
    }
    let newest = store.runs(&RunQuery { limit: 1, ..RunQuery::default() }).unwrap();
    assert_eq!(newest[0].run_id, run("r"));
}

#[test]
fn two_handles_write_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two, r) = (open(dir.path()), open(dir.path()), run("r"));
    for i in 0..20 {
        put(if i % 2 == 0 { &one } else { &two }, &r, &format!("c{i}"));
    }
    assert_eq!(sequences(&one, &r), (1..=20).collect::<Vec<_>>());
    assert_eq!(everything(&one, &r), everything(&two, &r));
    one.maintain(Maintenance::Compact).unwrap();
    put(&two, &r, "x");
    assert_eq!(sequences(&one, &r).len(), 21);
    std::thread::scope(|scope| {
        for (n, store) in [&one, &two].into_iter().enumerate() {
            scope.spawn(move || (0..20).for_each(|i| drop(put(store, &run("r"), &format!("t{n}-{i}")))));
        }
    });
    assert_eq!(sequences(&open(dir.path()), &r), (1..=61).collect::<Vec<_>>());
}

#[test]
fn a_busy_store_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = FilesStore::open(
        dir.path(),
        &OpenOptions { create: true, wait: Duration::from_millis(20), ..OpenOptions::default() },
    )
    .unwrap();
    let held = store.lock.acquire(Duration::ZERO).unwrap();
    assert!(matches!(change(&store, &run("r"), |_, _| {}), Err(StoreError::Busy { .. })));
    drop(held);
}
