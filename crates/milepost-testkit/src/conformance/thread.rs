//! Lists of checkpoints by their positions in threads: sorted by id, limited to a namespace, an id or an invocation,
//! and continued after a position.

use milepost::model::{NAMESPACE_LIMIT, RunId, THREAD_ID_LIMIT, ThreadPosition};
use milepost::store::{CheckpointFilter, HeaderQuery, Maintenance, Store, ThreadFilter};

use crate::fixtures::position;
use crate::oracle::{Oracle, good};

/// The ids in a list.
fn listed(store: &dyn Store, run: Option<&RunId>, filter: ThreadFilter<'_>, limit: usize) -> Vec<String> {
    let find = CheckpointFilter::Thread(filter);
    let rows = store.headers(&HeaderQuery::default().run(run).find(find).limit(limit)).unwrap();
    let id = |thread: &Option<ThreadPosition>| thread.as_ref().expect("a position").id.clone();
    rows.into_iter().map(|row| id(good(&"thread", row).header.thread())).collect()
}

fn all() -> ThreadFilter<'static> {
    ThreadFilter::default()
}

/// Puts one checkpoint per position, in this order.
fn put(oracle: &mut Oracle<'_>, positions: &[(&str, &str)]) {
    for (namespace, id) in positions {
        let doc = oracle.doc(oracle.view().slot.sequence());
        oracle.put(&doc.thread(position(namespace, id)));
    }
}

/// The order is that of the ids, not that of the sequence numbers. Checkpoints without a position are not listed.
pub fn sorted_by_id(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-order");
    oracle.put_many(2);
    put(&mut oracle, &[("", "c"), ("", "a"), ("", "e"), ("", "b"), ("", "B"), ("", "é"), ("", "a0")]);
    oracle.put_many(1);
    let run = Some(oracle.run());
    let expected = ["é", "e", "c", "b", "a0", "a", "B"];
    assert_eq!(listed(store, run, all(), 0), expected);
    for limit in 1..=expected.len() {
        assert_eq!(listed(store, run, all(), limit), expected[..limit], "limit {limit}");
    }
    let query = HeaderQuery::default().run(run).find(CheckpointFilter::Thread(all())).oldest_first(true);
    let rows = store.headers(&query).unwrap();
    let first = good(&"thread", rows.into_iter().next().unwrap());
    assert_eq!(first.header.thread().as_ref().unwrap().id, "é", "oldest_first is ignored");
    oracle.check();
}

/// Ids of different namespaces are independent, and a list of the run includes all of them.
pub fn namespaces(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-namespaces");
    let mut other = Oracle::begin(store, "thread-namespaces-other");
    put(&mut oracle, &[("", "1"), ("child", "3"), ("", "2"), ("child:x", "4"), ("child", "1")]);
    put(&mut other, &[("", "7"), ("child", "8")]);
    let run = Some(oracle.run());
    let of = |namespace| listed(store, run, all().namespace(namespace), 0);
    assert_eq!(of(""), ["2", "1"]);
    assert_eq!(of("child"), ["3", "1"]);
    assert_eq!(of("child:x"), ["4"]);
    for unknown in ["chil", "child:", "CHILD", "%", "child%", "_hild"] {
        assert!(of(unknown).is_empty(), "namespace {unknown:?}");
    }
    assert_eq!(listed(store, run, all(), 0), ["4", "3", "2", "1", "1"]);
    assert_eq!(listed(store, run, all().namespace("").id("1"), 0), ["1"]);
    assert_eq!(listed(store, run, all().id("1"), 0), ["1", "1"]);
    assert!(listed(store, run, all().namespace("").id("3"), 0).is_empty());
    oracle.check();
    other.check();
}

/// Pages continue after a position. The same id can occur several times.
pub fn pages_with_ties(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-pages");
    let ids = ["5", "3", "3", "1", "3", "9", "3", "5"];
    put(&mut oracle, &ids.map(|id| ("", id)));
    put(&mut oracle, &[("other", "4"), ("other", "3")]);
    for (namespace, count) in [(Some(""), 8), (Some("other"), 2), (None, 10)] {
        let filter = all().namespace(namespace);
        let query = HeaderQuery::default().run(oracle.run());
        let rows = store.headers(&query.find(CheckpointFilter::Thread(filter))).unwrap();
        let whole: Vec<_> = rows.into_iter().map(|row| good(oracle.run(), row)).collect();
        assert_eq!(whole.len(), count);
        for limit in 1..4 {
            let mut paged = Vec::new();
            let mut after: Option<(String, u64)> = None;
            loop {
                let after_it = after.as_ref().map(|(id, stamp)| (id.as_str(), *stamp));
                let find = CheckpointFilter::Thread(filter.after(after_it));
                let page = store.headers(&query.find(find).limit(limit)).unwrap();
                let page: Vec<_> = page.into_iter().map(|row| good(oracle.run(), row)).collect();
                let Some(last) = page.last() else { break };
                assert!(page.len() <= limit);
                after = Some((last.header.thread().as_ref().unwrap().id.clone(), last.header.stamp()));
                paged.extend(page);
            }
            assert_eq!(paged, whole, "pages of {limit} in {namespace:?}");
        }
    }
    let run = Some(oracle.run());
    assert_eq!(listed(store, run, all().namespace("").id("3").after(("3", u64::MAX)), 0), ["3"; 4]);
    assert!(listed(store, run, all().id("3").after(("3", 0)), 0).is_empty());
    assert!(listed(store, run, all().id("3").after(("2", u64::MAX)), 0).is_empty());
    assert_eq!(listed(store, run, all().namespace("").id("3").after(("4", 0)), 0), ["3"; 4]);
    assert_eq!(listed(store, run, all().after(("unknown", 1)), 1), ["9"]);
    oracle.check();
}

