//! Hardens connections to SQLite files that may come from an untrusted source. Takes an open connection.
//! Call it before any table is read.

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Result};

/// Maximum size of one value in bytes: the largest accepted input and its encoding overhead.
const VALUE_LIMIT: i32 = 72 << 20;

/// Maximum number of columns per table, because a schema with many wide tables is slow to read.
const COLUMN_LIMIT: i32 = 64;

/// Prevents a file from making SQLite run functions in its schema, rewrite it, or allocate without limit.
pub(crate) fn restrict(connection: &Connection) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_LIMIT)?;
    connection.set_limit(Limit::SQLITE_LIMIT_COLUMN, COLUMN_LIMIT)?;
    Ok(())
}
