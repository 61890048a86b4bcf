//! Damage to the positions in threads of a SQLite store. They are derived from headers: a list never fails and never
//! contains a wrong checkpoint, and a repair restores what is missing. The tests change rows by SQL.

use std::path::Path;
use std::sync::Arc;

use milepost::Milepost;
use milepost::internal::fs::atomic;
use milepost::internal::store::{FilesStore, SqliteStore};
use milepost::store::{CheckpointFilter, HeaderQuery, Maintenance, OpenOptions, Row, Store, ThreadFilter};
use milepost_testkit::{Oracle, fixtures};
use rstest::rstest;

const ALL: [&str; 12] = ["11", "10", "09", "08", "07", "06", "05", "04", "03", "02", "01", "00"];

fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(path, &OpenOptions::new().create(true)).unwrap()
}

/// Writes twelve checkpoints with positions, the latest of them to the append log.
fn fill(store: &dyn Store) -> Oracle<'_> {
    let mut oracle = Oracle::begin(store, "hurt");
    for n in 0..12 {
        oracle.put(&oracle.doc(n).thread(fixtures::position("ns", &format!("{n:02}"))));
    }
    oracle
}

/// Fills a store and executes the statement.
fn with_damage(sql: &str, then: impl FnOnce(&dyn Store, Oracle<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    let store = open(&path);
    let oracle = fill(&store);
    let db = rusqlite::Connection::open(&path).unwrap();
    let merged: i64 = db.query_row("SELECT count(*) FROM thread_position", [], |row| row.get(0)).unwrap();
    assert_eq!(merged, 9, "the other checkpoints are in the append log");
    assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
    then(&store, oracle);
}

/// The ids in the namespace; `-` for a damaged row.
fn listed(store: &dyn Store, namespace: &str) -> Vec<String> {
    let find = CheckpointFilter::Thread(ThreadFilter::default().namespace(namespace));
    let rows = store.headers(&HeaderQuery::default().run(&fixtures::run_id("hurt")).find(find)).unwrap();
    let id = |row| match row {
        Row::Intact(entry) => entry.header.thread().as_ref().unwrap().id.clone(),
        Row::Damaged { .. } => "-".into(),
    };
    rows.into_iter().map(id).collect()
}

fn without(id: &str) -> Vec<&'static str> {
    ALL.into_iter().filter(|other| *other != id).collect()
}

/// A repair finds one problem and restores the whole list.
fn is_repaired(store: &dyn Store, oracle: &Oracle<'_>) {
    let found = store.maintain(Maintenance::Inspect).unwrap().problems;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(store.maintain(Maintenance::Repair).unwrap().done > 0);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, []);
    assert_eq!(listed(store, "ns"), ALL);
    oracle.check();
}

#[test]
fn a_missing_position_is_added() {
    with_damage("DELETE FROM thread_position WHERE id = '05'", |store, oracle| {
        assert_eq!(listed(store, "ns"), without("05"));
        is_repaired(store, &oracle);
    });
}

#[test]
fn a_wrong_position_is_ignored_and_replaced() {
    for change in
        ["namespace = 'wrong'", "id = 'wrong'", "stamp = 99", "sequence = 4", "invocation = 'wrong'"]
    {
        let sql = format!("UPDATE thread_position SET {change} WHERE id = '05'");
        with_damage(&sql, |store, oracle| {
            assert_eq!(listed(store, "ns"), without("05"), "{change}");
            assert!(listed(store, "wrong").is_empty(), "{change}");
            is_repaired(store, &oracle);
        });
    }
}

#[test]
fn a_position_without_a_checkpoint_is_ignored_and_removed() {
    let sql = "INSERT INTO thread_position VALUES (1, '055', 99, 99, 'ns', NULL)";
    with_damage(sql, |store, oracle| {
        assert_eq!(listed(store, "ns"), ALL);
        is_repaired(store, &oracle);
    });
}

#[test]
fn a_damaged_header_is_reported_in_its_place() {
    let sql = "UPDATE checkpoint SET header = replace(header, 'manual', 'mXnual') WHERE sequence = 6";
    with_damage(sql, |store, oracle| {
        let expected = ALL.map(|id| if id == "05" { "-" } else { id });
        assert_eq!(listed(store, "ns"), expected);
        is_repaired(store, &oracle);
    });
}

#[test]
fn a_damaged_header_in_the_append_log_hides_only_its_position() {
    let sql = "UPDATE append_log SET header = replace(header, 'manual', 'mXnual') WHERE sequence = 11";
    with_damage(sql, |store, oracle| {
        assert_eq!(listed(store, "ns"), without("10"));
        store.maintain(Maintenance::Compact).unwrap();
        assert_eq!(listed(store, "ns"), without("10"));
        is_repaired(store, &oracle);
    });
}

#[test]
fn a_checkpoint_without_a_readable_header_is_dropped_with_its_position() {
    with_damage("UPDATE checkpoint SET header = '{' WHERE sequence = 6", |store, mut oracle| {
        oracle.drop_all(&[6]);
        assert_eq!(listed(store, "ns"), without("05"));
        assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, []);
        oracle.check();
    });
}

#[rstest]
fn salvage_lists_every_position_again(
    #[values("thread_position", "thread_namespace", "thread_id", "checkpoint_id")] damaged: &str,
) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    fill(&open(&path));
    let db = rusqlite::Connection::open(&path).unwrap();
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let select = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let page: u32 = db.query_row(select, [damaged], |row| row.get(0)).unwrap();
    let page = page as usize;
    drop(db);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[(page - 1) * 4096..page * 4096].fill(0xA5);
    atomic::write(&path, &bytes, atomic::Mode::Private).unwrap();
    let store = open(&path);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, []);
    assert_eq!(listed(&store, "ns"), ALL);
}

#[test]
fn copies_have_the_same_positions() {
    let dir = tempfile::tempdir().unwrap();
    let original = open(&dir.path().join("milepost.db"));
    fill(&original);
    let sqlite: Arc<dyn Store> = Arc::new(open(&dir.path().join("copy.db")));
    let options = OpenOptions::new().create(true);
    let files: Arc<dyn Store> = Arc::new(FilesStore::open(&dir.path().join("files"), &options).unwrap());
    let from = Milepost::on(Arc::new(original));
    for copy in [sqlite, files] {
        from.copy_to(&Milepost::on(Arc::clone(&copy)), &mut |_| ()).unwrap();
        assert_eq!(listed(&*copy, "ns"), ALL);
    }
}

#[test]
fn recovered_checkpoints_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    fill(&open(&path));
    // All checkpoints are in the WAL. A changed header makes SQLite ignore it.
    let wal = dir.path().join("milepost.db-wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    bytes[20] ^= 1;
    atomic::write(&wal, &bytes, atomic::Mode::Private).unwrap();
    let store = open(&path);
    assert!(store.lost_writes().unwrap() > 0);
    assert!(listed(&store, "ns").is_empty());
    store.maintain(Maintenance::Repair).unwrap();
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, []);
    assert_eq!(listed(&store, "ns"), ALL);
}
