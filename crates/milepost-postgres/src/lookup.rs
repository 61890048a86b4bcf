//! Reads what `Commit::validate` and the statement of a commit need to know about the store. Asks only what the
//! commit requires, so that a plain save asks nothing. Writes nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use milepost::model::{BlobId, CheckpointId};
use milepost::store::{Commit, CommitLookup, Header, Row, RunView, StoreError};

use crate::decode::{column, integer, number};
use crate::error::PostgresError;
use crate::schema::SchemaName;
use crate::session::{Params, Session};
use crate::statement::name_hash;
use crate::store::PostgresStore;
use crate::view::Seen;

/// What was found about a commit. The answers are used only if the run's row has not changed when they are.
#[derive(Default)]
pub(crate) struct Lookup {
    revisions: HashMap<u64, u64>,
    taken_id: Option<CheckpointId>,
    taken_names: BTreeSet<String>,
    missing_blobs: Vec<BlobId>,
    /// For each existing checkpoint with new marks: the names that it has, and its imported id.
    pub(crate) names: BTreeMap<u64, (BTreeSet<Vec<u8>>, Option<String>)>,
    /// Ids of the existing checkpoints that the commit removes.
    pub(crate) dropped: BTreeMap<u64, CheckpointId>,
}

/// How much to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What the statement needs. Duplicate ids and missing blobs are left to the statement itself.
    Needed,
    /// Everything, to find out why the statement was not applied.
    Everything,
}

impl Lookup {
    pub(crate) fn read(
        session: &mut Session,
        store: &PostgresStore,
        seen: &Seen,
        commit: &Commit,
        detail: Detail,
        patience: Duration,
    ) -> Result<Self, PostgresError> {
        let mut found = Self::default();
        let schema = store.schema();
        if let Some(row) = &seen.row {
            found.read_marked(session, schema, row.n, commit, patience)?;
            found.read_dropped(session, schema, row.n, &seen.view, commit, patience)?;
        }
        if !commit.new_names.is_empty() {
            let project = store.project().of_run(&commit.record, seen.row.as_ref());
            found.read_names(session, schema, project, commit, patience)?;
        }
        if detail == Detail::Everything {
            found.read_ids(session, schema, commit, patience)?;
            let of_roots = commit.roots.iter().map(|(_, blob)| blob);
            let blobs: BTreeSet<BlobId> = commit.blobs.iter().chain(of_roots).copied().collect();
            found.missing_blobs = unusable_blobs(session, store, &Vec::from_iter(blobs), patience)?;
        }
        Ok(found)
    }

    /// Reads the names and revisions of existing checkpoints whose marks the commit sets.
    fn read_marked(
        &mut self,
        session: &mut Session,
        schema: &SchemaName,
        n: i64,
        commit: &Commit,
        patience: Duration,
    ) -> Result<(), PostgresError> {
        let put: BTreeSet<_> = commit.puts.iter().map(|put| put.header().sequence()).collect();
        let marked: BTreeSet<_> = commit.marks.iter().map(|(sequence, _)| *sequence).collect();
        let marked: Vec<i64> = marked.difference(&put).map(|sequence| integer(*sequence)).collect();
        if marked.is_empty() {
            return Ok(());
        }
        let mut params = Params::new();
        let (run, marked) = (params.int(n), params.ints(marked));
        let sql = schema.fill(&format!(
            "SELECT c.sequence, c.header, m.revision, ARRAY(SELECT t.name FROM {{s}}.name t \
             WHERE t.run_n = c.run_n AND t.sequence = c.sequence) AS names \
             FROM {{s}}.checkpoint c LEFT JOIN {{s}}.marks m ON m.run_n = c.run_n AND m.sequence = c.sequence \
             WHERE c.run_n = {run} AND c.sequence = ANY({marked})"
        ));
        for row in session.query(&sql, &params, patience)? {
            let sequence = number(&row, "sequence")?;
            let header = serde_json::from_str::<Header>(column(&row, "header")?).ok();
            let names: Vec<Vec<u8>> = column(&row, "names")?;
            let imported = header.and_then(|header| header.imported_id().clone());
            self.names.insert(sequence, (names.into_iter().collect(), imported));
            if let Some(revision) = column::<Option<i64>>(&row, "revision")? {
                self.revisions.insert(sequence, revision as u64);
            }
        }
        Ok(())
    }

    /// Finds the ids of the checkpoints that the commit removes, in the view if it shows them.
    fn read_dropped(
        &mut self,
        session: &mut Session,
        schema: &SchemaName,
        n: i64,
        view: &RunView,
        commit: &Commit,
        patience: Duration,
    ) -> Result<(), PostgresError> {
        let mut drops: BTreeSet<u64> = commit.drops.iter().copied().collect();
        let shown = view.details.iter().flat_map(|details| &details.oldest).chain(&view.latest);
        for entry in shown {
            if drops.remove(&entry.header.sequence()) {
                self.dropped.insert(entry.header.sequence(), entry.header.snapshot_id().clone());
            }
        }
        for put in &commit.puts {
            drops.remove(&put.header().sequence());
        }
        if drops.is_empty() {
            return Ok(());
        }
        let mut params = Params::new();
        let (run, drops) = (params.int(n), params.ints(drops.into_iter().map(integer).collect()));
        let sql = schema.fill(&format!(
            "SELECT sequence, snapshot_id FROM {{s}}.checkpoint WHERE run_n = {run} AND sequence = ANY({drops})"
        ));
        for row in session.query(&sql, &params, patience)? {
            let (sequence, id): (u64, &str) = (number(&row, "sequence")?, column(&row, "snapshot_id")?);
            // A damaged id has no attachments, but its row is removed and counted all the same.
            let id = id.parse().or_else(|_| format!("damaged-{sequence}").parse());
            let id =
                id.map_err(|_| PostgresError::Value { message: format!("the id of {sequence} is invalid") })?;
            self.dropped.insert(sequence, id);
        }
        Ok(())
    }

