//! A PostgreSQL cluster of a test's own, in a temporary folder, on a Unix socket and on request on a loopback
//! port; or the existing server that `MILEPOST_TEST_POSTGRES` names, which cannot be stopped.
//! Databases that a test creates on an existing server are dropped at the end.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use super::programs::{self, Programs, output};
use super::watchdog::Watchdog;
use super::{ServerError, Target};

/// The superuser of every private cluster.
const USER: &str = "postgres";
/// Only names the socket: nothing listens on this TCP port.
const SOCKET_PORT: u16 = 5432;
/// The longest path of a Unix socket: 104 bytes with the final zero on macOS, 108 on Linux.
const MAX_SOCKET_PATH: usize = 103;

/// How a private cluster is set up.
#[derive(Clone, Debug, Default)]
pub struct ClusterOptions {
    without_fsync: bool,
    tcp: bool,
    private_only: bool,
    settings: Vec<(String, String)>,
    access_rules: Vec<String>,
    files: Vec<(String, String)>,
    initdb_arguments: Vec<String>,
}

impl ClusterOptions {
    /// A durable cluster on a Unix socket only, where every user needs a password.
    pub fn new() -> Self {
        Self::default()
    }

    /// Turns off fsync: faster, and still safe when the server is killed.
    pub fn without_fsync(mut self) -> Self {
        self.without_fsync = true;
        self
    }

    /// Also listens on a free TCP port of 127.0.0.1.
    pub fn tcp(mut self) -> Self {
        self.tcp = true;
        self
    }

    /// Refuses an existing server, because the test stops the server or puts something in front of it.
    pub fn private_only(mut self) -> Self {
        self.private_only = true;
        self
    }

    /// Adds a line to `postgresql.conf`.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a line to `pg_hba.conf`, before the lines that let every user in with a password.
    pub fn access_rule(mut self, line: &str) -> Self {
        self.access_rules.push(line.to_owned());
        self
    }

    /// Adds a file to the data folder, readable only by the server: a certificate or a key.
    pub fn file(mut self, name: &str, content: &str) -> Self {
        self.files.push((name.to_owned(), content.to_owned()));
        self
    }

    /// Adds an argument of `initdb`, for example `--locale-provider=icu`.
    pub fn initdb_argument(mut self, argument: &str) -> Self {
        self.initdb_arguments.push(argument.to_owned());
        self
    }

    /// Starts the cluster, or uses the existing server if the options need no private one.
    pub fn start(self) -> Result<PrivateCluster, ServerError> {
        let is_plain = self.settings.is_empty()
            && self.access_rules.is_empty()
            && self.files.is_empty()
            && self.initdb_arguments.is_empty();
        match programs::existing_server() {
            Some(_) if self.private_only => Err(ServerError::Unsupported("stop")),
            Some(_) if self.tcp || !is_plain => Err(ServerError::Unsupported("configure")),
            Some(url) => Ok(PrivateCluster { kind: Kind::Existing { url }, created: Mutex::default() }),
            None => self.start_private(),
        }
    }

    fn start_private(self) -> Result<PrivateCluster, ServerError> {
        let bin = programs::server_folder()?;
        let programs = Programs::new()?;
        let folder = short_temp_folder(&programs)?;
        let password = format!("{:032x}", random());
        let mut server = Server { programs, bin, folder, port: SOCKET_PORT, tcp: self.tcp, password };
        // Started before the first file exists, so that nothing is left behind.
        let watchdog = server.watchdog()?;
        server.init(&self)?;
        // Another process can take the free port before the server does.
        let mut tries = 0;
        let started = loop {
            if self.tcp {
                server.port = free_port()?;
            }
            tries += 1;
            match server.start() {
                Err(_) if self.tcp && tries < 3 => {}
                done => break done,
            }
        };
        started?;
        let kind = Kind::Private { server, _watchdog: watchdog };
        Ok(PrivateCluster { kind, created: Mutex::default() })
    }
}

