//! Each kind of error, from a real server: while connecting, and in later statements.

use std::net::TcpListener;

use milepost_postgres::connection::{ConnectError, ErrorKind, classify, ends_connection};
use milepost_testkit::postgres::{ClusterOptions, unless_skipped};

use crate::fixture::{PASSWORD, error, open, value, with_tls, without_tls};

#[test]
fn nothing_listens() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = error(&format!("postgres://ann:{PASSWORD}@127.0.0.1:{port}/d"));
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    assert!(error.is_retryable());
    assert_eq!(
        error.to_string(),
        format!("cannot connect to 127.0.0.1:{port}: Connection refused (os error 111)")
    );
    let folder = tempfile::tempdir().unwrap();
    let error = open(&format!("host={} user=ann", folder.path().display())).err().unwrap();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
}

#[test]
fn the_host_is_unknown() {
    let error = error(&format!("postgres://ann:{PASSWORD}@no-such-host.invalid/d"));
    assert!(
        matches!(&error, ConnectError::UnknownHost { host, .. } if host == "no-such-host.invalid"),
        "{error}"
    );
    assert!(!error.is_retryable());
}

#[test]
fn the_server_says_no() {
    let Some(server) = without_tls() else { return };
    let cluster = &server.cluster;
    cluster.sql("postgres", "CREATE DATABASE closed").unwrap();
    cluster.sql("postgres", "REVOKE CONNECT ON DATABASE closed FROM PUBLIC").unwrap();
    let wrong = open(&server.tcp("ann", "password=wrong")).err().unwrap();
    assert!(matches!(&wrong, ConnectError::PasswordWrong { user, .. } if user == "ann"), "{wrong}");
    assert!(!wrong.to_string().contains("wrong"), "{wrong}");
    let missing = error(&server.tcp("ann", "password=''"));
    assert!(matches!(missing, ConnectError::PasswordMissing { .. }), "{missing}");
    let database = error(&server.tcp("ann", "dbname=nowhere"));
    assert!(
        matches!(&database, ConnectError::UnknownDatabase { database, .. } if database == "nowhere"),
        "{database}"
    );
    let rights = error(&server.tcp("ann", "dbname=closed"));
    assert!(matches!(&rights, ConnectError::NotPermitted { .. }), "{rights}");
    let full = error(&server.tcp("full", ""));
    assert!(matches!(full, ConnectError::TooManyConnections { .. }), "{full}");
    assert!(full.is_retryable());
    for error in [wrong, missing, database, rights] {
        assert!(!error.is_retryable(), "{error}");
    }
}

#[test]
fn the_access_rules_say_no() {
    let Some(server) = with_tls() else { return };
    let error = error(&server.tcp("never", ""));
    assert!(matches!(error, ConnectError::Rejected { .. }), "{error}");
    assert!(!error.is_retryable());
}

#[test]
fn a_standby_is_read_only() {
    let Some(server) = without_tls() else { return };
    let standby = server.cluster.standby().unwrap();
    let text = |more: &str| format!("{}?{more}", standby.url("postgres"));
    for attributes in ["read-write", "primary"] {
        let error = open(&text(&format!("target_session_attrs={attributes}"))).err().unwrap();
        assert!(matches!(error, ConnectError::ReadOnly { .. }), "{error}");
    }
    for attributes in ["any", "standby", "read-only", "prefer-standby"] {
        let mut client = open(&text(&format!("target_session_attrs={attributes}"))).unwrap();
        let error = client.batch_execute("CREATE TABLE t ()").unwrap_err();
        assert_eq!(classify(&error), ErrorKind::ReadOnly);
    }
    let primary = server.cluster.url("postgres");
    let error = open(&format!("{primary}?target_session_attrs=standby")).err().unwrap();
    assert!(matches!(error, ConnectError::NotReadOnly { .. }), "{error}");
    // The first host of the list is a standby, the second one is not.
    let (standby_folder, folder) =
        (standby.socket_folder().unwrap(), server.cluster.socket_folder().unwrap());
    let (port, password) = (server.cluster.port().unwrap(), standby.password().unwrap());
    let both = format!(
        "host={},{} port={},{port} user=postgres password={password}",
        standby_folder.display(),
        folder.display(),
        standby.port().unwrap()
    );
    let is_standby = |attributes: &str| {
        let mut client = open(&format!("{both} target_session_attrs={attributes}")).unwrap();
        value(&mut client, "SELECT pg_is_in_recovery()")
    };
    assert_eq!(is_standby("any"), "t");
    assert_eq!(is_standby("read-write"), "f");
    assert_eq!(is_standby("primary"), "f");
    assert_eq!(is_standby("prefer-standby"), "t");
}

