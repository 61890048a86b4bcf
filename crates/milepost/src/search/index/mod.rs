//! The index: a SQLite file with an FTS5 table, derived from one store. Takes redacted texts and expressions, returns
//! candidates. An index that is missing, damaged or not of this version is created anew. It can be deleted at any
//! time. Does not rank, and does not read the store.

mod file;
mod read;
mod sample;
mod spans;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

pub(crate) use self::file::UpdateLock;
pub(crate) use self::read::{Found, Verdict, Visibility, search};
pub(crate) use self::write::{IndexedRun, PreparedRun, RunUpdate};
use crate::database;

/// The version of the tables, and of the rules by which texts are split and folded.
const VERSION: i64 = 2;
/// Identifies the file as an index of Milepost.
const APPLICATION_ID: i64 = 0x6d70_7372;
/// How long to wait for another process that commits.
const BUSY: Duration = Duration::from_secs(5);
/// Size of the page cache in KiB.
const CACHE_KIB: i64 = 16 << 10;

const TABLES: &str = "
CREATE TABLE meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
    n           INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    started_at  INTEGER NOT NULL,
    stamp       INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    checkpoints INTEGER NOT NULL,
    messages    INTEGER NOT NULL,
    is_foreign  INTEGER NOT NULL,
    agent       TEXT,
    project_id  TEXT,
    about       TEXT
) STRICT;

CREATE TABLE document (
    n      INTEGER PRIMARY KEY,
    run_n  INTEGER NOT NULL,
    origin INTEGER NOT NULL,
    at     INTEGER NOT NULL,
    spans  TEXT NOT NULL,
    digest BLOB NOT NULL
) STRICT;

CREATE UNIQUE INDEX document_digest ON document (run_n, digest);

CREATE TABLE content (
    n    INTEGER PRIMARY KEY,
    text TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE word USING fts5 (
    words, stems, content = '',
    tokenize = \"unicode61 remove_diacritics 0 categories 'L* N* M* S* P* Co'\"
);

INSERT INTO word (word, rank) VALUES ('secure-delete', 1);
";

/// Why an index cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IndexError {
    /// The file is damaged, of another version or not an index. It can be created anew.
    #[error("the search index is not usable: {0}")]
    Unusable(String),
    /// SQLite was built without FTS5.
    #[error("this program uses a SQLite without FTS5; build it with the feature `bundled`")]
    NoFullText,
    /// Another process uses the index.
    #[error("the search index is in use by another process")]
    Busy,
    /// The file cannot be opened or created.
    #[error("the search index cannot be opened: {0}")]
    Io(#[from] std::io::Error),
    /// Another error of SQLite.
    #[error("the search index failed: {0}")]
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match &error {
            rusqlite::Error::SqliteFailure(_, Some(why)) if why.contains("no such module") => {
                Self::NoFullText
            }
            rusqlite::Error::SqliteFailure(code, _) => match code.code {
                // FTS5 reports damage of its own tables with the general code.
                Code::DatabaseCorrupt | Code::NotADatabase | Code::Unknown => {
                    Self::Unusable(error.to_string())
                }
                Code::DatabaseBusy | Code::DatabaseLocked => Self::Busy,
                Code::CannotOpen | Code::ReadOnly | Code::PermissionDenied => {
                    Self::Io(std::io::Error::other(error.to_string()))
                }
                _ => Self::Sqlite(error),
            },
            // A value of another type than the tables have.
            rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::Utf8Error(..)
            | rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::IntegralValueOutOfRange(..) => Self::Unusable(error.to_string()),
            _ => Self::Sqlite(error),
        }
    }
}

/// An open index.
pub(crate) struct SearchIndex {
    connection: Connection,
    /// The file, and the number by which a replaced file is detected; `None` in memory.
    file: Option<(PathBuf, Option<u64>)>,
}

impl SearchIndex {
    /// Creates an index in memory.
    pub(crate) fn in_memory(fingerprint: &str) -> Result<Self, IndexError> {
        let mut connection = Connection::open_in_memory()?;
        configure(&connection)?;
        create(&mut connection, fingerprint)?;
        Ok(Self { connection, file: None })
    }

    /// Opens an index that exists. Fails with `Unusable` if it is damaged or not of this version, or was made with
    /// other settings or for another store, which `fingerprint` identifies.
    pub(crate) fn open(path: &Path, fingerprint: &str) -> Result<Self, IndexError> {
        file::check(path)?;
        let connection = connect(path)?;
        check(&connection, fingerprint)?;
        Ok(Self { connection, file: Some((path.to_owned(), file::number(path))) })
    }

    /// Creates an index, and removes what is at its path. The caller has the lock for updates.
    pub(crate) fn create(path: &Path, fingerprint: &str) -> Result<Self, IndexError> {
        file::remove(path)?;
        file::create(path)?;
        let mut connection = connect(path)?;
        // Readers continue while a process adds texts.
        let mode = if file::is_wal_safe(path) { "WAL" } else { "TRUNCATE" };
        connection.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(()))?;
        create(&mut connection, fingerprint)?;
        Ok(Self { connection, file: Some((path.to_owned(), file::number(path))) })
    }

    /// Whether the file is still at its path. An index in memory always is.
    pub(crate) fn is_in_place(&self) -> bool {
        self.file.as_ref().is_none_or(|(path, number)| number.is_some() && file::number(path) == *number)
    }

    /// Whether the index has a file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }
}

/// Removes the file of an index, so that nothing of it remains.
pub(crate) fn remove(path: &Path) -> std::io::Result<()> {
    file::remove(path)
}

fn connect(path: &Path) -> Result<Connection, IndexError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_EXRESCODE
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(file::with_real_folder(path), flags)?;
    if connection.is_readonly("main")? {
        return Err(IndexError::Io(std::io::ErrorKind::PermissionDenied.into()));
    }
    configure(&connection)?;
    Ok(connection)
}

fn configure(connection: &Connection) -> Result<(), IndexError> {
    database::restrict(connection)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.set_prepared_statement_cache_capacity(32);
    Ok(())
}

fn create(connection: &mut Connection, fingerprint: &str) -> Result<(), IndexError> {
    let tx = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    tx.execute_batch(TABLES)?;
    tx.execute("INSERT INTO meta (key, value) VALUES ('fingerprint', ?1)", [fingerprint])?;
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", VERSION)?;
    tx.commit()?;
    Ok(())
}

/// Compares the file with an index of this version before any table is used.
fn check(connection: &Connection, fingerprint: &str) -> Result<(), IndexError> {
    let unusable = |why: &str| Err(IndexError::Unusable(why.to_owned()));
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    if pragma("application_id")? != APPLICATION_ID || pragma("user_version")? != VERSION {
        return unusable("it is not an index of this version");
    }
    let mut fresh = Connection::open_in_memory()?;
    create(&mut fresh, "")?;
    if schema(connection)? != schema(&fresh)? {
        return unusable("it has other tables");
    }
    let sql = "SELECT value FROM meta WHERE key = 'fingerprint'";
    let found: String = connection.query_row(sql, [], |row| row.get(0))?;
    if found != fingerprint {
        return unusable("it was made for another store or with other settings");
    }
    Ok(())
}

/// The statements of a schema, sorted.
fn schema(connection: &Connection) -> Result<Vec<String>, IndexError> {
    let sql = "SELECT coalesce(sql, name) FROM sqlite_schema ORDER BY 1";
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests;