/// By the invocation, in one run and in all runs.
pub fn by_invocation(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-invocation");
    let mut other = Oracle::begin(store, "thread-invocation-other");
    let name = "thread-invocation é%_'\"";
    let of = |namespace, id, invocation: &str| {
        let mut position = position(namespace, id);
        position.invocation = Some(invocation.to_owned());
        position
    };
    for (n, (namespace, id, invocation)) in
        [("", "2", name), ("", "1", name), ("child", "3", name), ("", "4", "thread-invocation-2")]
            .into_iter()
            .enumerate()
    {
        oracle.put(&oracle.doc(n).thread(of(namespace, id, invocation)));
    }
    oracle.put(&oracle.doc("none").thread(position("", "5")));
    other.put(&other.doc("1").thread(of("", "9", name)));
    let run = Some(oracle.run());
    assert_eq!(listed(store, run, all().invocation(name), 0), ["3", "2", "1"]);
    assert_eq!(listed(store, run, all().invocation(name), 2), ["3", "2"]);
    assert_eq!(listed(store, run, all().invocation(name).namespace(""), 0), ["2", "1"]);
    assert_eq!(listed(store, run, all().invocation(name).id("1"), 0), ["1"]);
    assert!(listed(store, run, all().invocation(name).id("4"), 0).is_empty());
    assert_eq!(listed(store, None, all().invocation(name), 0), ["9", "3", "2", "1"]);
    assert_eq!(listed(store, None, all().invocation(name).after(("3", 0)), 0), ["2", "1"]);
    assert!(listed(store, None, all().invocation(""), 0).is_empty(), "no invocation is not an empty one");
    oracle.check();
}

/// Lists of all runs, by id and stamp.
pub fn across_runs(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-across");
    let mut other = Oracle::begin(store, "thread-across-other");
    put(&mut oracle, &[("thread-across", "thread-across-1")]);
    put(&mut other, &[("thread-across", "thread-across-2"), ("thread-across", "thread-across-1")]);
    put(&mut oracle, &[("thread-across", "thread-across-3")]);
    let of_namespace = all().namespace("thread-across");
    let expected = ["3", "2", "1", "1"].map(|n| format!("thread-across-{n}"));
    assert_eq!(listed(store, None, of_namespace, 0), expected);
    assert_eq!(listed(store, None, of_namespace, 2), expected[..2]);
    assert_eq!(listed(store, None, of_namespace.after(("thread-across-3", 0)), 1), expected[1..2]);
    let rows =
        store.headers(&HeaderQuery::default().find(CheckpointFilter::Thread(all().id("thread-across-1"))));
    let runs: Vec<_> =
        rows.unwrap().into_iter().map(|row| good(&"thread", row).header.run_id().clone()).collect();
    assert_eq!(runs, [other.run().clone(), oracle.run().clone()], "the newer stamp comes first");
    assert!(listed(store, Some(&crate::fixtures::run_id("thread-across-unknown")), all(), 0).is_empty());
}

/// Dropped checkpoints are not listed, also if the same commit adds the same id again.
pub fn gone_with_the_checkpoint(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-dropped");
    put(&mut oracle, &[("", "1"), ("", "2"), ("child", "3"), ("", "4")]);
    for _ in 0..3 {
        let doc = oracle.doc(oracle.view().slot.sequence()).thread(position("", "2"));
        let before = oracle.sequence_at("", "2").unwrap();
        oracle.commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.drops.push(before);
        });
        oracle.check();
        assert_eq!(listed(store, Some(oracle.run()), all().namespace(""), 0), ["4", "2", "1"]);
    }
    oracle.put_many(10).check();
    oracle.drop_all(&[1, 3, 4]).check();
    assert_eq!(listed(store, Some(oracle.run()), all(), 0), ["2"]);
    store.maintain(Maintenance::Compact).unwrap();
    oracle.check();
    oracle.drop_all(&oracle.sequences()).check();
    assert!(listed(store, Some(oracle.run()), all(), 0).is_empty());
}

