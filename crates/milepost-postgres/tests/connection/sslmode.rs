//! Every `sslmode`, with and without root certificates, against a server with and one without TLS.

use milepost_postgres::connection::{ConnectError, Settings};
use milepost_testkit::postgres::{ClusterOptions, unless_skipped};

use crate::fixture::{
    connect, environment, error, open, private, self_signed, soon, uses_tls, with_tls, without_tls,
};

/// What a connection results in.
#[derive(Debug, PartialEq)]
enum Outcome {
    Plain,
    Tls,
    NoTls,
    Untrusted,
    WrongName,
    File,
}

use Outcome::{File, NoTls, Plain, Tls, Untrusted, WrongName};

fn outcome(text: &str) -> Outcome {
    match open(text) {
        Ok(mut client) => {
            if uses_tls(&mut client) {
                Tls
            } else {
                Plain
            }
        }
        Err(ConnectError::NoTls { .. }) => NoTls,
        Err(ConnectError::UntrustedCertificate { .. }) => Untrusted,
        Err(ConnectError::WrongHostName { .. }) => WrongName,
        Err(ConnectError::TlsFile { .. } | ConnectError::TlsSettings { .. }) => File,
        Err(error) => panic!("{text}: {error}"),
    }
}

#[test]
fn modes_with_a_server_that_offers_tls() {
    let Some(server) = with_tls() else { return };
    for (more, expected) in [
        ("sslmode=disable", Plain),
        ("sslmode=allow", Plain),
        ("sslmode=prefer", Tls),
        ("", Tls),
        ("sslmode=require", Tls),
        ("sslmode=verify-ca", File),
        ("sslmode=verify-full", File),
        ("sslmode=verify-ca sslrootcert=FILES/ca.crt", Tls),
        ("sslmode=verify-full sslrootcert=FILES/ca.crt", Tls),
        ("sslmode=verify-ca sslrootcert=FILES/other-ca.crt", Untrusted),
        ("sslmode=verify-full sslrootcert=FILES/other-ca.crt", Untrusted),
        // As in libpq, a given root certificate is always verified.
        ("sslmode=require sslrootcert=FILES/other-ca.crt", Untrusted),
        // As in libpq, the preferred TLS fails, and the connection goes on without.
        ("sslmode=prefer sslrootcert=FILES/other-ca.crt", Plain),
        ("sslmode=verify-full sslrootcert=system", Untrusted),
        // The server's own certificate, instead of its issuer's.
        ("sslmode=verify-full sslrootcert=FILES/server.crt", Tls),
        ("sslmode=verify-ca sslrootcert=FILES/missing", File),
        ("sslmode=verify-ca sslrootcert=FILES/empty", File),
        ("sslmode=require ssl_min_protocol_version=TLSv1.3", Tls),
        ("sslmode=require ssl_max_protocol_version=TLSv1.2", Tls),
        ("sslmode=require sslsni=0", Tls),
        ("sslmode=require channel_binding=require", Tls),
    ] {
        assert_eq!(outcome(&server.tcp("ann", more)), expected, "{more}");
    }
    // The certificate is for localhost only.
    for (mode, expected) in [("verify-full", WrongName), ("verify-ca", Tls), ("require", Tls)] {
        let text = server.tcp("ann", &format!("sslmode={mode} sslrootcert=FILES/ca.crt"));
        assert_eq!(outcome(&text.replace("host=localhost", "host=127.0.0.1")), expected, "{mode}");
        assert_eq!(outcome(&text.replace("host=localhost", "host=other.example")), expected, "{mode}");
    }
}

#[test]
fn modes_with_a_server_that_does_not() {
    let Some(server) = without_tls() else { return };
    for (more, expected) in [
        ("sslmode=disable", Plain),
        ("sslmode=allow", Plain),
        ("sslmode=prefer", Plain),
        ("sslmode=require", NoTls),
        ("sslmode=verify-ca sslrootcert=FILES/ca.crt", NoTls),
        ("sslmode=verify-full sslrootcert=FILES/ca.crt", NoTls),
    ] {
        assert_eq!(outcome(&server.tcp("ann", more)), expected, "{more}");
    }
    let error = error(&server.tcp("ann", "channel_binding=require"));
    assert!(matches!(error, ConnectError::NoChannelBinding { .. }), "{error}");
}

