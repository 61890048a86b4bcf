//! A private cluster, its standby and pgbouncer: started, crashed, stopped, and gone when the test process is.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use milepost_testkit::postgres::{ClusterOptions, Pgbouncer, PrivateCluster, ServerError, unless_skipped};

/// Set in the environment of the test process that is killed.
const CHILD: &str = "MILEPOST_TEST_KILLED_CHILD";

fn cluster(options: ClusterOptions) -> Option<PrivateCluster> {
    unless_skipped(options.start()).inspect_err(|reason| println!("{reason}")).ok()
}

fn wait_until(what: &str, is_done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_done() {
        assert!(Instant::now() < end, "{what}: not within 30 s");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs SQL through psql at a URL.
fn psql(url: &str, sql: &str) -> Result<String, String> {
    let output =
        Command::new("psql").args(["-XAtq", "-d", url, "-c", sql]).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

#[test]
fn a_cluster_survives_a_crash_and_a_stop_and_is_removed_at_the_end() {
    let Some(cluster) = cluster(ClusterOptions::new().tcp().setting("work_mem", "3MB")) else { return };
    let database = cluster.create_database().unwrap();
    assert_eq!(cluster.sql(&database, "SHOW work_mem").unwrap(), "3MB");
    assert_eq!(cluster.sql(&database, "SHOW fsync").unwrap(), "on");
    cluster.sql(&database, "CREATE TABLE t (n int); INSERT INTO t VALUES (1)").unwrap();
    cluster.restart_immediate().unwrap();
    assert_eq!(psql(&cluster.url(&database), "SELECT n FROM t").unwrap(), "1");
    let address = ([127, 0, 0, 1], cluster.port().unwrap()).into();
    assert_eq!(psql(&cluster.url_at(address, &database).unwrap(), "SELECT n FROM t").unwrap(), "1");
    cluster.stop().unwrap();
    assert!(matches!(cluster.sql(&database, "SELECT 1"), Err(ServerError::Failed(_))));
    cluster.start_again().unwrap();
    assert_eq!(cluster.sql(&database, "SELECT n FROM t").unwrap(), "1");
    assert!(cluster.log().unwrap().contains("database system is ready"));
    let wrong = cluster.url(&database).replace(cluster.password().unwrap(), "wrong");
    assert!(psql(&wrong, "SELECT 1").unwrap_err().contains("password authentication failed"));
    let folder = cluster.socket_folder().unwrap().to_owned();
    drop(cluster);
    assert!(!folder.exists());
    assert!(std::net::TcpStream::connect(address).is_err());
}

#[test]
fn a_standby_follows_and_can_be_promoted() {
    let Some(primary) = cluster(ClusterOptions::new().without_fsync().private_only()) else { return };
    let standby = primary.standby().unwrap();
    primary.sql("postgres", "CREATE TABLE t (n int)").unwrap();
    wait_until("the standby has the table", || standby.sql("postgres", "SELECT * FROM t").is_ok());
    let error = standby.sql("postgres", "INSERT INTO t VALUES (1)").unwrap_err().to_string();
    assert!(error.contains("read-only transaction"), "{error}");
    standby.promote().unwrap();
    standby.sql("postgres", "INSERT INTO t VALUES (1)").unwrap();
}

#[test]
fn pgbouncer_pools_by_transaction_and_accepts_every_role() {
    let Some(cluster) = cluster(ClusterOptions::new().without_fsync().private_only()) else { return };
    let Ok(pooler) = unless_skipped(Pgbouncer::start(&cluster)).inspect_err(|reason| println!("{reason}"))
    else {
        return;
    };
    let url = pooler.url("postgres");
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
    assert_eq!(
        psql(&pooler.url("pgbouncer"), "SHOW CONFIG").unwrap().lines().find(|l| l.starts_with("pool_mode|")),
        Some("pool_mode|transaction|session|yes")
    );
    cluster.sql("postgres", "CREATE ROLE guest LOGIN PASSWORD 'sesame'").unwrap();
    let guest = url.replace(&format!("postgres:{}@", cluster.password().unwrap()), "guest:sesame@");
    assert_eq!(psql(&guest, "SELECT current_user").unwrap(), "guest");
    assert!(psql(&guest.replace("sesame", "wrong"), "SELECT 1").is_err());
    pooler.stop().unwrap();
    assert!(psql(&url, "SELECT 1").is_err());
    pooler.start_again().unwrap();
    assert_eq!(psql(&url, "SELECT 1").unwrap(), "1");
}

#[test]
fn nothing_is_left_when_the_test_process_is_killed() {
    if std::env::var_os(CHILD).is_some() {
        let Some(cluster) = cluster(ClusterOptions::new().without_fsync().private_only()) else { return };
        let pooler = Pgbouncer::start(&cluster).unwrap();
        println!("\nserver:{}", cluster.socket_folder().unwrap().display());
        println!("process:{}", cluster.sql("postgres", "SELECT pg_backend_pid()").unwrap());
        println!("pooler:{}", pooler.url("postgres"));
        println!("ready:");
        std::thread::park();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "servers::nothing_is_left_when_the_test_process_is_killed", "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let lines: Vec<_> = lines.take_while(|line| line != "ready:").collect();
    let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    let Some(folder) = value("server:") else {
        println!("skipped: the child had no server");
        child.wait().unwrap();
        return;
    };
    let pooler = value("pooler:").unwrap();
    assert_eq!(psql(&pooler, "SELECT 1").unwrap(), "1");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the folder is removed", || !Path::new(&folder).exists());
    wait_until("the pooler stops", || psql(&pooler, "SELECT 1").is_err());
}

#[test]
fn a_database_of_its_own_is_empty_and_can_be_used() {
    // The only test here that also runs on an existing server.
    let Some(cluster) = cluster(ClusterOptions::new().without_fsync()) else { return };
    let (first, second) = (cluster.create_database().unwrap(), cluster.create_database().unwrap());
    assert_ne!(first, second);
    cluster.sql(&first, "CREATE TABLE t ()").unwrap();
    assert!(cluster.sql(&second, "SELECT * FROM t").is_err());
    assert_eq!(psql(&cluster.url(&first), "SELECT count(*) FROM t").unwrap(), "0");
}
