//! A damaged row is reported for that row, and all others stay usable. Also compares the size with SQLite's.

use milepost::internal::store::SqliteStore;
use milepost::store::{
    CheckpointFilter, EventQuery, HeaderQuery, Maintenance, OpenOptions, Row, RunQuery, Store, StoreError,
    ThreadFilter,
};
use milepost_postgres::PostgresStore;
use milepost_testkit::rng::{edited, text};
use milepost_testkit::{Oracle, fixtures};

use crate::servers::{self, TestSchema};
use crate::sql::Sql;

fn new_store() -> Option<(TestSchema, PostgresStore, Sql)> {
    let settings = servers::new_schema(&servers::shared()?.url("postgres"));
    let store = servers::open(&settings);
    store.create().unwrap();
    let sql = Sql::connect(&settings);
    Some((settings, store, sql))
}

/// A run with ten checkpoints, an item, a message, an attachment and an event.
fn filled<'a>(store: &'a dyn Store, name: &str) -> Oracle<'a> {
    let mut oracle = Oracle::begin(store, name);
    let mut state = text(6000, 1);
    for n in 0..10 {
        state = edited(&state, 5, n);
        oracle.put(&oracle.doc(n).state(state.clone()));
    }
    let run = oracle.run().clone();
    oracle.commit(|_, commit| {
        commit.push.push(fixtures::item("pending"));
        commit.messages.push(fixtures::message("said"));
        commit.attachments.push(fixtures::attachment("cp", "task", 0, "value"));
        commit.events.push(fixtures::event(&run, 1));
    });
    oracle.mark(4, fixtures::tagged(1, &[&format!("{name}-tag")]));
    oracle
}

#[test]
fn damage_is_reported_for_its_row_only() {
    let Some((_schema, store, sql)) = new_store() else { return };
    let oracle = filled(&store, "damaged");
    let other = filled(&store, "intact");
    let run = oracle.run();
    sql.run(
        "UPDATE {s}.frame SET data = set_byte(data, 20, get_byte(data, 20) # 1) WHERE sequence = 3 \
             AND run_n = (SELECT n FROM {s}.run WHERE run_id = 'damaged')",
    );
    assert!(store.body(run, 2).is_ok());
    for sequence in [3, 4, 10] {
        let error = store.body(run, sequence).unwrap_err();
        let StoreError::Damaged(damage) = error else { panic!("{error:?}") };
        assert_eq!(damage.because_of(), (sequence != 3).then_some(3), "{damage}");
    }
    for (table, column) in
        [("item", "item"), ("message", "message"), ("attachment", "attachment"), ("event", "events")]
    {
        sql.run(&format!(
            "UPDATE {{s}}.{table} SET {column} = {column} || ' ' WHERE run_n = (SELECT n FROM {{s}}.run WHERE run_id = 'damaged')"
        ));
    }
    assert_eq!(store.run(run).unwrap().unwrap().damaged.len(), 1);
    assert!(store.messages(run).unwrap()[0].is_err());
    assert!(store.attachments(run, Some("cp")).unwrap()[0].is_err());
    assert_eq!(store.events(&EventQuery::default().run(run)).unwrap().damaged.len(), 1);
    other.check();
    assert_eq!(
        store.maintain(Maintenance::Inspect).unwrap().problems.len(),
        0,
        "the document itself is verified by others"
    );
}

#[test]
fn a_position_in_a_thread_is_listed_only_if_its_header_confirms_it() {
    let Some((_schema, store, sql)) = new_store() else { return };
    let mut oracle = Oracle::begin(&store, "positions");
    for id in ["1", "2", "3", "4"] {
        oracle.put(&oracle.doc(id).thread(fixtures::position("", id)));
    }
    sql.run("UPDATE {s}.thread_position SET id = '9' WHERE id = '3'");
    let listed = |limit, filter| {
        let query = HeaderQuery::default().run(oracle.run()).find(CheckpointFilter::Thread(filter));
        let rows = store.headers(&query.limit(limit)).unwrap().into_iter();
        let ids =
            rows.map(|row| row.intact().map(|entry| entry.header.thread().as_ref().unwrap().id.clone()));
        ids.map(|id| id.unwrap_or("damaged".into())).collect::<Vec<_>>()
    };
    assert_eq!(listed(0, ThreadFilter::default()), ["4", "2", "1"]);
    assert_eq!(listed(1, ThreadFilter::default()), ["4"]);
    assert_eq!(listed(2, ThreadFilter::default().namespace("")), ["4", "2"]);
    assert!(listed(0, ThreadFilter::default().id("9")).is_empty());
    sql.run("UPDATE {s}.checkpoint SET header = replace(header, 'manual', 'timers') WHERE sequence = 2");
    assert_eq!(listed(0, ThreadFilter::default()), ["4", "damaged", "1"]);
    store.maintain(Maintenance::Repair).unwrap();
    assert_eq!(listed(0, ThreadFilter::default()), ["4", "2", "1"]);
}

