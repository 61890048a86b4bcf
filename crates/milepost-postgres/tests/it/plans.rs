//! The plans of the statements that people wait for, as the server logs them, in a store with many projects and
//! 100,000 checkpoints. Only indexes are used, and the time does not grow with the store.

use std::time::{Duration, Instant};

use milepost::store::{CheckpointFilter, Commit, HeaderQuery, RunQuery, Store, ThreadFilter, WriteDecision};
use milepost_postgres::PostgresStore;
use milepost_testkit::postgres::{ClusterOptions, PrivateCluster, unless_skipped};
use milepost_testkit::{Oracle, TestCheckpoint, fixtures};

use crate::servers;
use crate::sql::Sql;

/// A server that logs the plan of every statement, also of those that check foreign keys.
fn explaining_server() -> Option<PrivateCluster> {
    let options = ClusterOptions::new()
        .without_fsync()
        .private_only()
        .setting("session_preload_libraries", "auto_explain")
        .setting("auto_explain.log_nested_statements", "on");
    unless_skipped(options.start())
        .inspect_err(|reason| eprintln!("SKIPPED plans of statements: {reason}"))
        .ok()
}

/// Adds runs with 50 checkpoints each, in many projects. The rows have no valid checksums, so they must not be read.
fn fill(sql: &Sql, runs: u64) {
    sql.run(&format!(
        "INSERT INTO {{s}}.run (n, stamp, last_sequence, count, events, events_from, commits, run_id, project, \
         checksum, record) SELECT i * 4096, i * 4096 + 50, 50, 50, 0, 0, 50, 'other-' || i, 'project-' || i % 300, \
         '', repeat('r', 600) FROM generate_series(1001, 1000 + {runs}) i; \
         INSERT INTO {{s}}.checkpoint (run_n, sequence, first, stamp, snapshot_id, checksum, header) \
         SELECT i * 4096, k, k, i * 4096 + k, 'cp_' || i || '_' || k, '', repeat('h', 500) \
         FROM generate_series(1001, 1000 + {runs}) i, generate_series(1, 50) k; \
         INSERT INTO {{s}}.frame (run_n, first, sequence, base, checksum, data) \
         SELECT i * 4096, k, k, 0, '', decode(repeat('ab', 400), 'hex') \
         FROM generate_series(1001, 1000 + {runs}) i, generate_series(1, 50) k; \
         INSERT INTO {{s}}.marks (run_n, sequence, revision, checksum, marks) SELECT i * 4096, k, 1, '', '{{}}' \
         FROM generate_series(1001, 1000 + {runs}) i, generate_series(1, 50) k; \
         INSERT INTO {{s}}.thread_position (run_n, sequence, stamp, id, namespace, invocation) \
         SELECT i * 4096, k, i * 4096 + k, 'id-' || lpad((i * 50 + k)::text, 9, '0'), 'ns-' || k % 7, \
         'invocation-' || i FROM generate_series(1001, 1000 + {runs}) i, generate_series(1, 50) k; \
         SELECT setval('{{s}}.stamp', ({runs} + 1010) * 4096)"
    ));
    for table in ["run", "checkpoint", "frame", "marks", "thread_position"] {
        sql.run(&format!("ANALYZE {{s}}.{table}"));
    }
}

/// The shortest of several times that a read takes.
fn time(mut read: impl FnMut()) -> Duration {
    let times = (0..20).map(|_| {
        let started = Instant::now();
        read();
        started.elapsed()
    });
    times.min().unwrap_or_default()
}

fn save(store: &PostgresStore, label: &str) {
    let run = fixtures::run_id("tested-0");
    let doc =
        TestCheckpoint::new(&run, label).state("x".repeat(3000)).thread(fixtures::position("ns", label));
    let write = store.write(&run, &mut |view| {
        let mut commit = Commit::new(fixtures::next_record(&run, view));
        commit.puts.push(doc.seal(&view.slot));
        commit.events.push(fixtures::event(&run, 1));
        WriteDecision::Commit(Box::new(commit))
    });
    write.unwrap();
}

