//! The typed settings of a connection: hosts with their passwords, database, schema, TLS, timeouts. Made from
//! a connection string and the environment. Must not show a password.

mod types;
mod values;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::options::Options;
use super::settings_error::{SettingsError, SettingsWarning};
use super::{Environment, password_file, url};

pub(super) use types::{
    ChannelBindingMode, RootCertificates, SslNegotiation, TcpSettings, TlsSettings, TlsVersion,
};
pub use types::{SslMode, TargetSession};

const DEFAULT_SCHEMA: &str = "milepost";
const DEFAULT_APPLICATION: &str = "milepost";
/// Bounds a try per address when `connect_timeout` is not given.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// A name or an IP address, and the address to use instead of resolving the name.
    Tcp(String, Option<IpAddr>),
    /// The folder of a Unix socket.
    Socket(PathBuf),
    /// The first of these folders that has a socket.
    DefaultSocket(Vec<PathBuf>),
}

/// One server to try.
#[derive(Clone)]
pub struct Host {
    kind: HostKind,
    port: u16,
    password: Option<String>,
}

impl Host {
    /// Where the server listens.
    pub fn kind(&self) -> &HostKind {
        &self.kind
    }

    /// The port, which is also part of a socket's name.
    pub fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// The host as the password file names it.
    fn name_in_password_file(&self, defaults: &[PathBuf]) -> String {
        match &self.kind {
            HostKind::Tcp(name, _) => name.clone(),
            HostKind::Socket(folder) if !defaults.contains(folder) => folder.to_string_lossy().into_owned(),
            HostKind::Socket(_) | HostKind::DefaultSocket(_) => "localhost".to_owned(),
        }
    }

    /// Host and port as in a URL.
    pub(super) fn address(&self) -> String {
        let name = match &self.kind {
            HostKind::Tcp(name, _) if name.contains(':') => format!("[{}]", name.to_lowercase()),
            HostKind::Tcp(name, _) => url::encode(&name.to_lowercase()),
            HostKind::Socket(folder) => url::encode(&folder.to_string_lossy()),
            HostKind::DefaultSocket(_) => String::new(),
        };
        format!("{name}:{}", self.port)
    }
}

/// The settings of a connection. Neither `Debug` nor `Display` shows a password.
#[derive(Clone)]
pub struct Settings {
    hosts: Vec<Host>,
    user: String,
    database: String,
    schema: String,
    application: String,
    options: Option<String>,
    target_session: TargetSession,
    is_load_balanced: bool,
    connect_timeout: Option<Duration>,
    statement_timeout: Option<Duration>,
    pub(super) tls: TlsSettings,
    pub(super) tcp: TcpSettings,
    pub(super) channel_binding: ChannelBindingMode,
    warnings: Vec<SettingsWarning>,
}

impl Settings {
    /// Reads a URL or a key/value string, and completes it from the environment, the service file and the
    /// password file.
    pub fn parse(text: &str, environment: &Environment) -> Result<Self, SettingsError> {
        let options = Options::collect(text, environment)?;
        let user = options.get("user").or(environment.user.as_deref()).ok_or(SettingsError::UserUnknown)?;
        let database = options.get("dbname").unwrap_or(user);
        let application =
            options.get("application_name").or_else(|| options.get("fallback_application_name"));
        let mut settings = Self {
            hosts: values::hosts(&options, &environment.socket_folders)?,
            user: user.to_owned(),
            database: database.to_owned(),
            schema: values::schema(&options)?,
            application: application.unwrap_or(DEFAULT_APPLICATION).to_owned(),
            options: options.get("options").map(str::to_owned),
            target_session: values::named(&options, "target_session_attrs", "any", TargetSession::parse)?,
            is_load_balanced: values::flag(&options, "load_balance_hosts", ("disable", "random"), false)?,
            connect_timeout: match values::number(&options, "connect_timeout")? {
                None => Some(DEFAULT_CONNECT_TIMEOUT),
                // As in libpq: no limit of its own.
                Some(0) => None,
                Some(seconds) => Some(Duration::from_secs(seconds)),
            },
            statement_timeout: values::statement_timeout(&options)?,
            tls: values::tls(&options, environment)?,
            tcp: values::tcp(&options)?,
            channel_binding: values::named(&options, "channel_binding", "prefer", ChannelBindingMode::parse)?,
            warnings: Vec::new(),
        };
        if options.get("gssencmode") == Some("require") {
            return Err(SettingsError::Unsupported { option: "gssencmode" });
        }
        settings.set_passwords(&options, environment);
        Ok(settings)
    }

    fn set_passwords(&mut self, options: &Options, environment: &Environment) {
        if let Some(password) = options.get("password") {
            self.hosts.iter_mut().for_each(|host| host.password = Some(password.to_owned()));
            return;
        }
        let default = || environment.home.as_ref().map(|home| home.join(".pgpass"));
        let Some(file) = options.get("passfile").map(PathBuf::from).or_else(default) else { return };
        match password_file::read(&file) {
            Ok(text) => {
                let text = text.unwrap_or_default();
                for host in &mut self.hosts {
                    let name = host.name_in_password_file(&environment.socket_folders);
                    host.password = password_file::find(&text, &name, host.port, &self.database, &self.user);
                }
            }
            Err(warning) => self.warnings.push(warning),
        }
    }

    /// The canonical address: user, hosts with ports, database, and the schema unless it is the default one.
    /// Without password and other options, so it can be shown, and identifies the store.
    pub fn address(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(Host::address).collect();
        let mut address = format!(
            "postgres://{}@{}/{}",
            url::encode(&self.user),
            hosts.join(","),
            url::encode(&self.database)
        );
        if self.schema != DEFAULT_SCHEMA {
            address.push_str(&format!("?schema={}", url::encode(&self.schema)));
        }
        address
    }

    /// The servers, in the order they are tried.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The role.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// The database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// The schema that contains Milepost's tables.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// When TLS is used.
    pub fn ssl_mode(&self) -> SslMode {
        self.tls.mode
    }

    /// Which servers are acceptable.
    pub fn target_session(&self) -> TargetSession {
        self.target_session
    }

    /// The limit of a try per address; none if only the deadline limits it.
    pub fn connect_timeout(&self) -> Option<Duration> {
        self.connect_timeout
    }

    /// The limit of a statement, if one was given. The store applies it: poolers do not pass it on.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.statement_timeout
    }

    /// Files that were ignored.
    pub fn warnings(&self) -> &[SettingsWarning] {
        &self.warnings
    }

    /// Whether hosts and addresses are tried in random order.
    pub(super) fn is_load_balanced(&self) -> bool {
        self.is_load_balanced
    }

    pub(super) fn application(&self) -> &str {
        &self.application
    }

    pub(super) fn options(&self) -> Option<&str> {
        self.options.as_deref()
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("address", &self.address())
            .field("tls", &self.tls)
            .field("target_session", &self.target_session)
            .field("connect_timeout", &self.connect_timeout)
            .field("statement_timeout", &self.statement_timeout)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("kind", &self.kind).field("port", &self.port).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
