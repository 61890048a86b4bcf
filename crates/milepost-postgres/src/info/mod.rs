//! What the server says about itself and about the store's tables: versions, user, sizes, dead rows, the time of a
//! round trip. Reads only what an ordinary role may see. `remarks` decides what is worth mentioning.

mod remarks;

use std::time::{Duration, Instant};

use milepost::store::{ServerInfo, StoreError, StoreInfo, TableInfo};

use crate::decode::{column, number};
use crate::error::PostgresError;
use crate::pool::{Deadline, Failed};
use crate::schema;
use crate::session::{Params, Session};
use crate::store::PostgresStore;
use remarks::Facts;

/// Tables whose rows are counted, because people ask how many runs, checkpoints and blobs there are.
const COUNTED: [&str; 3] = ["run", "checkpoint", "blob"];

/// Largest table, without indexes and large values, whose rows are counted. Counting reads all of it.
const COUNTED_BYTES: u64 = 16 << 20;

/// Number of trivial statements, the fastest of which is the time of a round trip.
const ROUND_TRIPS: usize = 3;

/// The store's address and the size of all its tables.
pub(crate) fn info(store: &PostgresStore) -> Result<StoreInfo, StoreError> {
    let bytes = store.read(|session, deadline| {
        let mut params = Params::new();
        let name = params.text(store.schema().as_str());
        let sql = format!(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint AS bytes FROM pg_catalog.pg_class c \
             JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = {name} AND c.relkind = 'r'"
        );
        let rows = session.query(&sql, &params, deadline.left())?;
        Ok(rows.first().map_or(Ok(0), |row| number(row, "bytes"))?)
    })?;
    Ok(StoreInfo::new(store.location(), bytes))
}

pub(crate) fn detailed_info(store: &PostgresStore) -> Result<StoreInfo, StoreError> {
    let info = info(store)?;
    let server = store.read(|session, deadline| {
        let round_trip = round_trip(session, deadline)?;
        let tables = tables(store, session, deadline)?;
        let Some((server, mut facts)) = server_facts(store, session, deadline)? else {
            return Err(Failed::Final(StoreError::Missing { location: store.location() }));
        };
        facts.round_trip = round_trip;
        let remarks = remarks::remarks(store.schema(), &facts, &tables);
        let server = server.with_connection(facts.is_encrypted, facts.is_standby, round_trip);
        Ok(server.with_tables(tables).with_remarks(remarks))
    })?;
    Ok(info.with_server(server))
}

fn round_trip(session: &mut Session, deadline: &Deadline) -> Result<Duration, PostgresError> {
    let mut fastest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let started = Instant::now();
        session.query("SELECT 1", &Params::new(), deadline.left())?;
        fastest = fastest.min(started.elapsed());
    }
    Ok(fastest)
}

/// The store's tables, largest first.
fn tables(
    store: &PostgresStore,
    session: &mut Session,
    deadline: &Deadline,
) -> Result<Vec<TableInfo>, PostgresError> {
    let mut params = Params::new();
    let name = params.text(store.schema().as_str());
    let sql = format!(
        "SELECT c.relname::text AS name, pg_total_relation_size(c.oid) AS bytes, pg_relation_size(c.oid) AS heap_bytes, \
         CASE WHEN c.reltuples < 0 THEN coalesce(t.n_live_tup, 0) ELSE c.reltuples::bigint END AS rows, \
         coalesce(t.n_dead_tup, 0) AS dead_rows, (extract(epoch FROM clock_timestamp() - \
         greatest(t.last_vacuum, t.last_autovacuum)) * 1000000)::bigint AS vacuum_age \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s ON s.oid = c.relnamespace \
         LEFT JOIN pg_catalog.pg_stat_user_tables t ON t.relid = c.oid \
         WHERE s.nspname = {name} AND c.relkind = 'r' ORDER BY bytes DESC, name"
    );
    let mut tables = Vec::new();
    for row in session.query(&sql, &params, deadline.left())? {
        let name: String = column(&row, "name")?;
        let is_counted = COUNTED.contains(&name.as_str()) && number(&row, "heap_bytes")? <= COUNTED_BYTES;
        let rows = if is_counted { count(store, session, &name, deadline)? } else { number(&row, "rows")? };
        let age = column::<Option<i64>>(&row, "vacuum_age")?;
        // The server's clock can be set back.
        let age = age.map(|age| Duration::from_micros(age.max(0) as u64));
        let table = TableInfo::new(name, number(&row, "bytes")?);
        tables.push(table.with_rows(rows, !is_counted).with_dead_rows(number(&row, "dead_rows")?, age));
    }
    Ok(tables)
}

