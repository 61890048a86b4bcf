//! The rights of an application role: the printed script grants exactly those that the store needs, and a role
//! without the right to create the store is told what to do.

use std::error::Error;

use milepost::model::BlobId;
use milepost::store::{
    CheckpointFilter, Commit, EventQuery, HeaderQuery, LiveBlobs, Maintenance, OpenOptions, RunQuery,
    RunView, ServerProblem, Store, StoreError, ThreadFilter, WriteDecision,
};
use milepost_postgres::PostgresStore;
use milepost_postgres::connection::Settings;
use milepost_testkit::{TestCheckpoint, conformance, fixtures, rng};

use crate::servers::{self, TestSchema};
use crate::sql::Sql;

/// A store that an administrator created with the printed script, and the settings of a role with the granted rights.
fn granted(name: &str) -> Option<(TestSchema, Settings)> {
    let cluster = servers::private()?;
    let schema = servers::new_schema(&cluster.url("postgres"));
    let role = format!("{name}_{}", schema.schema());
    let as_role = servers::new_role(cluster, &schema, &role);
    let script = PostgresStore::create_statements(&schema, Some(&role));
    for _ in 0..2 {
        cluster.sql("postgres", &script).unwrap();
    }
    Some((schema, as_role))
}

#[test]
fn the_granted_rights_are_sufficient() {
    let Some((_schema, as_role)) = granted("sufficient") else { return };
    conformance::all(&|| Box::new(servers::open(&as_role)));
    let store = servers::open_project(&as_role, "p");
    conformance::blobs::collection_removes_what_is_not_kept(&store);
    conformance::blobs::roots_are_set_by_commits(&store);
    conformance::listing::headers_across_runs(&store);
}

#[test]
fn an_application_role_cannot_change_tables() {
    let Some((_schema, as_role)) = granted("plain") else { return };
    let sql = Sql::connect(&as_role);
    for statement in [
        "CREATE TABLE {s}.mine (n int)",
        "CREATE SCHEMA mine",
        "DROP TABLE {s}.item",
        "TRUNCATE {s}.item",
        "ALTER TABLE {s}.item ADD COLUMN mine int",
        "CREATE INDEX mine ON {s}.item (n)",
        "DROP SCHEMA {s} CASCADE",
        "UPDATE {s}.meta SET version = 2",
        "UPDATE {s}.message SET message = ''",
        "DELETE FROM {s}.message",
    ] {
        assert_eq!(sql.refusal(statement).as_deref(), Some("42501"), "{statement}");
    }
}

fn commit(
    store: &dyn Store,
    run: &str,
    fill: &mut dyn FnMut(&RunView, &mut Commit),
) -> Result<(), StoreError> {
    let run = fixtures::run_id(run);
    let written = store.write(&run, &mut |view| {
        if view.details.is_none() {
            return WriteDecision::NeedDetails;
        }
        let mut commit = Commit::new(fixtures::next_record(&run, view));
        fill(view, &mut commit);
        WriteDecision::Commit(Box::new(commit))
    });
    written.map(drop)
}

