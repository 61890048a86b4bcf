//! Servers that cannot be used: which problem it is, how soon it is reported, and what is worth waiting for.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use milepost::store::{OpenOptions, RunQuery, ServerProblem, Store, StoreError, StoreUrl};
use milepost::{Error, ReasonCode};
use milepost_postgres::PostgresStore;
use milepost_testkit::Oracle;

use crate::servers::{self, settings};
use crate::sql::Sql;

/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(60);

/// The problem that a read reports, and how long that took.
fn problem(url: &str, more: &str) -> (ServerProblem, Duration) {
    let store = PostgresStore::open(&settings(url, more), &OpenOptions::new().create(true).wait(LONG));
    let started = Instant::now();
    let error = store.runs(&RunQuery::default()).unwrap_err();
    let StoreError::Server { problem, .. } = error else { panic!("{error:?}") };
    (problem, started.elapsed())
}

#[test]
fn opening_does_not_connect() {
    milepost_postgres::register(servers::environment());
    let url: StoreUrl = "postgres://me:s3cret@127.0.0.1:1/nowhere?schema=x".parse().unwrap();
    assert!(!format!("{url} {url:?}").contains("s3cret"));
    assert_eq!(url.to_string(), "postgres://me@127.0.0.1:1/nowhere?schema=x");
    assert_eq!(url, "postgres://me:other@127.0.0.1:1/nowhere?schema=x".parse().unwrap());
    let store = url.open(&OpenOptions::new().wait(Duration::from_millis(200))).unwrap();
    let started = Instant::now();
    let error = store.runs(&RunQuery::default()).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(2));
    assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    assert_eq!(Error::Store(error).reason(), ReasonCode::StoreUnavailable);
}

#[test]
fn an_invalid_address_is_an_error_of_usage_and_is_not_shown() {
    milepost_postgres::register(servers::environment());
    for url in ["postgres://me:s3/cr@et@host/d", "postgres://me:s3cret@host/d?sslmode=s3cret"] {
        let url: StoreUrl = url.parse().unwrap();
        let error = url.open(&OpenOptions::new()).err().unwrap();
        let source = std::error::Error::source(&error).unwrap().to_string();
        let shown = format!("{url} {url:?} {error} {error:?} {source}");
        assert!(!shown.contains("s3") && !shown.contains("cr@et"), "{shown}");
        assert_eq!(url.to_string(), "postgres://…");
        assert_eq!(Error::Store(error).reason(), ReasonCode::Usage);
    }
}

#[test]
fn a_refused_connection_is_tried_again_for_a_second_only() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (problem, took) = problem(&format!("postgres://me@127.0.0.1:{port}/d"), "connect_timeout=5");
    assert_eq!(problem, ServerProblem::Refused);
    assert!(took > Duration::from_millis(700) && took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn what_waiting_cannot_change_is_reported_at_once() {
    let Some(cluster) = servers::private() else { return };
    let url = cluster.url("postgres");
    let password = cluster.password().unwrap();
    for (url, more, expected) in [
        (url.replace(password, "wrong"), "", ServerProblem::WrongPassword),
        (url.replace(&format!(":{password}"), ""), "", ServerProblem::NoPassword),
        (cluster.url("nowhere"), "", ServerProblem::UnknownDatabase),
        ("postgres://me@no-such-host.invalid/d".to_owned(), "", ServerProblem::UnknownHost),
        (url.clone(), "host=localhost&sslmode=verify-full", ServerProblem::TlsSettings),
        (url.clone(), "target_session_attrs=standby", ServerProblem::Other),
    ] {
        let (problem, took) = problem(&url, more);
        assert_eq!(problem, expected, "{more}");
        assert!(took < Duration::from_secs(5), "{expected:?}: {took:?}");
    }
}

#[test]
fn a_server_without_tls_is_reported_at_once_if_tls_is_required() {
    let Some(cluster) = servers::private() else { return };
    let proxy = milepost_testkit::postgres::Proxy::start(cluster.target().unwrap()).unwrap();
    let url = cluster.url_at(proxy.address(), "postgres").unwrap();
    let (problem, took) = problem(&url, "sslmode=require");
    assert_eq!(problem, ServerProblem::NoTls);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_restart_is_waited_for_by_a_handle_that_was_connected() {
    let Some(cluster) = servers::own() else { return };
    let settings = servers::new_schema(&cluster.url("postgres"));
    let store = PostgresStore::open(&settings, &OpenOptions::new().create(true).wait(LONG));
    let mut oracle = Oracle::begin(&store, "restart");
    oracle.put_many(1);
    cluster.stop().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            // Longer than a handle that was never connected waits.
            thread::sleep(Duration::from_millis(2500));
            cluster.start_again().unwrap();
        });
        let started = Instant::now();
        oracle.put_many(1);
        assert!(started.elapsed() > Duration::from_secs(2), "{:?}", started.elapsed());
    });
    oracle.check();
}

#[test]
fn the_statement_timeout_of_the_address_limits_every_statement() {
    let Some(cluster) = servers::private() else { return };
    let schema = servers::new_schema(&cluster.url("postgres"));
    servers::open(&schema).create().unwrap();
    let sql = Sql::connect(&schema);
    sql.run("BEGIN; LOCK {s}.run");
    let more = format!("schema={}&statement_timeout=300", schema.schema());
    let (problem, took) = problem(&cluster.url("postgres"), &more);
    assert_eq!(problem, ServerProblem::TimedOut);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn missing_rights_are_told_apart_for_reads_and_writes() {
    let Some(cluster) = servers::private() else { return };
    let settings = servers::new_schema(&cluster.url("postgres"));
    let store = servers::open(&settings);
    let mut oracle = Oracle::begin(&store, "rights");
    oracle.put_many(1);
    let role = format!("reader_{}", settings.schema());
    let sql = Sql::connect(&settings);
    let as_reader = servers::new_role(cluster, &settings, &role);
    let reader = PostgresStore::open(&as_reader, &OpenOptions::new());
    let error = reader.runs(&RunQuery::default()).unwrap_err();
    assert!(matches!(error, StoreError::Server { problem: ServerProblem::MissingRights, .. }), "{error:?}");
    sql.run(&format!(
        "GRANT USAGE ON SCHEMA {{s}} TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {{s}} TO {role}"
    ));
    assert_eq!(reader.runs(&RunQuery::default()).unwrap().len(), 1);
    let error = reader.delete_run(oracle.run(), None).unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    oracle.check();
}
