//! The SQL schema of a store: its text, how it is created, and which version it has. Takes the name of a schema
//! and returns statements. Does not connect.

use milepost::model::RunId;

/// Version of the schema that this program writes.
pub(crate) const VERSION: i64 = 1;

/// Number of stamps that one value of the sequence `stamp` stands for. A commit gives one stamp to each of its
/// checkpoints, so this is also the maximum number of checkpoints in a commit.
pub(crate) const STAMPS_PER_COMMIT: u64 = 4096;

/// The name of a schema, which is valid in SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SchemaName {
    name: String,
    quoted: String,
}

impl SchemaName {
    /// The settings of a connection have checked the name.
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), quoted: quote(name) }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// Replaces `{s}` in a statement with the name.
    pub(crate) fn fill(&self, sql: &str) -> String {
        sql.replace("{s}", &self.quoted)
    }

    /// The sequence of stamps as a string literal.
    pub(crate) fn stamp_sequence(&self) -> String {
        format!("'{}.stamp'", self.quoted.replace('\'', "''"))
    }
}

/// A name as it is written in a statement.
fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Every row of a run has a checksum over its key and value, so that any changed byte is detected. `write_log`,
/// `name` and `thread_position` have none: the first is only compared with values that the writer knows, and the
/// others are derived from headers and marks and checked against them.
///
/// Text that may be long or contain a zero byte is a key only as a hash: an index entry is limited to a third of
/// a page, and `text` cannot contain a zero byte.
const TABLES: &str = r#"
CREATE SCHEMA IF NOT EXISTS {s};

CREATE SEQUENCE IF NOT EXISTS {s}.stamp AS bigint INCREMENT BY 4096 START WITH 4096;

CREATE TABLE IF NOT EXISTS {s}.meta (
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    version  bigint NOT NULL,
    store_id text NOT NULL
);

