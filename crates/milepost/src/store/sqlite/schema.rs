//! The SQL schema of a store, and the ids that identify a file as a Milepost store. Checks schema
//! statements; runs none of them.

/// SQLite application id of a Milepost store.
pub(super) const APPLICATION_ID: i64 = 0x4D50_5354;

/// Version of the store format that this program writes.
pub(super) const STORE_VERSION: i64 = 1;

/// Every row has a checksum over its key and value, so that any changed byte is detected. The exceptions are
/// `name` and `thread_position`, which are derived from headers and marks and are checked against them, and
/// `blob_pack`, whose contents are verified against the ids of their blobs.
///
/// `run.n` identifies the run in the other tables. `checkpoint_header_id` finds a checkpoint with a damaged
/// key by the id at the start of its header.
///
/// Documents are stored apart from headers, so that listing never reads them. Their key is the stamp of
/// their checkpoint: `whole` contains a few large documents, and `delta` grows at its end and shrinks
/// at its start, so that a save touches few pages. A plain save touches even fewer: it appends one row
/// to `append_log`, which has the columns of the other tables; those of a checkpoint are empty if the commit
/// has none, and `sequence` is negative then. Several such rows are later merged
/// into those tables at once, and `view` presents the log and the tables as one.
///
/// `thread_position` lists positions in threads. SQLite adds those columns of the primary key to an index that
/// the index lacks, so the namespace, which can be long, is not in the primary key.
///
/// The small blobs of one put share the rows of `blob_pack`, because a row for each would leave most of its
/// last page unused. `blob.pack` is 0 for a blob that is a file next to the database, and NULL for one whose
/// content was evicted.
pub(super) const TABLES: &str = "
CREATE TABLE meta (
    key      TEXT NOT NULL PRIMARY KEY,
    value    INTEGER NOT NULL,
    checksum BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE run (
    n             INTEGER PRIMARY KEY,
    run_id        TEXT NOT NULL UNIQUE,
    stamp         INTEGER NOT NULL,
    last_sequence INTEGER NOT NULL,
    count         INTEGER NOT NULL,
    events        INTEGER NOT NULL,
    checksum      BLOB NOT NULL,
    record        TEXT NOT NULL
) STRICT;
CREATE INDEX run_stamp ON run (stamp);

CREATE TABLE checkpoint (
    run_n       INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    snapshot_id TEXT NOT NULL,
    stamp       INTEGER NOT NULL,
    checksum    BLOB NOT NULL,
    header      TEXT NOT NULL,
    PRIMARY KEY (run_n, sequence)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX checkpoint_id ON checkpoint (snapshot_id);
CREATE INDEX checkpoint_short_id ON checkpoint (substr(snapshot_id, 24));
CREATE INDEX checkpoint_header_id ON checkpoint (substr(header, 17, 40));

CREATE TABLE whole (
    stamp    INTEGER PRIMARY KEY,
    checksum BLOB NOT NULL,
    data     BLOB NOT NULL
) STRICT;

CREATE TABLE delta (
    stamp      INTEGER PRIMARY KEY,
    base       INTEGER NOT NULL,
    dependants INTEGER NOT NULL,
    checksum   BLOB NOT NULL,
    data       BLOB NOT NULL
) STRICT;

CREATE TABLE marks (
    run_n    INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    marks    TEXT NOT NULL,
    PRIMARY KEY (run_n, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE name (
    name     TEXT NOT NULL,
    run_n    INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    PRIMARY KEY (name, run_n, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE thread_position (
    run_n      INTEGER NOT NULL,
    id         TEXT NOT NULL,
    stamp      INTEGER NOT NULL,
    sequence   INTEGER NOT NULL,
    namespace  TEXT NOT NULL,
    invocation TEXT,
    PRIMARY KEY (run_n, id, stamp)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_namespace ON thread_position (run_n, namespace, id, stamp);
CREATE INDEX thread_id ON thread_position (id, stamp);
CREATE INDEX thread_invocation ON thread_position (invocation, id, stamp) WHERE invocation IS NOT NULL;

CREATE TABLE item (
    run_n    INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    item     TEXT NOT NULL,
    PRIMARY KEY (run_n, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE message (
    run_n    INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    message  TEXT NOT NULL,
    PRIMARY KEY (run_n, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE attachment (
    run_n      INTEGER NOT NULL,
    checkpoint TEXT NOT NULL,
    task_id    TEXT NOT NULL,
    position   INTEGER NOT NULL,
    stamp      INTEGER NOT NULL,
    checksum   BLOB NOT NULL,
    attachment TEXT NOT NULL,
    PRIMARY KEY (run_n, checkpoint, task_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    run_n    INTEGER NOT NULL,
    n        INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    events   TEXT NOT NULL,
    PRIMARY KEY (run_n, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE append_log (
    stamp       INTEGER PRIMARY KEY,
    run_n       INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    snapshot_id TEXT NOT NULL,
    count       INTEGER NOT NULL,
    events      INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    drops       BLOB NOT NULL,
    run_sum     BLOB NOT NULL,
    header_sum  BLOB NOT NULL,
    event_sum   BLOB NOT NULL,
    body_sum    BLOB NOT NULL,
    header      TEXT NOT NULL,
    record      TEXT NOT NULL,
    event       TEXT NOT NULL,
    body        BLOB NOT NULL
) STRICT;

CREATE INDEX name_place ON name (run_n, sequence);

CREATE TABLE loss (
    found        INTEGER PRIMARY KEY,
    expected     INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL,
    kept         TEXT NOT NULL,
    checksum     BLOB NOT NULL
) STRICT;

CREATE TABLE blob_pack (
    n    INTEGER PRIMARY KEY,
    data BLOB NOT NULL
) STRICT;

CREATE TABLE blob (
    id       BLOB NOT NULL PRIMARY KEY,
    pack     INTEGER,
    offset   INTEGER NOT NULL,
    length   INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    checksum BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE blob_root (
    name     TEXT NOT NULL PRIMARY KEY,
    blob     BLOB NOT NULL,
    checksum BLOB NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Number of statements in `TABLES`.
pub(super) const COUNT: usize = 25;

/// Whether a statement of a file's schema is in `TABLES`.
pub(super) fn is_known(sql: &str) -> bool {
    statements().any(|ours| ours == sql)
}

fn statements() -> impl Iterator<Item = &'static str> {
    TABLES.split(';').map(str::trim).filter(|sql| !sql.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statements_are_counted() {
        assert_eq!(statements().count(), COUNT);
        assert!(is_known("CREATE INDEX run_stamp ON run (stamp)"));
        assert!(!is_known("CREATE VIEW run AS SELECT 1"));
    }
}
