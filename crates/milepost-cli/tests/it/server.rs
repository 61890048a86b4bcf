//! The PostgreSQL server of the tests: the one that `MILEPOST_TEST_POSTGRES` names, or a private cluster that all
//! tests share. Gives each test a store of its own. Prints what is skipped, even if the test's output is captured.

#[cfg(all(unix, feature = "postgres"))]
mod shared {
    use std::io::Write;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use milepost_testkit::postgres::{ClusterOptions, PrivateCluster, unless_skipped};

    fn cluster() -> Option<&'static PrivateCluster> {
        static CLUSTER: OnceLock<Option<PrivateCluster>> = OnceLock::new();
        let start = || {
            let started = unless_skipped(ClusterOptions::new().without_fsync().start());
            let print = |reason: &String| {
                let _ = writeln!(std::io::stderr(), "SKIPPED tests on PostgreSQL: {reason}");
            };
            started.inspect_err(print).ok()
        };
        CLUSTER.get_or_init(start).as_ref()
    }

    pub(crate) fn new_store() -> Option<String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (url, number) = (cluster()?.url("postgres"), NEXT.fetch_add(1, Ordering::Relaxed));
        let join = if url.contains('?') { '&' } else { '?' };
        Some(format!("{url}{join}schema=test_{}_{number}", std::process::id()))
    }

    pub(crate) fn password() -> Option<&'static str> {
        cluster()?.password().ok()
    }
}

#[cfg(not(all(unix, feature = "postgres")))]
mod shared {
    pub(crate) fn new_store() -> Option<String> {
        None
    }

    pub(crate) fn password() -> Option<&'static str> {
        None
    }
}

/// The address of a new store on the server, with the password; `None` if there is no server.
pub(crate) fn new_store() -> Option<String> {
    shared::new_store()
}

/// These addresses, and that of a new store on the server if there is one.
pub(crate) fn with_server_store<const N: usize>(addresses: [&str; N]) -> Vec<String> {
    addresses.into_iter().map(str::to_owned).chain(new_store()).collect()
}

/// The variables that make a new store on the server the default: none, unless `MILEPOST_TEST_STORE` is
/// `postgres`, as in `cargo xtask test --full`. The password is not in the address, because a command does not pass
/// it on to the commands that it runs.
#[allow(clippy::disallowed_methods, reason = "a setting of the test harness")]
pub(crate) fn default_store() -> Vec<(&'static str, String)> {
    let is_default = std::env::var("MILEPOST_TEST_STORE").is_ok_and(|kind| kind == "postgres");
    let Some(address) = is_default.then(new_store).flatten() else { return Vec::new() };
    let Some(password) = shared::password() else { return vec![("MILEPOST_STORE", address)] };
    let address = address.replacen(&format!(":{password}@"), "@", 1);
    vec![("MILEPOST_STORE", address), ("PGPASSWORD", password.to_owned())]
}
