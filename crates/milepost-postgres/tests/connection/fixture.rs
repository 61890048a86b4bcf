//! The servers that the tests share, and short ways to connect to them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use milepost_postgres::connection::{self, ConnectError, Environment, ServerWarnings, Settings};
use milepost_testkit::postgres::{ClusterOptions, PrivateCluster, unless_skipped};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::runtime::Runtime;
use tokio_postgres::{Error, SimpleQueryMessage};

/// The password of every role but the superuser.
pub(crate) const PASSWORD: &str = "correct-horse";

/// A cluster and the files that clients need for it.
pub(crate) struct Fixture {
    pub(crate) cluster: PrivateCluster,
    folder: tempfile::TempDir,
}

impl Fixture {
    /// A file that clients use, such as a certificate.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Key/value settings for a role over TCP, and more of them.
    pub(crate) fn tcp(&self, user: &str, more: &str) -> String {
        let port = self.cluster.port().unwrap();
        let files = more.replace("FILES", self.folder.path().to_str().unwrap());
        let password =
            if more.contains("password=") { String::new() } else { format!("password={PASSWORD}") };
        format!(
            "host=localhost hostaddr=127.0.0.1 port={port} dbname=postgres user={user} {password} {files}"
        )
    }
}

/// A cluster with TLS on 127.0.0.1 whose certificate is for `localhost`; none if the tests are skipped.
pub(crate) fn with_tls() -> Option<&'static Fixture> {
    static FIXTURE: OnceLock<Result<Fixture, String>> = OnceLock::new();
    shown(FIXTURE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let files = Certificates::new();
        files.write(folder.path());
        let options = ClusterOptions::new()
            .without_fsync()
            .tcp()
            .setting("ssl", "on")
            .file("server.crt", &files.server)
            .file("server.key", &files.server_key)
            .setting("ssl_ca_file", "ca.crt")
            .file("ca.crt", &files.ca)
            .access_rule("hostssl all by_certificate 127.0.0.1/32 cert")
            .access_rule("hostnossl all only_tls 127.0.0.1/32 reject")
            .access_rule("hostssl all only_plain 127.0.0.1/32 reject")
            .access_rule("host all never 127.0.0.1/32 reject");
        let cluster = unless_skipped(options.start())?;
        for role in ["ann", "by_certificate", "only_tls", "only_plain", "never"] {
            cluster.sql("postgres", &format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'")).unwrap();
        }
        Ok(Fixture { cluster, folder })
    }))
}

/// A cluster without TLS on 127.0.0.1; none if the tests are skipped.
pub(crate) fn without_tls() -> Option<&'static Fixture> {
    static FIXTURE: OnceLock<Result<Fixture, String>> = OnceLock::new();
    shown(FIXTURE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        Certificates::new().write(folder.path());
        let cluster = unless_skipped(ClusterOptions::new().without_fsync().tcp().start())?;
        for role in ["ann", "full CONNECTION LIMIT 0"] {
            let (name, limit) = role.split_once(' ').unwrap_or((role, ""));
            let sql = format!("CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {limit}");
            cluster.sql("postgres", &sql).unwrap();
        }
        Ok(Fixture { cluster, folder })
    }))
}

fn shown(fixture: &'static Result<Fixture, String>) -> Option<&'static Fixture> {
    fixture.as_ref().inspect_err(|reason| println!("{reason}")).ok()
}

pub(crate) fn environment() -> Environment {
    Environment { user: Some("nobody".into()), ..Environment::new() }
}

pub(crate) fn settings(text: &str) -> Settings {
    Settings::parse(text, &environment()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A connection that is used synchronously.
pub(crate) struct Client {
    client: tokio_postgres::Client,
    pub(crate) warnings: ServerWarnings,
    runtime: Option<Runtime>,
}

impl Client {
    /// Runs statements. Waits at most for the given time, and returns none if they take longer.
    pub(crate) fn execute_within(&mut self, sql: &str, limit: Duration) -> Option<Result<(), Error>> {
        let runtime = self.runtime.as_ref().unwrap();
        let work = self.client.batch_execute(sql);
        runtime.block_on(async { tokio::time::timeout(limit, work).await }).ok()
    }

    pub(crate) fn batch_execute(&mut self, sql: &str) -> Result<(), Error> {
        self.execute_within(sql, Duration::from_secs(30)).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.runtime.take().unwrap().shutdown_background();
    }
}

pub(crate) fn connect(settings: &Settings, deadline: Instant) -> Result<Client, ConnectError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match runtime.block_on(connection::connect(settings, deadline)) {
        Ok((client, warnings)) => Ok(Client { client, warnings, runtime: Some(runtime) }),
        Err(error) => {
            runtime.shutdown_background();
            Err(error)
        }
    }
}

pub(crate) fn open(text: &str) -> Result<Client, ConnectError> {
    connect(&settings(text), soon())
}

/// The error of a connection that must fail. It never shows a password.
pub(crate) fn error(text: &str) -> ConnectError {
    let error = open(text).err().unwrap_or_else(|| panic!("{text} connects"));
    assert!(!format!("{error} {error:?}").contains(PASSWORD), "{error:?}");
    error
}

/// The first column of the first row.
pub(crate) fn value(client: &mut Client, sql: &str) -> String {
    let rows = client.runtime.as_ref().unwrap().block_on(client.client.simple_query(sql)).unwrap();
    let row = rows.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    });
    row.unwrap()
}

/// Whether the server sees TLS.
pub(crate) fn uses_tls(client: &mut Client) -> bool {
    value(client, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "t"
}

struct Certificates {
    ca: String,
    server: String,
    server_key: String,
    client: String,
    client_key: String,
    other_ca: String,
}

impl Certificates {
    fn new() -> Self {
        let ca = issuer("test issuer");
        let server_key = KeyPair::generate().unwrap();
        let server =
            CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&server_key, &ca).unwrap();
        let client_key = KeyPair::generate().unwrap();
        let mut client = CertificateParams::new(Vec::new()).unwrap();
        client.distinguished_name.push(DnType::CommonName, "by_certificate");
        let client = client.signed_by(&client_key, &ca).unwrap();
        Self {
            ca: ca.pem(),
            server: server.pem(),
            server_key: server_key.serialize_pem(),
            client: client.pem(),
            client_key: client_key.serialize_pem(),
            other_ca: issuer("another issuer").pem(),
        }
    }

    fn write(&self, folder: &Path) {
        for (name, content) in [
            ("ca.crt", &self.ca),
            ("other-ca.crt", &self.other_ca),
            ("server.crt", &self.server),
            ("client.crt", &self.client),
            ("client.key", &self.client_key),
            ("open.key", &self.client_key),
            ("empty", &String::new()),
        ] {
            std::fs::write(folder.join(name), content).unwrap();
            if name == "client.key" {
                private(&folder.join(name));
            }
        }
    }
}

/// Makes a file readable for its owner only.
pub(crate) fn private(file: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate that is its own issuer, as in the example of PostgreSQL's manual, with its key.
pub(crate) fn self_signed(name: &str) -> (String, String) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}
