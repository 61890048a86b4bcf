//! A plain connection for tests that look at the tables, change them, or hold locks.

use std::time::{Duration, Instant};

use milepost_postgres::connection::{Settings, connect};
use tokio::runtime::Runtime;
use tokio_postgres::Client;

pub(crate) struct Sql {
    runtime: Runtime,
    client: Client,
    schema: String,
}

impl Sql {
    /// Connects to the server of a store.
    pub(crate) fn connect(settings: &Settings) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        let (client, _) = runtime.block_on(connect(settings, deadline)).unwrap();
        Self { runtime, client, schema: settings.schema().to_owned() }
    }

    /// Runs statements; `{s}` stands for the schema.
    pub(crate) fn run(&self, sql: &str) {
        let sql = sql.replace("{s}", &self.schema);
        self.runtime.block_on(self.client.batch_execute(&sql)).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    /// The error code of statements that the server refuses; `None` if it runs them.
    pub(crate) fn refusal(&self, sql: &str) -> Option<String> {
        let sql = sql.replace("{s}", &self.schema);
        let result = self.runtime.block_on(self.client.batch_execute(&sql));
        result.err().map(|e| e.code().map_or_else(|| e.to_string(), |code| code.code().to_owned()))
    }

    /// A number that a statement returns.
    pub(crate) fn number(&self, sql: &str) -> i64 {
        let sql = sql.replace("{s}", &self.schema);
        let row = self
            .runtime
            .block_on(self.client.query_one(&sql, &[]))
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        row.get(0)
    }
}
