//! Handles for one project: each lists and collects only what belongs to its project, although all projects are in
//! the same tables.

use milepost::model::{BlobId, RunId};
use milepost::store::{
    CheckpointFilter, Commit, EventQuery, HeaderQuery, LiveBlobs, Maintenance, Row, RunQuery, Store,
    StoreError, ThreadFilter, WriteDecision,
};
use milepost_postgres::PostgresStore;
use milepost_testkit::{Oracle, TestCheckpoint, fixtures};

use crate::servers::{self, TestSchema};
use crate::sql::Sql;

fn of_project() -> Option<Box<dyn Fn() -> Box<dyn Store>>> {
    let settings = servers::new_schema(&servers::shared()?.url("postgres"));
    // Another project with blobs, runs and names, which must never be seen.
    let other = servers::open_project(&settings, "other");
    other.put_blobs(&[b"a blob of another project"]).unwrap();
    Oracle::begin(&other, "run-of-another-project").put_many(2);
    Some(Box::new(move || Box::new(servers::open_project(&settings, "tested"))))
}

mod conformance {
    use super::*;
    milepost_testkit::conformance!(of_one_project of_project);
}

/// Two projects with the same tags and blobs, and interleaved checkpoints: runs `a-0` to `a-2` and `b-0` to `b-2`, with
/// three checkpoints each. The record of each run names its project.
fn two_projects() -> Option<(TestSchema, PostgresStore, PostgresStore, PostgresStore)> {
    let settings = servers::new_schema(&servers::shared()?.url("postgres"));
    let (a, b) = (servers::open_project(&settings, "a"), servers::open_project(&settings, "b"));
    for store in [&a, &b] {
        store.put_blobs(&[b"shared", b"unused"]).unwrap();
    }
    for n in 0..9 {
        for (project, store) in [("a", &a), ("b", &b)] {
            let run = fixtures::run_id(&format!("{project}-{}", n % 3));
            let doc = TestCheckpoint::new(&run, n).thread(fixtures::position("", &n.to_string()));
            let write = store.write(&run, &mut |view| {
                let record = fixtures::next_record(&run, view);
                let record = fixtures::set_member(&record, "project_id", &format!("\"{project}\""));
                let mut commit = Commit::new(record);
                commit.puts.push(doc.seal(&view.slot));
                commit.blobs.push(BlobId::of(b"shared"));
                commit.events.push(fixtures::event(&run, n));
                if n == 4 {
                    commit.marks.push((view.slot.sequence(), fixtures::tagged(1, &["release"])));
                    commit.new_names.push("release".to_owned());
                }
                if n == 5 {
                    commit.roots.push(("root".to_owned(), BlobId::of(b"shared")));
                }
                WriteDecision::Commit(Box::new(commit))
            });
            write.unwrap();
        }
    }
    let all = servers::open(&settings);
    Some((settings, a, b, all))
}

fn runs_of(rows: Vec<Row>) -> Vec<RunId> {
    rows.into_iter().filter_map(Row::intact).map(|entry| entry.header.run_id().clone()).collect()
}

fn is_of(project: &str, runs: &[RunId]) -> bool {
    runs.iter().all(|run| run.as_str().starts_with(project))
}

#[test]
fn every_list_shows_one_project() {
    let Some((_schema, a, b, all)) = two_projects() else { return };
    for (project, other, store) in [("a", "b", &a), ("b", "a", &b)] {
        let runs = |query: RunQuery<'_>| -> Vec<RunId> {
            store.runs(&query).unwrap().into_iter().map(|row| row.run_id).collect()
        };
        assert_eq!(runs(RunQuery::default()).len(), 3);
        for (filter, count) in [(ThreadFilter::default(), 9), (ThreadFilter::default().id("4"), 1)] {
            let query = HeaderQuery::default().find(CheckpointFilter::Thread(filter));
            let found = runs_of(store.headers(&query).unwrap());
            assert!(is_of(project, &found) && found.len() == count, "{filter:?}: {found:?}");
        }
        assert!(is_of(project, &runs(RunQuery::default())));
        assert!(is_of(project, &runs(RunQuery::default().limit(2))));
        assert!(is_of(other, &runs(RunQuery::default().project(other))), "the query's project wins");
        let headers = |query: HeaderQuery<'_>| runs_of(store.headers(&query).unwrap());
        for (find, count) in [
            (CheckpointFilter::All, 9),
            (CheckpointFilter::Name("release"), 1),
            (CheckpointFilter::Prefix("cp_"), 9),
            (CheckpointFilter::Id(&format!("cp_{project}-1_4")), 1),
            (CheckpointFilter::Id(&format!("cp_{other}-1_4")), 0),
            (CheckpointFilter::Prefix(&format!("cp_{other}")), 0),
        ] {
            let found = headers(HeaderQuery::default().find(find));
            assert_eq!(found.len(), count, "{find:?}");
            assert!(is_of(project, &found), "{find:?}");
        }
        // Pages continue where the one before ended.
        let everything = store.headers(&HeaderQuery::default()).unwrap();
        for limit in 1..=10 {
            let page = store.headers(&HeaderQuery::default().limit(limit)).unwrap();
            assert_eq!(page, everything[..limit.min(9)], "{limit}");
            let after = page.last().map(Row::cursor);
            let next = store.headers(&HeaderQuery::default().after(after).limit(limit)).unwrap();
            assert_eq!(next, everything[limit.min(9)..(2 * limit).min(9)], "{limit}");
        }
        let events = store.events(&EventQuery::default()).unwrap().events;
        assert_eq!(events.len(), 9);
        assert!(events.iter().all(|(_, event)| event.run_id.as_str().starts_with(project)));
        assert_eq!(store.events(&EventQuery::default().after(&events[6].0)).unwrap().events.len(), 2);
        // A run that is named by its id is found in every project.
        let run = fixtures::run_id(&format!("{other}-0"));
        assert_eq!(store.run(&run).unwrap().unwrap().row.count, 3);
        assert_eq!(store.headers(&HeaderQuery::default().run(&run)).unwrap().len(), 3);
        assert_eq!(store.events(&EventQuery::default().run(&run)).unwrap().events.len(), 3);
        store.body(&run, 1).unwrap();
        assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, []);
    }
    assert_eq!(all.runs(&RunQuery::default()).unwrap().len(), 6);
    assert_eq!(all.headers(&HeaderQuery::default()).unwrap().len(), 18);
    assert_eq!(
        all.headers(&HeaderQuery::default().find(CheckpointFilter::Name("release"))).unwrap().len(),
        2
    );
    assert_eq!(all.events(&EventQuery::default()).unwrap().events.len(), 18);
}

