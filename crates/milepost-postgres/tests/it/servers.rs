//! The servers that the tests of the store share, and short ways to use them. Prints what is skipped, even if the
//! test's output is captured.

use std::io::Write;
use std::ops::Deref;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use milepost::store::OpenOptions;
use milepost_postgres::PostgresStore;
use milepost_postgres::connection::{Environment, Settings};
use milepost_testkit::postgres::{ClusterOptions, Pgbouncer, PrivateCluster, unless_skipped};

fn print_skipped(reason: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED tests of the PostgreSQL store: {reason}");
}

/// The server that the tests share: the existing one that the environment names, or a private cluster.
pub(crate) fn shared() -> Option<&'static PrivateCluster> {
    static SHARED: OnceLock<Option<PrivateCluster>> = OnceLock::new();
    let start = || {
        let started = unless_skipped(ClusterOptions::new().without_fsync().start());
        started.inspect_err(|reason| print_skipped(reason)).ok()
    };
    SHARED.get_or_init(start).as_ref()
}

/// A cluster for one test, which may stop it.
pub(crate) fn own() -> Option<PrivateCluster> {
    let started = unless_skipped(ClusterOptions::new().without_fsync().private_only().start());
    started.inspect_err(|reason| print_skipped(reason)).ok()
}

/// The shared server, if a proxy or pgbouncer can be put in front of it.
pub(crate) fn private() -> Option<&'static PrivateCluster> {
    let cluster = shared()?;
    if cluster.is_existing() {
        print_skipped("faults and poolers need a private server");
        return None;
    }
    Some(cluster)
}

/// pgbouncer in front of the shared server.
pub(crate) fn pooler() -> Option<&'static Pgbouncer> {
    static POOLER: OnceLock<Option<Pgbouncer>> = OnceLock::new();
    let start = || {
        let started = unless_skipped(Pgbouncer::start(private()?));
        started.inspect_err(|reason| print_skipped(reason)).ok()
    };
    POOLER.get_or_init(start).as_ref()
}

pub(crate) fn environment() -> Environment {
    Environment { user: Some("nobody".into()), ..Environment::new() }
}

/// The settings of a URL and more options.
pub(crate) fn settings(url: &str, more: &str) -> Settings {
    let join = if url.contains('?') { '&' } else { '?' };
    Settings::parse(&format!("{url}{join}{more}"), &environment()).unwrap()
}

/// Settings with a schema of a test's own. If the server outlives the test, the schema is dropped with this value.
pub(crate) struct TestSchema(Settings);

impl Deref for TestSchema {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.0
    }
}

impl Drop for TestSchema {
    fn drop(&mut self) {
        // A private server is removed as a whole, and may have been stopped.
        if std::env::var_os("MILEPOST_TEST_POSTGRES").is_none() {
            return;
        }
        if let Some(server) = shared().filter(|server| server.is_existing()) {
            let drop =
                format!("SET client_min_messages = warning; DROP SCHEMA IF EXISTS {} CASCADE", self.schema());
            let dropped = server.sql("postgres", &format!("SET lock_timeout = '10s'; {drop}"));
            if let Err(error) = dropped {
                let _ = writeln!(std::io::stderr(), "the schema {} is left behind: {error}", self.schema());
            }
        }
    }
}

/// Settings with a schema of their own.
pub(crate) fn new_schema(url: &str) -> TestSchema {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    TestSchema(settings(url, &format!("schema=test_{}_{number}", std::process::id())))
}

/// Creates a role that may only connect, and returns the settings with which it uses the same schema.
pub(crate) fn new_role(cluster: &PrivateCluster, schema: &Settings, role: &str) -> Settings {
    let create = format!("CREATE ROLE \"{role}\" LOGIN PASSWORD 'secret'");
    cluster.sql("postgres", &create).unwrap();
    let url = cluster.url("postgres").replace(cluster.password().unwrap(), "secret");
    let url = url.replace("//postgres:", &format!("//{role}:"));
    settings(&url, &format!("schema={}", schema.schema()))
}

/// Opens a handle that creates the store.
pub(crate) fn open(settings: &Settings) -> PostgresStore {
    PostgresStore::open(settings, &OpenOptions::new().create(true))
}

/// Opens a handle for one project.
pub(crate) fn open_project(settings: &Settings, project: &str) -> PostgresStore {
    PostgresStore::open(settings, &OpenOptions::new().create(true).project(project.to_owned()))
}
