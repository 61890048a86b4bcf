//! One damaged row in a SQLite store: the damage is reported for that row, and everything else stays readable
//! and writable. The tests change values by SQL, behind the store's back. Damaged pages are not tested here.

use milepost::internal::store::SqliteStore;
use milepost::model::Marks;
use milepost::store::{
    CheckpointFilter, Commit, Damage, EventQuery, HeaderQuery, Maintenance, OpenOptions, Part, Row, RunView,
    Store, StoreError, WriteDecision,
};
use milepost_testkit::oracle::shown;
use milepost_testkit::rng::text;
use milepost_testkit::{Oracle, fixtures};

/// Writes the runs `bystander` and `hurt`, each with data of every kind, and executes the damaging statement.
/// The bystander must stay unchanged.
fn with_damage(sql: &str, then: impl FnOnce(&dyn Store, Oracle<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    let store = SqliteStore::open(&path, &OpenOptions::new().create(true)).unwrap();
    let [bystander, hurt] = ["bystander", "hurt"].map(|name| {
        let mut oracle = Oracle::begin(&store, name);
        for n in 1..=5 {
            let doc = oracle.doc(n).state(text(3000, 1));
            oracle.put_tagged(&doc, &format!("tag-{name}"));
        }
        let run = oracle.run().clone();
        oracle.commit(|_, commit| {
            commit.push.extend([fixtures::item("first"), fixtures::item("second")]);
            commit.events.extend([fixtures::event(&run, 1), fixtures::event(&run, 2)]);
            commit.attachments.extend([1, 2].map(|n| fixtures::attachment("cp", "task", n, "value")));
        });
        oracle.check();
        oracle
    });
    let changed = rusqlite::Connection::open(&path).unwrap().execute(sql, []).unwrap();
    assert_eq!(changed, 1, "{sql}");
    bystander.check();
    then(&store, hurt);
    bystander.check();
}

fn add_one(store: &dyn Store, oracle: &Oracle<'_>) -> Result<RunView, StoreError> {
    let doc = oracle.doc("after-damage");
    let mut seen = None;
    store.write(oracle.run(), &mut |view| {
        if view.details.is_none() {
            return WriteDecision::NeedDetails;
        }
        seen = Some(view.clone());
        let mut commit = Commit::new(fixtures::next_record(oracle.run(), view));
        commit.puts.push(doc.seal(&view.slot));
        commit.push.push(fixtures::item("after damage"));
        commit.events.push(fixtures::event(oracle.run(), 3));
        WriteDecision::Commit(Box::new(commit))
    })?;
    Ok(seen.unwrap())
}

/// The damage in a list of rows, and the number of intact rows.
fn sort_out(rows: Vec<Row>) -> (Vec<Damage>, usize) {
    let count = rows.len();
    let damaged: Vec<_> = rows
        .into_iter()
        .filter_map(|row| match row {
            Row::Damaged { damage, .. } => Some(damage),
            Row::Intact(_) => None,
        })
        .collect();
    let good = count - damaged.len();
    (damaged, good)
}

/// A run that keeps four checkpoints and has plain saves only, so that its rows are still in the append log.
fn with_fresh_damage(sql: &str, then: impl FnOnce(&dyn Store, Oracle<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    let store = SqliteStore::open(&path, &OpenOptions::new().create(true)).unwrap();
    let mut hurt = Oracle::begin(&store, "hurt");
    for n in 1..=7 {
        let doc = hurt.doc(n).state(text(3000, 1));
        hurt.commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.drops.extend((view.count >= 4).then(|| shown(view).oldest[0].header.sequence()));
            commit.events.push(fixtures::event(&fixtures::run_id("hurt"), n));
        });
    }
    hurt.check();
    let db = rusqlite::Connection::open(&path).unwrap();
    let waiting: i64 = db.query_row("SELECT count(*) FROM append_log", [], |row| row.get(0)).unwrap();
    assert_eq!(waiting, 6, "all but the first are in the append log");
    assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
    then(&store, hurt);
}

