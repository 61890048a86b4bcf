//! Why a connection string or the files that it refers to cannot be used, and what was ignored. Texts name the
//! option and the allowed values; they never contain a password.

use std::path::PathBuf;

use thiserror::Error;

/// Why the settings of a connection are invalid.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// An option that neither libpq nor Milepost has. The name is empty if it could be part of a password.
    #[error("unknown connection option {}", if option.is_empty() { "after `password`".to_owned() } else { format!("`{option}`") })]
    UnknownOption {
        /// The name.
        option: String,
    },
    /// An option of libpq that Milepost does not implement.
    #[error("the connection option `{option}` is not supported")]
    Unsupported {
        /// The name.
        option: &'static str,
    },
    /// A value that the option does not have.
    #[error("the connection option `{option}` has an invalid value; allowed: {allowed}")]
    InvalidValue {
        /// The option's name.
        option: &'static str,
        /// The values it can have.
        allowed: &'static str,
    },
    /// Lists of hosts, addresses or ports of different lengths.
    #[error(
        "the connection options `host` and `{option}` list different numbers of values: {hosts} and {values}"
    )]
    ListLengths {
        /// The other option's name.
        option: &'static str,
        /// How many hosts there are.
        hosts: usize,
        /// How many values the other option has.
        values: usize,
    },
    /// A weak `sslmode` together with the system's certificates.
    #[error("`sslrootcert=system` needs `sslmode=verify-full`")]
    WeakSslMode,
    /// `sslnegotiation=direct` with an `sslmode` that also allows connections without TLS.
    #[error("`sslnegotiation=direct` needs `sslmode` require, verify-ca or verify-full")]
    DirectNeedsTls,
    /// Neither a URL nor a key/value string. `after` is the option before the word, if there is one.
    #[error("{}", if after.is_empty() { "the connection string is neither a URL nor a list of `option=value`".to_owned() } else { format!("the connection string has a word without a value after `{after}`") })]
    NotKeyValue {
        /// The option before the word that is not one.
        after: String,
    },
    /// A zero byte, which no value of libpq can contain.
    #[error("the connection string contains a zero byte")]
    ZeroByte,
    /// A quote that is not closed.
    #[error("the quote in the value of `{option}` is not closed")]
    UnterminatedQuote {
        /// The option's name.
        option: String,
    },
    /// A URL whose user or password has characters that must be percent-encoded.
    #[error(
        "the user name or password in the URL contains `@`, `/` or another character that is not percent-encoded"
    )]
    PasswordNotEncoded,
    /// Invalid percent-encoding.
    #[error("the percent-encoding of `{part}` in the URL is invalid")]
    PercentEncoding {
        /// The part of the URL.
        part: String,
    },
    /// A URL with an IPv6 address in the wrong form.
    #[error("the IPv6 address in the URL is not enclosed in brackets")]
    Ipv6Bracket,
    /// An option after `?` without `=`.
    #[error("an option in the URL has no value")]
    QueryWithoutValue,
    /// A service that no service file defines.
    #[error("the service `{service}` is not defined in {}", if files.is_empty() { "any file: there is no service file".to_owned() } else { files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(" or ") })]
    UnknownService {
        /// The service's name.
        service: String,
        /// The files that were searched.
        files: Vec<PathBuf>,
    },
    /// A line of a service file that cannot be used.
    #[error("line {line} of {}: {problem}", file.display())]
    ServiceFile {
        /// The file.
        file: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No user is given, and the name of the operating system's user is unknown.
    #[error("no user is given for the connection")]
    UserUnknown,
}

/// A file that was ignored.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SettingsWarning {
    /// Others could read or replace the password file.
    #[error("ignored the password file {}: other users have access to it", file.display())]
    PasswordFileAccess {
        /// The file.
        file: PathBuf,
    },
    /// The password file is a folder, a device or something else.
    #[error("ignored the password file {}: it is not a regular file", file.display())]
    PasswordFileType {
        /// The file.
        file: PathBuf,
    },
    /// The password file exists and cannot be read.
    #[error("ignored the password file {}: {reason}", file.display())]
    PasswordFileUnreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
}
