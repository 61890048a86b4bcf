//! Saves that read only the end of a log, compared with the state after a replay.

use proptest::prelude::*;

use super::*;
use crate::store::files::tail::Tail;

/// A change of a run.
#[derive(Debug, Clone)]
enum Step {
    Put,
    /// A checkpoint that is marked in its own commit.
    PutMarked,
    Record,
    Push,
    MarkNewest,
    MarkOldest,
    DropOldest,
    DropNewest,
    Compact,
    /// A byte of a line before the last one is changed.
    Damage(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => Just(Step::Put),
        1 => Just(Step::PutMarked),
        2 => Just(Step::Record),
        1 => Just(Step::Push),
        2 => Just(Step::MarkNewest),
        1 => Just(Step::MarkOldest),
        2 => Just(Step::DropOldest),
        1 => Just(Step::DropNewest),
        1 => Just(Step::Compact),
        1 => any::<usize>().prop_map(Step::Damage),
    ];
    proptest::collection::vec(step, 1..40)
}

fn mark(view: &RunView, commit: &mut Commit, sequence: u64) {
    // Higher than every revision before.
    let revision = view.slot.stamp();
    commit.marks.push((sequence, Marks { revision, tags: vec![format!("t{revision}")], ..Marks::default() }));
}

/// Applies a step as a process of its own does.
fn apply(dir: &Path, r: &RunId, n: usize, step: &Step) {
    let store = open(dir);
    let live: Vec<u64> =
        open(dir).load(r).unwrap().map_or_else(Vec::new, |log| log.entries.keys().copied().collect());
    let of = |sequence: Option<&u64>, with: &dyn Fn(&RunView, &mut Commit, u64)| {
        let Some(sequence) = sequence else { return };
        change(&store, r, |view, commit| with(view, commit, *sequence)).unwrap();
    };
    let add = |is_marked: bool| {
        change(&store, r, |view, commit| {
            commit.puts.push(document(r, &format!("d{n}"), &view.slot));
            commit.generated_ids = true;
            if is_marked {
                mark(view, commit, view.slot.sequence());
            }
        })
        .unwrap();
    };
    let remove = |_: &RunView, commit: &mut Commit, sequence: u64| commit.drops.push(sequence);
    match step {
        Step::Put => add(false),
        Step::PutMarked => add(true),
        Step::Record => drop(change(&store, r, |_, _| {}).unwrap()),
        Step::Push => drop(change(&store, r, |_, commit| commit.push = vec![note("x")]).unwrap()),
        Step::MarkNewest => of(live.last(), &mark),
        Step::MarkOldest => of(live.first(), &mark),
        Step::DropOldest => of(live.first(), &remove),
        Step::DropNewest => of(live.last(), &remove),
        Step::Compact => drop(store.maintain(Maintenance::Compact).unwrap()),
        Step::Damage(at) => {
            let path = dir.join(r.as_str()).join("log.jsonl");
            let Ok(mut bytes) = std::fs::read(&path) else { return };
            let Some(last) = bytes[..bytes.len() - 1].iter().rposition(|b| *b == b'\n') else { return };
            bytes[at % last] ^= 1;
            overwrite(&path, &bytes);
        }
    }
}

/// What a decision sees, except details.
fn seen(view: &RunView) -> String {
    format!("{:?} {:?} {} {:?} {}", view.record, view.slot, view.count, view.latest, view.waiting)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_end_of_a_log_describes_what_a_replay_finds(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let r = run("r");
        let mut found = 0;
        for (n, step) in steps.iter().enumerate() {
            apply(dir.path(), &r, n, step);
            let store = open(dir.path());
            let tail = store.read_tail(&r).unwrap();
            let Some((log, end)) = store.load_with_end(&r).unwrap() else { continue };
            prop_assert!(store.read_tail(&r).unwrap().is_none(), "the log was replayed");
            let Some(tail) = tail else { continue };
            found += 1;
            // Damage that no other line repeats shows only in a replay.
            if !log.is_lossy() {
                prop_assert_eq!(seen(&tail.view(999)), seen(&log.view(999)));
                let base = log.base(end);
                prop_assert_eq!(tail.base.n, base.n);
                prop_assert_eq!(tail.base.end.at, base.end.at);
                prop_assert_eq!(format!("{:?}", tail.base.previous), format!("{:?}", base.previous));
            }
        }
        prop_assert!(found > 0 || steps.iter().all(|step| !matches!(step, Step::Put)));
    }
}

