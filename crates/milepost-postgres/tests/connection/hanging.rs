//! Servers and networks that stop answering: no step waits beyond its deadline.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use milepost_postgres::connection::{ConnectError, ends_connection};
use milepost_testkit::postgres::{Direction, Proxy, Target};

use crate::fixture::{PASSWORD, connect, settings, soon, value, with_tls, without_tls};

/// Far below any timeout of the operating system, far above the deadlines of the tests.
const PROMPT: Duration = Duration::from_secs(8);

fn assert_times_out(text: &str, deadline: Duration) {
    let start = Instant::now();
    let error = connect(&settings(text), start + deadline).err().unwrap();
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{text}: {error}");
    assert!(error.is_retryable());
    assert!(start.elapsed() < PROMPT, "{text}: {:?}", start.elapsed());
}

#[test]
fn a_server_that_accepts_and_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let folder = tempfile::Builder::new().prefix("mp-").tempdir_in("/tmp").unwrap();
    let _socket = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
    let short = Duration::from_millis(300);
    for mode in ["disable", "prefer", "require"] {
        assert_times_out(&format!("host=127.0.0.1 port={port} user=ann sslmode={mode}"), short);
    }
    assert_times_out(&format!("host={} user=ann", folder.path().display()), short);
    // The timeout of one try.
    let text = format!("host=127.0.0.1 port={port} user=ann connect_timeout=1");
    assert_times_out(&text, Duration::from_secs(60));
    assert_times_out(&text, Duration::ZERO);
}

#[test]
fn a_host_that_hangs_leaves_time_for_the_next_one() {
    let Some(server) = without_tls() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = listener.local_addr().unwrap().port();
    let port = server.cluster.port().unwrap();
    let text = format!(
        "host=127.0.0.1,127.0.0.1 port={hanging},{port} user=ann password={PASSWORD} dbname=postgres connect_timeout=1"
    );
    let mut client = connect(&settings(&text), soon()).unwrap();
    assert_eq!(value(&mut client, "SELECT 1"), "1");
}

#[test]
fn a_network_that_stops_in_the_middle_of_a_statement() {
    for (server, more) in [(without_tls(), ""), (with_tls(), "sslmode=require")] {
        let Some(server) = server else { return };
        let port = server.cluster.port().unwrap();
        let proxy = Proxy::start(Target::Tcp(([127, 0, 0, 1], port).into())).unwrap();
        let text = server.tcp("ann", more);
        let text = text.replace(&format!("port={port}"), &format!("port={}", proxy.address().port()));
        let mut client = connect(&settings(&text), soon()).unwrap();
        assert_eq!(value(&mut client, "SELECT 1"), "1");
        proxy.pause_after(Direction::ToClient, 3);
        let start = Instant::now();
        assert!(client.execute_within("SELECT 1", Duration::from_millis(300)).is_none());
        assert!(start.elapsed() < PROMPT);
        assert!(proxy.is_paused());
        proxy.cut();
        let error = client.batch_execute("SELECT 1").unwrap_err();
        assert!(ends_connection(&error), "{error}");
        drop(client);
        assert!(start.elapsed() < PROMPT);
        proxy.cut_after(Direction::ToClient, 40);
        let error = connect(&settings(&text), soon()).err().unwrap();
        assert!(matches!(error, ConnectError::Lost { .. } | ConnectError::Tls { .. }), "{error}");
    }
}
