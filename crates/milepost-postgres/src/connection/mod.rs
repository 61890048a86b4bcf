//! Connects to a PostgreSQL server the way libpq's users expect: from a URL or a key/value string, the `PG*`
//! variables, service files and password files, to a checked connection or an error that says why not.
//! Takes the environment as a value. Must not read the process's environment, or show a password.

mod connect;
mod environment;
mod error;
mod file;
mod key_value;
mod options;
mod password_file;
mod service_file;
mod settings;
mod settings_error;
mod stream;
mod tls;
mod url;
mod verify;
mod warnings;

pub use connect::{MINIMUM_SERVER_VERSION, connect};
pub use environment::Environment;
pub(crate) use error::describe;
pub use error::{ConnectError, ErrorKind, classify, ends_connection};
pub use settings::{Host, HostKind, Settings, SslMode, TargetSession};
pub use settings_error::{SettingsError, SettingsWarning};
pub use warnings::{ServerWarning, ServerWarnings};