    /// Finds out which names are taken in the project of the commit's run.
    fn read_names(
        &mut self,
        session: &mut Session,
        schema: &SchemaName,
        project: String,
        commit: &Commit,
        patience: Duration,
    ) -> Result<(), PostgresError> {
        let mut params = Params::new();
        // No id contains a zero byte, and the server accepts none in a text.
        let names: Vec<&String> = commit.new_names.iter().filter(|name| !name.contains('\0')).collect();
        let by_hash: HashMap<Vec<u8>, &String> =
            commit.new_names.iter().map(|name| (name_hash(name), name)).collect();
        let ids = params.texts(names.iter().map(|name| (*name).clone()).collect());
        let hashes = params.byte_arrays(by_hash.keys().cloned().collect());
        let project = params.text(project);
        let entry = crate::decode::ENTRY;
        let marks = crate::decode::WITH_MARKS;
        let sql = schema.fill(&format!(
            "SELECT {entry}, NULL::bytea AS name FROM {{s}}.checkpoint c {marks} WHERE c.snapshot_id = ANY({ids}) \
             UNION ALL SELECT {entry}, t.name FROM {{s}}.name t \
             JOIN {{s}}.checkpoint c ON c.run_n = t.run_n AND c.sequence = t.sequence \
             JOIN {{s}}.run r ON r.n = t.run_n AND r.project = {project} {marks} WHERE t.name = ANY({hashes})"
        ));
        for row in session.query(&sql, &params, patience)? {
            let Some(hash) = column::<Option<Vec<u8>>>(&row, "name")? else {
                self.taken_names.insert(column(&row, "c_snapshot_id")?);
                continue;
            };
            let Some(name) = by_hash.get(&hash) else { continue };
            let has_name = match crate::decode::entry(&row)? {
                Row::Intact(entry) => entry.has_name(name),
                Row::Damaged { .. } => true,
            };
            if has_name {
                self.taken_names.insert((*name).clone());
            }
        }
        Ok(())
    }

    fn read_ids(
        &mut self,
        session: &mut Session,
        schema: &SchemaName,
        commit: &Commit,
        patience: Duration,
    ) -> Result<(), PostgresError> {
        let ids: Vec<_> = commit.puts.iter().map(|put| put.header().snapshot_id()).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut params = Params::new();
        let wanted = params.texts(ids.iter().map(|id| id.to_string()).collect());
        let sql = schema
            .fill(&format!("SELECT snapshot_id FROM {{s}}.checkpoint WHERE snapshot_id = ANY({wanted})"));
        for row in session.query(&sql, &params, patience)? {
            let taken: &str = column(&row, "snapshot_id")?;
            self.taken_id =
                ids.iter().find(|id| id.as_str() == taken).map(|id| (*id).clone()).or(self.taken_id.take());
        }
        Ok(())
    }
}

/// The blobs among `ids` that a commit of this handle must not refer to: its project does not have them, or a
/// collection may remove them.
pub(crate) fn unusable_blobs(
    session: &mut Session,
    store: &PostgresStore,
    ids: &[BlobId],
    patience: Duration,
) -> Result<Vec<BlobId>, PostgresError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut params = Params::new();
    let wanted = params.byte_arrays(ids.iter().map(|id| id.as_bytes().to_vec()).collect());
    let project = params.text(store.project().of_blobs());
    let sql = store.schema().fill(&format!(
        "SELECT id FROM {{s}}.blob WHERE project = {project} AND id = ANY({wanted}) AND data IS NOT NULL \
         AND doomed IS NULL"
    ));
    let rows = session.query(&sql, &params, patience)?;
    let usable = rows.iter().map(|row| column::<Vec<u8>>(row, "id")).collect::<Result<BTreeSet<_>, _>>()?;
    Ok(ids.iter().filter(|id| !usable.contains(&id.as_bytes()[..])).copied().collect())
}

impl CommitLookup for Lookup {
    fn marks_revision(&self, sequence: u64) -> Result<Option<u64>, StoreError> {
        Ok(self.revisions.get(&sequence).copied())
    }

    fn find_taken_id(&self, _: &[&CheckpointId]) -> Result<Option<CheckpointId>, StoreError> {
        Ok(self.taken_id.clone())
    }

    fn is_name_taken(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.taken_names.contains(name))
    }

    fn find_missing_blobs(&self, _: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        Ok(self.missing_blobs.clone())
    }
}
