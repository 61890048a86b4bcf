//! What a store on a server says about its server: facts, sizes, and remarks about what is slow or unsafe.

use std::thread;
use std::time::{Duration, Instant};

use milepost::store::{ServerInfo, Store, StoreInfo};
use milepost_postgres::PostgresStore;
use milepost_testkit::Oracle;
use milepost_testkit::postgres::{ClusterOptions, unless_skipped};

use crate::servers;
use crate::sql::Sql;

fn server_info(store: &PostgresStore) -> ServerInfo {
    let info: StoreInfo = store.detailed_info().unwrap();
    assert_eq!(info.url(), store.info().unwrap().url());
    info.server().clone().unwrap()
}

fn has_remark(store: &PostgresStore, part: &str) -> bool {
    server_info(store).remarks().iter().any(|remark| remark.contains(part))
}

#[test]
fn facts_about_the_server_and_the_tables() {
    let Some(server) = servers::shared() else { return };
    let settings = servers::new_schema(&server.url("postgres"));
    let store = servers::open(&settings);
    for n in 0..3 {
        Oracle::begin(&store, &format!("info-{n}")).put_many(4);
    }
    store.put_blobs(&[b"one", b"two"]).unwrap();
    assert_eq!(store.info().unwrap().server(), &None, "the plain information stays cheap");
    let info = server_info(&store);
    assert_eq!(info.store_id(), &store.store_id().unwrap());
    assert_eq!(info.schema_version(), 1);
    assert!(info.server_version().starts_with(|c: char| c.is_ascii_digit()), "{}", info.server_version());
    assert_eq!(Some(info.user()), store.current_user().unwrap().as_ref());
    assert!(!info.standby());
    assert!(info.round_trip() > Duration::ZERO && info.round_trip() < Duration::from_secs(5));
    assert_eq!(info.tables().len(), 14);
    assert!(info.tables().iter().all(|table| table.bytes() > 0));
    assert!(info.tables().is_sorted_by_key(|table| std::cmp::Reverse(table.bytes())));
    let rows = |name: &str| info.table(name).map(|table| (table.rows(), table.estimated())).unwrap();
    assert_eq!((rows("run"), rows("checkpoint"), rows("blob")), ((3, false), (12, false), (2, false)));
    let sum: u64 = info.tables().iter().map(|table| table.bytes()).sum();
    assert_eq!(sum, store.info().unwrap().bytes());
}

#[test]
fn remarks_name_what_is_slow_or_unsafe() {
    let Some(cluster) = servers::private() else { return };
    let settings = servers::new_schema(&cluster.url("postgres"));
    let store = servers::open(&settings);
    store.create().unwrap();
    let sql = Sql::connect(&settings);
    assert_eq!(server_info(&store).remarks().len(), 1, "{:?}", server_info(&store).remarks());
    assert!(has_remark(&store, "fsync is off"), "the servers of tests run without it");
    let option = format!("schema={}&options=-csynchronous_commit%3Doff", settings.schema());
    let unsafe_settings = servers::settings(&cluster.url("postgres"), &option);
    assert!(has_remark(&servers::open(&unsafe_settings), "synchronous_commit is off"));
    // The printed script adds a missing index.
    sql.run("DROP INDEX {s}.run_project");
    assert!(has_remark(&store, "The index run_project is missing"));
    sql.run(&PostgresStore::create_statements(&settings, None));
    assert!(!has_remark(&store, "run_project"));
    let index = "(SELECT '{s}.run_stamp'::regclass)";
    sql.run(&format!("UPDATE pg_index SET indisvalid = false WHERE indexrelid = {index}"));
    assert!(has_remark(&store, "The index run_stamp is invalid"));
    sql.run("REINDEX INDEX {s}.run_stamp");
    assert!(!has_remark(&store, "run_stamp"));
    // Dead rows that nobody frees.
    Oracle::begin(&store, "dead").put_many(1);
    sql.run("ALTER TABLE {s}.message SET (autovacuum_enabled = false)");
    assert!(has_remark(&store, "autovacuum is off for the table message"));
    sql.run(
        "INSERT INTO {s}.message SELECT r.n, i, '', '' FROM {s}.run r, generate_series(1, 3000) i; \
         DELETE FROM {s}.message WHERE n > 500",
    );
    drop(sql);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !has_remark(&store, "of the rows in the table message are dead, and it was never vacuumed") {
        assert!(Instant::now() < deadline, "{:?}", server_info(&store));
        thread::sleep(Duration::from_millis(100));
    }
    Sql::connect(&settings).run("VACUUM {s}.message");
    assert!(!has_remark(&store, "are dead"));
}

#[test]
fn encrypted_connections_and_standbys_are_recognised() {
    let certificate = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let options = ClusterOptions::new()
        .without_fsync()
        .private_only()
        .tcp()
        .file("server.crt", &certificate.cert.pem())
        .file("server.key", &certificate.signing_key.serialize_pem())
        .setting("ssl", "on")
        .setting("max_connections", "12");
    let Ok(cluster) = unless_skipped(options.start()) else { return };
    let address = format!("127.0.0.1:{}", cluster.port().unwrap()).parse().unwrap();
    let url = cluster.url_at(address, "postgres").unwrap();
    let settings = servers::new_schema(&url);
    let store = servers::open(&settings);
    store.create().unwrap();
    assert!(server_info(&store).encrypted());
    let plain = servers::settings(&url, &format!("schema={}&sslmode=disable", settings.schema()));
    assert!(!server_info(&servers::open(&plain)).encrypted());
    assert!(!has_remark(&servers::open(&plain), "not encrypted"), "the client is on the same machine");
    let sessions: Vec<_> = (0..5).map(|_| Sql::connect(&settings)).collect();
    let deadline = Instant::now() + Duration::from_secs(10);
    while !has_remark(&store, "connections are left") {
        assert!(Instant::now() < deadline, "{:?}", server_info(&store));
        thread::sleep(Duration::from_millis(100));
    }
    drop(sessions);
    let standby = cluster.standby().unwrap();
    let on_standby = servers::settings(&standby.url("postgres"), &format!("schema={}", settings.schema()));
    let info = server_info(&servers::open(&on_standby));
    assert!(info.standby());
    assert_eq!(info.store_id(), &store.store_id().unwrap());
}
