//! The results of `store`: the store that was created, the statements that create it, or its size and health.

use std::fmt::Write as _;

use milepost::Waiting;
use milepost::store::{ServerInfo, StoreInfo};
use serde::Serialize;

use super::format::{self, bold, bytes, clean, counted};
use super::table::{Column, Table, cell};
use super::{Document, Output};
use crate::error::Result;

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum StoreDocument {
    Created(StoreCreated),
    Info(StoreInfoDocument),
    #[cfg(feature = "postgres")]
    Statements(Statements),
}

/// A store that exists now.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.store/1")]
pub(crate) struct StoreCreated {
    pub(crate) store: String,
    pub(crate) warning: Option<String>,
}

/// The SQL statements that create a store.
#[cfg(feature = "postgres")]
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.store/1")]
pub(crate) struct Statements {
    pub(crate) sql: String,
}

/// Size and health of a store.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.store/1")]
pub(crate) struct StoreInfoDocument {
    store: String,
    bytes: u64,
    warning: Option<String>,
    /// What the store's server says about itself; `None` for a store on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<ServerInfo>,
    /// Number of runs that wait on this machine to be sent to the server.
    waiting: u64,
}

impl StoreInfoDocument {
    pub(crate) fn new(info: &StoreInfo, waiting: &Waiting) -> Self {
        Self {
            store: info.url().clone(),
            bytes: info.bytes(),
            warning: info.warning().clone(),
            server: info.server().clone(),
            waiting: waiting.runs().len() as u64,
        }
    }

    fn text(&self, output: &Output) -> String {
        let mut text = format!("{}    {} ({})\n", bold("Store"), clean(&self.store), bytes(self.bytes));
        if let Some(server) = &self.server {
            let kind = if server.standby() { ", a standby" } else { "" };
            let _ =
                writeln!(text, "{}   PostgreSQL {}{kind}", bold("Server"), clean(server.server_version()));
            let encrypted = if server.encrypted() { "encrypted" } else { "not encrypted" };
            let round_trip = server.round_trip().as_secs_f64() * 1000.0;
            let _ = writeln!(
                text,
                "         as {}, {encrypted}, {round_trip:.1} ms for a round trip",
                clean(server.user())
            );
            let (id, version) = (clean(server.store_id()), server.schema_version());
            let _ = writeln!(text, "         store id {id}, schema version {version}\n");
            text.push_str(&tables(server, output));
        }
        if self.waiting > 0 {
            let n = counted(self.waiting, "run");
            let _ = writeln!(text, "{}  {n} on this machine; `milepost sync` sends them", bold("Waiting"));
        }
        let remarks = self.server.iter().flat_map(|server| server.remarks());
        for remark in self.warning.iter().chain(remarks) {
            let remark = format::wrap(&clean(remark), 9, output.width());
            let _ = writeln!(text, "{}  {remark}", format::yellow("Warning"));
        }
        text
    }
}

/// The tables of a store on a server, largest first.
fn tables(server: &ServerInfo, output: &Output) -> String {
    let columns = [
        Column::new("TABLE"),
        Column::new("ROWS").right(),
        Column::new("SIZE").right(),
        Column::new("DEAD").right(),
    ];
    let mut rows = Table::new(output, &columns);
    for table in server.tables() {
        let about = if table.estimated() { "~" } else { "" };
        rows.add_row([
            cell(table.name()),
            cell(format!("{about}{}", format::count(table.rows()))),
            cell(bytes(table.bytes())),
            cell(format::count(table.dead_rows())),
        ]);
    }
    rows.lines()
}

impl Document for StoreDocument {
    fn render(&self, output: &Output) -> Result<()> {
        match self {
            Self::Created(StoreCreated { store, warning }) => {
                if let Some(warning) = warning {
                    output.message(&format!("Warning: {warning}"));
                }
                output.write_text(&format!("{} is ready\n", clean(store)))
            }
            Self::Info(info) => output.write_text(&info.text(output)),
            #[cfg(feature = "postgres")]
            Self::Statements(statements) => output.write_text(&statements.sql),
        }
    }

    fn change(&self) -> Option<String> {
        match self {
            Self::Created(created) => Some(format!("{} is ready", created.store)),
            Self::Info(_) => None,
            #[cfg(feature = "postgres")]
            Self::Statements(_) => None,
        }
    }
}