fn latest_and_list(store: &PostgresStore) -> (Duration, Duration) {
    let headers = |limit| store.headers(&HeaderQuery::default().limit(limit)).unwrap().len();
    (time(|| assert_eq!(headers(1), 1)), time(|| assert_eq!(headers(20), 20)))
}

#[test]
fn statements_of_one_project_use_indexes_only() {
    let Some(cluster) = explaining_server() else { return };
    let small = servers::new_schema(&cluster.url("postgres"));
    let large = servers::new_schema(&cluster.url("postgres"));
    let mut times = Vec::new();
    for (schema, runs) in [(&small, 20), (&large, 2000)] {
        let store = servers::open_project(schema, "tested");
        store.create().unwrap();
        let sql = Sql::connect(schema);
        // The runs of all other projects were written later.
        for n in 0..30 {
            Oracle::begin(&store, &format!("tested-{n}")).put_many(5);
        }
        let mut threads = Oracle::begin(&store, "tested-threads");
        for id in ["tested-2", "tested-1", "tested-3"] {
            let mut position = fixtures::position("ns-3", id);
            position.invocation = Some("tested".to_owned());
            threads.put(&threads.doc(id).thread(position));
        }
        fill(&sql, runs);
        times.push(latest_and_list(&store));
    }
    eprintln!("latest and list with 1,000 checkpoints {:?}, with 100,000 {:?}", times[0], times[1]);
    assert!(times[1].0 < times[0].0 * 3 && times[1].1 < times[0].1 * 3, "{times:?}");
    // New connections log their plans.
    cluster.sql("postgres", "ALTER SYSTEM SET auto_explain.log_min_duration = 0").unwrap();
    cluster.sql("postgres", "SELECT pg_reload_conf()").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    for project in ["tested", ""] {
        let store = servers::open_project(&large, project);
        let run = fixtures::run_id("tested-7");
        let threads = fixtures::run_id("tested-threads");
        let position = |run, filter| {
            let query = HeaderQuery::default().run(run).find(CheckpointFilter::Thread(filter)).limit(1);
            assert_eq!(store.headers(&query).unwrap().len(), 1, "{filter:?}");
        };
        let (threads, all) = (Some(&threads), ThreadFilter::default());
        let steps: [(&str, &dyn Fn()); 12] = [
            ("latest", &|| assert_eq!(store.headers(&HeaderQuery::default().limit(1)).unwrap().len(), 1)),
            ("list", &|| assert_eq!(store.headers(&HeaderQuery::default().limit(20)).unwrap().len(), 20)),
            ("runs", &|| assert_eq!(store.runs(&RunQuery::default().limit(20)).unwrap().len(), 20)),
            ("run", &|| assert!(store.run(&run).unwrap().is_some())),
            ("show", &|| drop(store.body(&run, 3).unwrap())),
            ("newest position", &|| position(threads, all)),
            ("newest position of a namespace", &|| position(threads, all.namespace("ns-3"))),
            ("next position", &|| position(threads, all.namespace("ns-3").after(("tested-3", 0)))),
            ("position", &|| position(threads, all.namespace("ns-3").id("tested-2"))),
            ("position in any run", &|| position(None, all.id("tested-2"))),
            ("positions of an invocation", &|| position(None, all.invocation("tested"))),
            ("save", &|| save(&store, &format!("saved-{project}"))),
        ];
        for (step, execute) in steps {
            let before = cluster.log().unwrap().len();
            execute();
            let log = cluster.log().unwrap();
            let plans = &log[before..];
            assert!(plans.contains("Index Scan"), "{step} of {project:?} logged no plan: {plans}");
            for table in ["run", "checkpoint", "frame", "marks", "thread_position"] {
                let scan = format!("Seq Scan on {table}");
                assert!(!plans.contains(&scan), "{step} of {project:?}: {scan}\n{plans}");
            }
        }
    }
}