/// A run with so many lines that the window does not contain the first ones.
fn long_run(dir: &Path, r: &RunId) -> Vec<u8> {
    let store = open(dir);
    for n in 0..60 {
        put(&store, r, &format!("d{n}"));
    }
    let log = std::fs::read(dir.join(r.as_str()).join("log.jsonl")).unwrap();
    assert!(log.len() > 100 << 10, "{}", log.len());
    log
}

fn put_generated(store: &FilesStore, r: &RunId, id: &str) {
    change(store, r, |view, commit| {
        assert!(view.details.is_none());
        commit.puts.push(document(r, id, &view.slot));
        commit.generated_ids = true;
    })
    .unwrap();
}

#[test]
fn a_save_does_not_read_the_start_of_a_long_log() {
    let (dir, r) = (tempfile::tempdir().unwrap(), run("r"));
    let mut log = long_run(dir.path(), &r);
    // A damaged line that a replay would report.
    log[60] ^= 1;
    overwrite(&dir.path().join("r/log.jsonl"), &log);
    put_generated(&open(dir.path()), &r, "new");
    let store = open(dir.path());
    assert_eq!(store.load(&r).unwrap().unwrap().bad, 1);
    assert_eq!(sequences(&store, &r), (1..=61).collect::<Vec<_>>());
}

#[test]
fn a_damaged_end_is_replayed() {
    let (dir, r) = (tempfile::tempdir().unwrap(), run("r"));
    let log = long_run(dir.path(), &r);
    for cut in [1, 2, 50] {
        let mut damaged = log.clone();
        let at = damaged.len() - cut;
        damaged[at] ^= 4;
        overwrite(&dir.path().join("r/log.jsonl"), &damaged);
        let store = open(dir.path());
        let tail = store.read_tail(&r).unwrap();
        assert_eq!(tail.is_some(), cut == 1, "only the newline may be damaged");
        assert!(tail.is_none_or(|tail| tail.base.end.open));
    }
    // A line that was never acknowledged.
    let mut longer = log.clone();
    longer.extend_from_slice(&log[..100]);
    overwrite(&dir.path().join("r/log.jsonl"), &longer);
    assert_eq!(open(dir.path()).read_tail(&r).unwrap().unwrap().base.end.at, log.len() as u64);
    put_generated(&open(dir.path()), &r, "new");
    assert_eq!(sequences(&open(dir.path()), &r).len(), 61);
}

#[test]
fn commits_that_need_the_whole_log_are_recognised() {
    let (dir, r) = (tempfile::tempdir().unwrap(), run("r"));
    put(&open(dir.path()), &r, "a");
    put(&open(dir.path()), &r, "b");
    let tail: Tail = open(dir.path()).read_tail(&r).unwrap().unwrap();
    let commit = Commit::new(record(&r));
    assert!(tail.is_sufficient_for(&commit));
    let with_marks = |sequence| Commit { marks: vec![(sequence, Marks::default())], ..commit.clone() };
    assert!(tail.is_sufficient_for(&with_marks(2)) && !tail.is_sufficient_for(&with_marks(1)));
    assert!(!tail.is_sufficient_for(&Commit { drops: vec![1], ..commit.clone() }));
    let puts = vec![document(&r, "c", &Slot::issue(3, 9))];
    let given = Commit { puts, ..commit };
    assert!(!tail.is_sufficient_for(&given));
    assert!(tail.is_sufficient_for(&Commit { generated_ids: true, ..given }));
}

#[test]
fn stale_marks_of_the_newest_checkpoint_are_refused() {
    let (dir, r) = (tempfile::tempdir().unwrap(), run("r"));
    put(&open(dir.path()), &r, "a");
    let mark = |revision| {
        let marks = Marks { revision, ..Marks::default() };
        change(&open(dir.path()), &r, |_, commit| commit.marks = vec![(1, marks.clone())])
    };
    mark(2).unwrap();
    assert!(matches!(mark(2), Err(StoreError::MarksMoved(_, 1))));
    mark(3).unwrap();
}

#[test]
fn an_id_that_another_run_has_is_refused_even_after_another_process_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let (store, other) = (open(dir.path()), open(dir.path()));
    put(&store, &run("a"), "x");
    let taken = |store: &FilesStore, id: &str| {
        let r = run("b");
        let put = change(store, &r, |view, commit| commit.puts.push(document(&r, id, &view.slot)));
        matches!(put, Err(StoreError::Exists(_)))
    };
    assert!(taken(&store, "x") && taken(&other, "x"));
    put(&other, &run("c"), "y");
    assert!(taken(&store, "y"));
    // An id can be used again after its run was deleted.
    assert!(other.delete_run(&run("c"), None).unwrap());
    assert!(!taken(&store, "y"));
}
