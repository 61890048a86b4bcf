//! One try to write that holds the lock of the run's row from reading to committing. Used after several tries
//! without a lock were lost to other writers.

use milepost::model::RunId;
use milepost::store::{Decide, StoreError};

use super::reply::{after_lost_commit, outcome};
use super::{Prepared, Try, prepare, remember, try_once};
use crate::error::PostgresError;
use crate::lookup::Detail;
use crate::pool::{Deadline, Failed};
use crate::session::{Params, Session};
use crate::store::PostgresStore;

/// One try that holds the lock of the run's row from reading to committing, so that no other writer can be
/// faster. A run that does not exist has no row to lock.
pub(super) fn try_locked(
    store: &PostgresStore,
    run: &RunId,
    decide: &mut Decide<'_>,
    detail: Detail,
    deadline: &mut Deadline,
) -> Result<Try, StoreError> {
    let mut session = store.pool().take(deadline).map_err(|e| store.write_error(e))?;
    let locked = lock(store, &mut session, run, deadline);
    let prepared = match locked {
        Ok(false) => {
            let _ = session.batch("ROLLBACK", deadline.left());
            drop(session);
            return try_once(store, run, decide, detail, deadline);
        }
        Ok(true) => prepare(store, &mut session, run, decide, detail, deadline),
        Err(e) => Err(Failed::Statement(e)),
    };
    // Dropping the session ends its transaction.
    let (statement, after) = match prepared {
        Ok(Prepared::Commit(statement, after)) => (statement, after),
        Ok(Prepared::Unchanged) => return Ok(Try::Done),
        Ok(Prepared::Outdated) => return Ok(Try::Lost),
        Err(Failed::Final(e)) => return Err(e),
        Err(Failed::Statement(e)) => return repeat_or_fail(store, e),
    };
    let tried = match session.query(&statement.sql, &statement.params, deadline.left()) {
        Ok(rows) => outcome(&statement, &rows).map_err(|e| store.write_error(e))?,
        Err(e) if e.is_duplicate() => Try::Refused,
        Err(e) => return repeat_or_fail(store, e),
    };
    if !matches!(tried, Try::Done) {
        return Ok(tried);
    }
    session.take_warning();
    match session.batch("COMMIT", deadline.left()) {
        Ok(()) if session.take_warning() => {
            return Err(StoreError::Unknown { location: store.location() });
        }
        Ok(()) => store.pool().return_to_pool(session),
        Err(e @ PostgresError::Refused { .. }) => return repeat_or_fail(store, e),
        Err(_) => {
            drop(session);
            store.pool().forget_idle();
            return after_lost_commit(store, run, &statement, deadline);
        }
    }
    remember(store, run, after, &tried);
    Ok(tried)
}

/// Starts a transaction and locks the run's row. Returns false if the run does not exist.
fn lock(
    store: &PostgresStore,
    session: &mut Session,
    run: &RunId,
    deadline: &Deadline,
) -> Result<bool, PostgresError> {
    session.batch("BEGIN ISOLATION LEVEL READ COMMITTED", deadline.left())?;
    lock_row(store, session, run, deadline)
}

pub(super) fn lock_row(
    store: &PostgresStore,
    session: &mut Session,
    run: &RunId,
    deadline: &Deadline,
) -> Result<bool, PostgresError> {
    let mut params = Params::new();
    let id = params.text(run.as_str());
    let sql = store.schema().fill(&format!("SELECT n FROM {{s}}.run WHERE run_id = {id} FOR NO KEY UPDATE"));
    Ok(!session.query(&sql, &params, deadline.left())?.is_empty())
}

/// Lets the write be repeated after an error that may pass.
fn repeat_or_fail(store: &PostgresStore, e: PostgresError) -> Result<Try, StoreError> {
    if e.is_temporary() {
        store.pool().forget_idle();
    }
    if e.is_temporary() || e.is_conflict() { Ok(Try::Lost) } else { Err(store.write_error(e)) }
}