/// A cluster that is stopped and removed when it is dropped or when this process ends, or an existing server.
#[derive(Debug)]
pub struct PrivateCluster {
    kind: Kind,
    created: Mutex<Vec<String>>,
}

#[derive(Debug)]
enum Kind {
    Private { server: Server, _watchdog: Watchdog },
    Existing { url: String },
}

impl PrivateCluster {
    /// Starts a cluster with the default options.
    pub fn start() -> Result<Self, ServerError> {
        ClusterOptions::new().start()
    }

    /// Whether this is the existing server that `MILEPOST_TEST_POSTGRES` names.
    pub fn is_existing(&self) -> bool {
        matches!(self.kind, Kind::Existing { .. })
    }

    /// The URL of a database as the superuser, with the password, through the Unix socket.
    pub fn url(&self, database: &str) -> String {
        match &self.kind {
            Kind::Private { server, .. } => {
                let host = server.folder.to_string_lossy().replace('/', "%2F");
                format!("postgres://{USER}:{}@{host}:{}/{database}", server.password, server.port)
            }
            Kind::Existing { url } => replace_database(url, database),
        }
    }

    /// The URL of a database as the superuser, with the password, at this address: the cluster's own, or that
    /// of a proxy.
    pub fn url_at(&self, address: SocketAddr, database: &str) -> Result<String, ServerError> {
        let password = &self.server("proxy")?.password;
        Ok(format!("postgres://{USER}:{password}@{address}/{database}"))
    }

    /// The folder of the Unix socket, which is the host to connect to.
    pub fn socket_folder(&self) -> Result<&Path, ServerError> {
        Ok(&self.server("read the folder of")?.folder)
    }

    /// The port: of TCP if the cluster listens there, else only part of the socket's name.
    pub fn port(&self) -> Result<u16, ServerError> {
        Ok(self.server("read the port of")?.port)
    }

