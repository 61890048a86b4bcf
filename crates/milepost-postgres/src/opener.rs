//! The kinds of store `postgres` and `postgresql`: parse addresses and open handles. Opening does not connect.

use std::ffi::OsStr;
use std::sync::OnceLock;

use milepost::store::{OpenOptions, ServerProblem, Store, StoreError, StoreOpener, StoreUrl};

use crate::connection::{Environment, Settings, SettingsError};
use crate::store::PostgresStore;

/// Shown instead of an address that cannot be parsed, because any part of it may be a password.
const UNREADABLE: &str = "//…";

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();

/// Opens stores on a PostgreSQL server. There is one for each way to write the scheme.
struct PostgresOpener {
    scheme: &'static str,
}

static OPENERS: [PostgresOpener; 2] =
    [PostgresOpener { scheme: "postgres" }, PostgresOpener { scheme: "postgresql" }];

/// Registers the schemes `postgres` and `postgresql`, so that `StoreUrl` accepts them. The environment completes
/// every address. Returns false if the schemes were registered before.
pub fn register(environment: Environment) -> bool {
    if ENVIRONMENT.set(environment).is_err() {
        return false;
    }
    let new = OPENERS.iter().filter(|opener| milepost::store::register(*opener));
    new.count() == OPENERS.len()
}

/// A script that creates the store at an address, for teams whose applications must not do so. With the name of a
/// role, it also grants that role the rights that an application needs.
pub fn create_statements(url: &StoreUrl, role: Option<&str>) -> Result<String, SettingsError> {
    let text = format!("{}:{}", url.scheme(), url.location().display());
    let settings = Settings::parse(&text, ENVIRONMENT.get_or_init(Environment::new))?;
    Ok(PostgresStore::create_statements(&settings, role))
}

impl PostgresOpener {
    fn settings(&self, location: &OsStr) -> Result<Settings, SettingsError> {
        let url = format!("{}:{}", self.scheme, location.display());
        Settings::parse(&url, ENVIRONMENT.get_or_init(Environment::new))
    }
}

impl StoreOpener for PostgresOpener {
    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn address_form(&self) -> Option<&'static str> {
        (self.scheme == "postgres").then_some("postgres://HOST/DATABASE")
    }

    fn open(&self, location: &OsStr, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
        let settings = self.settings(location).map_err(|e| StoreError::Server {
            location: format!("{}:{UNREADABLE}", self.scheme),
            problem: ServerProblem::Settings,
            source: e.into(),
        })?;
        Ok(Box::new(PostgresStore::open(&settings, options)))
    }

    fn shown_location(&self, location: &OsStr) -> String {
        let address = self.settings(location).map(|settings| settings.address());
        let shown = address.ok().and_then(|address| Some(address.split_once(':')?.1.to_owned()));
        shown.unwrap_or_else(|| UNREADABLE.to_owned())
    }
}
