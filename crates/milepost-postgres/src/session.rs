//! One connection to a server, used synchronously. Takes typed statements and a deadline, and returns rows. Every
//! statement is one round trip without a named statement, so that it works behind a pooler in transaction mode.
//! Uses no session state, and never waits beyond the deadline, even if the network stops without an error.

use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::connection::{ConnectError, ServerWarnings, Settings, connect};
use crate::error::PostgresError;

/// Typed parameters of a statement. They are owned, so that a statement can be sent a second time.
#[derive(Default)]
pub(crate) struct Params(Vec<(Box<dyn ToSql + Sync + Send>, Type)>);

impl Params {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter and returns its placeholder.
    pub(crate) fn add(&mut self, value: impl ToSql + Sync + Send + 'static, kind: Type) -> String {
        self.0.push((Box::new(value), kind));
        format!("${}", self.0.len())
    }

    pub(crate) fn int(&mut self, value: impl Into<i64>) -> String {
        self.add(value.into(), Type::INT8)
    }

    pub(crate) fn text(&mut self, value: impl Into<String>) -> String {
        self.add(value.into(), Type::TEXT)
    }

    pub(crate) fn bytes(&mut self, value: impl Into<Vec<u8>>) -> String {
        self.add(value.into(), Type::BYTEA)
    }

    pub(crate) fn ints(&mut self, values: Vec<i64>) -> String {
        self.add(values, Type::INT8_ARRAY)
    }

    pub(crate) fn texts(&mut self, values: Vec<String>) -> String {
        self.add(values, Type::TEXT_ARRAY)
    }

    pub(crate) fn byte_arrays(&mut self, values: Vec<Vec<u8>>) -> String {
        self.add(values, Type::BYTEA_ARRAY)
    }
}

/// One column of new rows.
pub(crate) enum Column {
    Ints(Vec<i64>),
    Texts(Vec<String>),
    OptionalTexts(Vec<Option<String>>),
    Bytes(Vec<Vec<u8>>),
    OptionalBytes(Vec<Option<Vec<u8>>>),
}

impl Params {
    /// Adds rows, given by their columns, and returns the table expression that lists them. The server plans a single
    /// row faster without an array.
    pub(crate) fn rows(&mut self, columns: Vec<Column>) -> String {
        let is_single = columns.iter().all(|column| match column {
            Column::Ints(values) => values.len() == 1,
            Column::Texts(values) => values.len() == 1,
            Column::OptionalTexts(values) => values.len() == 1,
            Column::Bytes(values) => values.len() == 1,
            Column::OptionalBytes(values) => values.len() == 1,
        });
        let placeholders: Vec<String> = columns
            .into_iter()
            .map(|column| match (is_single, column) {
                (true, Column::Ints(mut values)) => self.add(values.pop(), Type::INT8),
                (true, Column::Texts(mut values)) => self.add(values.pop(), Type::TEXT),
                (true, Column::OptionalTexts(mut values)) => self.add(values.pop().flatten(), Type::TEXT),
                (true, Column::Bytes(mut values)) => self.add(values.pop(), Type::BYTEA),
                (true, Column::OptionalBytes(mut values)) => self.add(values.pop().flatten(), Type::BYTEA),
                (false, Column::Ints(values)) => self.ints(values),
                (false, Column::Texts(values)) => self.texts(values),
                (false, Column::OptionalTexts(values)) => self.add(values, Type::TEXT_ARRAY),
                (false, Column::Bytes(values)) => self.byte_arrays(values),
                (false, Column::OptionalBytes(values)) => self.add(values, Type::BYTEA_ARRAY),
            })
            .collect();
        let list = placeholders.join(", ");
        if is_single { format!("(SELECT {list})") } else { format!("unnest({list})") }
    }
}

/// A connection with its own small runtime.
pub(crate) struct Session {
    client: Client,
    warnings: ServerWarnings,
    /// The limit of every statement, which the client enforces because poolers do not pass it on.
    statement_timeout: Duration,
    /// `None` only while the session is dropped.
    runtime: Option<Runtime>,
}

