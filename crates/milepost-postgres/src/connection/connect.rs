//! Makes a connection: tries each host and address in order, with and without TLS as the settings say, until
//! the deadline, and checks the server. Must not retry: the caller decides about that.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use postgres::config::{ChannelBinding, SslMode as DriverSslMode, SslNegotiation as DriverNegotiation};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{ConnectError, ErrorKind, classify, describe};
use super::monitor::ConnectionMonitor;
use super::settings::{ChannelBindingMode, Host, HostKind, Settings, SslMode, SslNegotiation, TargetSession};
use super::stream::{Connector, Negotiation};
use super::tls;

/// The oldest major version of PostgreSQL that is accepted.
pub const MINIMUM_SERVER_VERSION: u32 = 13;

/// Connects to the first suitable server. Every step ends at the deadline.
pub fn connect(settings: &Settings, deadline: Instant) -> Result<Client, ConnectError> {
    connect_with(settings, deadline, &ConnectionMonitor::new())
}

/// Like [`connect`], with a monitor for the statements that follow. Its reply deadline is none at first.
pub fn connect_with(
    settings: &Settings,
    deadline: Instant,
    monitor: &ConnectionMonitor,
) -> Result<Client, ConnectError> {
    let uses_tls = settings.ssl_mode() != SslMode::Disable
        && settings.hosts().iter().any(|host| matches!(host.kind(), HostKind::Tcp(..)));
    let attempt = Attempt {
        settings,
        deadline,
        monitor,
        tls: if uses_tls { Some(tls::connector(&settings.tls)?) } else { None },
    };
    let passes = match settings.target_session() {
        TargetSession::PreferStandby => vec![TargetSession::Standby, TargetSession::Any],
        wanted => vec![wanted],
    };
    let mut hosts: Vec<&Host> = settings.hosts().iter().collect();
    if settings.is_load_balanced() {
        shuffle(&mut hosts);
    }
    let mut last = None;
    for wanted in passes {
        for host in &hosts {
            match attempt.host(host, wanted) {
                Ok(client) => {
                    monitor.set_reply_deadline(None);
                    return Ok(client);
                }
                Err(error) if error.tries_next_host() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
    }
    let no_host =
        || ConnectError::Refused { address: settings.address(), reason: "no host is configured".to_owned() };
    Err(last.unwrap_or_else(no_host))
}

/// One way to reach a host.
#[derive(Clone, Debug)]
enum Endpoint {
    Tcp { name: String, address: IpAddr },
    Socket { folder: PathBuf },
}

struct Attempt<'a> {
    settings: &'a Settings,
    deadline: Instant,
    monitor: &'a ConnectionMonitor,
    tls: Option<MakeRustlsConnect>,
}

impl Attempt<'_> {
    fn host(&self, host: &Host, wanted: TargetSession) -> Result<Client, ConnectError> {
        let mut last = None;
        for endpoint in self.endpoints(host)? {
            match self.endpoint(host, &endpoint, wanted) {
                Ok(client) => return Ok(client),
                Err(error) if error.tries_next_host() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        let HostKind::Tcp(name, _) = host.kind() else {
            return Err(last.unwrap_or_else(|| self.refused(host, "there is no socket")));
        };
        let unknown =
            || ConnectError::UnknownHost { host: name.clone(), reason: "it has no address".to_owned() };
        Err(last.unwrap_or_else(unknown))
    }

    fn endpoints(&self, host: &Host) -> Result<Vec<Endpoint>, ConnectError> {
        match host.kind() {
            HostKind::Socket(folder) => Ok(vec![Endpoint::Socket { folder: folder.clone() }]),
            HostKind::DefaultSocket(folders) => {
                let has_socket = |folder: &&PathBuf| folder.join(socket_name(host.port())).exists();
                let mut found: Vec<_> = folders.iter().filter(has_socket).collect();
                if found.is_empty() {
                    found.extend(folders.first());
                }
                Ok(found.into_iter().map(|folder| Endpoint::Socket { folder: folder.clone() }).collect())
            }
            HostKind::Tcp(name, address) => {
                let mut addresses = match address.or_else(|| name.parse().ok()) {
                    Some(address) => vec![address],
                    None => self.resolve(name)?,
                };
                if self.settings.is_load_balanced() {
                    shuffle(&mut addresses);
                }
                let endpoint = |address| Endpoint::Tcp { name: name.clone(), address };
                Ok(addresses.into_iter().map(endpoint).collect())
            }
        }
    }

    /// The addresses of a host. The system's resolver has no timeout, so it runs in a thread of its own.
    fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let (start, host) = (Instant::now(), name.to_owned());
        let found = within(self.limit(), move || (host.as_str(), 0).to_socket_addrs().map(Vec::from_iter));
        match found {
            Some(Ok(found)) => {
                let mut addresses: Vec<IpAddr> = found.into_iter().map(|address| address.ip()).collect();
                addresses.dedup();
                Ok(addresses)
            }
            Some(Err(e)) => Err(ConnectError::UnknownHost { host: name.to_owned(), reason: e.to_string() }),
            None => Err(ConnectError::TimedOut { address: name.to_owned(), waited: start.elapsed() }),
        }
    }

    fn endpoint(
        &self,
        host: &Host,
        endpoint: &Endpoint,
        wanted: TargetSession,
    ) -> Result<Client, ConnectError> {
        let first_and_second = match (self.settings.ssl_mode(), &self.tls) {
            (SslMode::Allow, Some(tls)) => {
                (Negotiation::Plain, Some(Negotiation::Ask { tls: tls.clone(), is_plain_allowed: false }))
            }
            (SslMode::Prefer, Some(tls)) => {
                (Negotiation::Ask { tls: tls.clone(), is_plain_allowed: true }, Some(Negotiation::Plain))
            }
            (_, Some(tls)) if self.settings.tls.negotiation == SslNegotiation::Direct => {
                (Negotiation::Direct { tls: tls.clone() }, None)
            }
            (_, Some(tls)) => (Negotiation::Ask { tls: tls.clone(), is_plain_allowed: false }, None),
            (_, None) => (Negotiation::Plain, None),
        };
        let is_tcp = matches!(endpoint, Endpoint::Tcp { .. });
        match (self.open(host, endpoint, first_and_second.0, wanted), first_and_second.1) {
            // The first error says more than the second: it concerns the way that was preferred.
            (Err(error), Some(second)) if is_tcp && error.depends_on_tls() => {
                self.open(host, endpoint, second, wanted).map_err(|_| error)
            }
            (result, _) => result,
        }
    }

    fn open(
        &self,
        host: &Host,
        endpoint: &Endpoint,
        negotiation: Negotiation,
        wanted: TargetSession,
    ) -> Result<Client, ConnectError> {
        let (start, limit) = (Instant::now(), self.limit());
        let timed_out = || ConnectError::TimedOut { address: self.shown(host), waited: start.elapsed() };
        let left = limit.saturating_duration_since(start);
        if left.is_zero() {
            return Err(timed_out());
        }
        let mut config = self.config(host);
        config.connect_timeout(left);
        let opened = match endpoint {
            Endpoint::Tcp { name, address } => {
                // The connector negotiates TLS itself, and also bounds connections without TLS.
                config.ssl_mode(DriverSslMode::Require).ssl_negotiation(DriverNegotiation::Direct);
                config.host(name).hostaddr(*address);
                self.monitor.set_reply_deadline(Some(limit));
                let connector = Connector { negotiation, monitor: self.monitor.clone() };
                config.connect(connector).and_then(|client| Server::read(client, wanted))
            }
            Endpoint::Socket { folder } => {
                config.ssl_mode(DriverSslMode::Disable);
                set_socket(&mut config, folder);
                let open = move || config.connect(NoTls).and_then(|client| Server::read(client, wanted));
                within(limit, open).ok_or_else(timed_out)?
            }
        };
        let server = opened.map_err(|error| self.explain(&error, host, start))?;
        server.check(wanted, self.shown(host))
    }

    fn config(&self, host: &Host) -> Config {
        let (settings, tcp) = (self.settings, &self.settings.tcp);
        let mut config = Config::new();
        config.user(settings.user()).dbname(settings.database()).port(host.port());
        config.application_name(settings.application());
        if let Some(options) = settings.options() {
            config.options(options);
        }
        if let Some(password) = host.password() {
            config.password(password);
        }
        config.keepalives(tcp.keepalives).keepalives_idle(tcp.idle).keepalives_interval(tcp.interval);
        config.keepalives_retries(tcp.count).tcp_user_timeout(tcp.user_timeout);
        config.channel_binding(match settings.channel_binding {
            ChannelBindingMode::Disable => ChannelBinding::Disable,
            ChannelBindingMode::Prefer => ChannelBinding::Prefer,
            ChannelBindingMode::Require => ChannelBinding::Require,
        });
        let monitor = self.monitor.clone();
        config.notice_callback(move |notice| monitor.record(&notice));
        config
    }

    /// The end of one try.
    fn limit(&self) -> Instant {
        let own = self.settings.connect_timeout().map(|timeout| Instant::now() + timeout);
        own.map_or(self.deadline, |own| own.min(self.deadline))
    }

    fn refused(&self, host: &Host, reason: &str) -> ConnectError {
        ConnectError::Refused { address: self.shown(host), reason: reason.to_owned() }
    }

    /// Host and port for people.
    fn shown(&self, host: &Host) -> String {
        let file = |folder: &PathBuf| folder.join(socket_name(host.port())).display().to_string();
        match host.kind() {
            HostKind::Tcp(name, _) if name.contains(':') => format!("[{name}]:{}", host.port()),
            HostKind::Tcp(name, _) => format!("{name}:{}", host.port()),
            HostKind::Socket(folder) => file(folder),
            HostKind::DefaultSocket(folders) => folders.iter().map(file).collect::<Vec<_>>().join(" or "),
        }
    }

    fn explain(&self, error: &postgres::Error, host: &Host, start: Instant) -> ConnectError {
        let address = self.shown(host);
        let user = self.settings.user().to_owned();
        let database = self.settings.database().to_owned();
        let reason = describe(error);
        match classify(error) {
            ErrorKind::Refused => ConnectError::Refused { address, reason },
            ErrorKind::TimedOut => ConnectError::TimedOut { address, waited: start.elapsed() },
            ErrorKind::ConnectionLost => ConnectError::Lost { address, reason },
            ErrorKind::PasswordMissing => ConnectError::PasswordMissing { address, user },
            ErrorKind::PasswordWrong => ConnectError::PasswordWrong { address, user },
            ErrorKind::Rejected => ConnectError::Rejected { address, message: reason },
            ErrorKind::UnknownDatabase => ConnectError::UnknownDatabase { address, database },
            ErrorKind::PermissionDenied => {
                ConnectError::NotPermitted { address, user, database, message: reason }
            }
            ErrorKind::NoTls => ConnectError::NoTls { address },
            ErrorKind::UntrustedCertificate => ConnectError::UntrustedCertificate { address, reason },
            ErrorKind::WrongHostName => {
                let host = match host.kind() {
                    HostKind::Tcp(name, _) => name.clone(),
                    HostKind::Socket(_) | HostKind::DefaultSocket(_) => address.clone(),
                };
                ConnectError::WrongHostName { address, host }
            }
            ErrorKind::Tls => ConnectError::Tls { address, reason },
            ErrorKind::NoChannelBinding => ConnectError::NoChannelBinding { address },
            ErrorKind::TooManyConnections => ConnectError::TooManyConnections { address, message: reason },
            ErrorKind::NotReady | ErrorKind::ShuttingDown => {
                ConnectError::NotReady { address, message: reason }
            }
            ErrorKind::ReadOnly => ConnectError::ReadOnly { address },
            _ => {
                let code = error.code().map(|code| code.code().to_owned());
                ConnectError::Other { address, code, message: reason }
            }
        }
    }
}

/// A connected server, and what it says about itself.
struct Server {
    client: Client,
    version: String,
    is_standby: bool,
    is_read_only: bool,
}

impl Server {
    /// Asks in one round trip of the simple protocol, which every pooler passes on.
    fn read(mut client: Client, wanted: TargetSession) -> Result<Self, postgres::Error> {
        let query = if wanted == TargetSession::Any {
            "SHOW server_version_num"
        } else {
            "SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.pg_is_in_recovery(), \
             pg_catalog.current_setting('default_transaction_read_only')"
        };
        let answer = client.simple_query(query)?;
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let column =
            |at: usize| row.filter(|row| at < row.len()).and_then(|row| row.get(at)).unwrap_or_default();
        let version = column(0).to_owned();
        let is_standby = column(1) == "t";
        let is_read_only = is_standby || column(2) == "on";
        Ok(Self { client, version, is_standby, is_read_only })
    }

    fn check(self, wanted: TargetSession, address: String) -> Result<Client, ConnectError> {
        if let Some(found) = too_old(&self.version) {
            return Err(ConnectError::ServerTooOld { address, found, minimum: MINIMUM_SERVER_VERSION });
        }
        match wanted {
            TargetSession::ReadWrite if self.is_read_only => Err(ConnectError::ReadOnly { address }),
            TargetSession::Primary if self.is_standby => Err(ConnectError::ReadOnly { address }),
            TargetSession::ReadOnly if !self.is_read_only => Err(ConnectError::NotReadOnly { address }),
            TargetSession::Standby if !self.is_standby => Err(ConnectError::NotReadOnly { address }),
            _ => Ok(self.client),
        }
    }
}

/// The version for people, if `server_version_num` is too old. A server that does not say is accepted.
fn too_old(version: &str) -> Option<String> {
    let number: u32 = version.parse().ok()?;
    let major = number / 10_000;
    // Before version 10, the major version had two parts.
    let minor = if major < 10 {
        format!("{}.{}", number / 100 % 100, number % 100)
    } else {
        (number % 10_000).to_string()
    };
    (major < MINIMUM_SERVER_VERSION).then(|| format!("{major}.{minor}"))
}

#[cfg(unix)]
fn set_socket(config: &mut Config, folder: &Path) {
    config.host_path(folder);
}

/// The driver has no Unix sockets on this platform, so the folder is an unknown host.
#[cfg(not(unix))]
fn set_socket(config: &mut Config, folder: &Path) {
    config.host(&folder.to_string_lossy());
}

fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// Runs work in a thread and waits for it until the limit. The thread is left behind if it takes longer.
fn within<T: Send + 'static>(limit: Instant, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("milepost-connect".to_owned()).spawn(move || {
        // Nobody waits any more if this fails.
        let _ = sender.send(work());
    });
    thread.ok()?;
    let left: Duration = limit.saturating_duration_since(Instant::now());
    receiver.recv_timeout(left).ok()
}

fn shuffle<T>(items: &mut [T]) {
    for end in (1..items.len()).rev() {
        let random = RandomState::new().build_hasher().finish();
        items.swap(end, usize::try_from(random % (end as u64 + 1)).unwrap_or(end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_recognised() {
        for (number, expected) in [
            ("90624", Some("9.6.24")),
            ("120022", Some("12.22")),
            ("130000", None),
            ("150013", None),
            ("", None),
        ] {
            assert_eq!(too_old(number).as_deref(), expected, "{number}");
        }
    }

    #[test]
    fn work_that_takes_too_long_is_not_waited_for() {
        let start = Instant::now();
        let (end, wait) = mpsc::channel::<()>();
        assert_eq!(within(start + Duration::from_millis(50), move || wait.recv().is_ok()), None);
        assert!(start.elapsed() < Duration::from_secs(5));
        drop(end);
        assert_eq!(within(start + Duration::from_secs(60), || 7), Some(7));
    }
}
