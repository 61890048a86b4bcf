//! Reads the options of a connection as typed values. Errors name the option and what is allowed, and never
//! contain the value.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::types::{RootCertificates, SslMode, SslNegotiation, TcpSettings, TlsSettings, TlsVersion};
use super::{DEFAULT_SCHEMA, Host, HostKind};
use crate::connection::Environment;
use crate::connection::options::Options;
use crate::connection::settings_error::SettingsError;

const DEFAULT_PORT: u16 = 5432;
/// PostgreSQL cuts longer identifiers.
const MAX_IDENTIFIER: usize = 63;

pub(super) fn hosts(options: &Options, socket_folders: &[PathBuf]) -> Result<Vec<Host>, SettingsError> {
    let list = |name| options.get(name).map(|text| text.split(',').map(str::trim).collect::<Vec<_>>());
    let names = list("host");
    let addresses = list("hostaddr");
    let count = addresses.as_ref().or(names.as_ref()).map_or(1, Vec::len);
    let names = names.unwrap_or_else(|| vec![""; count]);
    if names.len() != count {
        return Err(SettingsError::ListLengths { option: "hostaddr", hosts: names.len(), values: count });
    }
    let ports = list("port").unwrap_or_else(|| vec![""]);
    if ports.len() != 1 && ports.len() != count {
        return Err(SettingsError::ListLengths { option: "port", hosts: count, values: ports.len() });
    }
    let invalid = |option, allowed| SettingsError::InvalidValue { option, allowed };
    let mut hosts = Vec::with_capacity(count);
    for (at, name) in names.into_iter().enumerate() {
        let address = match addresses.as_ref().map_or("", |addresses| addresses[at]) {
            "" => None,
            text => Some(text.parse::<IpAddr>().map_err(|_| invalid("hostaddr", "IP addresses"))?),
        };
        let port = match ports[if ports.len() == 1 { 0 } else { at }] {
            "" => DEFAULT_PORT,
            text => text
                .parse::<u16>()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| invalid("port", "numbers from 1 to 65535"))?,
        };
        let kind = match (name, address) {
            ("", Some(address)) => HostKind::Tcp(address.to_string(), Some(address)),
            ("", None) if socket_folders.is_empty() => HostKind::Tcp("localhost".to_owned(), None),
            ("", None) => HostKind::DefaultSocket(socket_folders.to_vec()),
            // An abstract socket of Linux.
            (name, _) if name.starts_with('@') => {
                return Err(invalid("host", "names, IP addresses and folders"));
            }
            (name, None) if Path::new(name).is_absolute() => HostKind::Socket(PathBuf::from(name)),
            (name, address) => HostKind::Tcp(name.to_owned(), address),
        };
        hosts.push(Host { kind, port, password: None });
    }
    Ok(hosts)
}

pub(super) fn schema(options: &Options) -> Result<String, SettingsError> {
    let schema = options.get("schema").unwrap_or(DEFAULT_SCHEMA);
    let is_valid = schema.len() <= MAX_IDENTIFIER
        && schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !schema.starts_with("pg_");
    let allowed = "up to 63 of a-z, 0-9 and _, not starting with a digit or pg_";
    is_valid.then(|| schema.to_owned()).ok_or(SettingsError::InvalidValue { option: "schema", allowed })
}

