//! A minimal client that writes the same rows as a save, and reads the same rows as `show latest`: the floor of the
//! benchmarks on PostgreSQL. Uses one connection, one statement to read and one to write. Checks nothing.

use std::future::Future;

use anyhow::{Context, Result};
use milepost_testkit::postgres::PrivateCluster;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};

/// The schema that the minimal client uses. Milepost has created its tables.
pub const SCHEMA: &str = "minimal";

/// Reads the run and takes a stamp.
const READ: &str = "SELECT nextval('minimal.stamp') AS stamp, r.n, r.stamp AS last, r.last_sequence, r.commits, r.record \
                    FROM minimal.run r WHERE r.run_id = $1";

/// Writes the rows of one save, if the run has not changed.
const WRITE: &str = "WITH written AS (UPDATE minimal.run SET stamp = $2, last_sequence = $3, count = $3, events = $3, \
    commits = $4, checksum = $5, record = $6, written_at = clock_timestamp() \
    WHERE n = $1 AND stamp = $7 AND commits = $8 RETURNING n), \
    put AS (INSERT INTO minimal.checkpoint (run_n, sequence, first, stamp, snapshot_id, checksum, header) \
    SELECT n, $3, 1, $2, $9, $5, $10 FROM written), \
    put_frames AS (INSERT INTO minimal.frame (run_n, first, sequence, base, checksum, data) \
    SELECT n, 1, $3, $3 - 1, $5, $11 FROM written), \
    add_events AS (INSERT INTO minimal.event (run_n, n, count, stamp, checksum, events) \
    SELECT n, $3, 1, $2, $5, $12 FROM written), \
    log AS (INSERT INTO minimal.write_log (run_n, n, stamp, sequence, coalesced, token) \
    SELECT n, $4, $2, 0, false, NULL FROM written) SELECT count(*) FROM written";

/// Reads what `show latest` shows: the newest checkpoint with its marks and its document, the record of its run, the
/// pending items and the messages.
const SHOW: &str = "SELECT c.header, m.marks, f.data, r.record, \
    ARRAY(SELECT i.item FROM milepost.item i WHERE i.run_n = r.n) AS items, \
    ARRAY(SELECT g.message FROM milepost.message g WHERE g.run_n = r.n) AS messages \
    FROM (SELECT * FROM milepost.checkpoint ORDER BY stamp DESC LIMIT 1) c \
    JOIN milepost.run r ON r.n = c.run_n \
    JOIN milepost.frame f ON f.run_n = c.run_n AND f.first = c.first AND f.sequence <= c.sequence \
    LEFT JOIN milepost.marks m ON m.run_n = c.run_n AND m.sequence = c.sequence";

/// The content of the rows, taken from a real save.
#[derive(Clone)]
pub struct Rows {
    record: String,
    header: String,
    frame: Vec<u8>,
    events: String,
}

impl Rows {
    /// Copies the rows of the newest checkpoint of a store in the schema `milepost`.
    pub fn copy(cluster: &PrivateCluster) -> Result<Self> {
        let read = |sql: &str| cluster.sql("postgres", sql);
        let newest = "ORDER BY stamp DESC LIMIT 1";
        let frame =
            read("SELECT length(data) FROM milepost.frame ORDER BY run_n DESC, sequence DESC LIMIT 1")?;
        Ok(Self {
            record: read(&format!("SELECT record FROM milepost.run {newest}"))?,
            header: read(&format!("SELECT header FROM milepost.checkpoint {newest}"))?,
            frame: vec![7; frame.trim().parse().context("no frame")?],
            events: read(&format!("SELECT events FROM milepost.event {newest}"))?,
        })
    }
}

/// A connection of the minimal client.
pub struct MinimalClient {
    client: Client,
    runtime: Runtime,
    rows: Rows,
}

impl MinimalClient {
    /// Connects with a password, as Milepost does.
    pub fn connect(url: &str, rows: Rows) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
            tokio::spawn(connection);
            Ok::<_, tokio_postgres::Error>(client)
        })?;
        Ok(Self { client, runtime, rows })
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T> {
        Ok(self.runtime.block_on(work)?)
    }

    /// Adds a run without checkpoints.
    pub fn create_run(&self, run: &str) -> Result<()> {
        let sql = "INSERT INTO minimal.run (n, stamp, last_sequence, count, events, events_from, commits, run_id, project, \
                   checksum, record) SELECT s, s, 0, 0, 0, 0, 0, $1, '', '', '' FROM (SELECT nextval('minimal.stamp') s) s";
        self.wait(self.client.query_typed(sql, &[(&run, Type::TEXT)])).map(drop)
    }

    /// One save: a statement that reads and one that writes.
    pub fn save(&self, run: &str) -> Result<()> {
        let rows = self.wait(self.client.query_typed(READ, &[(&run, Type::TEXT)]))?;
        let row = rows.first().context("no run")?;
        let (stamp, n, last, sequence, commits): (i64, i64, i64, i64, i64) =
            (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4));
        let (next, next_commit) = (sequence + 1, commits + 1);
        let (checksum, id) = (vec![1_u8; 16], format!("cp_20260102T030405006Z_{stamp:012}"));
        let Rows { record, header, frame, events } = &self.rows;
        let params: [(&(dyn ToSql + Sync), Type); 12] = [
            (&n, Type::INT8),
            (&stamp, Type::INT8),
            (&next, Type::INT8),
            (&next_commit, Type::INT8),
            (&checksum, Type::BYTEA),
            (record, Type::TEXT),
            (&last, Type::INT8),
            (&commits, Type::INT8),
            (&id, Type::TEXT),
            (header, Type::TEXT),
            (frame, Type::BYTEA),
            (events, Type::TEXT),
        ];
        let written = self.wait(self.client.query_typed(WRITE, &params))?;
        let written: i64 = written.first().context("no reply")?.get(0);
        anyhow::ensure!(written == 1, "the run changed");
        Ok(())
    }

    /// Reads what `show latest` needs, and prints the header.
    pub fn show(&self) -> Result<()> {
        let rows = self.wait(self.client.query_typed(SHOW, &[]))?;
        let header: &str = rows.first().context("no checkpoint")?.get(0);
        println!("{header}");
        Ok(())
    }
}

/// `xtask postgres-client save|show URL`: one save or one show in a process of its own.
pub fn process(verb: &str, url: &str) -> Result<()> {
    let text = |length: usize| "x".repeat(length);
    // Sizes of the rows of a small save.
    let rows = Rows { record: text(1000), header: text(700), frame: vec![7; 900], events: text(200) };
    let client = MinimalClient::connect(url, rows)?;
    match verb {
        "save" => client.save("process"),
        _ => client.show(),
    }
}