CREATE TABLE IF NOT EXISTS {s}.run (
    n             bigint PRIMARY KEY,
    stamp         bigint NOT NULL,
    last_sequence bigint NOT NULL,
    count         bigint NOT NULL,
    events        bigint NOT NULL,
    events_from   bigint NOT NULL,
    commits       bigint NOT NULL,
    written_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    run_id        text COLLATE "C" NOT NULL UNIQUE,
    project       text COLLATE "C" NOT NULL,
    written_by    text NOT NULL DEFAULT session_user,
    written_from  text DEFAULT host(inet_client_addr()),
    users         text[] NOT NULL DEFAULT ARRAY[session_user::text],
    checksum      bytea NOT NULL,
    record        text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX IF NOT EXISTS run_stamp ON {s}.run (stamp);
CREATE INDEX IF NOT EXISTS run_project ON {s}.run (project, stamp);

CREATE TABLE IF NOT EXISTS {s}.checkpoint (
    run_n       bigint NOT NULL REFERENCES {s}.run (n) ON DELETE CASCADE,
    sequence    bigint NOT NULL,
    first       bigint NOT NULL,
    stamp       bigint NOT NULL,
    snapshot_id text COLLATE "C" NOT NULL,
    checksum    bytea NOT NULL,
    header      text NOT NULL,
    PRIMARY KEY (run_n, sequence)
);
CREATE UNIQUE INDEX IF NOT EXISTS checkpoint_id ON {s}.checkpoint (snapshot_id);
CREATE INDEX IF NOT EXISTS checkpoint_stamp ON {s}.checkpoint (stamp);
CREATE INDEX IF NOT EXISTS checkpoint_short_id ON {s}.checkpoint (substr(snapshot_id, 24));

CREATE TABLE IF NOT EXISTS {s}.frame (
    run_n    bigint NOT NULL REFERENCES {s}.run (n) ON DELETE CASCADE,
    first    bigint NOT NULL,
    sequence bigint NOT NULL,
    base     bigint NOT NULL,
    checksum bytea NOT NULL,
    data     bytea STORAGE EXTERNAL NOT NULL,
    PRIMARY KEY (run_n, first, sequence)
);

CREATE TABLE IF NOT EXISTS {s}.marks (
    run_n    bigint NOT NULL,
    sequence bigint NOT NULL,
    revision bigint NOT NULL,
    checksum bytea NOT NULL,
    marks    text NOT NULL,
    PRIMARY KEY (run_n, sequence),
    FOREIGN KEY (run_n, sequence) REFERENCES {s}.checkpoint ON DELETE CASCADE
);

CREATE TABLE IF NOT EXISTS {s}.name (
    run_n    bigint NOT NULL,
    sequence bigint NOT NULL,
    name     bytea NOT NULL,
    reserved bytea,
    PRIMARY KEY (name, run_n, sequence),
    FOREIGN KEY (run_n, sequence) REFERENCES {s}.checkpoint ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS name_place ON {s}.name (run_n, sequence);
CREATE UNIQUE INDEX IF NOT EXISTS name_reserved ON {s}.name (reserved) WHERE reserved IS NOT NULL;

CREATE TABLE IF NOT EXISTS {s}.thread_position (
    run_n      bigint NOT NULL,
    sequence   bigint NOT NULL,
    stamp      bigint NOT NULL,
    id         text COLLATE "C" NOT NULL,
    namespace  text COLLATE "C" NOT NULL,
    invocation text COLLATE "C",
    PRIMARY KEY (run_n, sequence),
    FOREIGN KEY (run_n, sequence) REFERENCES {s}.checkpoint ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS thread_namespace ON {s}.thread_position (run_n, namespace, id, stamp);
CREATE INDEX IF NOT EXISTS thread_run ON {s}.thread_position (run_n, id, stamp);
CREATE INDEX IF NOT EXISTS thread_id ON {s}.thread_position (id, stamp);
CREATE INDEX IF NOT EXISTS thread_invocation ON {s}.thread_position (invocation, id, stamp)
    WHERE invocation IS NOT NULL;

CREATE TABLE IF NOT EXISTS {s}.item (
    run_n    bigint NOT NULL REFERENCES {s}.run (n) ON DELETE CASCADE,
    n        bigint NOT NULL,
    checksum bytea NOT NULL,
    item     text NOT NULL,
    PRIMARY KEY (run_n, n)
);

CREATE TABLE IF NOT EXISTS {s}.message (
    run_n    bigint NOT NULL REFERENCES {s}.run (n) ON DELETE CASCADE,
    n        bigint NOT NULL,
    checksum bytea NOT NULL,
    message  text NOT NULL,
    PRIMARY KEY (run_n, n)
);

CREATE TABLE IF NOT EXISTS {s}.attachment (
    run_n      bigint NOT NULL REFERENCES {s}.run (n) ON DELETE CASCADE,
    checkpoint bytea NOT NULL,
    key        bytea NOT NULL,
    checksum   bytea NOT NULL,
    attachment text NOT NULL,
    PRIMARY KEY (run_n, checkpoint, key)
);

CREATE TABLE IF NOT EXISTS {s}.event (
    run_n    bigint NOT NULL REFERENCES {s}.run (n) ON DELETE CASCADE,
    n        bigint NOT NULL,
    count    bigint NOT NULL,
    stamp    bigint NOT NULL,
    checksum bytea NOT NULL,
    events   text NOT NULL,
    PRIMARY KEY (run_n, n)
);

CREATE TABLE IF NOT EXISTS {s}.write_log (
    run_n     bigint NOT NULL REFERENCES {s}.run (n) ON DELETE CASCADE,
    n         bigint NOT NULL,
    stamp     bigint NOT NULL,
    sequence  bigint NOT NULL,
    coalesced boolean NOT NULL,
    token     text,
    PRIMARY KEY (run_n, n)
);

CREATE TABLE IF NOT EXISTS {s}.blob (
    project text COLLATE "C" NOT NULL DEFAULT '',
    id      bytea NOT NULL,
    length  bigint NOT NULL,
    size    bigint NOT NULL,
    doomed  bigint,
    data    bytea STORAGE EXTERNAL,
    PRIMARY KEY (project, id)
);

CREATE TABLE IF NOT EXISTS {s}.blob_root (
    project  text COLLATE "C" NOT NULL DEFAULT '',
    key      bytea NOT NULL,
    name     bytea NOT NULL,
    blob     bytea NOT NULL,
    checksum bytea NOT NULL,
    PRIMARY KEY (project, key)
);
"#;

/// The rights that an application role needs on each table, and on the sequence. Rows of other tables that belong to a
/// removed run or checkpoint are removed by foreign keys, for which the owner's rights count.
const RIGHTS: [(&str, &str); 15] = [
    ("TABLE {s}.meta", "SELECT"),
    ("TABLE {s}.run", "SELECT, INSERT, UPDATE, DELETE"),
    ("TABLE {s}.checkpoint", "SELECT, INSERT, UPDATE, DELETE"),
    ("TABLE {s}.frame", "SELECT, INSERT, DELETE"),
    ("TABLE {s}.marks", "SELECT, INSERT, UPDATE"),
    ("TABLE {s}.name", "SELECT, INSERT, DELETE"),
    ("TABLE {s}.thread_position", "SELECT, INSERT"),
    ("TABLE {s}.item", "SELECT, INSERT, DELETE"),
    ("TABLE {s}.message", "SELECT, INSERT"),
    ("TABLE {s}.attachment", "SELECT, INSERT, UPDATE, DELETE"),
    ("TABLE {s}.event", "SELECT, INSERT, DELETE"),
    ("TABLE {s}.write_log", "SELECT, INSERT, DELETE"),
    ("TABLE {s}.blob", "SELECT, INSERT, UPDATE, DELETE"),
    ("TABLE {s}.blob_root", "SELECT, INSERT, UPDATE, DELETE"),
    // UPDATE includes nextval.
    ("SEQUENCE {s}.stamp", "SELECT, UPDATE"),
];

/// The names of all indexes, except those of primary keys and other constraints.
pub(crate) fn index_names() -> impl Iterator<Item = &'static str> {
    TABLES.split("INDEX IF NOT EXISTS ").skip(1).filter_map(|rest| rest.split(' ').next())
}

/// A script for a database administrator: creates the store, and grants a role the rights that it needs. Names are
/// only in statements, where they are quoted, and never in comments.
pub(crate) fn script(schema: &SchemaName, store_id: &str, role: Option<&str>) -> String {
    let mut sql = "\
-- Creates the tables of a Milepost store in a schema of their own.
-- Run it in the store's database, as a role that may create schemas there, for example with psql -f.
-- That role becomes the owner of the tables. Running the script again changes nothing that exists.

BEGIN;

"
    .to_owned();
    sql.push_str(&create_statements(schema, store_id));
    if let Some(role) = role {
        let role = quote(role);
        sql.push_str(
            "\n-- The rights that an application needs: it reads and writes rows, and can neither create, change nor \
             drop a table.\n-- The role must exist, and must be allowed to connect to the database.\n\n",
        );
        sql.push_str(&format!("GRANT USAGE ON SCHEMA {} TO {role};\n", schema.quoted));
        for (object, rights) in RIGHTS {
            sql.push_str(&format!("GRANT {rights} ON {} TO {role};\n", schema.fill(object)));
        }
    }
    sql.push_str("\nCOMMIT;\n");
    sql
}

/// All statements that create a store in this schema. They change nothing that already exists.
pub(crate) fn create_statements(schema: &SchemaName, store_id: &str) -> String {
    let meta = format!(
        "INSERT INTO {{s}}.meta (version, store_id) VALUES ({VERSION}, '{store_id}') ON CONFLICT DO NOTHING;\n"
    );
    // Columns get their storage by a statement of their own on servers before version 16.
    let mut sql = TABLES.trim_start().replace(" STORAGE EXTERNAL", "");
    for table in ["frame", "blob"] {
        sql.push_str(&format!("\nALTER TABLE {{s}}.{table} ALTER COLUMN data SET STORAGE EXTERNAL;\n"));
    }
    sql.push('\n');
    sql.push_str(&meta);
    schema.fill(&sql)
}

/// The hash under which a text is a key.
pub(crate) fn key_hash(kind: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    for part in [kind.as_bytes()].iter().chain(parts) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().as_bytes()[..16].to_vec()
}

/// The run id that stands for a run whose id is damaged.
pub(crate) fn damaged_run_id(n: i64) -> Option<RunId> {
    format!("damaged-{n}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_names_are_quoted() {
        let schema = SchemaName::new("a\"b'c");

        assert_eq!(schema.stamp_sequence(), "'\"a\"\"b''c\".stamp'");
        assert_eq!(schema.fill("{s}.run"), "\"a\"\"b'c\".run");
    }

    #[test]
    fn a_script_quotes_the_role() {
        let script = script(&SchemaName::new("milepost"), "id", Some("app\";\n--"));

        assert!(script.contains("GRANT USAGE ON SCHEMA \"milepost\" TO \"app\"\";\n--\";\n"));
        assert_eq!(script.matches("GRANT").count(), 1 + RIGHTS.len());
    }

    #[test]
    fn every_index_has_a_name() {
        let names: Vec<_> = index_names().collect();
        assert_eq!(names.len(), TABLES.matches(" INDEX ").count());
        assert_eq!(names[..2], ["run_stamp", "run_project"]);
    }

    #[test]
    fn the_sequence_matches_the_number_of_stamps() {
        assert!(TABLES.contains(&format!("INCREMENT BY {STAMPS_PER_COMMIT} ")));
    }
}
