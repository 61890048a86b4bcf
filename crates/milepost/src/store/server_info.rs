//! What the server of a store says about itself and about the store's tables, for people who operate it.
//! Contains only plain values; a store on a server fills them in.

use std::time::Duration;

use derive_getters::Getters;
use serde::{Serialize, Serializer};

/// What the server of a store says about itself and about the store.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The random id of the store, which is the same for every address of it.
    pub(crate) store_id: String,
    /// The version of the store's tables.
    pub(crate) schema_version: u64,
    /// The version of the server.
    pub(crate) server_version: String,
    /// The user as which the store is used, as the server authenticated it.
    pub(crate) user: String,
    /// Whether the server's connection is encrypted. Behind a pooler, this is the pooler's connection.
    pub(crate) encrypted: bool,
    /// Whether the server is a standby, which can only be read.
    pub(crate) standby: bool,
    /// The time between a trivial statement and its result.
    #[getter(copy)]
    #[serde(rename = "round_trip_us", serialize_with = "microseconds")]
    pub(crate) round_trip: Duration,
    /// The store's tables, largest first.
    pub(crate) tables: Vec<TableInfo>,
    /// What makes the store slow or unsafe, and what to do about it: one sentence or two each.
    pub(crate) remarks: Vec<String>,
}

impl ServerInfo {
    /// Information without tables and remarks, about a primary server whose connection is not encrypted.
    pub fn new(store_id: String, schema_version: u64, server_version: String, user: String) -> Self {
        Self {
            store_id,
            schema_version,
            server_version,
            user,
            encrypted: false,
            standby: false,
            round_trip: Duration::ZERO,
            tables: Vec::new(),
            remarks: Vec::new(),
        }
    }

    /// Sets whether the connection is encrypted, whether the server is a standby, and the time of a round trip.
    #[must_use]
    pub fn with_connection(self, encrypted: bool, standby: bool, round_trip: Duration) -> Self {
        Self { encrypted, standby, round_trip, ..self }
    }

    /// Sets the tables, largest first.
    #[must_use]
    pub fn with_tables(self, tables: Vec<TableInfo>) -> Self {
        Self { tables, ..self }
    }

    /// Sets the remarks.
    #[must_use]
    pub fn with_remarks(self, remarks: Vec<String>) -> Self {
        Self { remarks, ..self }
    }

    /// The table with this name, such as `run`, `checkpoint` or `blob`.
    pub fn table(&self, name: &str) -> Option<&TableInfo> {
        self.tables.iter().find(|table| table.name == name)
    }
}

/// A table of a store on a server.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TableInfo {
    /// The name of the table.
    pub(crate) name: String,
    /// Size on disk in bytes, including indexes and large values.
    pub(crate) bytes: u64,
    /// Number of rows.
    pub(crate) rows: u64,
    /// Whether `rows` is the server's estimate.
    pub(crate) estimated: bool,
    /// Number of rows that were removed or replaced and still take space, as the server estimates it.
    pub(crate) dead_rows: u64,
    /// Time since the server last freed such rows; `None` if it never did.
    #[getter(copy)]
    #[serde(rename = "vacuum_age_us", serialize_with = "optional_microseconds")]
    pub(crate) vacuum_age: Option<Duration>,
}

impl TableInfo {
    /// A table without rows: its name and its size on disk in bytes.
    pub fn new(name: String, bytes: u64) -> Self {
        Self { name, bytes, rows: 0, estimated: false, dead_rows: 0, vacuum_age: None }
    }

    /// Sets the number of rows, and whether it is an estimate.
    #[must_use]
    pub fn with_rows(self, rows: u64, estimated: bool) -> Self {
        Self { rows, estimated, ..self }
    }

    /// Sets the number of dead rows, and the time since the server last freed some.
    #[must_use]
    pub fn with_dead_rows(self, dead_rows: u64, vacuum_age: Option<Duration>) -> Self {
        Self { dead_rows, vacuum_age, ..self }
    }
}

fn microseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

fn optional_microseconds<S: Serializer>(age: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match age {
        Some(age) => microseconds(age, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_microseconds_in_json() {
        let table = TableInfo::new("run".to_owned(), 8192)
            .with_rows(7, true)
            .with_dead_rows(2, Some(Duration::from_secs(3)));
        let info = ServerInfo::new("id".to_owned(), 1, "16.1".to_owned(), "app".to_owned())
            .with_connection(true, false, Duration::from_millis(4))
            .with_tables(vec![table]);
        assert_eq!(info.table("run").map(TableInfo::rows), Some(7));
        assert_eq!(info.table("blob"), None);
        let json = serde_json::to_value(&info).unwrap();
        assert_eq!(json["round_trip_us"], 4000);
        assert_eq!(json["tables"][0]["vacuum_age_us"], 3_000_000);
    }
}
