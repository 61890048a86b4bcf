//! What makes a store slow or unsafe, and what to do about it. Takes facts about the server and its tables, and
//! returns sentences for people. Reads nothing.

use std::time::Duration;

use milepost::store::TableInfo;

use crate::schema::SchemaName;

/// Share of dead rows, in percent, above which a table wastes space and time.
const DEAD_PERCENT: u64 = 20;

/// Number of dead rows below which their share does not matter.
const FEW_DEAD_ROWS: u64 = 1000;

/// A table that was vacuumed within this time is taken care of.
const RECENT_VACUUM: Duration = Duration::from_secs(60 * 60);

/// A transaction that is open for longer keeps the server from freeing dead rows.
const LONG_TRANSACTION: Duration = Duration::from_secs(60 * 60);

/// A round trip that takes longer makes every command feel slow.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(20);

/// Facts about the server that remarks depend on.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) is_encrypted: bool,
    /// Whether the client is on another machine than the server.
    pub(super) is_remote: bool,
    pub(super) is_standby: bool,
    pub(super) has_synchronous_commit: bool,
    pub(super) has_fsync: bool,
    pub(super) has_full_page_writes: bool,
    pub(super) has_autovacuum: bool,
    /// Tables for which autovacuum is turned off.
    pub(super) without_autovacuum: Vec<String>,
    /// Number of connections that ordinary roles can have, and of those in use.
    pub(super) connections: u64,
    pub(super) used_connections: u64,
    /// Age of the oldest transaction of another session that this role can see.
    pub(super) transaction_age: Option<Duration>,
    pub(super) missing_indexes: Vec<String>,
    pub(super) invalid_indexes: Vec<String>,
    pub(super) round_trip: Duration,
}

/// The remarks, those about durability first.
pub(super) fn remarks(schema: &SchemaName, facts: &Facts, tables: &[TableInfo]) -> Vec<String> {
    let mut remarks = Vec::new();
    durability(facts, &mut remarks);
    if facts.is_remote && !facts.is_encrypted {
        remarks.push(
            "The connection is not encrypted, so others in the network can read it. Set sslmode=verify-full in the \
             address."
                .to_owned(),
        );
    }
    indexes(schema, facts, &mut remarks);
    // A standby gets freed space and statistics from its primary.
    if !facts.is_standby {
        vacuum(schema, facts, tables, &mut remarks);
    }
    let left = facts.connections.saturating_sub(facts.used_connections);
    if left < (facts.connections / 10).max(5) {
        remarks.push(format!(
            "Only {left} of {} connections are left. Raise max_connections, or put a pooler such as pgbouncer in front \
             of the server.",
            facts.connections
        ));
    }
    if facts.round_trip > SLOW_ROUND_TRIP {
        remarks.push(format!(
            "A round trip to the server takes {} ms, and every save needs two. Hooks write to this machine and do not \
             wait; `milepost sync` sends what they wrote.",
            facts.round_trip.as_millis()
        ));
    }
    remarks
}

/// Settings with which acknowledged checkpoints can be lost.
fn durability(facts: &Facts, remarks: &mut Vec<String>) {
    if !facts.has_fsync {
        remarks.push(
            "fsync is off: if the machine crashes, acknowledged checkpoints can be lost and the whole database can be \
             damaged. Set fsync = on in postgresql.conf."
                .to_owned(),
        );
    }
    if !facts.has_synchronous_commit {
        remarks.push(
            "synchronous_commit is off: if the server crashes, acknowledged checkpoints can be lost. Set it to on in \
             postgresql.conf, or for this role with ALTER ROLE."
                .to_owned(),
        );
    }
    if !facts.has_full_page_writes {
        remarks.push(
            "full_page_writes is off: if the machine loses power, the database can be damaged. Set \
             full_page_writes = on in postgresql.conf, unless the file system prevents torn pages."
                .to_owned(),
        );
    }
}

fn indexes(schema: &SchemaName, facts: &Facts, remarks: &mut Vec<String>) {
    for index in &facts.missing_indexes {
        remarks.push(format!(
            "The index {index} is missing, so that some commands read a whole table. Run the statements that \
             `milepost store init --print` prints: they add what is missing."
        ));
    }
    for index in &facts.invalid_indexes {
        let name = schema.fill(&format!("{{s}}.\"{index}\""));
        remarks.push(format!("The index {index} is invalid and not used. Run REINDEX INDEX {name}."));
    }
}