#[test]
fn a_fresh_header_is_named_before_and_after_it_is_taken_in() {
    let sql = "UPDATE append_log SET header = replace(header, 'manual', 'mXnual') WHERE sequence = 5";
    with_fresh_damage(sql, |store, hurt| {
        let look = || {
            let query = HeaderQuery::default().run(hurt.run());
            let (damaged, good) = sort_out(store.headers(&query).unwrap());
            assert_eq!((damaged.len(), damaged[0].part(), damaged[0].sequence()), (1, Part::Header, Some(5)));
            assert_eq!(store.run(hurt.run()).unwrap().unwrap().row.count as usize, good + 1);
            store.body(hurt.run(), 5).unwrap();
            good
        };
        assert_eq!(look(), 3);
        // A commit with items merges the append log. The document without a valid header waits for repair.
        let seen = add_one(store, &hurt).unwrap();
        assert_eq!((seen.count, seen.slot.sequence(), shown(&seen).oldest.len()), (4, 8, 1));
        store.maintain(Maintenance::Compact).unwrap();
        assert_eq!(look(), 4);
        assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
        let query = HeaderQuery::default().run(hurt.run());
        assert_eq!(sort_out(store.headers(&query).unwrap()), (vec![], 5));
        assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, vec![]);
    });
}

#[test]
fn a_fresh_document_stays_damaged_and_costs_no_other() {
    let sql = "UPDATE append_log SET body = zeroblob(length(body)) WHERE sequence = 5";
    with_fresh_damage(sql, |store, hurt| {
        let look = || {
            for (sequence, damaged) in [(4, false), (5, true), (6, false), (7, false)] {
                match store.body(hurt.run(), sequence) {
                    Err(StoreError::Damaged(damage)) => assert!(damaged, "{damage}"),
                    answer => assert_eq!(answer.is_ok(), !damaged, "{sequence}"),
                }
            }
        };
        look();
        store.maintain(Maintenance::Compact).unwrap();
        look();
    });
}

#[test]
fn what_a_damaged_fresh_row_removed_is_there_again_and_the_run_is_named() {
    let sql = "UPDATE append_log SET drops = zeroblob(length(drops)) WHERE sequence = 6";
    with_fresh_damage(sql, |store, hurt| {
        let row = store.run(hurt.run()).unwrap().unwrap().row;
        assert_eq!((row.record.unwrap_err().part(), row.count), (Part::Run, 5));
        store.maintain(Maintenance::Compact).unwrap();
        let row = store.run(hurt.run()).unwrap().unwrap().row;
        assert_eq!((row.record.unwrap_err().part(), row.count), (Part::Run, 5));
        assert_eq!(add_one(store, &hurt).unwrap().slot.sequence(), 8);
        assert!(store.run(hurt.run()).unwrap().unwrap().row.record.is_ok());
    });
}

#[test]
fn a_fresh_record_is_reported_and_can_be_written_anew() {
    let sql =
        "UPDATE append_log SET record = replace(record, 'in_progress', 'in_prXgress') WHERE sequence = 7";
    with_fresh_damage(sql, |store, hurt| {
        let row = store.run(hurt.run()).unwrap().unwrap().row;
        assert_eq!((row.record.unwrap_err().part(), row.count), (Part::Run, 4));
        let seen = add_one(store, &hurt).unwrap();
        assert_eq!((seen.record, seen.count, seen.slot.sequence()), (None, 4, 8));
        assert!(store.run(hurt.run()).unwrap().unwrap().row.record.is_ok());
    });
}

