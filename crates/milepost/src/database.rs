//! Hardening that is applied to every connection to a SQLite file that somebody else may have made.

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result};

/// Maximum bytes of one value: the largest input that is accepted, and what surrounds it.
const VALUE_LIMIT: i32 = 72 << 20;

/// Maximum number of columns of a table: a schema with many large tables takes long to read.
const COLUMN_LIMIT: i32 = 64;

/// Keeps a file from making SQLite run functions for its schema, rewrite that schema, or allocate without bound.
pub(crate) fn restrict(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_LIMIT)?;
    connection.set_limit(Limit::SQLITE_LIMIT_COLUMN, COLUMN_LIMIT)?;
    Ok(())
}