#[test]
fn errors_of_later_statements_have_a_kind() {
    let Some(server) = without_tls() else { return };
    let open = || open(&server.tcp("ann", "")).unwrap();
    let mut client = open();
    for (sql, kind) in [
        ("SELECT * FROM nowhere.t", ErrorKind::TableMissing),
        ("CREATE TABLE nowhere.t ()", ErrorKind::SchemaMissing),
        ("SET statement_timeout = 20; SELECT pg_sleep(10)", ErrorKind::Canceled),
        ("SELECT * FROM pg_authid", ErrorKind::PermissionDenied),
        ("BEGIN READ ONLY; CREATE TEMP TABLE t (); CREATE TABLE public.t (); ROLLBACK", ErrorKind::ReadOnly),
        ("ROLLBACK; BEGIN; LOCK pg_class; ROLLBACK", ErrorKind::PermissionDenied),
        ("ROLLBACK; SELECT 1 / 0", ErrorKind::Other),
    ] {
        let error = client.batch_execute(sql).unwrap_err();
        assert_eq!(classify(&error), kind, "{sql}: {error}");
        assert!(!ends_connection(&error));
        client.batch_execute("ROLLBACK; RESET ALL").unwrap();
    }
    let backend = value(&mut client, "SELECT pg_backend_pid()");
    server.cluster.sql("postgres", &format!("SELECT pg_terminate_backend({backend})")).unwrap();
    let error = client.batch_execute("SELECT 1").unwrap_err();
    // The server's last message may arrive before the statement is sent, and then the connection is closed.
    let kind = classify(&error);
    assert!(matches!(kind, ErrorKind::ConnectionLost | ErrorKind::ShuttingDown), "{error}");
    assert!(ends_connection(&error) && classify(&error).is_retryable());
    let error = client.batch_execute("SELECT 1").unwrap_err();
    assert_eq!(classify(&error), ErrorKind::ConnectionLost, "{error}");
}

#[test]
fn a_crash_of_the_server_is_a_lost_connection() {
    let options = ClusterOptions::new().without_fsync().private_only();
    let Ok(cluster) = unless_skipped(options.start()).inspect_err(|reason| println!("{reason}")) else {
        return;
    };
    let url = cluster.url("postgres");
    let mut client = open(&url).unwrap();
    cluster.stop_immediate().unwrap();
    let error = client.batch_execute("SELECT 1").unwrap_err();
    let kind = classify(&error);
    assert!(matches!(kind, ErrorKind::ConnectionLost | ErrorKind::ShuttingDown), "{error}");
    let error = open(&url).err().unwrap();
    assert!(matches!(error, ConnectError::Refused { .. }), "{error}");
    cluster.start_again().unwrap();
    assert_eq!(value(&mut open(&url).unwrap(), "SELECT 1"), "1");
}

#[test]
fn warnings_of_the_server_are_kept() {
    let Some(server) = without_tls() else { return };
    let mut client = open(&server.tcp("ann", "")).unwrap();
    client.batch_execute("DO $$ BEGIN RAISE WARNING 'careful'; RAISE NOTICE 'hello'; END $$").unwrap();
    let warnings = client.warnings.take();
    assert_eq!(warnings.iter().map(|w| (w.code(), w.message())).collect::<Vec<_>>(), [("01000", "careful")]);
    assert!(client.warnings.take().is_empty());
}