/// Runs `then` with a run whose last three commits have no checkpoint and follow a save in the append log.
fn with_appended_items(then: impl FnOnce(&SqliteStore, &rusqlite::Connection, Oracle<'_>)) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    let store = SqliteStore::open(&path, &OpenOptions::new().create(true)).unwrap();
    let mut hurt = Oracle::begin(&store, "hurt");
    hurt.put_many(2);
    for n in 1..=3 {
        hurt.commit(|_, commit| {
            commit.push.push(fixtures::item(format!("item {n}")));
            commit.events.push(fixtures::event(&fixtures::run_id("hurt"), n));
            commit.attachments.push(fixtures::attachment("cp", "task", n as i64, "value"));
        });
    }
    let db = rusqlite::Connection::open(&path).unwrap();
    then(&store, &db, hurt);
}

fn count_appended(db: &rusqlite::Connection) -> (i64, i64) {
    let counts = "SELECT count(*), count(*) FILTER (WHERE sequence < 0) FROM append_log";
    db.query_row(counts, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
}

#[test]
fn commits_without_a_checkpoint_join_the_append_log() {
    with_appended_items(|store, db, mut run| {
        assert_eq!(count_appended(db), (4, 3));
        run.check();
        run.put_many(1).check();
        assert_eq!(count_appended(db), (5, 3));
        store.maintain(Maintenance::Compact).unwrap();
        assert_eq!(count_appended(db), (0, 0));
        run.check();
        // With an empty append log they go to the tables.
        run.commit(|_, commit| commit.push.push(fixtures::item("last")));
        assert_eq!(count_appended(db), (0, 0));
        run.put_many(10).check();
        assert_eq!(store.maintain(Maintenance::Inspect).unwrap().problems, vec![]);
    });
}

#[test]
fn a_damaged_record_without_a_checkpoint_is_reported_and_can_be_written_anew() {
    for damage in [
        "record = replace(record, 'in_progress', 'in_prXgress')",
        // As if the row contained a checkpoint.
        "sequence = -1 - sequence",
        "sequence = sequence - 1",
    ] {
        with_appended_items(|store, db, run| {
            let sql =
                format!("UPDATE append_log SET {damage} WHERE stamp = (SELECT max(stamp) FROM append_log)");
            assert_eq!(db.execute(&sql, []).unwrap(), 1);
            let row = store.run(run.run()).unwrap().unwrap().row;
            let is_reported = row.record.is_err()
                || !sort_out(store.headers(&HeaderQuery::default()).unwrap()).0.is_empty();
            assert!(is_reported, "{damage}");
            add_one(store, &run).unwrap();
            store.maintain(Maintenance::Repair).unwrap();
            let row = store.run(run.run()).unwrap().unwrap().row;
            assert!(row.record.is_ok(), "{damage}");
            // A row that claims to contain a checkpoint stays reported. It hides none.
            let (_, intact) = sort_out(store.headers(&HeaderQuery::default().run(run.run())).unwrap());
            assert_eq!(intact, 3, "{damage}");
        });
    }
}

#[test]
fn events_stay_bounded_over_plain_saves_and_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    let store = SqliteStore::open(&path, &OpenOptions::new().create(true)).unwrap();
    let run = fixtures::run_id("long");
    let hurt = Oracle::begin(&store, "long");
    for n in 1..=1500_u64 {
        let doc = hurt.doc(n);
        store
            .write(&run, &mut |view| {
                if view.details.is_none() {
                    return WriteDecision::NeedDetails;
                }
                let mut commit = Commit::new(fixtures::next_record(&run, view));
                commit.puts.push(doc.seal(&view.slot));
                commit.drops.extend((view.count >= 20).then(|| shown(view).oldest[0].header.sequence()));
                commit.events.push(fixtures::event(&run, n));
                if n % 53 == 0 {
                    commit.marks.push((n, Marks { revision: 1, ..Marks::default() }));
                }
                WriteDecision::Commit(Box::new(commit))
            })
            .unwrap();
    }
    let events = store.events(&EventQuery::default().run(&run)).unwrap().events;
    assert!((1000..=1200).contains(&events.len()), "{} events", events.len());
    assert_eq!(events.last().unwrap().1, fixtures::event(&run, 1500));
    assert_eq!(store.run(&run).unwrap().unwrap().row.count, 20);
}

const HURT: &str = "(SELECT n FROM run WHERE run_id = 'hurt')";

#[test]
fn a_header_is_reported_for_its_row() {
    let sql = format!(
        "UPDATE checkpoint SET header = replace(header, 'manual', 'mXnual') WHERE run_n = {HURT} AND sequence = 3"
    );
    with_damage(&sql, |store, hurt| {
        let query = HeaderQuery::default().run(hurt.run());
        let (damaged, good) = sort_out(store.headers(&query).unwrap());
        assert_eq!((damaged.len(), good), (1, 4));
        assert_eq!((damaged[0].part(), damaged[0].sequence()), (Part::Header, Some(3)));
        let (damaged, good) = sort_out(store.headers(&HeaderQuery::default()).unwrap());
        assert_eq!((damaged.len(), good), (1, 9));
        let seen = add_one(store, &hurt).unwrap();
        assert_eq!((seen.count, seen.slot.sequence()), (5, 6));
        assert_eq!(shown(&seen).oldest.len(), 2, "the list of the oldest ends at a damaged row");
    });
}

#[test]
fn a_query_of_one_run_shows_no_damage_of_another() {
    let sql = format!(
        "UPDATE checkpoint SET header = replace(header, 'manual', 'mXnual') WHERE run_n = {HURT} AND sequence = 3"
    );
    with_damage(&sql, |store, _| {
        let run = fixtures::run_id("bystander");
        for find in [
            CheckpointFilter::Name("tag-hurt"),
            CheckpointFilter::Prefix("cp_"),
            CheckpointFilter::Id("cp_hurt_3"),
            CheckpointFilter::All,
        ] {
            let query = HeaderQuery::default().run(&run).find(find);
            let (damaged, _) = sort_out(store.headers(&query).unwrap());
            assert_eq!(damaged, [], "{find:?}");
        }
    });
}

#[test]
fn the_newest_header_stops_no_writer() {
    let sql = format!(
        "UPDATE checkpoint SET header = replace(header, 'manual', 'mXnual') WHERE run_n = {HURT} AND sequence = 5"
    );
    with_damage(&sql, |store, hurt| {
        let row = store.run(hurt.run()).unwrap().unwrap().row;
        assert!(matches!(row.latest, Some(Row::Damaged { .. })));
        let seen = add_one(store, &hurt).unwrap();
        assert_eq!((seen.latest, seen.slot.sequence()), (None, 6));
    });
}

#[test]
fn marks_are_reported_for_their_row() {
    let sql = format!(
        "UPDATE marks SET marks = replace(marks, 'tag-', 'tXg-') WHERE run_n = {HURT} AND sequence = 2"
    );
    with_damage(&sql, |store, hurt| {
        let query = HeaderQuery::default().run(hurt.run());
        let (damaged, good) = sort_out(store.headers(&query).unwrap());
        assert_eq!((damaged.len(), good), (1, 4));
        assert_eq!((damaged[0].part(), damaged[0].sequence()), (Part::Marks, Some(2)));
        add_one(store, &hurt).unwrap();
    });
}

#[test]
fn a_record_is_reported_and_can_be_written_anew() {
    let sql = "UPDATE run SET record = replace(record, 'in_progress', 'in_prXgress') WHERE run_id = 'hurt'";
    with_damage(sql, |store, hurt| {
        let row = store.run(hurt.run()).unwrap().unwrap().row;
        assert_eq!(row.record.unwrap_err().part(), Part::Run);
        assert_eq!(row.count, 5);
        let seen = add_one(store, &hurt).unwrap();
        assert_eq!((seen.record, seen.count, seen.slot.sequence()), (None, 5, 6));
        assert!(store.run(hurt.run()).unwrap().unwrap().row.record.is_ok());
    });
}

#[test]
fn a_run_is_found_whichever_byte_of_its_id_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("milepost.db");
    let store = SqliteStore::open(&path, &OpenOptions::new().create(true)).unwrap();
    let mut others = ["run_1_aaaa", "run_2_bbbb"].map(|name| Oracle::begin(&store, name));
    for other in &mut others {
        other.put_many(1);
    }
    let name = "run_3_cccc";
    let mut hurt = Oracle::begin(&store, name);
    hurt.put_many(2);
    for at in 0..name.len() {
        let mut wrong = name.as_bytes().to_vec();
        wrong[at] ^= 1;
        let wrong = String::from_utf8(wrong).unwrap();
        let sql = "UPDATE run SET run_id = ?1 WHERE run_id = ?2";
        let changed =
            rusqlite::Connection::open(&path).unwrap().execute(sql, [wrong.as_str(), name]).unwrap();
        assert_eq!(changed, 1, "{wrong}");
        let row = store.run(hurt.run()).unwrap().unwrap_or_else(|| panic!("not found as {wrong}")).row;
        assert_eq!(row.count, 2 + at as u64, "{wrong}");
        add_one_labelled(&store, &hurt, &format!("wrong-at-{at}"));
        assert!(
            store.run(hurt.run()).unwrap().unwrap().row.record.is_ok(),
            "{wrong}: repaired by the next write"
        );
    }
    others.iter().for_each(Oracle::check);
}