#[test]
fn a_damaged_header_is_rebuilt_from_its_document() {
    let Some((_schema, store, sql)) = new_store() else { return };
    let mut oracle = filled(&store, "header");
    sql.run("UPDATE {s}.checkpoint SET header = replace(header, 'manual', 'timers') WHERE sequence = 5");
    sql.run("UPDATE {s}.marks SET marks = marks || ' ' WHERE sequence = 4");
    let damaged = |store: &PostgresStore| {
        let rows = store.headers(&HeaderQuery::default().run(oracle.run())).unwrap();
        rows.iter().filter(|row| matches!(row, Row::Damaged { .. })).count()
    };
    assert_eq!(damaged(&store), 2);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems.len(), 2);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 2);
    assert_eq!(damaged(&store), 0);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, []);
    let query = HeaderQuery::default().run(oracle.run()).find(CheckpointFilter::Sequence(4));
    let row = store.headers(&query).unwrap().pop().and_then(Row::intact).unwrap();
    assert!(row.marks.pinned, "a pin replaces the damaged marks");
    oracle.put_many(1);
}

#[test]
fn a_damaged_record_is_counted_again() {
    let Some((_schema, store, sql)) = new_store() else { return };
    let mut oracle = filled(&store, "record");
    sql.run("UPDATE {s}.run SET count = 99, last_sequence = 3, record = record || ' '");
    let listed = store.runs(&RunQuery::default()).unwrap().pop().unwrap();
    assert!(listed.record.is_err());
    assert_eq!(listed.count, 10);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems.len(), 1);
    let seen = oracle.view();
    assert_eq!((seen.record, seen.count, seen.slot.sequence()), (None, 10, 11));
    oracle.put_many(1);
    assert_eq!(store.run(oracle.run()).unwrap().unwrap().row.count, 11);
}

#[test]
fn a_sequence_of_stamps_that_is_behind_is_advanced() {
    let Some((_schema, store, sql)) = new_store() else { return };
    let mut oracle = filled(&store, "stamps");
    sql.run("SELECT setval('{s}.stamp', 4096)");
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems.len(), 1);
    oracle.put_many(2).check();
    sql.run("SELECT setval('{s}.stamp', 4096)");
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
    assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, []);
    oracle.put_many(2).check();
}

/// Bytes per checkpoint are within 1.5 times of SQLite's, for small and large documents. An empty store does not count:
/// every table and index of a server takes whole pages.
#[test]
fn a_checkpoint_takes_little_more_space_than_in_sqlite() {
    for (name, size, count) in [("small", 300, 1500_u64), ("large", 40_000, 200)] {
        let Some((_schema, store, sql)) = new_store() else { return };
        let folder = tempfile::tempdir().unwrap();
        let sqlite =
            SqliteStore::open(&folder.path().join("store.db"), &OpenOptions::new().create(true)).unwrap();
        let empty = [store.info().unwrap().bytes(), sqlite.info().unwrap().bytes()];
        for store in [&store as &dyn Store, &sqlite] {
            let mut oracle = Oracle::begin(store, "size");
            let run = oracle.run().clone();
            let mut state = text(size, 1);
            for n in 0..count {
                state = edited(&state, 5, n);
                let doc = oracle.doc(format!("{n:026}")).state(state.clone());
                oracle.commit(|view, commit| {
                    commit.puts.push(doc.seal(&view.slot));
                    commit.events.push(fixtures::event(&run, n));
                });
            }
        }
        sqlite.maintain(Maintenance::Compact).unwrap();
        for table in ["run", "checkpoint", "frame", "event", "write_log"] {
            sql.run(&format!("VACUUM {{s}}.{table}"));
        }
        let (ours, theirs) =
            (store.info().unwrap().bytes() - empty[0], sqlite.info().unwrap().bytes() - empty[1]);
        let factor = ours as f64 / theirs as f64;
        eprintln!(
            "{name}: {} bytes per checkpoint, SQLite {}, factor {factor:.2}",
            ours / count,
            theirs / count
        );
        assert!(factor <= 1.5, "{name}: {ours} bytes, SQLite {theirs}");
    }
}
