//! Search: finds what runs recorded. Brings the index up to date with the store, reads only runs that changed, and
//! compares every hit with the store before it is returned. The index is derived data: saves never touch it.

mod slot;
mod update;

use std::collections::BTreeSet;

use super::lookup::is_own;
use super::{Milepost, PruneAction, PruneReport};
use crate::Error;
use crate::model::{RunId, ValidationError};
use crate::search::index::{self, Found, IndexError, SearchIndex, Verdict, Visibility};
use crate::search::{SearchHit, SearchQuery, SearchResults, is_searchable};
use crate::store::{Cursor, HeaderQuery, Row, RunRow, StoreError};

pub(super) use self::slot::SearchSlot;
use self::update::Listing;

/// Number of checkpoints that are looked at to find an intact one that contains a text.
const INTACT_AMONG: usize = 8;

/// Why a search failed: because of the index, which can be created anew, or for another reason.
pub(super) enum Failure {
    Index(IndexError),
    Other(Error),
}

impl From<IndexError> for Failure {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Other(error.into())
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Index(error) => Self::Search(error.to_string()),
            Failure::Other(error) => error,
        }
    }
}

impl Milepost {
    /// Searches what the runs of this store recorded: prompts, decisions, failed commands, briefs, summaries, notes and
    /// paths of files. Brings the index up to date first, which takes longer the first time.
    pub fn search(&self, query: &SearchQuery) -> Result<SearchResults, Error> {
        self.search_with_progress(query, &mut |_, _| {})
    }