/// What keeps the server from freeing the space of dead rows.
fn vacuum(schema: &SchemaName, facts: &Facts, tables: &[TableInfo], remarks: &mut Vec<String>) {
    if !facts.has_autovacuum {
        remarks.push(
            "autovacuum is off, so that tables grow and become slow. Set autovacuum = on in postgresql.conf."
                .to_owned(),
        );
    }
    for table in &facts.without_autovacuum {
        let name = schema.fill(&format!("{{s}}.{table}"));
        remarks.push(format!(
            "autovacuum is off for the table {table}. Run ALTER TABLE {name} RESET (autovacuum_enabled)."
        ));
    }
    for table in tables {
        let (dead, rows) = (table.dead_rows(), table.rows());
        let percent = dead.saturating_mul(100) / dead.saturating_add(rows).max(1);
        let is_recent = table.vacuum_age().is_some_and(|age| age < RECENT_VACUUM);
        if dead < FEW_DEAD_ROWS || percent <= DEAD_PERCENT || is_recent {
            continue;
        }
        let last = match table.vacuum_age() {
            Some(age) => format!("was last vacuumed {} hours ago", age.as_secs() / 3600),
            None => "was never vacuumed".to_owned(),
        };
        let name = table.name();
        let quoted = schema.fill(&format!("{{s}}.{name}"));
        remarks.push(format!(
            "{percent}% of the rows in the table {name} are dead, and it {last}. Run VACUUM {quoted} as its owner."
        ));
    }
    if let Some(age) = facts.transaction_age.filter(|age| *age > LONG_TRANSACTION) {
        remarks.push(format!(
            "A transaction has been open for {} hours, which keeps the server from freeing dead rows. Find it in \
             pg_stat_activity or pg_prepared_xacts, and end it.",
            age.as_secs() / 3600
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy() -> Facts {
        Facts {
            is_encrypted: true,
            is_remote: true,
            is_standby: false,
            has_synchronous_commit: true,
            has_fsync: true,
            has_full_page_writes: true,
            has_autovacuum: true,
            without_autovacuum: Vec::new(),
            connections: 97,
            used_connections: 20,
            transaction_age: Some(Duration::from_secs(60)),
            missing_indexes: Vec::new(),
            invalid_indexes: Vec::new(),
            round_trip: Duration::from_millis(2),
        }
    }

    fn of(facts: &Facts, tables: &[TableInfo]) -> Vec<String> {
        remarks(&SchemaName::new("milepost"), facts, tables)
    }

    fn table(rows: u64, dead: u64, age: Option<u64>) -> TableInfo {
        let age = age.map(|hours| Duration::from_secs(hours * 3600));
        TableInfo::new("run".to_owned(), 8192).with_rows(rows, true).with_dead_rows(dead, age)
    }

    #[test]
    fn a_healthy_server_needs_no_remark() {
        let tables = [table(100, 900, None), table(10_000, 2_000, None), table(1, 5_000, Some(0))];
        assert_eq!(of(&healthy(), &tables), [] as [String; 0]);
    }

    #[test]
    fn every_problem_has_a_remark_of_its_own() {
        type Change = fn(&mut Facts);
        let cases: [(&str, Change); 10] = [
            ("fsync is off", |facts| facts.has_fsync = false),
            ("synchronous_commit is off", |facts| facts.has_synchronous_commit = false),
            ("full_page_writes is off", |facts| facts.has_full_page_writes = false),
            ("autovacuum is off, ", |facts| facts.has_autovacuum = false),
            ("autovacuum is off for the table frame", |facts| {
                facts.without_autovacuum.push("frame".to_owned())
            }),
            ("not encrypted", |facts| facts.is_encrypted = false),
            ("Only 4 of 97 connections", |facts| facts.used_connections = 93),
            ("open for 3 hours", |facts| facts.transaction_age = Some(Duration::from_secs(3 * 3600 + 5))),
            ("The index run_stamp is missing", |facts| facts.missing_indexes.push("run_stamp".to_owned())),
            ("takes 35 ms", |facts| facts.round_trip = Duration::from_millis(35)),
        ];
        for (expected, change) in cases {
            let mut facts = healthy();
            change(&mut facts);
            let found = of(&facts, &[]);
            assert!(matches!(&found[..], [one] if one.contains(expected)), "{expected}: {found:?}");
        }
        let mut invalid = healthy();
        invalid.invalid_indexes.push("run_stamp".to_owned());
        assert!(of(&invalid, &[])[0].ends_with("Run REINDEX INDEX \"milepost\".\"run_stamp\"."));
    }

    #[test]
    fn dead_rows_matter_if_they_are_many_and_old() {
        let found = of(&healthy(), &[table(3_000, 1_000, None), table(1_000, 3_000, Some(5))]);
        assert_eq!(
            found,
            [
                "25% of the rows in the table run are dead, and it was never vacuumed. \
                 Run VACUUM \"milepost\".run as its owner.",
                "75% of the rows in the table run are dead, and it was last vacuumed 5 hours ago. \
                 Run VACUUM \"milepost\".run as its owner.",
            ]
        );
        let standby = Facts { is_standby: true, ..healthy() };
        assert_eq!(of(&standby, &[table(0, 5_000, None)]), [] as [String; 0]);
    }
}