fn count(
    store: &PostgresStore,
    session: &mut Session,
    table: &str,
    deadline: &Deadline,
) -> Result<u64, PostgresError> {
    let sql = store.schema().fill(&format!("SELECT count(*) AS rows FROM {{s}}.{table}"));
    let rows = session.query(&sql, &Params::new(), deadline.left())?;
    rows.first().map_or(Ok(0), |row| number(row, "rows"))
}

/// Versions, user and settings; `None` if the store does not exist. An ordinary role sees the transactions of its own
/// sessions and prepared ones. It cannot see when those of others began.
fn server_facts(
    store: &PostgresStore,
    session: &mut Session,
    deadline: &Deadline,
) -> Result<Option<(ServerInfo, Facts)>, PostgresError> {
    let mut params = Params::new();
    let name = params.text(store.schema().as_str());
    let indexes = format!(
        "SELECT i.relname::text FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid \
         JOIN pg_catalog.pg_namespace s ON s.oid = i.relnamespace WHERE s.nspname = {name}"
    );
    let sql = store.schema().fill(&format!(
        "SELECT m.version, m.store_id, current_setting('server_version') AS server_version, \
         session_user::text AS user_name, pg_is_in_recovery() AS is_standby, \
         coalesce((SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS is_encrypted, \
         coalesce(NOT (inet_client_addr() <<= inet '127.0.0.0/8' OR inet_client_addr() <<= inet '::1'), false) \
         AS is_remote, current_setting('synchronous_commit') AS synchronous_commit, \
         current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes, \
         current_setting('autovacuum') AS autovacuum, \
         current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint \
         AS connections, (SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_catalog.pg_stat_database) AS used, \
         (SELECT (extract(epoch FROM max(clock_timestamp() - x.start)) * 1000000)::bigint FROM ( \
         SELECT xact_start AS start FROM pg_catalog.pg_stat_activity WHERE pid <> pg_backend_pid() \
         AND datname = current_database() AND backend_type = 'client backend' UNION ALL \
         SELECT prepared FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()) x) AS transaction_age, \
         ARRAY({indexes}) AS indexes, ARRAY({indexes} AND NOT (x.indisvalid AND x.indisready)) AS invalid_indexes, \
         ARRAY(SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace s \
         ON s.oid = c.relnamespace WHERE s.nspname = {name} \
         AND c.reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off']) AS without_autovacuum \
         FROM {{s}}.meta m"
    ));
    let rows = session.query(&sql, &params, deadline.left())?;
    let Some(row) = rows.first() else { return Ok(None) };
    let is_on = |name: &str| column::<&str>(row, name).map(|value| value != "off");
    let indexes: Vec<String> = column(row, "indexes")?;
    let missing = schema::index_names().filter(|name| !indexes.iter().any(|found| found == name));
    let facts = Facts {
        is_encrypted: column(row, "is_encrypted")?,
        is_remote: column(row, "is_remote")?,
        is_standby: column(row, "is_standby")?,
        has_synchronous_commit: is_on("synchronous_commit")?,
        has_fsync: is_on("fsync")?,
        has_full_page_writes: is_on("full_page_writes")?,
        has_autovacuum: is_on("autovacuum")?,
        without_autovacuum: column(row, "without_autovacuum")?,
        connections: number(row, "connections")?,
        used_connections: number(row, "used")?,
        transaction_age: column::<Option<i64>>(row, "transaction_age")?
            .map(|age| Duration::from_micros(age.max(0) as u64)),
        missing_indexes: missing.map(str::to_owned).collect(),
        invalid_indexes: column(row, "invalid_indexes")?,
        round_trip: Duration::ZERO,
    };
    let server = ServerInfo::new(
        column(row, "store_id")?,
        number(row, "version")?,
        column(row, "server_version")?,
        column(row, "user_name")?,
    );
    Ok(Some((server, facts)))
}
