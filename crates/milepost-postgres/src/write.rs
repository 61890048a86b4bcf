//! Runs one write to a run: reads the run, asks the decision, and applies its commit by one statement that
//! compares the run's row with what the decision saw. Repeats all of it if another writer was faster, and finds
//! out whether a commit was applied if its reply was lost. Holds no lock between statements, except after
//! several lost tries.

use milepost::internal::store::DETAILS_WERE_SHOWN;
use milepost::model::RunId;
use milepost::store::{Decide, Receipt, Sealed, StoreError, WriteDecision};

use crate::decode::number;
use crate::error::PostgresError;
use crate::frames;
use crate::lookup::{Detail, Lookup};
use crate::pool::{Deadline, Failed};
use crate::schema::STAMPS_PER_COMMIT;
use crate::session::{Params, Session};
use crate::statement::{self, CommitStatement, Context};
use crate::store::{CachedEnd, PostgresStore};
use crate::view::Seen;

/// Number of lost tries after which a write locks the run's row.
const LOCK_AFTER: u32 = 3;

/// The result of reading and deciding.
enum Prepared {
    /// The decision needs no commit.
    Unchanged,
    /// The run changed while it was read.
    Outdated,
    Commit(Box<CommitStatement>, Option<frames::ChainEnd>),
}

/// The result of one try.
enum Try {
    Done,
    /// Nothing was applied, because another writer was faster.
    Lost,
    /// Nothing was applied, because of an existing row or a missing blob. The next try finds out which.
    Refused,
}

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

pub(crate) fn write(
    store: &PostgresStore,
    run: &RunId,
    decide: &mut Decide<'_>,
) -> Result<Receipt, StoreError> {
    store.check_writable()?;
    let mut deadline = store.deadline();
    store.prepare_schema(&mut deadline)?;
    let (mut lost, mut detail) = (0, Detail::Needed);
    loop {
        let tried = if lost < LOCK_AFTER {
            try_once(store, run, decide, detail, &mut deadline)?
        } else {
            try_locked(store, run, decide, detail, &mut deadline)?
        };
        match tried {
            Try::Done => return Ok(Receipt::default()),
            Try::Lost => lost += 1,
            Try::Refused => {
                lost += 1;
                detail = Detail::Everything;
            }
        }
        if deadline.is_over() || lost < LOCK_AFTER && !deadline.pause() {
            return Err(StoreError::Busy { location: store.location(), waited: deadline.waited() });
        }
    }
}

/// Reads the run, asks the decision and builds the statement.
fn prepare(
    store: &PostgresStore,
    session: &mut Session,
    run: &RunId,
    decide: &mut Decide<'_>,
    detail: Detail,
    deadline: &Deadline,
) -> Result<Prepared, Failed<StoreError>> {
    let schema = store.schema();
    let mut seen = Seen::read(session, schema, run, deadline.left())?;
    let slot = seen.view.slot.clone();
    if let Some(row) = &seen.row
        && slot.stamp() <= row.stamp
    {
        // The sequence is behind the tables, for example after a restore that left it out.
        advance_stamps(store, session, deadline)?;
        return Ok(Prepared::Outdated);
    }
    let mut decision = decide(&seen.view);
    if matches!(decision, WriteDecision::NeedDetails) && seen.view.details.is_none() {
        if !seen.read_details(session, schema, deadline.left())? {
            return Ok(Prepared::Outdated);
        }
        decision = decide(&seen.view);
    }
    let commit = match decision {
        WriteDecision::Commit(commit) => commit,
        WriteDecision::NoChange => return Ok(Prepared::Unchanged),
        WriteDecision::NeedDetails => return Err(Failed::Final(StoreError::Rules(DETAILS_WERE_SHOWN))),
    };
    let n = seen.row.as_ref().map(|row| row.n);
    let lookup = Lookup::read(session, schema, n, &seen.view, &commit, detail, deadline.left())?;
    commit.validate(run, &seen.view, &lookup).map_err(Failed::Final)?;
    if commit.puts.last().is_some_and(|put| put.header().stamp() >= slot.stamp() + STAMPS_PER_COMMIT) {
        return Err(Failed::Final(StoreError::Rules("the commit adds too many checkpoints at once")));
    }
    let puts: Vec<&Sealed> =
        commit.puts.iter().filter(|put| !commit.drops.contains(&put.header().sequence())).collect();
    let mut end = chain_end(store, session, &seen, &puts, deadline)?;
    let new_frames = frames::pack(&puts, &mut end)?;
    let context = Context {
        run,
        row: seen.row.as_ref(),
        view: &seen.view,
        shown_items: &seen.shown_items,
        next_item: seen.next_item,
        dropped: &lookup.dropped,
        names: &lookup.names,
        frames: &new_frames,
    };
    let statement = statement::build(schema, &commit, &context)?;
    Ok(Prepared::Commit(Box::new(statement), end.filter(|_| !puts.is_empty())))
}

