//! Runs: lists runs, most recently written first, and reads one run in full.

use std::time::Duration;

use super::Milepost;
use super::lookup::is_own;
use super::prune::last_write;
use super::start::age_of_work;
use crate::Error;
use crate::model::{FileRef, Item, Outcome, RunId, RunRecord, Status};
use crate::owner::Liveness;
use crate::store::{CheckpointEntry, Damage, Row, RunQuery, RunRow, StoredRun};
use derive_getters::Getters;
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

options! {
    /// Which runs to list.
    #[derive(Debug, Clone, Default)]
    pub struct RunsQuery {
        /// Only runs with this status.
        pub(crate) status: Option<Status>,
        /// Only runs written at or after this time.
        pub(crate) since: Option<jiff::Timestamp>,
        /// Only runs of the project with this id.
        pub(crate) project: Option<String>,
        /// Only runs that this machine worked on last, by its name.
        pub(crate) host: Option<String>,
        /// Only runs that this user of the store's server wrote last.
        pub(crate) user: Option<String>,
        /// Maximum number to list (0 = no limit).
        pub(crate) limit: usize [number],
    }
}

/// A run in a list.
#[derive(Getters, Debug, Clone)]
pub struct RunSummary {
    /// The run id.
    pub(crate) run_id: RunId,
    /// The record, or how it is damaged.
    pub(crate) record: Result<Box<RunRecord>, Damage>,
    /// Number of checkpoints.
    pub(crate) checkpoints: u64,
    /// The newest checkpoint, if it is intact.
    pub(crate) latest: Option<CheckpointEntry>,
    /// Whether the owner is alive, determined at the time of the query; `None` for a run without an owner.
    #[getter(copy)]
    pub(crate) owner: Option<Liveness>,
    /// Time since the last write that was part of the work, by the store's clock.
    #[getter(skip)]
    pub(crate) age: Option<Duration>,
    /// The user that wrote to the run last, as the store's server authenticated it; `None` if the store has no
    /// server.
    pub(crate) user: Option<String>,
}

impl RunSummary {
    /// The name of the machine that worked on the run last, if the store is on a server.
    pub fn host(&self) -> Option<&str> {
        self.intact()?.host.as_deref()
    }

    /// A short name for the state of the run, from its status and its owner.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn state_name(&self) -> &'static str {
        let Ok(record) = &self.record else { return "damaged" };
        match (record.status, self.owner) {
            (Status::Completed, _) => "completed",
            (Status::Failed, _) => "failed",
            (_, Some(Liveness::Alive)) => "live",
            (_, Some(Liveness::Dead)) => "stopped",
            (_, Some(Liveness::PresumedDead)) => "presumed dead",
            (Status::Paused, _) => "paused",
            (Status::InProgress, _) => "open",
        }
    }

    /// The record, if it is intact.
    pub fn intact(&self) -> Option<&RunRecord> {
        self.record.as_ref().ok().map(|record| &**record)
    }
}

impl Serialize for RunSummary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.intact();
        let mut members = serializer.serialize_struct("RunSummary", 20)?;
        members.serialize_field("run_id", &self.run_id)?;
        members.serialize_field("session_id", &record.and_then(|r| r.session.as_ref()).map(|s| &s.id))?;
        members.serialize_field("title", &record.and_then(|r| r.title.as_ref()))?;
        members.serialize_field("plan", &record.and_then(|r| r.plan.as_ref()))?;
        members.serialize_field("parent", &record.and_then(|r| r.parent.as_ref()))?;
        members.serialize_field("started_at", &record.map(|r| r.started_at))?;
        members.serialize_field("updated_at", &record.map(|r| r.updated_at))?;
        members.serialize_field("status", &record.map(|r| r.status))?;
        members.serialize_field("profile", &record.map(|r| r.profile))?;
        members.serialize_field("checkpoints", &self.checkpoints)?;
        members.serialize_field("latest", &self.latest.as_ref().map(|entry| &entry.header.snapshot_id))?;
        members.serialize_field("owner_alive", &self.owner.and_then(Liveness::as_bool))?;
        members
            .serialize_field("owner_pid", &record.and_then(|r| r.owner.as_ref()).map(|owner| owner.pid))?;
        members.serialize_field("worktree", &record.and_then(|r| r.worktree.as_ref()))?;
        members.serialize_field("branch", &record.and_then(|r| r.branch.as_ref()))?;
        // Only stores on servers record these.
        for (name, value) in
            [("project_id", record.and_then(|r| r.project_id.as_deref())), ("host", self.host())]
        {
            if let Some(value) = value {
                members.serialize_field(name, value)?;
            }
        }
        if let Some(user) = &self.user {
            members.serialize_field("user", user)?;
        }
        // Only foreign runs have an origin.
        if let Some(origin) = record.and_then(|r| r.origin.as_ref()) {
            members.serialize_field("origin", origin)?;
        }
        if let Err(damage) = &self.record {
            members.serialize_field("damage", &damage.to_string())?;
        }
        members.end()
    }
}