    /// The superuser's name.
    pub fn user(&self) -> &'static str {
        USER
    }

    /// The superuser's password.
    pub fn password(&self) -> Result<&str, ServerError> {
        Ok(&self.server("read the password of")?.password)
    }

    /// What a [`Proxy`](super::Proxy) in front of this cluster connects to.
    pub fn target(&self) -> Result<Target, ServerError> {
        Ok(Target::Unix(self.server("proxy")?.socket()))
    }

    /// Runs SQL with psql as the superuser and returns what it prints, unaligned and without headers.
    pub fn sql(&self, database: &str, sql: &str) -> Result<String, ServerError> {
        let mut command = match &self.kind {
            Kind::Private { server, .. } => {
                let mut command = Command::new(server.bin.join("psql"));
                programs::clean(&mut command);
                server.connection(&mut command);
                command.args(["-d", database]);
                command
            }
            Kind::Existing { url } => {
                let psql = programs::find("psql");
                let mut command =
                    Command::new(psql.ok_or_else(|| programs::missing("psql", "postgresql-client"))?);
                programs::clean(&mut command);
                command.args(["-d", &replace_database(url, database)]);
                command
            }
        };
        output(command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", sql]))
    }

    /// Creates an empty database with a name of its own and returns the name.
    pub fn create_database(&self) -> Result<String, ServerError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("milepost_test_{}_{number}", std::process::id());
        self.sql("postgres", &format!("CREATE DATABASE {name}"))?;
        self.created.lock().expect("no panic holds the lock").push(name.clone());
        Ok(name)
    }

    /// Stops the server: open transactions are rolled back, connections end (`pg_ctl stop -m fast`).
    pub fn stop(&self) -> Result<(), ServerError> {
        self.server("stop")?.stop("fast")
    }

    /// Stops the server as a crash does (`pg_ctl stop -m immediate`).
    pub fn stop_immediate(&self) -> Result<(), ServerError> {
        self.server("stop")?.stop("immediate")
    }

    /// Starts a stopped server again, with recovery if it was stopped immediately.
    pub fn start_again(&self) -> Result<(), ServerError> {
        self.server("start")?.start()
    }

    /// Crashes the server and starts it again.
    pub fn restart_immediate(&self) -> Result<(), ServerError> {
        self.stop_immediate()?;
        self.start_again()
    }

    /// Starts a hot standby of this cluster: a server of its own, on a Unix socket, that only reads.
    pub fn standby(&self) -> Result<Self, ServerError> {
        let primary = self.server("copy")?;
        let folder = short_temp_folder(&primary.programs)?;
        let standby = Server { folder, port: SOCKET_PORT, tcp: false, ..primary.clone() };
        let watchdog = standby.watchdog()?;
        let mut copy = standby.programs.command(&standby.bin.join("pg_basebackup"));
        primary.connection(&mut copy);
        output(copy.args(["-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(standby.data()))?;
        standby.start()?;
        let kind = Kind::Private { server: standby, _watchdog: watchdog };
        Ok(Self { kind, created: Mutex::default() })
    }

    /// Makes a standby a primary.
    pub fn promote(&self) -> Result<(), ServerError> {
        let server = self.server("promote")?;
        output(server.pg_ctl().args(["-w", "promote"])).map(drop)
    }

    /// The server's log, which failing tests print.
    pub fn log(&self) -> Result<String, ServerError> {
        let file = self.server("read the log of")?.folder.join("log");
        std::fs::read(file)
            .map(|text| String::from_utf8_lossy(&text).into_owned())
            .map_err(|e| ServerError::Failed(format!("cannot read the server's log: {e}")))
    }

    pub(super) fn server(&self, action: &'static str) -> Result<&Server, ServerError> {
        match &self.kind {
            Kind::Private { server, .. } => Ok(server),
            Kind::Existing { .. } => Err(ServerError::Unsupported(action)),
        }
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        let created = self.created.get_mut().map(std::mem::take).unwrap_or_default();
        if self.is_existing() {
            for name in created {
                let _ = self.sql("postgres", &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"));
            }
        }
    }
}

/// The files and the address of a private server.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) programs: Programs,
    bin: PathBuf,
    /// Contains the socket, the log and the data folder.
    pub(super) folder: PathBuf,
    pub(super) port: u16,
    tcp: bool,
    pub(super) password: String,
}

impl Server {
    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{}", self.port))
    }

    fn watchdog(&self) -> Result<Watchdog, ServerError> {
        let mut stop = self.programs.words(&self.bin.join("pg_ctl"));
        let data = self.data().to_string_lossy().into_owned();
        stop.extend(["-D", &data, "-m", "immediate", "-w", "stop"].map(str::to_owned));
        Watchdog::start(&self.folder, &stop)
    }

    fn init(&self, options: &ClusterOptions) -> Result<(), ServerError> {
        let secret = self.folder.join("password");
        write(&secret, &self.password)?;
        self.programs.give(&secret)?;
        let mut initdb = self.programs.command(&self.bin.join("initdb"));
        initdb.args([
            "--no-sync",
            "--encoding=UTF8",
            "--locale=C",
            "--auth=scram-sha-256",
            "--username",
            USER,
        ]);
        initdb.arg("--pwfile").arg(secret).arg("-D").arg(self.data());
        output(initdb.args(&options.initdb_arguments))?;
        for (name, content) in &options.files {
            let file = self.data().join(name);
            write(&file, content)?;
            self.programs.give(&file)?;
        }
        self.configure(options)
    }

    /// Writes `pg_hba.conf`, and the settings into the file that overrides `postgresql.conf`.
    fn configure(&self, options: &ClusterOptions) -> Result<(), ServerError> {
        let mut rules = options.access_rules.clone();
        for database in ["all", "replication"] {
            rules.push(format!("local {database} all scram-sha-256"));
            rules.push(format!("host {database} all 127.0.0.1/32 scram-sha-256"));
        }
        let own = [
            ("fsync", if options.without_fsync { "off" } else { "on" }),
            ("max_connections", "200"),
            ("shared_buffers", "32MB"),
            ("max_wal_senders", "4"),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let settings = own.chain(options.settings.iter().cloned());
        let settings: String = settings.map(|(name, value)| format!("{name} = '{value}'\n")).collect();
        for (name, content) in [("pg_hba.conf", rules.join("\n") + "\n"), ("postgresql.auto.conf", settings)]
        {
            write(&self.data().join(name), &content)?;
        }
        Ok(())
    }

    fn pg_ctl(&self) -> Command {
        let mut command = self.programs.command(&self.bin.join("pg_ctl"));
        command.arg("-D").arg(self.data());
        command
    }

    fn start(&self) -> Result<(), ServerError> {
        let addresses = if self.tcp { "127.0.0.1" } else { "" };
        let folder = self.folder.display();
        // On the command line, because a standby copies the files of its primary.
        let arguments = format!("-k {folder} -p {} -c listen_addresses='{addresses}'", self.port);
        let mut pg_ctl = self.pg_ctl();
        pg_ctl.arg("-l").arg(self.folder.join("log")).args(["-w", "-o", &arguments, "start"]);
        output(&mut pg_ctl).map(drop).map_err(|error| {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            ServerError::Failed(format!("{error}\n{log}"))
        })
    }

    fn stop(&self, mode: &str) -> Result<(), ServerError> {
        output(self.pg_ctl().args(["-m", mode, "-w", "stop"])).map(drop)
    }

    /// Makes a client program connect to this server as the superuser.
    fn connection(&self, client: &mut Command) {
        client.env("PGPASSWORD", &self.password).args(["-w", "-U", USER]);
        client.arg("-h").arg(&self.folder).args(["-p", &self.port.to_string()]);
    }
}

/// A temporary folder whose path leaves room for the name of a socket, owned by the server's user.
pub(super) fn short_temp_folder(programs: &Programs) -> Result<PathBuf, ServerError> {
    let failed = |e| ServerError::Failed(format!("cannot create a temporary folder: {e}"));
    let folder = tempfile::Builder::new().prefix("mp-pg-").tempdir_in("/tmp").map_err(failed)?;
    let socket = folder.path().join(".s.PGSQL.65535");
    if socket.as_os_str().len() > MAX_SOCKET_PATH {
        return Err(ServerError::Skipped(format!("the path {} is too long for a socket", socket.display())));
    }
    programs.give(folder.path())?;
    // The watchdog removes it.
    Ok(folder.keep())
}

/// A port of 127.0.0.1 that nothing listens on at this moment.
pub(super) fn free_port() -> Result<u16, ServerError> {
    let listener = TcpListener::bind(("127.0.0.1", 0));
    let port = listener.and_then(|listener| listener.local_addr()).map(|address| address.port());
    port.map_err(|e| ServerError::Failed(format!("there is no free port: {e}")))
}

/// Writes a file that only its owner can read.
#[allow(clippy::disallowed_methods, reason = "files of a test need not be durable")]
pub(super) fn write(file: &Path, content: &str) -> Result<(), ServerError> {
    std::fs::write(file, content)
        .and_then(|()| std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)))
        .map_err(|e| ServerError::Failed(format!("cannot write {}: {e}", file.display())))
}

/// A password that other users of this machine cannot guess.
fn random() -> u128 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let half = || u128::from(RandomState::new().build_hasher().finish());
    half() << 64 | half()
}

/// A URL with another database.
fn replace_database(url: &str, database: &str) -> String {
    let (address, parameters) = match url.split_once('?') {
        Some((address, parameters)) => (address, format!("?{parameters}")),
        None => (url, String::new()),
    };
    let host = address.find("://").map_or(0, |at| at + 3);
    let end = address[host..].find('/').map_or(address.len(), |at| host + at);
    format!("{}/{database}{parameters}", &address[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_of_a_url_is_replaced() {
        for (url, expected) in [
            ("postgres://u:p@h:1/old?sslmode=require", "postgres://u:p@h:1/new?sslmode=require"),
            ("postgres://h/old", "postgres://h/new"),
            ("postgres://h", "postgres://h/new"),
            ("postgresql://h?a=b", "postgresql://h/new?a=b"),
        ] {
            assert_eq!(replace_database(url, "new"), expected);
        }
    }
}
