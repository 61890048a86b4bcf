//! Hosts, sockets, password files and service files, as they are really used.

use std::net::TcpListener;

use milepost_postgres::connection::{ConnectError, Environment, Settings};

use crate::fixture::{PASSWORD, connect, environment, open, private, soon, value, without_tls};

#[test]
fn hosts_are_tried_in_order_until_one_answers() {
    let Some(server) = without_tls() else { return };
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port = server.cluster.port().unwrap();
    let folder = server.cluster.socket_folder().unwrap().display();
    for hosts in [
        format!("host=127.0.0.1,127.0.0.1 port={closed},{port}"),
        format!("host=no-such-host.invalid,localhost port={port}"),
        format!("host=/nonexistent,{folder} port={port}"),
        format!("host=localhost,localhost port={closed},{port} load_balance_hosts=random"),
    ] {
        let text = format!("{hosts} user=ann password={PASSWORD} dbname=postgres");
        assert_eq!(value(&mut open(&text).unwrap(), "SELECT current_user"), "ann", "{hosts}");
    }
    // A server that answers and says no ends the search.
    let text = format!("host=127.0.0.1,{folder} port={port} user=ann password=wrong dbname=postgres");
    assert!(
        matches!(open(&text), Err(ConnectError::PasswordWrong { address, .. }) if address.starts_with("127.0.0.1"))
    );
}

#[test]
fn the_default_socket_is_found_in_any_of_its_folders() {
    let Some(server) = without_tls() else { return };
    let folder = server.cluster.socket_folder().unwrap().to_owned();
    let environment = Environment { socket_folders: vec!["/nonexistent".into(), folder], ..environment() };
    let text =
        format!("port={} user=ann password={PASSWORD} dbname=postgres", server.cluster.port().unwrap());
    let settings = Settings::parse(&text, &environment).unwrap();
    assert_eq!(value(&mut connect(&settings, soon()).unwrap(), "SELECT current_user"), "ann");
}

#[test]
fn password_file_and_service_file_are_used() {
    let Some(server) = without_tls() else { return };
    let home = tempfile::tempdir().unwrap();
    let port = server.cluster.port().unwrap();
    let service = format!("[team]\nhost=127.0.0.1\nport={port}\ndbname=postgres\nuser=ann\n");
    std::fs::write(home.path().join(".pg_service.conf"), service).unwrap();
    let passwords = home.path().join(".pgpass");
    std::fs::write(&passwords, format!("*:*:*:bob:no\n127.0.0.1:{port}:postgres:ann:{PASSWORD}\n")).unwrap();
    private(&passwords);
    let mut environment = environment();
    environment.home = Some(home.path().to_owned());
    let open =
        |environment: &Environment| connect(&Settings::parse("service=team", environment).unwrap(), soon());
    assert_eq!(value(&mut open(&environment).unwrap(), "SELECT current_user"), "ann");
    environment.variables.insert("PGPASSFILE".into(), "/nonexistent".into());
    assert!(matches!(open(&environment), Err(ConnectError::PasswordMissing { .. })));
    environment.variables.insert("PGPASSWORD".into(), PASSWORD.into());
    assert_eq!(value(&mut open(&environment).unwrap(), "SELECT current_user"), "ann");
}

#[test]
fn session_settings_reach_the_server() {
    let Some(server) = without_tls() else { return };
    let text = server.tcp("ann", "application_name=tests options='-c work_mem=77kB'");
    let mut client = open(&text).unwrap();
    assert_eq!(value(&mut client, "SHOW application_name"), "tests");
    assert_eq!(value(&mut client, "SHOW work_mem"), "77kB");
}
