//! Converts I/O errors and SQLite errors to errors of the store.

use rusqlite::ErrorCode;

use super::SqliteStore;
use crate::store::{Damage, Part, StoreError};

impl SqliteStore {
    pub(super) fn io_error(&self, e: std::io::Error) -> StoreError {
        use std::io::ErrorKind as K;
        let (location, kind, source) = (self.location(), e.kind(), e.into());
        match kind {
            K::PermissionDenied | K::ReadOnlyFilesystem => StoreError::ReadOnly { location, source },
            K::NotFound if !self.options.create => StoreError::Missing { location },
            _ => StoreError::Write { location, source },
        }
    }

    /// Converts an SQLite error to a store error.
    pub(super) fn error(&self, e: rusqlite::Error) -> StoreError {
        use rusqlite::Error as E;
        let location = self.location();
        // Tables are STRICT, so a value of the wrong type means a damaged page that SQLite could still parse.
        let misread = matches!(
            e,
            E::InvalidColumnType(..)
                | E::FromSqlConversionFailure(..)
                | E::IntegralValueOutOfRange(..)
                | E::Utf8Error(..)
        );
        if misread {
            return Damage::integrity(Part::Pages, "an intact database", format!("{e} in {location}")).into();
        }
        match e.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                StoreError::Busy { location, waited: self.options.wait }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Damage::integrity(Part::Pages, "an intact database", format!("{e} in {location}")).into()
            }
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
                StoreError::ReadOnly { location, source: e.into() }
            }
            Some(ErrorCode::OperationInterrupted) => {
                StoreError::Read { location, source: "it took longer than the time limit".into() }
            }
            Some(ErrorCode::DiskFull) => StoreError::Write { location, source: e.into() },
            _ => StoreError::Read { location, source: e.into() },
        }
    }

    /// Like `error`, inside a write transaction: nothing was written, so a read error becomes a write error.
    pub(super) fn write_error(&self, e: rusqlite::Error) -> StoreError {
        match self.error(e) {
            StoreError::Read { location, source } => StoreError::Write { location, source },
            other => other,
        }
    }
}