    /// Like `search`. Calls `progress` with the number of checkpoints that were added to the index, and with the number
    /// of all that will be.
    pub fn search_with_progress(
        &self,
        query: &SearchQuery,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SearchResults, Error> {
        if !is_searchable(query) {
            let message = "it contains no word to search for".to_owned();
            let source = ValidationError { path: "/query".into(), message };
            return Err(Error::Value { name: "the query".into(), source });
        }
        let mut slot = self.search.lock();
        let checked = self.update_index(&mut slot, progress).and_then(|updated| {
            // Some damage shows only as words that are missing.
            slot.index().map_or(Ok(()), |index| index.check_sample())?;
            Ok(updated)
        });
        match checked.and_then(|updated| self.search_index(&mut slot, updated, query)) {
            // A damaged index is created anew, once.
            Err(Failure::Index(IndexError::Unusable(_))) => {
                slot.discard();
                let updated = self.update_index(&mut slot, progress)?;
                Ok(self.search_index(&mut slot, updated, query)?)
            }
            other => Ok(other?),
        }
    }

    fn search_index(
        &self,
        slot: &mut slot::OpenSlot<'_>,
        updated: update::Updated,
        query: &SearchQuery,
    ) -> Result<SearchResults, Failure> {
        let mut results = SearchResults { is_incomplete: !updated.is_complete, ..SearchResults::default() };
        let Some(index) = slot.index() else { return Ok(results) };
        let hides_foreign = self.settings.hide_foreign_runs;
        // Which runs of a server are foreign depends on settings, so only the store knows.
        let visibility =
            Visibility { hides_foreign: hides_foreign && self.synced.is_none(), now: self.now() };
        let mut gone = Vec::new();
        index::search(index, query, &visibility, &mut |found: Found| {
            if query.limit > 0 && results.hits.len() == query.limit {
                // One more hit exists, but it may be gone.
                let exists = self.find_hit(&updated.listing, &found)?.is_some();
                results.has_more = exists;
                return Ok::<_, Failure>(if exists { Verdict::Enough } else { Verdict::Skipped });
            }
            let run = found.run.clone();
            match self.find_hit(&updated.listing, &found)? {
                Some(place) if place.is_own || !hides_foreign => {
                    results.hits.push(hit(found, place));
                    Ok(Verdict::Shown)
                }
                Some(_) => Ok(Verdict::Skipped),
                None => {
                    gone.push(run);
                    Ok(Verdict::Skipped)
                }
            }
        })?;
        self.remove_gone(index, &gone);
        Ok(results)
    }

    /// Where a hit is in the store now; `None` if it is gone.
    fn find_hit(&self, listing: &Listing, found: &Found) -> Result<Option<Place>, Failure> {
        let row: Option<RunRow> = match listing {
            Listing::Complete(rows) => rows.get(&found.run).cloned(),
            Listing::Newest => self.store.run(&found.run)?.map(|stored| stored.row),
        };
        let Some(row) = row else { return Ok(None) };
        let is_own = is_own(row.record.as_deref().ok());
        let about = row.record.as_ref().ok().and_then(|record| record.about());
        let place = |entry: Option<(crate::model::CheckpointId, u64)>| {
            let (checkpoint, sequence) = entry.unzip();
            Some(Place { checkpoint, sequence, is_own, about: about.clone() })
        };
        // The newest existing checkpoint that contains the text.
        for (first, last) in found.spans.newest_first() {
            let after = Cursor { sequence: last.saturating_add(1), stamp: u64::MAX };
            let query = HeaderQuery::default().run(&found.run).after(after).limit(INTACT_AMONG);
            let rows = self.store.headers(&query)?;
            let header = rows.into_iter().filter_map(Row::intact).map(|entry| entry.header).next();
            if let Some(header) = header.filter(|header| header.sequence >= first) {
                return Ok(place(Some((header.snapshot_id, header.sequence))));
            }
        }
        let outlives_checkpoints = found.spans.is_empty() || found.origin.is_of_run();
        Ok(outlives_checkpoints.then(|| place(None)).flatten())
    }

    /// Removes what hits no longer found in the store from the index. Failures do no harm: the next search finds the same.
    fn remove_gone(&self, index: &mut SearchIndex, gone: &[RunId]) {
        for run in gone {
            let _ = match self.store.run(run) {
                Ok(None) => index.remove_run(run.as_str()),
                Ok(Some(_)) => match self.sequences(run) {
                    Ok(remaining) => index.retain_checkpoints(run, &remaining),
                    Err(_) => Ok(()),
                },
                Err(_) => Ok(()),
            };
        }
    }

    /// Removes the texts of removed runs and checkpoints from an existing index, so that they do not remain in its file.
    /// If that is not possible, the index is removed.
    pub(super) fn forget_removed(&self, runs: &[RunId]) {
        if runs.is_empty() {
            return;
        }
        self.change_existing_index(|index| {
            for run in runs {
                match self.store.run(run) {
                    Ok(None) => index.remove_run(run.as_str())?,
                    Ok(Some(_)) => index.retain_checkpoints(run, &self.sequences(run)?)?,
                    Err(e) => return Err(e.into()),
                }
            }
            Ok(())
        });
    }

    /// Removes the texts of runs and checkpoints that were pruned from an existing index. Needed only if a handle without
    /// this index pruned them: that of a server, whose index is beside the copy on this machine.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(super) fn forget_pruned(&self, report: &PruneReport) {
        let steps = report.plan.iter().filter(|step| step.action == PruneAction::Remove);
        let runs: BTreeSet<RunId> =
            steps.map(|step| step.run_id.clone()).chain(report.runs_removed.iter().cloned()).collect();
        self.forget_removed(&Vec::from_iter(runs));
    }

    /// Removes paths from an existing index.
    pub(super) fn forget_paths(&self, is_removed: impl Fn(&str) -> bool) {
        self.change_existing_index(|index| Ok(index.remove_paths(&is_removed)?));
    }

    fn change_existing_index(&self, change: impl FnOnce(&mut SearchIndex) -> Result<(), Failure>) {
        let mut slot = self.search.lock();
        let changed = match slot.open_existing(&self.index_fingerprint()) {
            Ok(Some(index)) => change(index).and_then(|()| Ok(index.flush()?)),
            Ok(None) => Ok(()),
            Err(e) => Err(e.into()),
        };
        if changed.is_err() {
            slot.discard();
        }
    }
}

/// Where a hit is in the store.
struct Place {
    checkpoint: Option<crate::model::CheckpointId>,
    sequence: Option<u64>,
    is_own: bool,
    about: Option<String>,
}

fn hit(found: Found, place: Place) -> SearchHit {
    SearchHit {
        run_id: found.run,
        checkpoint: place.checkpoint,
        sequence: place.sequence,
        kind: found.origin.kind(),
        origin: found.origin.as_str(),
        at: found.at,
        score: (found.score * 1000.0).round() / 1000.0,
        excerpt: found.excerpt,
        matches: found.matches,
        about: found.about.or(place.about),
        agent: found.agent,
    }
}
