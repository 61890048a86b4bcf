//! A write is applied exactly once, whatever happens to the connection: lost requests, lost replies, requests that
//! arrive late, a network that stops, and a server that crashes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use milepost::model::{BlobId, RunId};
use milepost::store::{
    Commit, HeaderQuery, OpenOptions, Row, ServerProblem, Store, StoreError, WriteDecision,
};
use milepost_postgres::PostgresStore;
use milepost_testkit::postgres::{Proxy, RequestFault};
use milepost_testkit::{TestCheckpoint, fixtures};

use crate::servers;

/// The text that only the statement of a commit contains.
const COMMIT_STATEMENT: &[u8] = b"WITH written AS";

/// Adds one checkpoint and counts in the record. Returns the stamp that the last decision saw.
fn count_one(store: &dyn Store, run: &RunId, label: &str, blob: Option<BlobId>) -> Result<u64, StoreError> {
    let doc = TestCheckpoint::new(run, label).state("x".repeat(2000));
    let mut stamp = 0;
    store.write(run, &mut |view| {
        stamp = view.slot.stamp();
        let mut commit = Commit::new(fixtures::next_record(run, view));
        commit.puts.push(doc.seal(&view.slot));
        commit.push.push(fixtures::item(label));
        commit.events.push(fixtures::event(run, view.count));
        commit.blobs.extend(blob);
        WriteDecision::Commit(Box::new(commit))
    })?;
    Ok(stamp)
}

/// Checks that a run has exactly this many checkpoints, items and commits, and returns the newest stamp.
fn check_count(store: &dyn Store, run: &RunId, count: u64) -> u64 {
    let stored = store.run(run).unwrap().unwrap();
    assert_eq!(stored.row.count, count);
    assert_eq!(stored.items.len() as u64, count);
    assert_eq!(stored.row.record.unwrap().attempts(), count);
    let rows = store.headers(&HeaderQuery::default().run(run)).unwrap();
    assert_eq!(rows.len() as u64, count);
    rows.into_iter().filter_map(Row::intact).map(|entry| entry.header.stamp()).max().unwrap()
}

fn run_id(name: &str) -> RunId {
    name.parse().unwrap()
}

#[test]
fn a_lost_message_loses_and_repeats_nothing() {
    let Some(cluster) = servers::private() else { return };
    let proxy = Proxy::start(cluster.target().unwrap()).unwrap();
    let settings = servers::new_schema(&cluster.url_at(proxy.address(), "postgres").unwrap());
    let store = servers::open(&settings);
    store.put_blobs(&[b"a blob"]).unwrap();
    let blob = BlobId::of(b"a blob");
    for fault in [RequestFault::Lost, RequestFault::ReplyLost, RequestFault::Late] {
        for with_blob in [false, true] {
            let run = run_id(&format!("{fault:?}-{with_blob}"));
            // The first commit creates the run, and the others change it.
            for n in 1..=3 {
                let text = if with_blob { &b"held AS MATERIALIZED"[..] } else { COMMIT_STATEMENT };
                proxy.fault_request(fault, text);
                let stamp = count_one(&store, &run, &n.to_string(), with_blob.then_some(blob));
                let stamp = stamp.unwrap_or_else(|e| panic!("{fault:?}, commit {n}: {e:?}"));
                assert!(!proxy.is_request_fault_pending(), "{fault:?}, commit {n}");
                assert_eq!(
                    check_count(&store, &run, n),
                    stamp,
                    "{fault:?}: the last decision is the applied one"
                );
            }
            thread::sleep(Duration::from_millis(300));
            check_count(&store, &run, 3);
        }
    }
}

/// Lost messages while the write holds the lock of the run's row.
#[test]
fn a_lost_message_of_a_locked_write_loses_and_repeats_nothing() {
    let Some(cluster) = servers::private() else { return };
    let proxy = Proxy::start(cluster.target().unwrap()).unwrap();
    let settings = servers::new_schema(&cluster.url_at(proxy.address(), "postgres").unwrap());
    let (store, other) = (servers::open(&settings), servers::open(&settings));
    let run = run_id("locked");
    count_one(&store, &run, "first", None).unwrap();
    let mut expected = 1;
    for (fault, text) in [
        (RequestFault::Lost, &b"COMMIT\0"[..]),
        (RequestFault::ReplyLost, b"COMMIT\0"),
        (RequestFault::Lost, COMMIT_STATEMENT),
        (RequestFault::ReplyLost, COMMIT_STATEMENT),
        (RequestFault::ReplyLost, b"FOR NO KEY UPDATE"),
    ] {
        let mut calls = 0;
        let doc = TestCheckpoint::new(&run, format!("{fault:?} {expected}").replace(' ', "-"));
        let written = store.write(&run, &mut |view| {
            calls += 1;
            if calls <= 3 {
                // Another writer is faster, three times.
                count_one(&other, &run, &format!("faster-{expected}-{calls}"), None).unwrap();
            }
            if calls == 3 {
                proxy.fault_request(fault, text);
            }
            let mut commit = Commit::new(fixtures::next_record(&run, view));
            commit.puts.push(doc.seal(&view.slot));
            commit.push.push(fixtures::item("locked"));
            WriteDecision::Commit(Box::new(commit))
        });
        written.unwrap_or_else(|e| panic!("{fault:?}: {e:?}"));
        assert!(!proxy.is_request_fault_pending(), "{fault:?} {}", String::from_utf8_lossy(text));
        assert!(calls >= 4, "{calls} decisions");
        expected += 4;
        check_count(&store, &run, expected);
    }
}

