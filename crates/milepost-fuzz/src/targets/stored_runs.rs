//! What the targets of stores have in common: a small store with all kinds of content, and the check that a damaged copy
//! of it never returns a wrong document.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use milepost::internal::clock::FrozenClock;
use milepost::model::TaskStatus;
use milepost::store::{HeaderQuery, OpenOptions, RunQuery, StoreUrl};
use milepost::{Milepost, Save, Status, VerifyScope};

/// The documents of a store: their bytes, by run and sequence.
pub(super) type Documents = BTreeMap<(String, u64), Vec<u8>>;

/// Opens the store at an address with a fixed clock.
fn open(url: &StoreUrl, create: bool) -> Option<Milepost> {
    let at = Timestamp::from_second(1_800_000_000).expect("a valid time");
    let mp = Milepost::at(url, &OpenOptions::new().create(create)).ok()?;
    Some(mp.with_clock(Arc::new(FrozenClock::at(at))))
}

/// Creates a store with runs, tasks, decisions, tags and large states, and returns its documents.
pub(super) fn create(url: &StoreUrl) -> Documents {
    let mp = open(url, true).expect("a store can be created");
    for name in ["first", "second"] {
        let run = mp.run(name).title("A run").start().expect("a run can be started");
        for n in 0..3_u32 {
            let task = run.begin_task(&format!("task-{n}")).expect("a task can begin");
            run.decide(format!("decision {n}")).expect("a decision can be recorded");
            let state: Vec<_> = (0..200 * n).map(|i| format!("entry {i} of {name}")).collect();
            task.complete_with(&state).expect("a task can be completed");
        }
        run.task("open", TaskStatus::InProgress).expect("a task can be set");
        run.note("a note between checkpoints").expect("a note can be recorded");
    }
    let run = mp.run("second").rejoin_or_start().expect("a run can be rejoined");
    run.save(Save::new().tag("kept").summary("a summary")).expect("a checkpoint can be saved");
    run.finish(Status::Completed).expect("a run can be finished");
    documents(&mp)
}

fn documents(mp: &Milepost) -> Documents {
    let rows = mp.raw_store().headers(&HeaderQuery::default()).unwrap_or_default();
    let intact = rows.into_iter().filter_map(|row| row.intact());
    let read = |entry: milepost::store::CheckpointEntry| {
        let verified = mp.read(&entry).ok()?;
        Some(((entry.header.run_id().to_string(), entry.header.sequence()), verified.bytes().to_vec()))
    };
    intact.filter_map(read).collect()
}

/// Reads everything in a damaged copy of a store, repairs it, and saves to it. Every document must be one that the store
/// had before it was damaged, and a repaired store must accept a save.
pub(super) fn check(url: &StoreUrl, originals: &Documents, folder: &Path) {
    let Some(mp) = open(url, false) else { return };
    compare(&mp, originals);
    let store = mp.raw_store();
    for row in store.runs(&RunQuery::default()).unwrap_or_default() {
        drop(store.run(&row.run_id));
        drop(store.messages(&row.run_id));
        drop(mp.run_detail(&row.run_id));
    }
    drop(mp.verify(&VerifyScope::Store, &mut |_| {}));
    drop(mp.doctor(false, None, &mut |_| {}));
    compare(&mp, originals);
    if mp.doctor(true, None, &mut |_| {}).is_ok() {
        compare(&mp, originals);
        let run = "third".parse().expect("a valid id");
        if let Ok(saved) = mp.save(&run, Save::new().summary("after the repair")) {
            let shown = mp.show(&saved.snapshot_id().as_str().parse().expect("a valid reference"), None);
            shown.expect("an acknowledged checkpoint can be read");
        }
    }
    drop(mp);
    let parent = folder.parent().expect("a temporary folder has a parent");
    assert!(parent.is_dir());
}

fn compare(mp: &Milepost, originals: &Documents) {
    for (key, bytes) in documents(mp) {
        let is_original = originals.values().any(|original| *original == bytes);
        assert!(is_original, "checkpoint {} of run {} was never saved", key.1, key.0);
    }
}
