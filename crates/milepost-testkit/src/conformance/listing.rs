//! Lists are complete and in order. Their pages omit and repeat nothing.

use std::collections::HashSet;

use milepost::model::RunId;
use milepost::store::{CheckpointEntry, Cursor, HeaderQuery, RunQuery, Store};

use crate::fixtures;
use crate::oracle::{Oracle, good};

fn runs_of<'a>(store: &'a dyn Store, count: usize, name: &str) -> (Vec<Oracle<'a>>, HashSet<RunId>) {
    let oracles: Vec<_> = (0..count).map(|n| Oracle::begin(store, &format!("{name}-{n}"))).collect();
    let names = oracles.iter().map(|oracle| oracle.run().clone()).collect();
    (oracles, names)
}

/// Runs are ordered by their newest write, regardless of what it changed.
pub fn runs_by_newest_write(store: &dyn Store) {
    let (mut oracles, names) = runs_of(store, 4, "listing-runs");
    let check = |expected: &[usize], oracles: &[Oracle<'_>]| {
        let rows = store.runs(&RunQuery::default()).unwrap();
        let own: Vec<_> = rows.into_iter().filter(|row| names.contains(&row.run_id)).collect();
        assert!(own.is_sorted_by(|a, b| a.stamp > b.stamp), "runs by decreasing stamp");
        let listed: Vec<_> = own.iter().map(|row| &row.run_id).collect();
        let expected: Vec<_> = expected.iter().map(|at| oracles[*at].run()).collect();
        assert_eq!(listed, expected, "runs, newest write first");
    };
    for oracle in &mut oracles {
        oracle.put_many(2);
    }
    check(&[3, 2, 1, 0], &oracles);
    oracles[1].put_many(1);
    check(&[1, 3, 2, 0], &oracles);
    oracles[0].commit(|_, _| {});
    check(&[0, 1, 3, 2], &oracles);
    oracles[2].drop_all(&[2]);
    check(&[2, 0, 1, 3], &oracles);
    oracles[2].view();
    oracles[3].mark(1, fixtures::tagged(1, &[]));
    check(&[3, 2, 0, 1], &oracles);
    for oracle in &oracles {
        oracle.check();
    }
}

/// Pages of runs contain every run once, at any page size.
pub fn runs_in_pages(store: &dyn Store) {
    let (mut oracles, names) = runs_of(store, 9, "listing-run-pages");
    for oracle in &mut oracles {
        oracle.put_many(1);
    }
    oracles.reverse();
    let expected: Vec<_> = oracles.iter().map(|oracle| oracle.run().clone()).collect();
    for limits in [&[1][..], &[2], &[3, 1, 4], &[100]] {
        let mut before = None;
        let mut seen = Vec::new();
        for limit in limits.iter().copied().cycle() {
            let page = store.runs(&RunQuery::default().before(before).limit(limit)).unwrap();
            assert!(page.len() <= limit, "{} runs with a limit of {limit}", page.len());
            let Some(last) = page.last() else { break };
            assert!(
                before.is_none_or(|before| page.iter().all(|row| row.stamp < before)),
                "only before the stamp"
            );
            before = Some(last.stamp);
            seen.extend(page.into_iter().map(|row| row.run_id).filter(|run| names.contains(run)));
        }
        assert_eq!(seen, expected, "pages of {limits:?}");
    }
}

/// All pages of a query, with varying page sizes.
fn pages(store: &dyn Store, query: HeaderQuery<'_>, limits: &[usize]) -> Vec<CheckpointEntry> {
    let mut seen = Vec::new();
    let mut after = None;
    for limit in limits.iter().copied().cycle() {
        let page = store.headers(&query.after(after).limit(limit)).unwrap();
        assert!(page.len() <= limit, "{} rows with a limit of {limit}", page.len());
        let Some(last) = page.last() else { break };
        after = Some(last.cursor());
        seen.extend(page.into_iter().map(|row| good(&"page", row)));
    }
    seen
}

/// Pages of a run's headers contain every row once, in both directions and across gaps.
pub fn headers_in_pages(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "listing-pages");
    oracle.put_many(14);
    let gap = oracle.doc("gap");
    oracle.commit(|view, commit| commit.puts.push(gap.seal(&view.slot.at_sequence(40).unwrap())));
    oracle.put_many(9);
    oracle.drop_all(&[1, 6, 7, 44]);
    let run = oracle.run().clone();
    let query = HeaderQuery::default().run(&run);
    let mut expected = oracle.entries();
    for oldest_first in [true, false] {
        for limits in [&[1][..], &[2], &[3, 1, 7], &[5, 50], &[20], &[21]] {
            let seen = pages(store, query.oldest_first(oldest_first), limits);
            assert_eq!(seen, expected, "pages of {limits:?}, oldest first: {oldest_first}");
        }
        expected.reverse();
    }
}

