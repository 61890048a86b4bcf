//! What the settings of a connection depend on besides the connection string: variables, the home folder, the
//! user's name and the folders of the system. The caller fills it in.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

/// The environment of a connection, as the caller found it.
#[derive(Clone, Default)]
pub struct Environment {
    /// The `PG*` variables; others are ignored.
    pub variables: HashMap<String, String>,
    /// The user's home folder, which contains `.pgpass`, `.pg_service.conf` and `.postgresql`.
    pub home: Option<PathBuf>,
    /// The name of the operating system's user, which is the default role.
    pub user: Option<String>,
    /// Folders that may contain the system's `pg_service.conf`, unless `PGSYSCONFDIR` is set.
    pub system_folders: Vec<PathBuf>,
    /// Folders that may contain the server's socket when no host is given.
    pub socket_folders: Vec<PathBuf>,
}

impl Environment {
    /// An environment without variables, home folder and user, and with the usual folders of this platform.
    pub fn new() -> Self {
        let folders = |names: &[&str]| names.iter().map(PathBuf::from).collect();
        Self {
            // Of the packages for Debian, for Red Hat, and of a build from source.
            system_folders: folders(&[
                "/etc/postgresql-common",
                "/etc/sysconfig/pgsql",
                "/usr/local/pgsql/etc",
            ]),
            socket_folders: folders(if cfg!(unix) { &["/var/run/postgresql", "/tmp"] } else { &[] }),
            ..Self::default()
        }
    }

    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }
}

/// Shows the names of the variables only: one of them can be a password.
impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.variables.keys().filter(|name| name.starts_with("PG")).collect();
        names.sort();
        f.debug_struct("Environment")
            .field("variables", &names)
            .field("home", &self.home)
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}
