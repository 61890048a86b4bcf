//! Reads one document with all frames of its chain, in one statement.

use milepost::model::RunId;
use milepost::store::StoreError;
use tokio_postgres::Row as SqlRow;

use crate::decode::{column, integer};
use crate::frames::{self, FRAME};
use crate::pool::Failed;
use crate::session::Params;
use crate::store::PostgresStore;

/// Selects a document's frames. The parameters are the run's id and the sequence number.
pub(crate) fn select(run: &str, sequence: &str) -> String {
    format!(
        "SELECT r.n AS r_n, c.sequence AS c_sequence, {FRAME} FROM {{s}}.run r \
         LEFT JOIN {{s}}.checkpoint c ON c.run_n = r.n AND c.sequence = {sequence} \
         LEFT JOIN {{s}}.frame f ON f.run_n = c.run_n AND f.first = c.first AND f.sequence <= c.sequence \
         WHERE r.run_id = {run} ORDER BY f.sequence"
    )
}

pub(crate) fn body(store: &PostgresStore, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
    let mut params = Params::new();
    let (id, at) = (params.text(run.as_str()), params.int(integer(sequence)));
    let sql = store.schema().fill(&select(&id, &at));
    store.read(|session, deadline| {
        let rows = session.query(&sql, &params, deadline.left())?;
        let Some(first) = rows.first() else {
            return Err(Failed::Final(StoreError::NoRun(run.clone())));
        };
        if column::<Option<i64>>(first, "c_sequence")?.is_none() {
            return Err(Failed::Final(StoreError::NoCheckpoint(run.clone(), sequence)));
        }
        let n: i64 = column(first, "r_n")?;
        let has_frame = |row: &SqlRow| row.get::<_, Option<i64>>("f_sequence").is_some();
        let chain: Vec<SqlRow> = rows.into_iter().filter(has_frame).collect();
        let last = chain.last().map(|row| column::<i64>(row, "f_sequence")).transpose()?;
        let chain = if last == Some(integer(sequence)) { chain } else { Vec::new() };
        frames::unpack(n, &chain)?
            .map_err(|damage| Failed::Final(damage.at(Some(run), Some(sequence)).into()))
    })
}