#[test]
fn a_network_that_stops_is_not_waited_for_beyond_the_limit() {
    let Some(cluster) = servers::private() else { return };
    let proxy = Proxy::start(cluster.target().unwrap()).unwrap();
    let settings = servers::new_schema(&cluster.url_at(proxy.address(), "postgres").unwrap());
    servers::open(&settings).create().unwrap();
    let wait = Duration::from_millis(700);
    let options = OpenOptions::new().create(true).wait(wait);
    let run = run_id("stalled");
    let store = PostgresStore::open(&settings, &options);
    count_one(&store, &run, "before", None).unwrap();
    let timed = |work: &mut dyn FnMut() -> Result<(), StoreError>| {
        let started = Instant::now();
        let result = work();
        assert!(started.elapsed() < wait * 3, "{:?}", started.elapsed());
        result
    };
    proxy.fault_request(RequestFault::Stalled, COMMIT_STATEMENT);
    let result = timed(&mut || count_one(&store, &run, "unknown", None).map(drop));
    assert!(matches!(result, Err(StoreError::Unknown { .. })), "{result:?}");
    check_count(&store, &run, 1);
    proxy.fault_request(RequestFault::Stalled, b"nextval");
    let result = timed(&mut || count_one(&store, &run, "not-sent", None).map(drop));
    assert!(matches!(result, Err(StoreError::Server { problem: ServerProblem::TimedOut, .. })), "{result:?}");
    proxy.fault_request(RequestFault::Stalled, b"SELECT r.n AS r_n");
    let result = timed(&mut || store.run(&run).map(drop));
    assert!(matches!(result, Err(StoreError::Server { problem: ServerProblem::TimedOut, .. })), "{result:?}");
    check_count(&store, &run, 1);
}

/// The server commits on the primary, and warns that the standby may not have the commit.
#[test]
fn a_cancelled_wait_for_a_standby_leaves_the_result_unknown() {
    let Some(cluster) = servers::own() else { return };
    let store = servers::open(&servers::new_schema(&cluster.url("postgres")));
    let run = run_id("standby");
    count_one(&store, &run, "before", None).unwrap();
    let sql = |text: &str| cluster.sql("postgres", text).unwrap();
    sql("ALTER SYSTEM SET synchronous_standby_names = 'missing'");
    sql("SELECT pg_reload_conf()");
    thread::sleep(Duration::from_millis(200));
    let result = thread::scope(|scope| {
        let write = scope.spawn(|| count_one(&store, &run, "uncertain", None));
        let deadline = Instant::now() + Duration::from_secs(8);
        let cancel =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while sql(cancel).trim() == "0" {
            assert!(Instant::now() < deadline && !write.is_finished(), "the commit does not wait");
            thread::sleep(Duration::from_millis(20));
        }
        write.join().unwrap()
    });
    assert!(matches!(result, Err(StoreError::Unknown { .. })), "{result:?}");
    check_count(&store, &run, 2);
}

/// A short form of many processes that save while the server crashes again and again.
#[test]
fn every_acknowledged_save_survives_crashes_of_the_server() {
    let Some(cluster) = servers::own() else { return };
    let settings = servers::new_schema(&cluster.url("postgres"));
    let store = servers::open(&settings);
    let runs: Vec<RunId> = (0..4).map(|n| run_id(&format!("crash-{n}"))).collect();
    let acknowledged: Vec<AtomicU64> = runs.iter().map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for (at, run) in runs.iter().enumerate() {
            let (acknowledged, stop, settings) = (&acknowledged[at], &stop, &settings);
            scope.spawn(move || {
                let store = PostgresStore::open(
                    settings,
                    &OpenOptions::new().create(true).wait(Duration::from_secs(20)),
                );
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    count_one(&store, run, &n.to_string(), None)
                        .unwrap_or_else(|e| panic!("{run} {n}: {e:?}"));
                    acknowledged.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(700));
            cluster.restart_immediate().unwrap();
        }
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
    });
    for (run, acknowledged) in runs.iter().zip(&acknowledged) {
        let count = acknowledged.load(Ordering::Relaxed);
        assert!(count > 10, "{run}: only {count} saves");
        check_count(&store, run, count);
        let rows = store.headers(&HeaderQuery::default().run(run).oldest_first(true)).unwrap();
        let sequences: Vec<u64> = rows.iter().map(|row| row.cursor().sequence).collect();
        assert_eq!(sequences, (1..=count).collect::<Vec<_>>(), "{run}: no gap and none twice");
    }
}
