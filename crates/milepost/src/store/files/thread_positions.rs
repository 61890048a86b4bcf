//! The index of the positions in threads of one run, and the lists that it answers.
//! Takes replayed logs and a filter, and returns rows in the order of the ids. Opens no documents.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::state::{RowRef, RunLog};
use crate::model::RunId;
use crate::seal::Header;
use crate::store::{Row, ThreadFilter};

/// The positions that one map lists: all of the run, or those of a namespace or an invocation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Run,
    Namespace(String),
    Invocation(String),
}

/// The sequences of checkpoints by the id and stamp of their position, in each scope.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadPositions(BTreeMap<Scope, BTreeMap<(String, u64), u64>>);

impl ThreadPositions {
    pub(super) fn add(&mut self, header: &Header) {
        for (scope, key) in keys(header) {
            self.0.entry(scope).or_default().insert(key, header.sequence);
        }
    }

    pub(super) fn remove(&mut self, header: &Header) {
        for (scope, key) in keys(header) {
            if let Some(positions) = self.0.get_mut(&scope) {
                positions.remove(&key);
                if positions.is_empty() {
                    self.0.remove(&scope);
                }
            }
        }
    }

    /// The sequences of the positions in the narrowest scope of a filter that can match it, in the order of the
    /// list.
    fn candidates(&self, filter: &ThreadFilter<'_>) -> impl Iterator<Item = u64> {
        let scope = match (filter.invocation, filter.namespace) {
            (Some(invocation), _) => Scope::Invocation(invocation.to_owned()),
            (None, Some(namespace)) => Scope::Namespace(namespace.to_owned()),
            (None, None) => Scope::Run,
        };
        let first = (filter.id.unwrap_or_default().to_owned(), 0);
        // Only the next string sorts directly after an id.
        let beyond_id = filter.id.map(|id| (format!("{id}\0"), 0));
        let after = filter.after.map(|(id, stamp)| (id.to_owned(), stamp));
        let end = [beyond_id, after].into_iter().flatten().min();
        let listed = self.0.get(&scope).into_iter().flat_map(move |positions| {
            // A range whose start is after its end panics.
            let end = match &end {
                Some(end) => Bound::Excluded(end.clone().max(first.clone())),
                None => Bound::Unbounded,
            };
            positions.range((Bound::Included(first.clone()), end)).rev()
        });
        listed.map(|(_, sequence)| *sequence)
    }
}

fn keys(header: &Header) -> impl Iterator<Item = (Scope, (String, u64))> {
    header.thread.iter().flat_map(|thread| {
        let invocation = thread.invocation.clone().map(Scope::Invocation);
        let scopes = [Some(Scope::Run), Some(Scope::Namespace(thread.namespace.clone())), invocation];
        scopes.into_iter().flatten().map(|scope| (scope, (thread.id.clone(), header.stamp)))
    })
}

/// The rows with a position that a filter matches; a limit of 0 means no limit.
pub(super) fn list(logs: &[(RunId, Arc<RunLog>)], filter: &ThreadFilter<'_>, limit: usize) -> Vec<Row> {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let mut found: Vec<(&Header, &RunId, RowRef<'_>)> = Vec::new();
    for (run, log) in logs {
        let live = log.positions.candidates(filter).filter_map(|sequence| log.entries.get(&sequence));
        let live = live.map(|live| (&live.entry.header, run, RowRef::Live(live)));
        found.extend(live.filter(|(header, ..)| filter.matches(header)).take(limit));
        let unexplained = log
            .unexplained
            .iter()
            .filter_map(|found| Some((found.header.as_ref()?, run, RowRef::Unexplained(found))));
        found.extend(unexplained.filter(|(header, ..)| filter.matches(header)));
    }
    let key = |header: &Header| (header.thread.as_ref().map(|thread| thread.id.clone()), header.stamp);
    found.sort_by_cached_key(|(header, ..)| std::cmp::Reverse(key(header)));
    found.iter().take(limit).map(|(_, run, row)| row.row(run)).collect()
}