/// The end of the chain to which the first new document may be added.
fn chain_end(
    store: &PostgresStore,
    session: &mut Session,
    seen: &Seen,
    puts: &[&Sealed],
    deadline: &Deadline,
) -> Result<Option<frames::ChainEnd>, PostgresError> {
    let Some(row) = &seen.row else { return Ok(None) };
    if row.count == 0 || !puts.iter().any(|put| frames::may_be_delta(put.bytes())) {
        return Ok(None);
    }
    match store.cached_end(row.n, row.stored) {
        Some(end) => Ok(Some(end)),
        None => frames::read_end(session, store.schema(), row.n, deadline.left()),
    }
}

pub(crate) fn advance_stamps(
    store: &PostgresStore,
    session: &mut Session,
    deadline: &Deadline,
) -> Result<(), PostgresError> {
    let sql = store.schema().fill(&format!(
        "SELECT setval({}, ((SELECT greatest(max(r.stamp), (SELECT max(stamp) FROM {{s}}.checkpoint), \
         (SELECT last_value FROM {{s}}.stamp)) FROM {{s}}.run r) / {STAMPS_PER_COMMIT} + 1024) * {STAMPS_PER_COMMIT})",
        store.schema().stamp_sequence()
    ));
    session.query(&sql, &Params::new(), deadline.left()).map(drop)
}

/// One try without a lock.
fn try_once(
    store: &PostgresStore,
    run: &RunId,
    decide: &mut Decide<'_>,
    detail: Detail,
    deadline: &mut Deadline,
) -> Result<Try, StoreError> {
    let prepared = store
        .run_work(deadline, |session, deadline| prepare(store, session, run, decide, detail, deadline))?;
    match prepared {
        Prepared::Unchanged => Ok(Try::Done),
        Prepared::Outdated => Ok(Try::Lost),
        Prepared::Commit(statement, end) => {
            let tried = send(store, run, &statement, deadline)?;
            remember(store, &statement, end, &tried);
            Ok(tried)
        }
    }
}

/// Keeps the newest document of a run for the next delta.
fn remember(store: &PostgresStore, statement: &CommitStatement, end: Option<frames::ChainEnd>, tried: &Try) {
    match (tried, end) {
        (Try::Done, Some(end)) => {
            store.cache_end(CachedEnd {
                n: statement.n,
                at: (statement.row.stamp, statement.row.commits),
                end,
            });
        }
        (Try::Done, None) => {}
        _ => store.forget_end(statement.n),
    }
}

/// Sends the statement until its fate is known. A copy that arrives after another copy was applied changes
/// nothing, because the run's row is no longer the one that it compares with.
fn send(
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
                store.pool().give_back(session);
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
                    return Err(unknown());
                }
                continue;
            }
            Err(e) => {
                if matches!(e, PostgresError::Refused { .. }) {
                    store.pool().give_back(session);
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

fn outcome(statement: &CommitStatement, rows: &[tokio_postgres::Row]) -> Result<Try, PostgresError> {
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
        let logged: Option<i64> = crate::decode::column(row, "stamp")?;
        Ok(match logged {
            Some(stamp) if stamp as u64 == statement.stamp => Fate::Applied,
            Some(_) => Fate::Impossible,
            None if number(row, "commits")? < statement.number => Fate::Pending,
            None => Fate::Unknown,
        })
    });
    found.map_err(|_: StoreError| StoreError::Unknown { location: store.location() })
}

/// One try that holds the lock of the run's row from reading to committing, so that no other writer can be
/// faster. A run that does not exist has no row to lock.
fn try_locked(
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
    let (statement, end) = match prepared {
        Ok(Prepared::Commit(statement, end)) => (statement, end),
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
        Ok(()) => store.pool().give_back(session),
        Err(e @ PostgresError::Refused { .. }) => return repeat_or_fail(store, e),
        Err(_) => {
            drop(session);
            store.pool().forget_idle();
            return after_lost_commit(store, run, &statement, deadline);
        }
    }
    remember(store, &statement, end, &tried);
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

fn lock_row(
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

/// The fate of a transaction whose COMMIT was not answered. The lock of the run's row can be had only after that
/// transaction has ended.
fn after_lost_commit(
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

/// Lets the write be repeated after an error that may pass.
fn repeat_or_fail(store: &PostgresStore, e: PostgresError) -> Result<Try, StoreError> {
    if e.is_temporary() {
        store.pool().forget_idle();
    }
    if e.is_temporary() || e.is_conflict() { Ok(Try::Lost) } else { Err(store.write_error(e)) }
}

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
            Some(stamp) => format!("AND stamp = {}", params.int(crate::decode::integer(stamp))),
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
