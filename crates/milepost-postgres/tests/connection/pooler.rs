//! Connections and errors through pgbouncer in transaction mode.

use std::thread;
use std::time::{Duration, Instant};

use milepost_postgres::connection::{ConnectError, classify, ends_connection};
use milepost_testkit::postgres::{ClusterOptions, Pgbouncer, unless_skipped};

use crate::fixture::{open, soon, value};

#[test]
fn errors_are_told_apart_behind_a_pooler() {
    let started = ClusterOptions::new().without_fsync().private_only().start().and_then(|cluster| {
        let pooler = Pgbouncer::start(&cluster)?;
        Ok((cluster, pooler))
    });
    let Ok((cluster, pooler)) = unless_skipped(started).inspect_err(|reason| println!("{reason}")) else {
        return;
    };
    let url = pooler.url("postgres");
    let mut client = open(&url).unwrap();
    assert_eq!(value(&mut client, "SELECT 1"), "1");
    let wrong = open(&url.replace(cluster.password().unwrap(), "wrong")).err().unwrap();
    assert!(matches!(wrong, ConnectError::PasswordWrong { .. }), "{wrong:?}");
    let missing = open(&pooler.url("nowhere")).err().unwrap();
    assert!(matches!(missing, ConnectError::UnknownDatabase { .. }), "{missing:?}");
    cluster.stop_immediate().unwrap();
    let error = client.batch_execute("SELECT 1").unwrap_err();
    assert!(classify(&error).is_retryable() && ends_connection(&error), "{error:?}");
    let down = open(&url).err().unwrap();
    assert!(down.is_retryable(), "{down:?}");
    cluster.start_again().unwrap();
    // pgbouncer waits before it tries the server again.
    let deadline = soon();
    let mut client = loop {
        match open(&url) {
            Ok(client) => break client,
            Err(error) => assert!(error.is_retryable() && Instant::now() < deadline, "{error:?}"),
        }
        thread::sleep(Duration::from_millis(200));
    };
    pooler.stop().unwrap();
    let error = client.batch_execute("SELECT 1").unwrap_err();
    assert!(classify(&error).is_retryable(), "{error:?}");
    assert!(matches!(open(&url), Err(ConnectError::Refused { .. })));
}
