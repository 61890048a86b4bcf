//! Classifies errors of the driver: by SQLSTATE, by the cause of a failed handshake, by the kind of an I/O
//! error. Used while connecting and for every later statement.

use std::error::Error as StdError;
use std::io;

use rustls::CertificateError;
use tokio_postgres::error::Severity;

use crate::connection::stream::TlsFailure;

/// What kind of error it is, as far as Milepost acts on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Nothing listens at the address, or it cannot be reached.
    Refused,
    /// No answer in time, from the network or the operating system.
    TimedOut,
    /// The connection ended.
    ConnectionLost,
    /// A password is needed.
    PasswordMissing,
    /// 28P01: the password is wrong.
    PasswordWrong,
    /// 28000: the server's access rules, or an unknown role.
    Rejected,
    /// 3D000.
    UnknownDatabase,
    /// 42501: a right is missing.
    PermissionDenied,
    /// The server does not offer TLS.
    NoTls,
    /// The certificate's issuer is unknown, or the certificate is expired.
    UntrustedCertificate,
    /// The certificate is for another host.
    WrongHostName,
    /// TLS failed for another reason.
    Tls,
    /// Channel binding is required and impossible.
    NoChannelBinding,
    /// 53300.
    TooManyConnections,
    /// 57P03: starting up, shutting down or recovering.
    NotReady,
    /// 57P01 and 57P02: the server is being stopped.
    ShuttingDown,
    /// 40001: the transaction must be repeated.
    SerializationFailure,
    /// 40P01: the transaction must be repeated.
    Deadlock,
    /// 55P03: a lock was not available in time.
    LockNotAvailable,
    /// 57014: cancelled, or a statement timeout.
    Canceled,
    /// 25006: a standby, or a read-only transaction.
    ReadOnly,
    /// 3F000.
    SchemaMissing,
    /// 42P01.
    TableMissing,
    /// 53100.
    DiskFull,
    /// Everything else.
    Other,
}

impl ErrorKind {
    /// Whether the same request can succeed a little later, on a new connection where this one ended.
    /// Whether it is safe to repeat is the caller's decision: a lost connection may hide a commit.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Refused
                | Self::TimedOut
                | Self::ConnectionLost
                | Self::TooManyConnections
                | Self::NotReady
                | Self::ShuttingDown
                | Self::SerializationFailure
                | Self::Deadlock
                | Self::LockNotAvailable
        )
    }
}

/// The kind of an error of the driver.
pub fn classify(error: &tokio_postgres::Error) -> ErrorKind {
    if let Some(error) = error.as_db_error() {
        return by_sql_state(error.code().code(), error.message());
    }
    if error.is_closed() {
        return ErrorKind::ConnectionLost;
    }
    causes(error).find_map(by_cause).unwrap_or(ErrorKind::Other)
}

/// Whether the connection is unusable after this error, so that the error says nothing about the statement: a
/// transaction that is already committed can still be interrupted before its reply is sent. A pooler can send
/// errors without the field that is never translated, but then it does not translate the other one either.
pub fn ends_connection(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        Some(error) => {
            let is_fatal = match error.parsed_severity() {
                Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
                None => matches!(error.severity(), "FATAL" | "PANIC"),
            };
            is_fatal || ["57P", "08"].iter().any(|class| error.code().code().starts_with(class))
        }
        None => {
            let kind = classify(error);
            matches!(
                kind,
                ErrorKind::TimedOut | ErrorKind::ConnectionLost | ErrorKind::Refused | ErrorKind::Tls
            )
        }
    }
}

/// The text of an error: the server's own message, else the innermost cause.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => error.message().lines().collect::<Vec<_>>().join(" "),
        None => causes(error).last().map_or_else(|| error.to_string(), ToString::to_string),
    }
}

fn by_sql_state(code: &str, message: &str) -> ErrorKind {
    match code {
        "28P01" => ErrorKind::PasswordWrong,
        "28000" => ErrorKind::Rejected,
        "3D000" => ErrorKind::UnknownDatabase,
        "42501" => ErrorKind::PermissionDenied,
        "53300" => ErrorKind::TooManyConnections,
        "57P03" => ErrorKind::NotReady,
        "57P01" | "57P02" => ErrorKind::ShuttingDown,
        "40001" => ErrorKind::SerializationFailure,
        "40P01" => ErrorKind::Deadlock,
        "55P03" => ErrorKind::LockNotAvailable,
        "57014" => ErrorKind::Canceled,
        "25006" => ErrorKind::ReadOnly,
        "3F000" => ErrorKind::SchemaMissing,
        "42P01" => ErrorKind::TableMissing,
        "53100" => ErrorKind::DiskFull,
        // Idle sessions that the server ended.
        "25P03" | "57P05" => ErrorKind::ConnectionLost,
        code if code.starts_with("08") => by_pooler_message(message),
        _ => ErrorKind::Other,
    }
}