/// Across all runs, the newest stamp comes first, in the complete list and in pages.
pub fn headers_across_runs(store: &dyn Store) {
    let (mut oracles, names) = runs_of(store, 3, "listing-across");
    for round in 0..15 {
        oracles[[0, 1, 1, 2, 0][round % 5]].put_many(1 + round as u64 % 2);
    }
    oracles[1].drop_all(&[2]);
    let mut expected: Vec<CheckpointEntry> = oracles.iter().flat_map(|oracle| oracle.entries()).collect();
    expected.sort_by_key(|entry| std::cmp::Reverse(entry.header.stamp()));
    let own = |entries: Vec<CheckpointEntry>| -> Vec<CheckpointEntry> {
        entries.into_iter().filter(|entry| names.contains(entry.header.run_id())).collect()
    };
    let whole = store.headers(&HeaderQuery::default()).unwrap();
    assert!(whole.is_sorted_by(|a, b| a.cursor().stamp > b.cursor().stamp), "decreasing stamps in all runs");
    assert_eq!(own(whole.into_iter().map(|row| good(&"list", row)).collect()), expected);
    for limits in [&[1][..], &[4, 1, 2], &[1000]] {
        assert_eq!(own(pages(store, HeaderQuery::default(), limits)), expected, "pages of {limits:?}");
    }
}

/// The highest numbers are valid positions, for callers that start at the end.
pub fn positions_beyond_the_end(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "listing-end");
    oracle.put_many(3);
    let (run, names) = (oracle.run().clone(), HashSet::from([oracle.run().clone()]));
    for end in [i64::MAX as u64, u64::MAX] {
        let rows = store.runs(&RunQuery::default().before(end).limit(0)).unwrap();
        assert_eq!(rows.iter().filter(|row| names.contains(&row.run_id)).count(), 1, "runs before {end}");
        let after = Some(Cursor { sequence: end, stamp: end });
        let query = HeaderQuery::default().run(&run).after(after);
        assert_eq!(store.headers(&query).unwrap().len(), 3, "headers before {end}");
        let across = store.headers(&query.run(None)).unwrap();
        assert!(across.len() >= 3, "headers of all runs before {end}");
        let rising = query.oldest_first(true);
        assert!(store.headers(&rising).unwrap().is_empty(), "headers after {end}");
    }
    let start = Some(Cursor { sequence: 0, stamp: 0 });
    let query = HeaderQuery::default().run(&run).after(start);
    assert!(store.headers(&query).unwrap().is_empty(), "headers before the first");
    assert_eq!(store.headers(&query.oldest_first(true)).unwrap().len(), 3, "from the first on");
}

/// A query for a project lists the runs with its id, newest write first, in pages too. Runs without a project id
/// are listed only by a query for all runs.
pub fn runs_of_a_project(store: &dyn Store) {
    let project = |id: Option<&str>| id.map_or("null".to_owned(), |id| format!("\"{id}\""));
    let ids = [Some("listing/one"), Some("listing/two"), None, Some("listing/one"), Some("listing/one")];
    let mut oracles: Vec<_> =
        (0..ids.len()).map(|n| Oracle::begin(store, &format!("listing-project-{n}"))).collect();
    for (oracle, id) in oracles.iter_mut().zip(ids) {
        let doc = oracle.doc(1);
        oracle.commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.record = fixtures::set_member(&commit.record, "project_id", &project(id));
        });
    }
    // A plain save changes the order.
    oracles[0].put_many(1);
    oracles.iter().for_each(Oracle::check);
    let names: Vec<_> = oracles.iter().map(|oracle| oracle.run().clone()).collect();
    let ask = |query: RunQuery<'_>| -> Vec<_> {
        store.runs(&query).unwrap().into_iter().map(|row| (row.run_id, row.stamp)).collect()
    };
    let of_one = RunQuery::default().project("listing/one");
    let found = ask(of_one);
    let found_names: Vec<_> = found.iter().map(|(run, _)| run).collect();
    assert_eq!(found_names, [&names[0], &names[4], &names[3]], "the runs of one project");
    assert_eq!(ask(of_one.limit(2)), found[..2], "the newest runs of one project");
    assert_eq!(ask(of_one.before(found[0].1).limit(1)), found[1..2], "the next page");
    assert_eq!(ask(RunQuery::default().project("listing/two")).len(), 1);
    assert!(ask(RunQuery::default().project("listing")).is_empty(), "an id is compared as a whole");
    let all = ask(RunQuery::default());
    assert!(names.iter().all(|name| all.iter().any(|(run, _)| run == name)), "all runs without a filter");
}