#[test]
fn the_newest_checkpoints_are_found_behind_runs_that_were_only_touched() {
    let Some(server) = servers::shared() else { return };
    let settings = servers::new_schema(&server.url("postgres"));
    let store = servers::open_project(&settings, "p");
    let mut oracles: Vec<_> = (0..40).map(|n| Oracle::begin(&store, &format!("run-{n}"))).collect();
    for oracle in &mut oracles {
        oracle.put_many(2);
    }
    // Newer writes without a checkpoint hide the runs with the newest checkpoints: more runs have to be read.
    for oracle in &mut oracles[..38] {
        oracle.commit(|_, commit| commit.push.push(fixtures::item("heartbeat")));
    }
    for n in 0..20 {
        Oracle::begin(&store, &format!("empty-{n}")).commit(|_, _| {});
    }
    for limit in [1, 2, 3, 4, 5, 79, 80, 81] {
        let found = runs_of(store.headers(&HeaderQuery::default().limit(limit)).unwrap());
        let expected = (0..40).rev().flat_map(|n| [n, n]).map(|n| fixtures::run_id(&format!("run-{n}")));
        assert_eq!(found, expected.take(limit).collect::<Vec<_>>(), "{limit}");
    }
    let empty = servers::open_project(&settings, "q");
    assert_eq!(empty.headers(&HeaderQuery::default().limit(1)).unwrap(), []);
}

#[test]
fn runs_without_a_project_in_their_record_belong_to_the_handle() {
    let Some(server) = servers::shared() else { return };
    let settings = servers::new_schema(&server.url("postgres"));
    let (a, b, all) = (
        servers::open_project(&settings, "a"),
        servers::open_project(&settings, "b"),
        servers::open(&settings),
    );
    let mut oracles: Vec<_> = (0..6).map(|n| Oracle::begin(&a, &format!("run-{n}"))).collect();
    for (n, oracle) in oracles.iter_mut().enumerate() {
        oracle.commit(|_, commit| {
            if n == 0 {
                commit.record = fixtures::set_member(&commit.record, "project_id", "\"a\"");
            }
        });
    }
    let names = |store: &PostgresStore, query: RunQuery<'_>| -> Vec<String> {
        store.runs(&query).unwrap().into_iter().map(|row| row.run_id.to_string()).collect()
    };
    assert_eq!(names(&a, RunQuery::default()).len(), 6);
    assert_eq!(names(&b, RunQuery::default()).len(), 0);
    // A query for a project lists the runs whose record names it, however many others are in between.
    assert_eq!(names(&all, RunQuery::default().project("a").limit(1)), ["run-0"]);
    // Another handle's write leaves the run where it is.
    for store in [&b, &all] {
        store
            .write(oracles[1].run(), &mut |view| {
                let record = fixtures::next_record(oracles[1].run(), view);
                WriteDecision::Commit(Box::new(Commit::new(record)))
            })
            .unwrap();
        assert_eq!(names(&a, RunQuery::default()).len(), 6);
        assert_eq!(names(&b, RunQuery::default()).len(), 0);
    }
    // A run that no project has yet gets the project of the handle that writes it.
    let mut early = Oracle::begin(&all, "early");
    early.put_many(1);
    assert_eq!(names(&a, RunQuery::default()).len(), 6);
    a.write(early.run(), &mut |view| {
        let record = fixtures::next_record(&fixtures::run_id("early"), view);
        WriteDecision::Commit(Box::new(Commit::new(record)))
    })
    .unwrap();
    assert_eq!(names(&a, RunQuery::default())[0], "early");
}

