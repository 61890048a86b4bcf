//! SQLite files that somebody else may have made: what every connection to one is told before its first statement.

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result};

/// Maximum bytes of one value: the largest input that is accepted, and what surrounds it.
const VALUE_LIMIT: i32 = 72 << 20;

/// Keeps a file from making SQLite run functions for its schema, rewrite that schema, or allocate without bound.
pub(crate) fn restrict(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_LIMIT)?;
    Ok(())
}
