//! Tables of connection strings and what they mean.

#![allow(clippy::disallowed_methods, reason = "tests write plain files")]

use super::*;

fn environment() -> Environment {
    Environment { user: Some("ann".into()), ..Environment::new() }
}

fn parsed(text: &str) -> Result<Settings, SettingsError> {
    Settings::parse(text, &environment())
}

#[test]
fn addresses_are_canonical_and_have_no_password() {
    for (text, expected) in [
        ("", "postgres://ann@:5432/ann"),
        ("postgres://", "postgres://ann@:5432/ann"),
        ("postgres://DB.Example/team", "postgres://ann@db.example:5432/team"),
        ("postgres://bob:secret@db:5433/team?sslmode=require", "postgres://bob@db:5433/team"),
        ("host=db port=5433 user=bob dbname=team password=secret", "postgres://bob@db:5433/team"),
        ("postgres://bob@db", "postgres://bob@db:5432/bob"),
        ("postgres://a,b:6/d", "postgres://ann@a:5432,b:6/d"),
        ("postgres://a,b:6/d?port=7", "postgres://ann@a:7,b:7/d"),
        ("postgres://[::1]/d", "postgres://ann@[::1]:5432/d"),
        ("host=/run/pg dbname=d", "postgres://ann@%2Frun%2Fpg:5432/d"),
        ("hostaddr=10.0.0.1 dbname=d", "postgres://ann@10.0.0.1:5432/d"),
        ("host=db hostaddr=10.0.0.1 dbname=d", "postgres://ann@db:5432/d"),
        ("postgres://db/d?schema=other", "postgres://ann@db:5432/d?schema=other"),
        ("postgres://db/d?schema=milepost", "postgres://ann@db:5432/d"),
        ("postgres://a%40b@db/x%2Fy", "postgres://a%40b@db:5432/x%2Fy"),
    ] {
        let settings = parsed(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(settings.address(), expected, "{text}");
        assert_eq!(settings.to_string(), expected);
        let again = parsed(&settings.address()).unwrap();
        assert_eq!(again.address(), expected, "an address can be read again");
        assert!(!format!("{settings:?} {:?}", settings.hosts()).contains("secret"));
    }
}

#[test]
fn the_environment_completes_and_defaults_follow() {
    let mut environment = environment();
    for (name, value) in [
        ("PGHOST", "env.host"),
        ("PGPORT", "6000"),
        ("PGDATABASE", "envdb"),
        ("PGUSER", "envuser"),
        ("PGPASSWORD", "envsecret"),
        ("PGSSLMODE", "verify-full"),
        ("PGCONNECT_TIMEOUT", "3"),
        ("PGAPPNAME", "envapp"),
        ("PGTARGETSESSIONATTRS", "read-write"),
        ("PGOPTIONS", "-c a=b"),
        ("PGCHANNELBINDING", "require"),
    ] {
        environment.variables.insert(name.into(), value.into());
    }
    let settings = Settings::parse("", &environment).unwrap();
    assert_eq!(settings.address(), "postgres://envuser@env.host:6000/envdb");
    assert_eq!(settings.hosts()[0].password(), Some("envsecret"));
    assert_eq!(settings.ssl_mode(), SslMode::VerifyFull);
    assert_eq!(settings.connect_timeout(), Some(Duration::from_secs(3)));
    assert_eq!((settings.application(), settings.options()), ("envapp", Some("-c a=b")));
    assert_eq!(settings.target_session(), TargetSession::ReadWrite);
    assert_eq!(settings.channel_binding, ChannelBindingMode::Require);
    assert!(!format!("{environment:?} {settings:?}").contains("envsecret"));
    let settings = Settings::parse("postgres://me:mine@h:1/d?sslmode=disable", &environment).unwrap();
    assert_eq!(settings.address(), "postgres://me@h:1/d");
    assert_eq!(settings.hosts()[0].password(), Some("mine"));
    assert_eq!(settings.ssl_mode(), SslMode::Disable);
    let settings = parsed("").unwrap();
    assert_eq!(settings.ssl_mode(), SslMode::Prefer);
    assert_eq!(settings.application(), "milepost");
    assert_eq!(parsed("fallback_application_name=x").unwrap().application(), "x");
    assert!(matches!(Settings::parse("", &Environment::new()), Err(SettingsError::UserUnknown)));
}

#[test]
fn invalid_values_are_named_with_what_is_allowed_and_not_repeated() {
    for (text, expected) in [
        (
            "sslmode=bogus",
            "the connection option `sslmode` has an invalid value; allowed: disable, allow, prefer, require, verify-ca, verify-full",
        ),
        ("port=bogus", "the connection option `port` has an invalid value; allowed: numbers from 1 to 65535"),
        ("port=0", "the connection option `port` has an invalid value; allowed: numbers from 1 to 65535"),
        ("port=65536", "the connection option `port` has an invalid value; allowed: numbers from 1 to 65535"),
        ("hostaddr=bogus", "the connection option `hostaddr` has an invalid value; allowed: IP addresses"),
        (
            "connect_timeout=bogus",
            "the connection option `connect_timeout` has an invalid value; allowed: whole numbers",
        ),
        (
            "statement_timeout=5bogus",
            "the connection option `statement_timeout` has an invalid value; allowed: numbers with ms, s, min or h",
        ),
        (
            "channel_binding=bogus",
            "the connection option `channel_binding` has an invalid value; allowed: disable, prefer, require",
        ),
        ("keepalives=bogus", "the connection option `keepalives` has an invalid value; allowed: 0, 1"),
        (
            "target_session_attrs=bogus",
            "the connection option `target_session_attrs` has an invalid value; allowed: any, read-write, read-only, primary, standby, prefer-standby",
        ),
        (
            "host=a,b port=1,2,3",
            "the connection options `host` and `port` list different numbers of values: 2 and 3",
        ),
        (
            "host=a,b hostaddr=1.1.1.1",
            "the connection options `host` and `hostaddr` list different numbers of values: 2 and 1",
        ),
        ("sslrootcert=system sslmode=require", "`sslrootcert=system` needs `sslmode=verify-full`"),
        (
            "sslnegotiation=direct",
            "`sslnegotiation=direct` needs `sslmode` require, verify-ca or verify-full",
        ),
        ("gssencmode=require", "the connection option `gssencmode` is not supported"),
    ] {
        assert_eq!(parsed(text).err().unwrap().to_string(), expected, "{text}");
    }
}

#[test]
fn schemas_are_plain_identifiers() {
    for (schema, is_valid) in [
        ("milepost", true),
        ("_x9", true),
        ("Team", false),
        ("9x", false),
        ("a-b", false),
        ("a\"b", false),
        ("pg_x", false),
        (&"x".repeat(63), true),
        (&"x".repeat(64), false),
    ] {
        assert_eq!(parsed(&format!("schema='{schema}'")).is_ok(), is_valid, "{schema}");
    }
}

#[test]
fn timeouts_have_units() {
    for (text, expected) in [
        ("0", None),
        ("250", Some(250)),
        ("250ms", Some(250)),
        ("3s", Some(3000)),
        ("2 min", Some(120_000)),
        ("1h", Some(3_600_000)),
    ] {
        let settings = parsed(&format!("statement_timeout='{text}'")).unwrap();
        assert_eq!(settings.statement_timeout(), expected.map(Duration::from_millis), "{text}");
    }
    for (text, expected) in [
        ("", Some(10)),
        ("connect_timeout=0", None),
        ("connect_timeout=-1", None),
        ("connect_timeout=7", Some(7)),
    ] {
        assert_eq!(parsed(text).unwrap().connect_timeout(), expected.map(Duration::from_secs), "{text}");
    }
}

#[test]
fn an_empty_host_is_the_default_socket() {
    let kinds =
        |text: &str| parsed(text).unwrap().hosts().iter().map(|h| h.kind().clone()).collect::<Vec<_>>();
    let default = HostKind::DefaultSocket(vec!["/var/run/postgresql".into(), "/tmp".into()]);
    assert_eq!(kinds(""), vec![default.clone()]);
    assert_eq!(
        kinds("host=,/x,y"),
        [default, HostKind::Socket("/x".into()), HostKind::Tcp("y".into(), None)]
    );
    let without = Environment { socket_folders: Vec::new(), ..environment() };
    let settings = Settings::parse("", &without).unwrap();
    assert_eq!(settings.hosts()[0].kind(), &HostKind::Tcp("localhost".into(), None));
}

#[test]
fn verification_defaults_follow_the_root_certificates() {
    let mut environment = environment();
    environment.home = Some("/home/ann".into());
    let tls = |text: &str| Settings::parse(text, &environment).unwrap().tls;
    assert_eq!(tls("").roots, RootCertificates::Default(Some("/home/ann/.postgresql/root.crt".into())));
    assert_eq!(tls("sslrootcert=/x").roots, RootCertificates::File("/x".into()));
    assert_eq!(tls("sslrootcert=system").mode, SslMode::VerifyFull);
    let client = |text: &str| tls(text).client;
    let default =
        ("/home/ann/.postgresql/postgresql.crt".into(), "/home/ann/.postgresql/postgresql.key".into(), false);
    assert_eq!(client(""), Some(default));
    assert_eq!(client("sslcert=/c sslkey=/k"), Some(("/c".into(), "/k".into(), true)));
    assert_eq!(client("sslcert=/c sslkey=/k sslcertmode=disable"), None);
}

#[cfg(unix)]
#[test]
fn the_password_file_is_used_per_host_and_ignored_if_others_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join(".pgpass");
    std::fs::write(&file, "a:5432:d:ann:pa\nb:6:*:ann:pb\nlocalhost:*:d:ann:local\n/sock:*:d:ann:folder\n")
        .unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut environment = Environment { home: Some(home.path().into()), ..environment() };
    let passwords = |text: &str, environment: &Environment| {
        let settings = Settings::parse(text, environment).unwrap();
        settings.hosts().iter().map(|h| h.password().unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("postgres://a,b:6,c/d", vec!["pa", "pb", "-"]),
        ("postgres://a:5433/d", vec!["-"]),
        ("postgres:///d", vec!["local"]),
        ("host=/tmp dbname=d", vec!["local"]),
        ("host=/sock dbname=d", vec!["folder"]),
        ("postgres://:given@a/d", vec!["given"]),
        ("host=a dbname=d password=''", vec!["pa"]),
        ("host=a dbname=d passfile=/nonexistent", vec!["-"]),
    ] {
        assert_eq!(passwords(text, &environment), expected, "{text}");
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let settings = Settings::parse("postgres://a/d", &environment).unwrap();
    assert_eq!(settings.hosts()[0].password(), None);
    assert_eq!(settings.warnings(), [SettingsWarning::PasswordFileAccess { file: file.clone() }]);
    environment.variables.insert("PGPASSFILE".into(), "/nonexistent".into());
    assert!(Settings::parse("postgres://a/d", &environment).unwrap().warnings().is_empty());
}

proptest::proptest! {
    #[test]
    fn a_password_survives_encoding_and_is_never_shown(password in "\\PC{6,20}") {
        let text = format!("postgres://bob:{}@db/team", url::encode(&password));
        let settings = parsed(&text).unwrap();
        assert_eq!(settings.hosts()[0].password(), Some(password.as_str()));
        let quoted = password.replace('\\', r"\\").replace('\'', r"\'");
        let settings = parsed(&format!("host=db password='{quoted}'")).unwrap();
        assert_eq!(settings.hosts()[0].password(), Some(password.as_str()));
        assert!(!format!("{settings} {settings:?}").contains(&password));
    }

    #[test]
    fn a_password_that_is_not_encoded_is_never_shown(start in "[a-z%/?@:&=#]{0,6}", end in "[a-z%/?@:&=#]{0,6}") {
        let text = format!("postgres://bob:{start}ZQX{end}@db/team");
        let shown = match parsed(&text) {
            Ok(settings) => format!("{settings} {settings:?}"),
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!shown.contains("ZQX"), "{text}: {shown}");
    }

    #[test]
    fn nothing_makes_the_parsers_panic(text in "\\PC{0,60}") {
        let _ = parsed(&text);
        let _ = parsed(&format!("postgres://{text}"));
        let _ = parsed(&format!("host={text}"));
    }
}
