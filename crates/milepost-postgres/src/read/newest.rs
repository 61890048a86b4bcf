//! Lists the newest checkpoints of a project, at a cost that does not depend on the number of other projects, runs
//! and checkpoints. Reads headers only.
//!
//! No checkpoint has a higher stamp than its run. The project's runs are therefore read in the order of their stamps,
//! through an index, with the newest checkpoints of each. The list is complete as soon as its last checkpoint is newer
//! than the next run.

use milepost::store::{CheckpointFilter, HeaderQuery, Row, StoreError};

use crate::decode::{self, ENTRY, WITH_MARKS, column, integer};
use crate::error::PostgresError;
use crate::session::Params;
use crate::store::PostgresStore;

/// Least and largest number of runs that the first statement reads.
const FIRST_RUNS: (usize, usize) = (16, 256);

/// Whether a query asks for the newest checkpoints of all runs.
pub(super) fn applies_to(query: &HeaderQuery<'_>) -> bool {
    query.run.is_none() && query.after.is_none() && query.limit > 0 && query.find == CheckpointFilter::All
}

/// Selects the newest checkpoints of the project's newest runs, and the stamp of the next run. There is at least one
/// row, so that the stamp is there even if the runs have no checkpoints.
fn select(project: &str, runs: usize, limit: &str) -> String {
    format!(
        "WITH page AS MATERIALIZED (SELECT r.n, r.stamp FROM {{s}}.run r WHERE r.project = {project} \
         ORDER BY r.stamp DESC LIMIT {runs} + 1), \
         newest AS MATERIALIZED (SELECT k.* FROM (SELECT n FROM page ORDER BY stamp DESC LIMIT {runs}) r \
         CROSS JOIN LATERAL (SELECT c.run_n, c.sequence, c.stamp FROM {{s}}.checkpoint c WHERE c.run_n = r.n \
         ORDER BY c.sequence DESC LIMIT {limit}) k ORDER BY k.stamp DESC LIMIT {limit}) \
         SELECT (SELECT stamp FROM page ORDER BY stamp DESC OFFSET {runs}) AS next_run, {ENTRY} \
         FROM (VALUES (1)) one LEFT JOIN (newest JOIN {{s}}.checkpoint c ON c.run_n = newest.run_n \
         AND c.sequence = newest.sequence) ON true {WITH_MARKS} ORDER BY c.stamp DESC"
    )
}

pub(super) fn headers(store: &PostgresStore, project: &str, limit: usize) -> Result<Vec<Row>, StoreError> {
    store.read(|session, deadline| {
        let mut runs = limit.clamp(FIRST_RUNS.0, FIRST_RUNS.1);
        loop {
            let mut params = Params::new();
            let (project, most) = (params.text(project), params.int(integer(limit as u64)));
            let sql = store.schema().fill(&select(&project, runs, &most));
            let rows = session.query(&sql, &params, deadline.left())?;
            let stamps = rows.iter().map(|row| column::<Option<i64>>(row, "c_stamp"));
            let last = stamps.collect::<Result<Option<Vec<_>>, _>>()?.filter(|stamps| stamps.len() >= limit);
            let last = last.and_then(|stamps| stamps.last().copied());
            let next_run =
                rows.first().map(|row| column::<Option<i64>>(row, "next_run")).transpose()?.flatten();
            // The list comes from one statement, so that a run that is written meanwhile cannot be missing.
            if next_run.is_none_or(|next_run| last.is_some_and(|last| last > next_run)) {
                let found = rows.iter().filter(|row| row.get::<_, Option<i64>>("c_stamp").is_some());
                return Ok(found.map(decode::entry).collect::<Result<Vec<_>, PostgresError>>()?);
            }
            runs = runs.saturating_mul(8);
        }
    })
}
