//! Makes a connection: tries each host and address in order, with and without TLS as the settings say, until
//! the deadline, and checks the server. Runs inside the caller's tokio runtime. Must not retry: the caller
//! decides about that.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tokio::time::timeout_at;
use tokio_postgres::config::{ChannelBinding, SslMode as DriverSslMode, SslNegotiation as DriverNegotiation};
use tokio_postgres::{AsyncMessage, Client, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{ConnectError, ErrorKind, classify, describe};
use super::settings::{ChannelBindingMode, Host, HostKind, Settings, SslMode, SslNegotiation, TargetSession};
use super::stream::{Connector, Negotiation};
use super::tls;
use super::warnings::ServerWarnings;

/// The oldest major version of PostgreSQL that is accepted.
pub const MINIMUM_SERVER_VERSION: u32 = 13;

/// Connects to the first suitable server. Every step ends at the deadline. A task of the current tokio runtime
/// serves the connection, so the runtime has to run while the client is used.
pub async fn connect(
    settings: &Settings,
    deadline: Instant,
) -> Result<(Client, ServerWarnings), ConnectError> {
    let uses_tls = settings.ssl_mode() != SslMode::Disable
        && settings.hosts().iter().any(|host| matches!(host.kind(), HostKind::Tcp(..)));
    let attempt = Attempt {
        settings,
        deadline,
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
            match attempt.host(host, wanted).await {
                Ok(server) => return Ok((server.client, server.warnings)),
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
    tls: Option<MakeRustlsConnect>,
}

impl Attempt<'_> {
    async fn host(&self, host: &Host, wanted: TargetSession) -> Result<Server, ConnectError> {
        let mut last = None;
        for endpoint in self.endpoints(host).await? {
            match self.endpoint(host, &endpoint, wanted).await {
                Ok(server) => return Ok(server),
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

    async fn endpoints(&self, host: &Host) -> Result<Vec<Endpoint>, ConnectError> {
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
                    None => self.resolve(name).await?,
                };
                if self.settings.is_load_balanced() {
                    shuffle(&mut addresses);
                }
                let endpoint = |address| Endpoint::Tcp { name: name.clone(), address };
                Ok(addresses.into_iter().map(endpoint).collect())
            }
        }
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, ConnectError> {
        let timed_out =
            |start: Instant| ConnectError::TimedOut { address: name.to_owned(), waited: start.elapsed() };
        let found = within(self.limit(), tokio::net::lookup_host((name, 0))).await.map_err(timed_out)?;
        let unknown =
            |e: std::io::Error| ConnectError::UnknownHost { host: name.to_owned(), reason: e.to_string() };
        let mut addresses: Vec<IpAddr> = found.map_err(unknown)?.map(|address| address.ip()).collect();
        addresses.dedup();
        Ok(addresses)
    }

    async fn endpoint(
        &self,
        host: &Host,
        endpoint: &Endpoint,
        wanted: TargetSession,
    ) -> Result<Server, ConnectError> {
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
        match (self.open(host, endpoint, first_and_second.0, wanted).await, first_and_second.1) {
            // The first error says more than the second: it concerns the way that was preferred.
            (Err(error), Some(second)) if is_tcp && error.depends_on_tls() => {
                self.open(host, endpoint, second, wanted).await.map_err(|_| error)
            }
            (result, _) => result,
        }
    }

    async fn open(
        &self,
        host: &Host,
        endpoint: &Endpoint,
        negotiation: Negotiation,
        wanted: TargetSession,
    ) -> Result<Server, ConnectError> {
        let start = Instant::now();
        let mut config = self.config(host);
        match endpoint {
            Endpoint::Tcp { name, address } => {
                // The connector negotiates TLS itself.
                config.ssl_mode(DriverSslMode::Require).ssl_negotiation(DriverNegotiation::Direct);
                config.host(name).hostaddr(*address);
            }
            Endpoint::Socket { folder } => {
                config.ssl_mode(DriverSslMode::Disable);
                set_socket(&mut config, folder);
            }
        }
        let timed_out =
            |start: Instant| ConnectError::TimedOut { address: self.shown(host), waited: start.elapsed() };
        let opened = within(self.limit(), Server::open(&config, Connector { negotiation }, wanted)).await;
        let server = opened.map_err(timed_out)?.map_err(|error| self.explain(&error, host, start))?;
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

    fn explain(&self, error: &tokio_postgres::Error, host: &Host, start: Instant) -> ConnectError {
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
    warnings: ServerWarnings,
    version: String,
    is_standby: bool,
    is_read_only: bool,
}

impl Server {
    /// Connects and asks in one round trip of the simple protocol, which every pooler passes on.
    async fn open(
        config: &Config,
        connector: Connector,
        wanted: TargetSession,
    ) -> Result<Self, tokio_postgres::Error> {
        let (client, mut connection) = config.connect(connector).await?;
        let warnings = ServerWarnings::default();
        let recorded = warnings.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notice(notice) = message {
                    recorded.record(&notice);
                }
            }
        });
        let query = if wanted == TargetSession::Any {
            "SHOW server_version_num"
        } else {
            "SELECT pg_catalog.current_setting('server_version_num'), pg_catalog.pg_is_in_recovery(), \
             pg_catalog.current_setting('default_transaction_read_only')"
        };
        let answer = client.simple_query(query).await?;
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let column =
            |at: usize| row.filter(|row| at < row.len()).and_then(|row| row.get(at)).unwrap_or_default();
        let version = column(0).to_owned();
        let is_standby = column(1) == "t";
        let is_read_only = is_standby || column(2) == "on";
        Ok(Self { client, warnings, version, is_standby, is_read_only })
    }

    fn check(self, wanted: TargetSession, address: String) -> Result<Self, ConnectError> {
        if let Some(found) = too_old(&self.version) {
            return Err(ConnectError::ServerTooOld { address, found, minimum: MINIMUM_SERVER_VERSION });
        }
        match wanted {
            TargetSession::ReadWrite if self.is_read_only => Err(ConnectError::ReadOnly { address }),
            TargetSession::Primary if self.is_standby => Err(ConnectError::ReadOnly { address }),
            TargetSession::ReadOnly if !self.is_read_only => Err(ConnectError::NotReadOnly { address }),
            TargetSession::Standby if !self.is_standby => Err(ConnectError::NotReadOnly { address }),
            _ => Ok(self),
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
    config.host(folder.to_string_lossy().into_owned());
}

fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// Waits for work until the limit. Returns when it began if it takes longer.
async fn within<T>(limit: Instant, work: impl Future<Output = T>) -> Result<T, Instant> {
    let start = Instant::now();
    timeout_at(limit.into(), work).await.map_err(|_| start)
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
}
