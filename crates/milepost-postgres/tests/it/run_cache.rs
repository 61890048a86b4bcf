//! A handle that keeps what it wrote must decide on the same views as a handle that reads everything.

use milepost::model::RunId;
use milepost::store::{Commit, RunView, Store, WriteDecision};
use milepost_postgres::PostgresStore;
use milepost_testkit::rng::Rng;
use milepost_testkit::{TestCheckpoint, fixtures};

use crate::servers;

/// The view that a new handle gets, without the slot, which is new each time.
fn fresh_view(store: &PostgresStore, run: &RunId) -> String {
    let mut seen = String::new();
    let shown = store.write(run, &mut |view| match view.details {
        None => WriteDecision::NeedDetails,
        Some(_) => {
            seen = describe(view);
            WriteDecision::NoChange
        }
    });
    shown.unwrap();
    seen
}

fn describe(view: &RunView) -> String {
    let RunView { record, count, latest, waiting, details, .. } = view;
    format!("{record:?}\n{count} {waiting} {}\n{latest:?}\n{details:?}", view.slot.sequence())
}

/// A random commit: checkpoints, marks of any shown checkpoint, removals, items.
fn random_commit(run: &RunId, view: &RunView, random: &Rng) -> Commit {
    let mut commit = Commit::new(fixtures::next_record(run, view));
    let mut slot = view.slot.clone();
    for _ in 0..random.below(3) {
        let id = format!("cp_20260102T030405006Z_{:012}", slot.stamp());
        let doc =
            TestCheckpoint::new(run, random.next()).id(&id).state("text ".repeat(random.below(400) as usize));
        commit.puts.push(doc.seal(&slot));
        slot = slot.next();
    }
    let details = view.details.as_ref().unwrap();
    for entry in &details.oldest {
        match random.below(8) {
            0 => commit.drops.push(entry.header.sequence()),
            1 => {
                let tags: &[&str] = if random.per_mille(500) { &["kept"] } else { &[] };
                let marks = fixtures::tagged(entry.marks.revision + 1, tags);
                commit.marks.push((entry.header.sequence(), marks));
            }
            _ => {}
        }
    }
    if let (Some(put), 0) = (commit.puts.last(), random.below(4)) {
        commit.marks.push((put.header().sequence(), fixtures::tagged(1, &["new"])));
    }
    commit.consume = random.below(details.items.len() as u64 + 1) as usize;
    commit.push.extend((0..random.below(3)).map(|n| fixtures::item(format!("item {n}"))));
    commit.events.push(fixtures::event(run, 1));
    commit
}

#[test]
fn views_are_the_same_with_and_without_the_cache() {
    let Some(server) = servers::shared() else { return };
    let settings = servers::new_schema(&server.url("postgres"));
    let (kept, other) = (servers::open(&settings), servers::open(&settings));
    for seed in 0..6 {
        let (run, random) = (fixtures::run_id(&format!("run-{seed}")), Rng::new(seed));
        for step in 0..60 {
            // Now and then another process writes in between, or only adds an item, which needs no details.
            let store = if random.below(6) == 0 { &other } else { &kept };
            let expected = fresh_view(&servers::open(&settings), &run);
            let needs_details = random.below(4) > 0;
            let written = store.write(&run, &mut |view| {
                if view.details.is_none() && needs_details {
                    return WriteDecision::NeedDetails;
                }
                if view.details.is_some() {
                    assert_eq!(describe(view), expected, "seed {seed}, step {step}");
                    return WriteDecision::Commit(Box::new(random_commit(&run, view, &random)));
                }
                let mut commit = Commit::new(fixtures::next_record(&run, view));
                commit.push.push(fixtures::item("alone"));
                WriteDecision::Commit(Box::new(commit))
            });
            written.unwrap_or_else(|e| panic!("seed {seed}, step {step}: {e}"));
        }
        for entry in kept.headers(&milepost::store::HeaderQuery::default().run(&run)).unwrap() {
            kept.body(&run, entry.cursor().sequence).unwrap();
        }
    }
}
