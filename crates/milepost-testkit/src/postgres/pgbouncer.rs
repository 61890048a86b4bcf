//! pgbouncer in transaction mode in front of a private cluster, on a Unix socket of its own. Accepts every
//! role of the cluster with its password.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use super::cluster::{Server, short_temp_folder, write};
use super::programs::{self, output};
use super::watchdog::Watchdog;
use super::{PrivateCluster, ServerError, Target};

/// Only names the socket: nothing listens on this TCP port.
const SOCKET_PORT: u16 = 6432;
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A pooler that is stopped and removed when it is dropped or when this process ends.
#[derive(Debug)]
pub struct Pgbouncer {
    program: PathBuf,
    folder: PathBuf,
    server: Server,
    user: &'static str,
    _watchdog: Watchdog,
}

impl Pgbouncer {
    /// Starts pgbouncer with few server connections, so that transactions of one client share them with others.
    pub fn start(cluster: &PrivateCluster) -> Result<Self, ServerError> {
        let server = cluster.server("put pgbouncer in front of")?.clone();
        let program =
            programs::find("pgbouncer").ok_or_else(|| programs::missing("pgbouncer", "pgbouncer"))?;
        let folder = short_temp_folder(&server.programs)?;
        let stop = format!("kill \"$(cat {})\"", folder.join("pid").display());
        let mut words = server.programs.words("sh".as_ref());
        words.extend(["-c".to_owned(), stop]);
        let watchdog = Watchdog::start(&folder, &words)?;
        let pooler = Self { program, folder, server, user: cluster.user(), _watchdog: watchdog };
        pooler.configure()?;
        pooler.start_again()?;
        Ok(pooler)
    }

    /// The URL of a database as the superuser, with the password, through the pooler.
    pub fn url(&self, database: &str) -> String {
        let host = self.folder.to_string_lossy().replace('/', "%2F");
        format!("postgres://{}:{}@{host}:{SOCKET_PORT}/{database}", self.user, self.server.password)
    }

    /// What a [`Proxy`](super::Proxy) in front of the pooler connects to.
    pub fn target(&self) -> Target {
        Target::Unix(self.socket())
    }

    /// Stops the pooler at once: every connection ends.
    pub fn stop(&self) -> Result<(), ServerError> {
        let file = self.folder.join("pid");
        let failed = |text: String| ServerError::Failed(format!("cannot stop pgbouncer: {text}"));
        let pid = std::fs::read_to_string(&file).map_err(|e| failed(e.to_string()))?;
        output(self.server.programs.command("/bin/kill".as_ref()).arg(pid.trim()))?;
        wait_until(|| !file.exists() && UnixStream::connect(self.socket()).is_err())
            .then_some(())
            .ok_or_else(|| failed("it does not end".to_owned()))
    }

    /// Starts a stopped pooler again.
    pub fn start_again(&self) -> Result<(), ServerError> {
        let mut command = self.server.programs.command(&self.program);
        output(command.args(["-q", "-d"]).arg(self.folder.join("ini")))?;
        wait_until(|| UnixStream::connect(self.socket()).is_ok()).then_some(()).ok_or_else(|| {
            let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            ServerError::Failed(format!("pgbouncer does not listen\n{log}"))
        })
    }

    fn socket(&self) -> PathBuf {
        self.folder.join(format!(".s.PGSQL.{SOCKET_PORT}"))
    }

    fn configure(&self) -> Result<(), ServerError> {
        let (own, server) = (self.folder.display(), self.server.folder.display());
        let (port, user) = (self.server.port, self.user);
        // Short timeouts, so that tests in which the server is down end soon. `auth_user` looks up the passwords of all other roles.
        let ini = format!(
            "[databases]
* = host={server} port={port}
[pgbouncer]
pool_mode = transaction
default_pool_size = 4
max_client_conn = 200
query_wait_timeout = 5
server_login_retry = 1
server_connect_timeout = 5
listen_addr =
listen_port = {SOCKET_PORT}
unix_socket_dir = {own}
auth_type = scram-sha-256
auth_file = {own}/users
auth_user = {user}
admin_users = {user}
logfile = {own}/log
pidfile = {own}/pid
"
        );
        let users = format!("\"{user}\" \"{}\"\n", self.server.password);
        for (name, content) in [("ini", ini), ("users", users)] {
            write(&self.folder.join(name), &content)?;
            self.server.programs.give(&self.folder.join(name))?;
        }
        Ok(())
    }
}

fn wait_until(is_done: impl Fn() -> bool) -> bool {
    let end = Instant::now() + START_TIMEOUT;
    loop {
        if is_done() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
}
