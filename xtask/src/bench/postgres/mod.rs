//! Benchmarks of stores on a private PostgreSQL cluster with fsync, compared with a minimal client on the same
//! cluster, with a short history, or with SQLite. Where there is no server, a row says what was skipped.

mod clients;
mod minimal;
mod process;

use anyhow::Result;
use milepost::Milepost;
use milepost::store::OpenOptions;
use milepost_postgres::PostgresStore;
use milepost_postgres::connection::{Environment, Settings};
use milepost_testkit::postgres::{ClusterOptions, PrivateCluster};

use super::measure::Row;

pub use minimal::process as run_minimal;
pub use process::{feature, history, space, whole_process};

/// Throughput of many clients.
pub use clients::throughput;

/// Starts a cluster, or prints a row with the reason why there is none.
fn start(name: &str) -> Result<Option<PrivateCluster>> {
    Ok(match crate::postgres::start(ClusterOptions::new())? {
        Ok(cluster) => Some(cluster),
        Err(reason) => {
            println!("| {name} | SKIPPED: {reason} | | | | |");
            None
        }
    })
}

/// The address of a schema of this cluster.
fn address(cluster: &PrivateCluster, schema: &str) -> String {
    format!("{}?schema={schema}", cluster.url("postgres"))
}

/// Opens a handle with connections of its own, and creates the store if needed.
fn open(cluster: &PrivateCluster, schema: &str) -> Result<Milepost> {
    // False if the kind of store was registered before.
    milepost_postgres::register(Environment::new());
    Ok(Milepost::at(&address(cluster, schema).parse()?, &OpenOptions::new().create(true))?)
}

/// Creates the tables that the minimal client writes to.
fn create_minimal(cluster: &PrivateCluster) -> Result<()> {
    let settings = Settings::parse(&address(cluster, minimal::SCHEMA), &Environment::new())?;
    PostgresStore::open(&settings, &OpenOptions::new().create(true)).create()?;
    Ok(())
}

/// A row of a rate that must be at least a share of another one.
fn rate(what: impl Into<String>, ours: f64, floor: f64, least: f64) -> Row {
    let mut row = Row::count(what, ours, floor, 1.0 / least);
    row.measured = format!("{ours:.0}/s");
    row.floor = format!("{floor:.0}/s");
    // The table's ratios are upper bounds, so this one is of times.
    row.ratio = floor / ours;
    row
}
