//! Sends the statement of a commit, and finds out whether it was applied if its reply was lost. Takes a statement
//! of which at most one copy takes effect. Decides nothing: the caller repeats a write that was not applied.

use milepost::model::RunId;
use milepost::store::StoreError;

use super::Try;
use super::locked::lock_row;
use crate::decode::{column, number};
use crate::error::PostgresError;
use crate::pool::Deadline;
use crate::session::Params;
use crate::statement::CommitStatement;
use crate::store::PostgresStore;

/// Whether a commit whose reply was lost was applied.
enum Fate {
    Applied,
    /// The run has changed by other commits since, so it can no longer be applied.
    Impossible,
    /// It was not applied, but could still arrive at the server.
    Pending,
    /// The log no longer says.
    Unknown,
}

/// Sends the statement until its fate is known. A copy that arrives after another copy was applied changes
/// nothing, because the run's row is no longer the one that it compares with.
pub(super) fn send(
    store: &PostgresStore,
    run: &RunId,
    statement: &CommitStatement,
    deadline: &mut Deadline,
) -> Result<Try, StoreError> {
    let unknown = || StoreError::Unknown { location: store.location() };
    let mut in_doubt = false;
    loop {
        let mut session = match store.pool().take(deadline) {
            Ok(session) => session,
            Err(_) if in_doubt => return Err(unknown()),
            Err(e) => return Err(store.write_error(e)),
        };
        session.take_warning();
        let failure = match session.query(&statement.sql, &statement.params, deadline.left()) {
            Ok(rows) => {
                let uncertain = session.take_warning();
                let tried = outcome(statement, &rows).map_err(|e| store.write_error(e))?;
                store.pool().return_to_pool(session);
                match tried {
                    // The wait for a standby was cancelled: the commit may be missing after a failover.
                    Try::Done if uncertain => return Err(unknown()),
                    Try::Done => return Ok(Try::Done),
                    tried if !in_doubt => return Ok(tried),
                    tried => tried,
                }
            }
            Err(e @ (PostgresError::Lost { .. } | PostgresError::TimedOut { .. })) => {
                in_doubt = true;
                store.pool().forget_idle();
                if matches!(e, PostgresError::TimedOut { .. }) || !deadline.pause() {
                    store.pool().note_silence(deadline);
                    return Err(unknown());
                }
                continue;
            }
            Err(e) => {
                if matches!(e, PostgresError::Refused { .. }) {
                    store.pool().return_to_pool(session);
                }
                match e {
                    e if e.is_duplicate() => Try::Refused,
                    e if e.is_conflict() => Try::Lost,
                    e if e.is_temporary() && deadline.pause() => continue,
                    e if !in_doubt => return Err(store.write_error(e)),
                    _ => Try::Lost,
                }
            }
        };
        if !in_doubt {
            return Ok(failure);
        }
        return match fate(store, run, statement, deadline)? {
            Fate::Applied => Ok(Try::Done),
            Fate::Impossible => Ok(failure),
            Fate::Pending | Fate::Unknown => Err(unknown()),
        };
    }
}

pub(super) fn outcome(
    statement: &CommitStatement,
    rows: &[tokio_postgres::Row],
) -> Result<Try, PostgresError> {
    let Some(row) = rows.first() else {
        return Err(PostgresError::Value { message: "a commit returned no row".to_owned() });
    };
    Ok(match number(row, "applied")? {
        0 if number(row, "held")? < statement.blobs as u64 => Try::Refused,
        0 => Try::Lost,
        _ => Try::Done,
    })
}

/// Looks a commit up in the run's log.
fn fate(
    store: &PostgresStore,
    run: &RunId,
    statement: &CommitStatement,
    deadline: &mut Deadline,
) -> Result<Fate, StoreError> {
    let found = store.run_work(deadline, |session, deadline| {
        let mut params = Params::new();
        let (id, commit) = (params.text(run.as_str()), params.int(statement.number as i64));
        let sql = store.schema().fill(&format!(
            "SELECT r.n, r.commits, w.stamp FROM {{s}}.run r LEFT JOIN {{s}}.write_log w \
             ON w.run_n = r.n AND w.n = {commit} WHERE r.run_id = {id}"
        ));
        let rows = session.query(&sql, &params, deadline.left())?;
        let Some(row) = rows.first() else {
            // A run that was deleted no longer tells. A new run may still be created by the lost statement.
            return Ok(if statement.is_new_run { Fate::Pending } else { Fate::Unknown });
        };
        if number(row, "n")? as i64 != statement.n {
            return Ok(if statement.is_new_run { Fate::Impossible } else { Fate::Unknown });
        }
        let logged: Option<i64> = column(row, "stamp")?;
        Ok(match logged {
            Some(stamp) if stamp as u64 == statement.stamp => Fate::Applied,
            Some(_) => Fate::Impossible,
            None if number(row, "commits")? < statement.number => Fate::Pending,
            None => Fate::Unknown,
        })
    });
    found.map_err(|_: StoreError| StoreError::Unknown { location: store.location() })
}

/// The fate of a transaction whose COMMIT was not answered. The lock of the run's row can be had only after that
/// transaction has ended.
pub(super) fn after_lost_commit(
    store: &PostgresStore,
    run: &RunId,
    statement: &CommitStatement,
    deadline: &mut Deadline,
) -> Result<Try, StoreError> {
    let unknown = |_: StoreError| StoreError::Unknown { location: store.location() };
    store
        .run_work(deadline, |session, deadline| Ok(lock_row(store, session, run, deadline)?))
        .map_err(unknown)?;
    match fate(store, run, statement, deadline)? {
        Fate::Applied => Ok(Try::Done),
        Fate::Impossible | Fate::Pending => Ok(Try::Lost),
        Fate::Unknown => Err(StoreError::Unknown { location: store.location() }),
    }
}