/// pgbouncer reports nearly all of its own errors as 08P01, and older versions also as other codes of this
/// class; its texts are never translated.
fn by_pooler_message(message: &str) -> ErrorKind {
    const MESSAGES: [(&str, ErrorKind); 9] = [
        ("no such database", ErrorKind::UnknownDatabase),
        ("does not exist", ErrorKind::UnknownDatabase),
        ("password authentication failed", ErrorKind::PasswordWrong),
        ("auth failed", ErrorKind::PasswordWrong),
        ("SASL authentication failed", ErrorKind::PasswordWrong),
        ("no such user", ErrorKind::PasswordWrong),
        ("no more connections allowed", ErrorKind::TooManyConnections),
        ("query_wait_timeout", ErrorKind::TooManyConnections),
        ("is disabled", ErrorKind::NotReady),
    ];
    let found = MESSAGES.iter().find(|(text, _)| message.contains(text));
    found.map_or(ErrorKind::ConnectionLost, |(_, kind)| *kind)
}

fn by_cause(cause: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    if let Some(error) = cause.downcast_ref::<rustls::Error>() {
        return Some(match error {
            rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => ErrorKind::WrongHostName,
            rustls::Error::InvalidCertificate(_) => ErrorKind::UntrustedCertificate,
            _ => ErrorKind::Tls,
        });
    }
    if let Some(TlsFailure::NotOffered) = cause.downcast_ref() {
        return Some(ErrorKind::NoTls);
    }
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return by_io_kind(error.kind());
    }
    // Errors of the driver that have only a text.
    match cause.to_string().as_str() {
        "password missing" => Some(ErrorKind::PasswordMissing),
        "server did not use channel binding" => Some(ErrorKind::NoChannelBinding),
        // The connection ended in the middle of a message.
        "bytes remaining on stream" => Some(ErrorKind::ConnectionLost),
        _ => None,
    }
}

fn by_io_kind(kind: io::ErrorKind) -> Option<ErrorKind> {
    use io::ErrorKind as Io;
    match kind {
        Io::ConnectionRefused
        | Io::NotFound
        | Io::PermissionDenied
        | Io::HostUnreachable
        | Io::NetworkUnreachable
        | Io::NetworkDown
        | Io::AddrNotAvailable => Some(ErrorKind::Refused),
        Io::TimedOut => Some(ErrorKind::TimedOut),
        Io::ConnectionReset
        | Io::ConnectionAborted
        | Io::BrokenPipe
        | Io::NotConnected
        | Io::UnexpectedEof => Some(ErrorKind::ConnectionLost),
        // The error inside of this one decides.
        _ => None,
    }
}

/// An error's causes, outermost first. Includes the error inside an `io::Error`, which `source` skips.
fn causes(error: &tokio_postgres::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(error.source(), |cause| cause_of(*cause))
}

fn cause_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return error.get_ref().map(|inner| inner as &(dyn StdError + 'static));
    }
    match error.downcast_ref::<TlsFailure>() {
        Some(TlsFailure::Handshake(error)) => Some(error),
        _ => error.source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_states_have_a_kind_and_some_can_be_retried() {
        use ErrorKind::*;
        for (code, kind, is_retryable) in [
            ("28P01", PasswordWrong, false),
            ("28000", Rejected, false),
            ("3D000", UnknownDatabase, false),
            ("42501", PermissionDenied, false),
            ("53300", TooManyConnections, true),
            ("57P01", ShuttingDown, true),
            ("57P02", ShuttingDown, true),
            ("57P03", NotReady, true),
            ("40001", SerializationFailure, true),
            ("40P01", Deadlock, true),
            ("55P03", LockNotAvailable, true),
            ("57014", Canceled, false),
            ("25006", ReadOnly, false),
            ("3F000", SchemaMissing, false),
            ("42P01", TableMissing, false),
            ("53100", DiskFull, false),
            ("08006", ConnectionLost, true),
            ("25P03", ConnectionLost, true),
            ("57P05", ConnectionLost, true),
            ("23505", Other, false),
        ] {
            assert_eq!(by_sql_state(code, ""), kind, "{code}");
            assert_eq!(kind.is_retryable(), is_retryable, "{code}");
        }
    }

    #[test]
    fn errors_of_pgbouncer_are_told_apart_by_their_text() {
        for (message, kind) in [
            ("no such database: x", ErrorKind::UnknownDatabase),
            ("password authentication failed", ErrorKind::PasswordWrong),
            ("no more connections allowed (max_client_conn)", ErrorKind::TooManyConnections),
            ("server conn crashed?", ErrorKind::ConnectionLost),
        ] {
            assert_eq!(by_sql_state("08P01", message), kind, "{message}");
        }
    }

    #[test]
    fn io_errors_have_a_kind() {
        for (io_kind, kind) in [
            (io::ErrorKind::ConnectionRefused, Some(ErrorKind::Refused)),
            (io::ErrorKind::NotFound, Some(ErrorKind::Refused)),
            (io::ErrorKind::TimedOut, Some(ErrorKind::TimedOut)),
            (io::ErrorKind::ConnectionReset, Some(ErrorKind::ConnectionLost)),
            (io::ErrorKind::UnexpectedEof, Some(ErrorKind::ConnectionLost)),
            (io::ErrorKind::InvalidData, None),
        ] {
            assert_eq!(by_io_kind(io_kind), kind);
        }
    }
}
