//! Lists of positions in threads of a store on a server together with what waits on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use milepost::internal::store::SqliteStore;
use milepost::model::RunId;
use milepost::store::{
    CheckpointFilter, Commit, HeaderQuery, OpenOptions, Row, Store, StoreUrl, SyncOptions, SyncedStore,
    ThreadFilter, WriteDecision,
};
use milepost_testkit::fault::Outage;
use milepost_testkit::{TestCheckpoint, fixtures};

/// Writes one checkpoint with a position.
fn put(store: &dyn Store, run: &str, sequence: u64, namespace: &str, id: &str) {
    let run = fixtures::run_id(run);
    let doc = TestCheckpoint::new(&run, sequence).thread(fixtures::position(namespace, id));
    let write = store.write(&run, &mut |view| {
        let mut commit = Commit::new(fixtures::next_record(&run, view));
        commit.puts.push(doc.seal(&view.slot.at_sequence(sequence).unwrap()));
        WriteDecision::Commit(Box::new(commit))
    });
    write.unwrap();
}

/// The ids of a list with the sequence numbers, read in pages.
fn listed(store: &dyn Store, run: Option<&RunId>, filter: ThreadFilter<'_>, page: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut after: Option<(String, u64)> = None;
    loop {
        let after_it = after.as_ref().map(|(id, stamp)| (id.as_str(), *stamp));
        let find = CheckpointFilter::Thread(filter.after(after_it));
        let rows = store.headers(&HeaderQuery::default().run(run).find(find).limit(page)).unwrap();
        let entries: Vec<_> = rows.into_iter().filter_map(Row::intact).collect();
        for entry in &entries {
            let id = &entry.header.thread().as_ref().unwrap().id;
            found.push(format!("{id}:{}@{}", entry.header.run_id(), entry.header.sequence()));
            after = Some((id.clone(), entry.header.stamp()));
        }
        if page == 0 || entries.len() < page {
            return found;
        }
    }
}

#[test]
fn what_waits_is_listed_among_what_the_server_has() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let options = OpenOptions::new().create(true);
    let server = SqliteStore::open(&path("server.db"), &options).unwrap();
    let local = SqliteStore::open(&path("local.db"), &options).unwrap();
    // Run `a` was copied from the server in part, and continues on this machine.
    for (sequence, id) in [(1, "2"), (2, "9"), (3, "6"), (4, "4")] {
        put(&server, "a", sequence, "", id);
    }
    for (sequence, id) in [(3, "6"), (4, "4"), (5, "8"), (6, "4"), (7, "1")] {
        put(&local, "a", sequence, "", id);
    }
    put(&local, "b", 1, "child", "5");
    put(&local, "b", 2, "", "4");
    put(&server, "c", 1, "", "7");
    put(&server, "c", 2, "child", "4");
    let is_down = Arc::new(AtomicBool::new(false));
    let outage = Outage::new(Arc::new(server), Arc::clone(&is_down));
    let here = Some((StoreUrl::sqlite(path("local.db")), OpenOptions::new()));
    let store = SyncedStore::new(Box::new(outage), here, SyncOptions::default());
    let [a, c] = ["a", "c"].map(fixtures::run_id);
    let all = ThreadFilter::default();
    for page in [0, 1, 2, 3, 4] {
        let of = |run, filter| listed(&store, run, filter, page);
        assert_eq!(of(Some(&a), all), ["9:a@2", "8:a@5", "6:a@3", "4:a@6", "4:a@4", "2:a@1", "1:a@7"]);
        assert_eq!(of(Some(&a), all.id("4")), ["4:a@6", "4:a@4"]);
        assert_eq!(of(Some(&c), all), ["7:c@1", "4:c@2"]);
        let expected = [
            "9:a@2", "8:a@5", "7:c@1", "6:a@3", "5:b@1", "4:b@2", "4:a@6", "4:a@4", "4:c@2", "2:a@1", "1:a@7",
        ];
        assert_eq!(of(None, all), expected, "pages of {page}");
        assert_eq!(of(None, all.namespace("child")), ["5:b@1", "4:c@2"]);
    }
    is_down.store(true, Ordering::Relaxed);
    for page in [0, 1, 2] {
        let expected = ["8:a@5", "6:a@3", "4:a@6", "4:a@4", "1:a@7"];
        assert_eq!(listed(&store, Some(&a), all, page), expected);
        let expected = ["8:a@5", "6:a@3", "5:b@1", "4:b@2", "4:a@6", "4:a@4", "1:a@7"];
        assert_eq!(listed(&store, None, all, page), expected);
    }
}