impl Session {
    pub(crate) fn connect(settings: &Settings, deadline: Instant) -> Result<Self, PostgresError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| ConnectError::Other {
            address: settings.address(),
            code: None,
            message: format!("cannot start a runtime: {e}"),
        })?;
        let statement_timeout = settings.statement_timeout().unwrap_or(Duration::MAX);
        match runtime.block_on(connect(settings, deadline)) {
            Ok((client, warnings)) => {
                Ok(Self { client, warnings, statement_timeout, runtime: Some(runtime) })
            }
            Err(e) => {
                // The resolver may still wait for an answer.
                runtime.shutdown_background();
                Err(e.into())
            }
        }
    }

    /// Runs a statement and returns its rows. The time limit applies to each wait for the next row, so that a long
    /// result can be read.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        params: &Params,
        patience: Duration,
    ) -> Result<Vec<Row>, PostgresError> {
        let [rows] = self.query_all([(sql, params)], patience)?;
        Ok(rows)
    }

    /// Runs independent statements in one round trip, each in a transaction of its own.
    pub(crate) fn query_all<const N: usize>(
        &mut self,
        statements: [(&str, &Params); N],
        patience: Duration,
    ) -> Result<[Vec<Row>; N], PostgresError> {
        let patience = patience.min(self.statement_timeout);
        let Some(runtime) = &self.runtime else {
            return Err(PostgresError::Lost { message: "the session is closed".to_owned() });
        };
        // The driver sends all of them before it waits for the first reply.
        let replies = statements.map(|(sql, params)| query(&self.client, sql, params, patience));
        let replies = runtime.block_on(join_all(replies)).into_iter().collect::<Result<Vec<_>, _>>()?;
        replies.try_into().map_err(|_| PostgresError::Lost { message: "a reply is missing".to_owned() })
    }

    /// Runs statements without parameters by the simple protocol.
    pub(crate) fn batch(&mut self, sql: &str, patience: Duration) -> Result<(), PostgresError> {
        let (started, patience) = (Instant::now(), patience.min(self.statement_timeout));
        let Some(runtime) = &self.runtime else {
            return Err(PostgresError::Lost { message: "the session is closed".to_owned() });
        };
        let sent =
            runtime.block_on(async { tokio::time::timeout(patience, self.client.batch_execute(sql)).await });
        match sent {
            Ok(done) => done.map_err(|e| PostgresError::of_statement(&e)),
            Err(_) => Err(PostgresError::TimedOut { waited: started.elapsed() }),
        }
    }

    /// Whether the server has warned since the last call. No statement of a commit causes a warning. A warning during
    /// a commit means that a wait for a synchronous standby was cancelled: the commit may be missing there. The server
    /// also warns about its own shutdown, which says nothing about the commit.
    pub(crate) fn take_warning(&self) -> bool {
        self.warnings.take().iter().any(|warning| !warning.code().starts_with("57P"))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

async fn query(
    client: &Client,
    sql: &str,
    params: &Params,
    patience: Duration,
) -> Result<Vec<Row>, PostgresError> {
    let started = Instant::now();
    let timed_out = |_| PostgresError::TimedOut { waited: started.elapsed() };
    let failed = |e: tokio_postgres::Error| PostgresError::of_statement(&e);
    let params = params.0.iter().map(|(value, kind)| (&**value as &(dyn ToSql + Sync), kind.clone()));
    let params: Vec<(&(dyn ToSql + Sync), Type)> = params.collect();
    let sent = tokio::time::timeout(patience, client.query_typed_raw(sql, params));
    let mut stream = Box::pin(sent.await.map_err(timed_out)?.map_err(failed)?);
    let mut rows = Vec::new();
    while let Some(row) = tokio::time::timeout(patience, stream.next()).await.map_err(timed_out)? {
        rows.push(row.map_err(failed)?);
    }
    Ok(rows)
}

impl Drop for Session {
    /// Does not wait for anything, so that a session can be dropped anywhere.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