pub(super) fn tls(options: &Options, environment: &Environment) -> Result<TlsSettings, SettingsError> {
    let default_file = |name| environment.home.as_ref().map(|home| home.join(".postgresql").join(name));
    let roots = match options.get("sslrootcert") {
        Some("system") => RootCertificates::System,
        Some(file) => RootCertificates::File(PathBuf::from(file)),
        None => RootCertificates::Default(default_file("root.crt")),
    };
    let is_system = roots == RootCertificates::System;
    let default_mode = if is_system { "verify-full" } else { "prefer" };
    let mode = named(options, "sslmode", default_mode, SslMode::parse)?;
    if is_system && mode != SslMode::VerifyFull {
        return Err(SettingsError::WeakSslMode);
    }
    let negotiation = named(options, "sslnegotiation", "postgres", SslNegotiation::parse)?;
    let is_weak = matches!(mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer);
    if negotiation == SslNegotiation::Direct && is_weak {
        return Err(SettingsError::DirectNeedsTls);
    }
    let file = |option, default| options.get(option).map(PathBuf::from).or_else(|| default_file(default));
    let is_named = options.get("sslcert").is_some();
    let client = file("sslcert", "postgresql.crt").zip(file("sslkey", "postgresql.key"));
    let client = match options.get("sslcertmode").unwrap_or("allow") {
        "allow" => client.map(|(certificate, key)| (certificate, key, is_named)),
        "disable" => None,
        _ => return Err(SettingsError::InvalidValue { option: "sslcertmode", allowed: "allow, disable" }),
    };
    Ok(TlsSettings {
        mode,
        negotiation,
        roots,
        client,
        min_version: named(options, "ssl_min_protocol_version", "TLSv1.2", TlsVersion::parse)?,
        max_version: named(options, "ssl_max_protocol_version", "TLSv1.3", TlsVersion::parse)?,
        sends_server_name: flag(options, "sslsni", ("0", "1"), true)?,
    })
}

/// Without a setting, a dead network is noticed after about 30 s, instead of after hours.
pub(super) fn tcp(options: &Options) -> Result<TcpSettings, SettingsError> {
    let seconds = |option, default| {
        let value = number(options, option)?.filter(|value| *value > 0);
        Ok(Duration::from_secs(value.unwrap_or(default)))
    };
    Ok(TcpSettings {
        keepalives: flag(options, "keepalives", ("0", "1"), true)?,
        idle: seconds("keepalives_idle", 15)?,
        interval: seconds("keepalives_interval", 5)?,
        count: u32::try_from(number(options, "keepalives_count")?.filter(|n| *n > 0).unwrap_or(3))
            .unwrap_or(3),
        user_timeout: Duration::from_millis(
            number(options, "tcp_user_timeout")?.filter(|n| *n > 0).unwrap_or(30_000),
        ),
    })
}

pub(super) fn named<T>(
    options: &Options,
    option: &'static str,
    default: &str,
    parse: fn(&'static str, &str) -> Result<T, SettingsError>,
) -> Result<T, SettingsError> {
    parse(option, options.get(option).unwrap_or(default))
}

pub(super) fn flag(
    options: &Options,
    option: &'static str,
    (off, on): (&'static str, &'static str),
    default: bool,
) -> Result<bool, SettingsError> {
    match options.get(option) {
        None => Ok(default),
        Some(value) if value == off => Ok(false),
        Some(value) if value == on => Ok(true),
        Some(_) => {
            let allowed = if on == "1" { "0, 1" } else { "disable, random" };
            Err(SettingsError::InvalidValue { option, allowed })
        }
    }
}

/// A whole number; negative ones count as 0, as in libpq.
pub(super) fn number(options: &Options, option: &'static str) -> Result<Option<u64>, SettingsError> {
    let Some(text) = options.get(option) else { return Ok(None) };
    let number = text.trim().parse::<i64>().ok().filter(|n| *n <= i64::from(i32::MAX));
    let number = number.ok_or(SettingsError::InvalidValue { option, allowed: "whole numbers" })?;
    Ok(Some(u64::try_from(number).unwrap_or(0)))
}

/// As the server's setting: milliseconds unless a unit is given, 0 for no limit.
pub(super) fn statement_timeout(options: &Options) -> Result<Option<Duration>, SettingsError> {
    let option = "statement_timeout";
    let Some(text) = options.get(option) else { return Ok(None) };
    let text = text.trim();
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let factor = match unit.trim() {
        "" | "ms" => Some(1),
        "s" => Some(1000),
        "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let value = digits.parse::<u64>().ok().zip(factor).and_then(|(n, factor)| n.checked_mul(factor));
    match value {
        Some(0) => Ok(None),
        Some(value) if value <= i32::MAX as u64 => Ok(Some(Duration::from_millis(value))),
        _ => Err(SettingsError::InvalidValue { option, allowed: "numbers with ms, s, min or h" }),
    }
}