/// Uses every kind of statement of the store. Each label has its own run.
fn use_everything(store: &dyn Store, administrator: &Sql, label: &str) -> Result<(), StoreError> {
    let (name, tag, content) = (format!("run-{label}"), format!("tag-{label}"), format!("blob-{label}"));
    let (run, blob) = (fixtures::run_id(&name), BlobId::of(content.as_bytes()));
    store.put_blobs(&[content.as_bytes()])?;
    let events = |commit: &mut Commit| commit.events.extend((0..1000).map(|n| fixtures::event(&run, n)));
    commit(store, &name, &mut |view, commit| {
        let mut slot = view.slot.clone();
        for n in 0..8 {
            let state = rng::edited(&rng::text(6000, 1), 5, n);
            let doc = TestCheckpoint::new(&run, n).state(state);
            commit.puts.push(doc.thread(fixtures::position("", &n.to_string())).seal(&slot));
            slot = slot.next();
        }
        commit.marks.push((view.slot.sequence(), fixtures::tagged(1, &[&tag])));
        commit.new_names.push(tag.clone());
        commit.push.push(fixtures::item("item"));
        commit.messages.push(fixtures::message("message"));
        commit.attachments.push(fixtures::attachment("cp", "task", 0, "value"));
        commit.blobs.push(blob);
        commit.roots.push((format!("root-{label}"), blob));
        events(commit);
    })?;
    commit(store, &name, &mut |_, commit| {
        commit.marks.push((1, fixtures::tagged(2, &[])));
        commit.consume = 1;
        commit.attachments.push(fixtures::attachment("cp", "task", 0, "another").replacing());
        events(commit);
    })?;
    commit(store, &name, &mut |_, commit| {
        commit.drops.extend([3, 5]);
        let id = TestCheckpoint::new(&run, 2).snapshot_id().to_string();
        commit.attachments.push(fixtures::attachment(&id, "task", 0, "value"));
    })?;
    store.run(&run)?;
    store.runs(&RunQuery::default())?;
    store.headers(&HeaderQuery::default().limit(5))?;
    store.headers(&HeaderQuery::default().find(CheckpointFilter::Thread(ThreadFilter::default())))?;
    store.body(&run, 8)?;
    store.events(&EventQuery::default())?;
    store.messages(&run)?;
    store.attachments(&run, None)?;
    store.retention_entries(&run, None)?;
    store.blob(&blob)?;
    store.blob_bytes()?;
    store.blob_roots()?;
    store.detailed_info()?;
    store.maintain(Maintenance::Compact)?;
    store.body(&run, 8)?;
    administrator.run("SELECT setval('{s}.stamp', 4096)");
    assert_eq!(store.maintain(Maintenance::Repair)?.done, 1, "the sequence is advanced");
    let mut live = LiveBlobs::default();
    live.drop_roots.push(format!("root-{label}"));
    store.collect_blobs(&mut || Ok(live.clone()))?;
    // One of every 64 commits removes old rows of the log.
    for _ in 0..64 {
        commit(store, "log", &mut |_, _| {})?;
    }
    store.delete_run(&run, None)?;
    Ok(())
}

/// The rights in the script: the object, and one right.
fn rights_in(script: &str) -> Vec<(String, String)> {
    let grants = script.lines().filter_map(|line| line.strip_prefix("GRANT "));
    let split = grants.flat_map(|grant| {
        let (rights, rest) = grant.split_once(" ON ").unwrap();
        let object = rest.split_once(" TO ").unwrap().0.to_owned();
        rights.split(", ").map(move |right| (object.clone(), right.to_owned())).collect::<Vec<_>>()
    });
    split.collect()
}

#[test]
fn every_granted_right_is_needed() {
    let Some((schema, as_role)) = granted("needed") else { return };
    let administrator = Sql::connect(&schema);
    let open = || PostgresStore::open(&as_role, &OpenOptions::new());
    for label in ["first", "second"] {
        use_everything(&open(), &administrator, label).unwrap();
    }
    let role = format!("needed_{}", schema.schema());
    let rights = rights_in(&PostgresStore::create_statements(&schema, Some(&role)));
    assert_eq!(rights.len(), 46, "{rights:?}");
    let mut unneeded = Vec::new();
    for (n, (object, right)) in rights.iter().enumerate() {
        administrator.run(&format!("REVOKE {right} ON {object} FROM \"{role}\""));
        match use_everything(&open(), &administrator, &n.to_string()) {
            Ok(()) => unneeded.push(format!("{right} ON {object}")),
            Err(e) => {
                let cause = e.source().map(ToString::to_string).unwrap_or_default();
                assert!(cause.contains("permission denied"), "without {right} ON {object}: {e:?}");
            }
        }
        administrator.run(&format!("GRANT {right} ON {object} TO \"{role}\""));
    }
    assert_eq!(unneeded, [] as [String; 0]);
}

#[test]
fn a_role_that_may_not_create_the_store_is_told_what_to_do() {
    let Some(cluster) = servers::private() else { return };
    let schema = servers::new_schema(&cluster.url("postgres"));
    let as_role = servers::new_role(cluster, &schema, &format!("helpless_{}", schema.schema()));
    let check = |result: Result<(), StoreError>| {
        let error = result.unwrap_err();
        let StoreError::Server { problem: ServerProblem::MissingRights, source, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(source.to_string().contains("`milepost store init --print`"), "{source}");
    };
    check(servers::open(&as_role).create());
    check(servers::open(&as_role).runs(&RunQuery::default()).map(drop));
    check(commit(&servers::open(&as_role), "none", &mut |_, _| {}));
    // Without the option to create the store, it is merely missing.
    let existing = PostgresStore::open(&as_role, &OpenOptions::new()).runs(&RunQuery::default());
    assert!(matches!(existing, Err(StoreError::Missing { .. })), "{existing:?}");
    // An empty schema that the role may use changes nothing.
    let role = format!("helpless_{}", schema.schema());
    Sql::connect(&schema).run(&format!("CREATE SCHEMA {{s}}; GRANT USAGE ON SCHEMA {{s}} TO {role}"));
    check(servers::open(&as_role).create());
}