/// The positions of a deleted run are not listed, also if a run of the same name begins anew.
pub fn gone_with_the_run(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-deleted");
    let mut other = Oracle::begin(store, "thread-deleted-other");
    put(&mut oracle, &[("", "thread-deleted"), ("child", "thread-deleted")]);
    put(&mut other, &[("", "thread-deleted")]);
    oracle.delete().check();
    assert_eq!(listed(store, None, all().id("thread-deleted"), 0), ["thread-deleted"]);
    oracle.put_many(1).check();
    assert!(listed(store, Some(oracle.run()), all(), 0).is_empty());
    other.check();
}

/// Every save is listed at once, however many came before it.
pub fn listed_after_every_save(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-saves");
    for n in 0..40u64 {
        let namespace = if n % 5 == 0 { "child" } else { "" };
        let id = format!("{:04}", n * 17 % 40);
        put(&mut oracle, &[(namespace, &id)]);
        assert_eq!(listed(store, Some(oracle.run()), all().namespace(namespace).id(&*id), 0), [id]);
        if n % 8 == 3 {
            oracle.check();
        }
    }
    let sequence = oracle.sequences()[20];
    oracle.mark(sequence, crate::fixtures::tagged(1, &["thread-saves"]));
    oracle.check();
}

/// Ids and namespaces contain no wildcards, are case-sensitive and keep every character.
pub fn characters_are_literal(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-literal");
    let texts = ["a%", "a_", "ab", "A_", "é\u{1F600}", "'\"\\", "a b", "\u{10ffff}", "%s", "?1", "a\n"];
    for text in texts {
        put(&mut oracle, &[(text, text)]);
    }
    for text in texts {
        let found = |filter| listed(store, Some(oracle.run()), filter, 0);
        assert_eq!(found(all().id(text)), [text]);
        assert_eq!(found(all().namespace(text)), [text]);
    }
    for unknown in ["a\0", "\0", "a%\0"] {
        let found = |filter| listed(store, Some(oracle.run()), filter, 0).len();
        assert_eq!(
            found(all().id(unknown)) + found(all().namespace(unknown)) + found(all().invocation(unknown)),
            0
        );
    }
    assert_eq!(listed(store, Some(oracle.run()), all().after(("a\n\0x", 0)), 1), ["a\n"]);
    assert_eq!(listed(store, Some(oracle.run()), all().after(("a\n", 0)), 1), ["A_"]);
    let long = "é".repeat(THREAD_ID_LIMIT / 2);
    let namespace = "n".repeat(NAMESPACE_LIMIT);
    put(&mut oracle, &[(&namespace, &long)]);
    assert_eq!(listed(store, Some(oracle.run()), all().namespace(&*namespace), 0), [long]);
    let mut sorted = texts;
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let expected: Vec<_> = sorted.into_iter().filter(|text| *text > "é\u{1F601}" || *text < "é").collect();
    let rest = listed(store, Some(oracle.run()), all(), 0);
    let rest: Vec<_> = rest.iter().map(String::as_str).filter(|id| !id.starts_with('é')).collect();
    assert_eq!(rest, expected, "sorted byte by byte");
    oracle.check();
}

/// Positions that stores cannot use as keys are refused.
pub fn invalid_ones_are_refused(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-refused");
    put(&mut oracle, &[("", "1")]);
    let mut long_invocation = position("", "2");
    long_invocation.invocation = Some("x".repeat(THREAD_ID_LIMIT + 1));
    let mut zero_invocation = position("", "2");
    zero_invocation.invocation = Some("\0".into());
    for invalid in [
        position("", ""),
        position("", &"x".repeat(THREAD_ID_LIMIT + 1)),
        position(&"x".repeat(NAMESPACE_LIMIT + 1), "2"),
        position("", "2\0"),
        position("\0", "2"),
        long_invocation,
        zero_invocation,
    ] {
        let doc = oracle.doc("refused").thread(invalid);
        oracle.expect_refusal(|view, commit| commit.puts.push(doc.seal(&view.slot)));
    }
    assert_eq!(listed(store, Some(oracle.run()), all(), 0), ["1"]);
}

/// Another handle lists what this one saved and dropped.
pub fn another_handle_lists_positions(store: &dyn Store, other: &dyn Store) {
    let mut oracle = Oracle::begin(store, "thread-handles");
    for id in ["2", "1", "3"] {
        put(&mut oracle, &[("", id)]);
        oracle.check_on(other);
    }
    oracle.drop_all(&[1]);
    oracle.check_on(other);
    assert_eq!(listed(other, Some(oracle.run()), all().namespace(""), 0), ["3", "1"]);
    oracle.delete();
    assert!(listed(other, Some(oracle.run()), all(), 0).is_empty());
}