/// One run in full, including the items recorded since its newest checkpoint.
#[derive(Getters, Debug, Clone)]
pub struct RunDetail {
    /// The run's summary, with the pending items applied to its record.
    pub(crate) summary: RunSummary,
    /// Outcomes among the pending items.
    pub(crate) pending_outcomes: Vec<Outcome>,
    /// Files among the pending items.
    #[getter(skip)]
    pub(crate) pending_files: Vec<FileRef>,
}

impl Milepost {
    /// Lists runs, most recently written first.
    pub fn runs(&self, query: &RunsQuery) -> Result<Vec<RunSummary>, Error> {
        let mut rows = self.store.runs(&RunQuery::default().project(query.project.as_deref()))?;
        // Maintenance writes do not affect the order.
        rows.sort_by_key(|row| std::cmp::Reverse(last_write(row)));
        let mut found: Vec<_> = rows.into_iter().map(|row| self.summarise(row)).collect();
        found.retain(|run| match &run.record {
            Ok(record) => {
                let matches = |wanted: &Option<String>, found: Option<&str>| {
                    wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
                };
                query.status.is_none_or(|status| status == record.status)
                    && matches(&query.host, record.host.as_deref())
                    && matches(&query.user, run.user.as_deref())
                    && query.since.is_none_or(|since| record.updated_at >= since)
            }
            Err(_) => query.host.is_none() && query.user.is_none(),
        });
        if query.limit > 0 {
            found.truncate(query.limit);
        }
        Ok(found)
    }

    /// Finds a run by its id, or by the unique start of its id or of its short id ([`RunId::short`]).
    pub fn find_run(&self, name: &str) -> Result<RunId, Error> {
        self.run_named(name)?.ok_or_else(|| Error::NoRun(name.to_owned()))
    }

    /// Like `find_run`, but returns `None` if no run matches.
    pub(super) fn run_named(&self, name: &str) -> Result<Option<RunId>, Error> {
        let Ok(id) = name.parse::<RunId>() else { return Ok(None) };
        if self.store.run(&id)?.is_some() {
            return Ok(Some(id));
        }
        let matches = |run: &RunId| {
            run.as_str().starts_with(name) || run.short().is_some_and(|short| short.starts_with(name))
        };
        let mut found = self.store.runs(&RunQuery::default())?;
        found.retain(|row| matches(&row.run_id));
        if found.len() > 1 && self.settings.hide_foreign_runs {
            found.retain(|row| is_own(row.record.as_deref().ok()));
        }
        if found.len() > 1 {
            return Err(Error::ambiguous(name, "runs", found.iter().map(|row| row.run_id.to_string())));
        }
        Ok(found.pop().map(|row| row.run_id))
    }

    /// Reads one run in full.
    pub fn run_detail(&self, run: &RunId) -> Result<RunDetail, Error> {
        Ok(self.detail_of(self.stored_run(run)?))
    }

    /// The record of a run with the pending items applied; `None` if the run is gone or its record damaged.
    pub(super) fn detail_if_exists(&self, run: &RunId) -> Result<Option<Box<RunRecord>>, Error> {
        let state = self.store.run(run)?;
        Ok(state.and_then(|state| self.detail_of(state).summary.record.ok()))
    }

    /// Like `run_detail`, for a run that was already read.
    pub(super) fn detail_of(&self, state: StoredRun) -> RunDetail {
        let mut summary = self.summarise(state.row);
        let (mut pending_outcomes, mut pending_files) = (Vec::new(), Vec::new());
        if let Ok(record) = &mut summary.record {
            for item in state.items {
                if let Item::File(file) = &item {
                    pending_files.push(file.clone());
                }
                record.working.apply(item, &mut pending_outcomes);
            }
        }
        RunDetail { summary, pending_outcomes, pending_files }
    }

    pub(super) fn summarise(&self, row: RunRow) -> RunSummary {
        let age = age_of_work(&row);
        let owner = row.record.as_ref().ok().and_then(|record| self.liveness(record, age));
        RunSummary {
            run_id: row.run_id,
            record: row.record,
            checkpoints: row.count,
            latest: row.latest.and_then(Row::intact),
            owner,
            age,
            user: row.user,
        }
    }
}
