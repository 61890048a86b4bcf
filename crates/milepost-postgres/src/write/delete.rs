//! Deletes a run and everything in it, by one statement.

use milepost::model::RunId;
use milepost::store::StoreError;

use crate::decode::integer;
use crate::session::Params;
use crate::store::PostgresStore;

/// Deletes a run and everything in it.
pub(crate) fn delete_run(
    store: &PostgresStore,
    run: &RunId,
    only_at: Option<u64>,
) -> Result<bool, StoreError> {
    store.check_writable()?;
    let mut deadline = store.deadline();
    store.prepare_schema(&mut deadline)?;
    let mut sent_before = false;
    let deleted = store.run_work(&mut deadline, |session, deadline| {
        let mut params = Params::new();
        let id = params.text(run.as_str());
        let only = match only_at {
            Some(stamp) => format!("AND stamp = {}", params.int(integer(stamp))),
            None => String::new(),
        };
        let sql =
            store.schema().fill(&format!("DELETE FROM {{s}}.run WHERE run_id = {id} {only} RETURNING n"));
        let was_sent = std::mem::replace(&mut sent_before, true);
        let deleted = !session.query(&sql, &params, deadline.left())?.is_empty();
        Ok((deleted, was_sent))
    });
    match deleted {
        // If the reply to an earlier attempt was lost, that one may have deleted the run.
        Ok((false, true)) => match store.run_row(run) {
            Ok(None) => Ok(true),
            _ => Ok(false),
        },
        Ok((deleted, _)) => Ok(deleted),
        Err(e) => Err(store.after_write(e, sent_before)),
    }
}
