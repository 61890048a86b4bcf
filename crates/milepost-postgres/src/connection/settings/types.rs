//! The values that options of a connection can have, and the settings of TLS and TCP. Must not read an option.

use std::path::PathBuf;
use std::time::Duration;

use crate::connection::settings_error::SettingsError;

/// A value with a fixed set of names.
macro_rules! named {
    ($(#[$doc:meta])* $visibility:vis $name:ident, $allowed:literal { $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            pub(super) fn parse(option: &'static str, text: &str) -> Result<Self, SettingsError> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(SettingsError::InvalidValue { option, allowed: $allowed }),
                }
            }
        }
    };
}

named! {
    /// When TLS is used, and what is verified, as in libpq.
    pub SslMode, "disable, allow, prefer, require, verify-ca, verify-full" {
        /// Never.
        Disable = "disable",
        /// Only if the server insists.
        Allow = "allow",
        /// If the server offers it.
        Prefer = "prefer",
        /// Always; the certificate is verified only if a root certificate is configured.
        Require = "require",
        /// Always, with a certificate from a trusted issuer.
        VerifyCa = "verify-ca",
        /// Always, with a certificate from a trusted issuer for this host.
        VerifyFull = "verify-full",
    }
}

named! {
    /// Which servers are acceptable, as in libpq.
    pub TargetSession, "any, read-write, read-only, primary, standby, prefer-standby" {
        /// Every server.
        Any = "any",
        /// A server that accepts writes.
        ReadWrite = "read-write",
        /// A server whose sessions are read-only by default.
        ReadOnly = "read-only",
        /// A server that is not a standby.
        Primary = "primary",
        /// A standby.
        Standby = "standby",
        /// A standby, else every server.
        PreferStandby = "prefer-standby",
    }
}

named! {
    /// Whether the password exchange is tied to the TLS connection.
    pub(in crate::connection) ChannelBindingMode, "disable, prefer, require" {
        /// Never.
        Disable = "disable",
        /// If both sides can.
        Prefer = "prefer",
        /// Always.
        Require = "require",
    }
}

named! {
    /// A version of TLS that can be chosen.
    pub(in crate::connection) TlsVersion, "TLSv1, TLSv1.1, TLSv1.2, TLSv1.3" {
        /// Older than what Milepost uses.
        V10 = "TLSv1",
        /// Older than what Milepost uses.
        V11 = "TLSv1.1",
        /// TLS 1.2.
        V12 = "TLSv1.2",
        /// TLS 1.3.
        V13 = "TLSv1.3",
    }
}

named! {
    /// How TLS begins.
    pub(in crate::connection) SslNegotiation, "postgres, direct" {
        /// The client asks first.
        Postgres = "postgres",
        /// At once, as PostgreSQL 17 can.
        Direct = "direct",
    }
}

/// Where the trusted root certificates are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::connection) enum RootCertificates {
    /// The file was named.
    File(PathBuf),
    /// The default file, which need not exist.
    Default(Option<PathBuf>),
    /// The system's.
    System,
}

/// Settings of TLS.
#[derive(Clone, Debug)]
pub(in crate::connection) struct TlsSettings {
    pub(in crate::connection) mode: SslMode,
    pub(in crate::connection) negotiation: SslNegotiation,
    pub(in crate::connection) roots: RootCertificates,
    /// Certificate and key of the client, and whether they were named; default files need not exist.
    pub(in crate::connection) client: Option<(PathBuf, PathBuf, bool)>,
    pub(in crate::connection) min_version: TlsVersion,
    pub(in crate::connection) max_version: TlsVersion,
    pub(in crate::connection) sends_server_name: bool,
}

/// Settings of TCP.
#[derive(Clone, Debug)]
pub(in crate::connection) struct TcpSettings {
    pub(in crate::connection) keepalives: bool,
    pub(in crate::connection) idle: Duration,
    pub(in crate::connection) interval: Duration,
    pub(in crate::connection) count: u32,
    pub(in crate::connection) user_timeout: Duration,
}