/// Adds a checkpoint, which must succeed despite the damage.
fn add_one_labelled(store: &dyn Store, oracle: &Oracle<'_>, label: &str) {
    let doc = oracle.doc(label);
    let written = store.write(oracle.run(), &mut |view| {
        let mut commit = Commit::new(fixtures::next_record(oracle.run(), view));
        commit.puts.push(doc.seal(&view.slot));
        WriteDecision::Commit(Box::new(commit))
    });
    written.unwrap_or_else(|e| panic!("{label}: {e:?}"));
}

#[test]
fn an_item_is_left_out_and_stops_no_writer() {
    for n in [1, 2] {
        let sql = format!("UPDATE item SET item = replace(item, 's', 'S') WHERE run_n = {HURT} AND n = {n}");
        with_damage(&sql, |store, hurt| {
            let other = [fixtures::item("second"), fixtures::item("first")][n - 1].clone();
            assert_eq!(
                store.run(hurt.run()).unwrap().unwrap().items,
                std::slice::from_ref(&other),
                "item {n}"
            );
            add_one(store, &hurt).unwrap_or_else(|e| panic!("item {n} is damaged: {e:?}"));
            let after = [other, fixtures::item("after damage")];
            assert_eq!(store.run(hurt.run()).unwrap().unwrap().items, after, "item {n}");
        });
    }
}

