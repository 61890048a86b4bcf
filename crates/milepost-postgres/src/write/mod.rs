//! Runs one write to a run: reads the run, asks the decision, and applies its commit by one statement that
//! compares the run's row with what the decision saw. Repeats all of it if another writer was faster, and finds
//! out whether a commit was applied if its reply was lost. Holds no lock between statements, except after
//! several lost tries.

mod delete;
mod locked;
mod reply;

use milepost::internal::store::DETAILS_WERE_SHOWN;
use milepost::model::RunId;
use milepost::store::{Decide, Receipt, Sealed, StoreError, WriteDecision};

use crate::error::PostgresError;
use crate::frames;
use crate::lookup::{Detail, Lookup};
use crate::pool::{Deadline, Failed};
use crate::run_cache::{CachedRun, after_commit};
use crate::schema::STAMPS_PER_COMMIT;
use crate::session::{Params, Session};
use crate::statement::{self, CommitStatement, Context};
use crate::store::PostgresStore;
use crate::view::Seen;

pub(crate) use delete::delete_run;
use locked::try_locked;
use reply::send;

/// Number of lost tries after which a write locks the run's row.
const LOCK_AFTER: u32 = 3;

/// The result of reading and deciding.
enum Prepared {
    /// The decision needs no commit.
    Unchanged,
    /// The run changed while it was read.
    Outdated,
    /// The statement, and what the run is like afterwards.
    Commit(Box<CommitStatement>, Option<Box<CachedRun>>),
}

/// The result of one try.
enum Try {
    Done,
    /// Nothing was applied, because another writer was faster.
    Lost,
    /// Nothing was applied, because of an existing row or a missing blob. The next try finds out which.
    Refused,
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
    let (mut seen, known_end) = match store.written.take(run) {
        Some(CachedRun { seen, end }) => match seen.refresh(session, schema, run, deadline.left())? {
            Some(seen) => (seen, end),
            None => (Seen::read(session, schema, run, deadline.left())?, None),
        },
        None => (Seen::read(session, schema, run, deadline.left())?, None),
    };
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
    let lookup = Lookup::read(session, store, &seen, &commit, detail, deadline.left())?;
    commit.validate(run, &seen.view, &lookup).map_err(Failed::Final)?;
    if commit.puts.last().is_some_and(|put| put.header().stamp() >= slot.stamp() + STAMPS_PER_COMMIT) {
        return Err(Failed::Final(StoreError::Rules("the commit adds too many checkpoints at once")));
    }
    let puts: Vec<&Sealed> =
        commit.puts.iter().filter(|put| !commit.drops.contains(&put.header().sequence())).collect();
    let mut end = match known_end {
        Some(end) => Some(end),
        None => chain_end(store, session, &seen, &puts, deadline)?,
    };
    let new_frames = frames::pack(&puts, &mut end)?;
    let context = Context {
        run,
        project: store.project().of_run(&commit.record, seen.row.as_ref()),
        blob_project: store.project().of_blobs(),
        row: seen.row.as_ref(),
        view: &seen.view,
        shown_items: &seen.shown_items,
        next_item: seen.next_item,
        dropped: &lookup.dropped,
        names: &lookup.names,
        frames: &new_frames,
    };
    let statement = statement::build(schema, &commit, &context)?;
    let after = if store.options.one_shot {
        None
    } else {
        after_commit(seen, &commit, statement.row.clone()).map(|seen| Box::new(CachedRun { seen, end }))
    };
    Ok(Prepared::Commit(Box::new(statement), after))
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
    frames::read_end(session, store.schema(), row.n, deadline.left())
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
        .run_work(deadline, |session, deadline| prepare(store, session, run, decide, detail, deadline))
        .map_err(|e| store.after_read(e))?;
    match prepared {
        Prepared::Unchanged => Ok(Try::Done),
        Prepared::Outdated => Ok(Try::Lost),
        Prepared::Commit(statement, after) => {
            let tried = send(store, run, &statement, deadline)?;
            remember(store, run, after, &tried);
            Ok(tried)
        }
    }
}

/// Keeps what is known about a run after a commit, for the next write.
fn remember(store: &PostgresStore, run: &RunId, after: Option<Box<CachedRun>>, tried: &Try) {
    if let (Try::Done, Some(after)) = (tried, after) {
        store.written.insert(run, *after);
    }
}
