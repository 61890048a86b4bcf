//! The conformance suite, unchanged: directly on the server, and through pgbouncer in transaction mode. Each test
//! has a schema of its own.

use milepost::store::Store;

use crate::servers;

type Open = Box<dyn Fn() -> Box<dyn Store>>;

fn stores_at(url: &str) -> Open {
    let settings = servers::new_schema(url);
    Box::new(move || Box::new(servers::open(&settings)))
}

fn direct() -> Option<Open> {
    Some(stores_at(&servers::shared()?.url("postgres")))
}

fn pooled() -> Option<Open> {
    Some(stores_at(&servers::pooler()?.url("postgres")))
}

mod on_the_server {
    use super::*;
    milepost_testkit::conformance!(optional direct);
}

mod through_a_pooler {
    use super::*;
    milepost_testkit::conformance!(optional pooled);
}