#[test]
fn an_event_is_reported_and_stops_no_writer() {
    let sql = format!(
        "UPDATE event SET events = replace(events, 'number', 'nXmber') \
         WHERE run_n = {HURT} AND n = (SELECT max(n) FROM event WHERE run_n = {HURT})"
    );
    with_damage(&sql, |store, hurt| {
        let query = EventQuery::default().run(hurt.run());
        let page = store.events(&query).unwrap();
        assert_eq!((page.events.len(), page.damaged.len()), (0, 1), "events of one commit share a row");
        add_one(store, &hurt).unwrap();
        assert_eq!(store.events(&query).unwrap().events.len(), 1);
    });
}

#[test]
fn a_frame_costs_no_newer_body() {
    let sql = format!(
        "UPDATE delta SET data = zeroblob(length(data)) \
         WHERE stamp = (SELECT stamp FROM checkpoint WHERE run_n = {HURT} AND sequence = 3)"
    );
    with_damage(&sql, |store, hurt| {
        for sequence in [4, 5] {
            store.body(hurt.run(), sequence).unwrap();
        }
        for sequence in 1..=3 {
            match store.body(hurt.run(), sequence) {
                Err(StoreError::Damaged(damage)) => {
                    assert_eq!((damage.part(), damage.sequence()), (Part::Body, Some(sequence)));
                    let root = (sequence < 3).then_some(3);
                    assert_eq!(damage.because_of(), root, "the frame that {sequence} depends on");
                }
                answer => {
                    panic!("{sequence}: a damaged frame returned {:?}", answer.map(|bytes| bytes.len()))
                }
            }
        }
        add_one(store, &hurt).unwrap();
    });
}

#[test]
fn an_attachment_is_reported_and_stops_no_writer() {
    let changes = [
        "attachment = replace(attachment, 'channel', 'cXannel')",
        "checkpoint = 'cq'",
        "task_id = 'tXsk'",
        "position = 7",
        "stamp = stamp + 1",
        "checksum = x'00'",
    ];
    for change in changes {
        let sql = format!("UPDATE attachment SET {change} WHERE run_n = {HURT} AND position = 1");
        with_damage(&sql, |store, hurt| {
            let mut found = store.attachments(hurt.run(), None).unwrap();
            let damage = found.pop().unwrap().unwrap_err();
            assert_eq!(
                (damage.part(), damage.run_id().as_ref()),
                (Part::Attachment, Some(hurt.run())),
                "{change}"
            );
            assert!(damage.snapshot_id().is_some(), "{change}: the checkpoint is named");
            assert_eq!(found, [Ok(fixtures::attachment("cp", "task", 2, "value"))], "{change}");
            add_one(store, &hurt).unwrap();
            store
                .write(hurt.run(), &mut |view| {
                    let mut commit = Commit::new(fixtures::next_record(hurt.run(), view));
                    commit.attachments.push(fixtures::attachment("cp", "task", 1, "healed").replacing());
                    WriteDecision::Commit(Box::new(commit))
                })
                .unwrap();
            let healed = fixtures::attachment("cp", "task", 1, "healed").replacing();
            assert!(store.attachments(hurt.run(), Some("cp")).unwrap().contains(&Ok(healed)), "{change}");
        });
    }
}