#[test]
fn access_rules_of_the_server_decide_about_the_second_try() {
    let Some(server) = with_tls() else { return };
    for (user, mode, expected) in [
        ("only_tls", "allow", Some(Tls)),
        ("only_tls", "prefer", Some(Tls)),
        ("only_tls", "disable", None),
        ("only_plain", "allow", Some(Plain)),
        ("only_plain", "prefer", Some(Plain)),
        ("only_plain", "require", None),
    ] {
        let text = server.tcp(user, &format!("sslmode={mode}"));
        match expected {
            Some(expected) => assert_eq!(outcome(&text), expected, "{user} {mode}"),
            None => {
                let error = error(&text);
                assert!(matches!(error, ConnectError::Rejected { .. }), "{user} {mode}: {error}");
            }
        }
    }
}

#[test]
fn a_client_certificate_replaces_the_password() {
    let Some(server) = with_tls() else { return };
    let text = |key: &str| {
        let more = format!("sslmode=require sslcert=FILES/client.crt sslkey=FILES/{key} password=''");
        server.tcp("by_certificate", &more)
    };
    assert_eq!(outcome(&text("client.key")), Tls);
    let error = error(&text("open.key")).to_string();
    assert!(error.contains("open.key: other users have access to the private key"), "{error}");
    assert_eq!(outcome(&text("missing")), File);
    assert_eq!(outcome(&text("empty")), File);
    let without = open(&server.tcp("by_certificate", "sslmode=require")).err().unwrap();
    assert!(matches!(without, ConnectError::Rejected { .. }), "{without}");
}

#[test]
fn default_files_in_the_home_folder_are_used() {
    let Some(server) = with_tls() else { return };
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join(".postgresql");
    std::fs::create_dir(&folder).unwrap();
    for (from, to) in
        [("other-ca.crt", "root.crt"), ("client.crt", "postgresql.crt"), ("client.key", "postgresql.key")]
    {
        std::fs::copy(server.file(from), folder.join(to)).unwrap();
    }
    private(&folder.join("postgresql.key"));
    let mut environment = environment();
    environment.home = Some(home.path().to_owned());
    let text = server.tcp("by_certificate", "sslmode=require password=''");
    let open = || connect(&Settings::parse(&text, &environment).unwrap(), soon());
    let error = open().err().unwrap();
    assert!(matches!(error, ConnectError::UntrustedCertificate { .. }), "{error}");
    std::fs::copy(server.file("ca.crt"), folder.join("root.crt")).unwrap();
    assert!(uses_tls(&mut open().unwrap()));
}

#[test]
fn a_self_signed_certificate_is_trusted_if_it_is_the_root_certificate() {
    let (certificate, key) = self_signed("localhost");
    let options = ClusterOptions::new().without_fsync().tcp().setting("ssl", "on");
    let options = options.file("server.crt", &certificate).file("server.key", &key);
    let Ok(cluster) = unless_skipped(options.start()).inspect_err(|reason| println!("{reason}")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root.crt");
    std::fs::write(&root, &certificate).unwrap();
    let text = |mode: &str, host: &str| {
        let (root, port, password) = (root.display(), cluster.port().unwrap(), cluster.password().unwrap());
        format!(
            "host={host} hostaddr=127.0.0.1 port={port} user=postgres password={password} sslmode={mode} sslrootcert={root}"
        )
    };
    assert_eq!(outcome(&text("verify-full", "localhost")), Tls);
    assert_eq!(outcome(&text("verify-full", "other.example")), WrongName);
    assert_eq!(outcome(&text("verify-ca", "other.example")), Tls);
    std::fs::write(&root, self_signed("localhost").0).unwrap();
    assert_eq!(outcome(&text("verify-ca", "localhost")), Untrusted);
}