/// Keeps the blob that all runs refer to.
fn keep_shared() -> Result<LiveBlobs, StoreError> {
    let mut live = LiveBlobs::default();
    live.keep.insert(BlobId::of(b"shared"));
    Ok(live)
}

#[test]
fn a_collection_leaves_the_blobs_of_other_projects() {
    let Some((_schema, a, b, all)) = two_projects() else { return };
    let (shared, unused) = (BlobId::of(b"shared"), BlobId::of(b"unused"));
    all.put_blobs(&[b"of no project"]).unwrap();
    let alone = BlobId::of(b"of no project");
    let ids = |store: &PostgresStore| -> Vec<BlobId> {
        store.blobs(None, 0).unwrap().into_iter().map(|entry| entry.id).collect()
    };
    assert_eq!(a.collect_blobs(&mut keep_shared).unwrap().removed, 1);
    assert_eq!(a.missing_blobs(&[shared, unused, alone]).unwrap(), [unused, alone]);
    assert_eq!(b.missing_blobs(&[shared, unused, alone]).unwrap(), [alone]);
    assert_eq!(a.collect_blobs(&mut || Ok(LiveBlobs::default())).unwrap().removed, 1);
    assert_eq!(ids(&a), []);
    assert_eq!(a.blob_bytes().unwrap(), 0);
    assert!(matches!(a.blob(&shared), Err(StoreError::NoBlob(_))));
    assert_eq!(b.blob(&shared).unwrap(), b"shared");
    assert_eq!(ids(&b).len(), 2);
    // The handle without a project reads all blobs, and removes only its own.
    assert_eq!(ids(&all).len(), 3);
    assert_eq!(all.missing_blobs(&[shared, unused, alone]).unwrap(), []);
    assert_eq!(all.blob(&unused).unwrap(), b"unused");
    let sum: u64 = all.blobs(None, 0).unwrap().iter().map(|entry| entry.bytes).sum();
    assert_eq!(all.blob_bytes().unwrap(), sum);
    assert_eq!(all.collect_blobs(&mut || Ok(LiveBlobs::default())).unwrap().removed, 1);
    assert_eq!(ids(&all).len(), 2);
    assert_eq!(b.blob(&unused).unwrap(), b"unused");
    // Roots belong to a project too.
    assert_eq!(b.blob_roots().unwrap(), [("root".to_owned(), shared)]);
    let drop_root = || {
        let mut live = keep_shared()?;
        live.drop_roots.push("root".to_owned());
        Ok(live)
    };
    a.collect_blobs(&mut { drop_root }).unwrap();
    assert_eq!(a.blob_roots().unwrap(), []);
    assert_eq!(b.blob_roots().unwrap(), [("root".to_owned(), shared)]);
    assert_eq!(all.blob_roots().unwrap(), [("root".to_owned(), shared)]);
    let mut oracle = Oracle::begin(&a, "a-new");
    let refused = oracle.attempt(|_, commit| commit.blobs.push(shared));
    assert!(matches!(refused, Err(StoreError::BlobsMissing(ref ids)) if *ids == [shared]), "{refused:?}");
}

#[test]
fn blobs_of_a_commit_to_a_run_of_another_project_are_in_both() {
    let Some((schema, a, b, all)) = two_projects() else { return };
    let run = fixtures::run_id("b-0");
    let contents: [&[u8]; 2] = [b"from a", b"from no project"];
    for (store, content) in [(&a, contents[0]), (&all, contents[1])] {
        let id = BlobId::of(content);
        store.put_blobs(&[content]).unwrap();
        assert_eq!(b.missing_blobs(&[id]).unwrap(), [id]);
        store
            .write(&run, &mut |view| {
                let mut commit = Commit::new(fixtures::next_record(&run, view));
                commit.blobs.push(id);
                WriteDecision::Commit(Box::new(commit))
            })
            .unwrap();
        // A collection where the blob was put does not look at the run, and need not keep the blob for it.
        store.collect_blobs(&mut || Ok(LiveBlobs::default())).unwrap();
        assert_eq!(b.blob(&id).unwrap(), content);
    }
    // A doomed blob of the run's project is kept by the commit.
    Sql::connect(&schema).run("UPDATE {s}.blob SET doomed = 7 WHERE project = 'b'");
    a.put_blobs(&[contents[0]]).unwrap();
    a.write(&run, &mut |view| {
        let mut commit = Commit::new(fixtures::next_record(&run, view));
        commit.blobs.push(BlobId::of(contents[0]));
        WriteDecision::Commit(Box::new(commit))
    })
    .unwrap();
    let doomed = "SELECT count(*) FROM {s}.blob WHERE project = 'b' AND doomed IS NOT NULL";
    assert_eq!(Sql::connect(&schema).number(doomed), 3, "all but one");
}
