//! Finds checkpoints by sequence number, id, id prefix, tag and foreign id: exactly the matching ones, each
//! once.

use milepost::model::RunId;
use milepost::store::CheckpointFilter::{All, Id, Name, Prefix, Sequence, ShortId};
use milepost::store::{CheckpointFilter, HeaderQuery, Store};

use crate::fixtures::tagged;
use crate::oracle::{Oracle, good};

/// The ids that a query returns.
fn found(store: &dyn Store, run: Option<&RunId>, find: CheckpointFilter<'_>) -> Vec<String> {
    ids(store, HeaderQuery::default().run(run).find(find))
}

fn ids(store: &dyn Store, query: HeaderQuery<'_>) -> Vec<String> {
    let rows = store.headers(&query).unwrap();
    let ids = rows.into_iter().map(|row| good(&"find", row).header.snapshot_id().to_string());
    ids.collect()
}

/// By sequence number, within a run.
pub fn by_sequence(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-sequence");
    let mut other = Oracle::begin(store, "find-sequence-other");
    oracle.put_many(5);
    other.put_many(5);
    oracle.drop_all(&[2]);
    let run = Some(oracle.run());
    for sequence in [1, 3, 4, 5] {
        assert_eq!(found(store, run, Sequence(sequence)), [format!("cp_find-sequence_{sequence}")]);
    }
    for sequence in [0, 2, 6, i64::MAX as u64, u64::MAX] {
        assert!(found(store, run, Sequence(sequence)).is_empty(), "sequence {sequence}");
    }
}

/// By the complete id, in one run and in all runs.
pub fn by_id(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-id");
    let mut other = Oracle::begin(store, "find-id-other");
    oracle.put_many(12);
    other.put_many(1);
    let (run, elsewhere) = (Some(oracle.run()), Some(other.run()));
    assert_eq!(found(store, None, Id("cp_find-id_1")), ["cp_find-id_1"]);
    assert_eq!(found(store, run, Id("cp_find-id_1")), ["cp_find-id_1"]);
    assert!(found(store, elsewhere, Id("cp_find-id_1")).is_empty(), "an id of another run");
    for id in ["cp_find-id_", "cp_find-id_99", "CP_find-id_1", "cp_find-id_1 ", "cp%", "", "é", "../x", "a/b"]
    {
        assert!(found(store, None, Id(id)).is_empty(), "id {id:?}");
    }
    oracle.drop_all(&[1]);
    assert!(found(store, None, Id("cp_find-id_1")).is_empty(), "the id of a dropped checkpoint");
}

/// By a prefix of the id, newest first.
pub fn by_prefix(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-prefix");
    let mut other = Oracle::begin(store, "find-prefix-other");
    for label in ["a", "ab", "abz", "abzz", "b", "a-z"] {
        oracle.put(&oracle.doc(label).id(&format!("findprefix.{label}")));
    }
    other.put(&other.doc("abc").id("findprefix.abc"));
    let all = |prefix| found(store, None, Prefix(prefix));
    assert_eq!(
        all("findprefix.ab"),
        ["findprefix.abc", "findprefix.abzz", "findprefix.abz", "findprefix.ab"]
    );
    assert_eq!(all("findprefix.abz"), ["findprefix.abzz", "findprefix.abz"]);
    assert_eq!(all("findprefix.abzz"), ["findprefix.abzz"]);
    assert_eq!(all("findprefix.").len(), 7);
    assert!(all("findprefix.abzzz").is_empty());
    assert!(all("indprefix").is_empty(), "the middle of an id");
    let own = found(store, Some(oracle.run()), Prefix("findprefix.ab"));
    assert_eq!(own, ["findprefix.abzz", "findprefix.abz", "findprefix.ab"]);
    assert_eq!(found(store, Some(oracle.run()), Prefix("")).len(), 6, "the empty prefix matches every id");
    oracle.drop_all(&[3]);
    assert_eq!(all("findprefix.abz"), ["findprefix.abzz"]);
    oracle.check();
}

/// By the start of the short id, which only generated ids have.
pub fn by_short_id(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-short");
    let mut other = Oracle::begin(store, "find-short-other");
    let id = |random: &str| format!("cp_20260102T030405006Z_{random}");
    for random in ["short0000000", "short0000001", "shorz0000000"] {
        oracle.put(&oracle.doc(random).id(&id(random)));
    }
    oracle.put(&oracle.doc("long").id("cp_20260102T030405006Z_short0000000x"));
    oracle.put(&oracle.doc("foreign").id("findshort-20260102T0304_short0000002"));
    other.put(&other.doc("other").id(&id("short1000000")));
    let all = |start| found(store, None, ShortId(start));
    assert_eq!(all("short0000001"), [id("short0000001")]);
    assert_eq!(all("short0"), [id("short0000001"), id("short0000000")], "newest first");
    assert_eq!(all("short").len(), 3);
    assert_eq!(found(store, Some(other.run()), ShortId("short")), [id("short1000000")]);
    for start in ["hort", "SHORT", "short_", "short%", "short00000000", "cp_"] {
        assert!(all(start).is_empty(), "{start:?}");
    }
    oracle.drop_all(&[1]);
    assert_eq!(all("short0"), [id("short0000001")]);
}

/// A prefix contains no wildcards and is case-sensitive.
pub fn prefix_characters_are_literal(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-literal");
    let labels = ["cp_1", "cpX1", "cp.1", "cp-1", "CP_1", "cp_12", "cp1"];
    for label in labels {
        oracle.put(&oracle.doc(label).id(&format!("findliteral-{label}")));
    }
    let all = |prefix: &str| found(store, None, Prefix(&format!("findliteral-{prefix}")));
    assert_eq!(all("cp_1"), ["findliteral-cp_12", "findliteral-cp_1"]);
    for label in ["cpX1", "cp.1", "cp-1", "CP_1", "cp1"] {
        assert_eq!(all(label), [format!("findliteral-{label}")], "prefix {label}");
    }
    for prefix in
        ["cp%", "%", "cp?1", "cp*", "cp[_]1", "cp\\_1", "_p", "cp_1'", "cp_1\u{0}", "cp_1é", "cp_1\u{10ffff}"]
    {
        assert!(all(prefix).is_empty(), "prefix {prefix:?} found {:?}", all(prefix));
    }
}

/// By the complete, current tag. All checkpoints with the tag are found.
pub fn by_tag(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-tag");
    let mut other = Oracle::begin(store, "find-tag-other");
    let tag = "find tag é\u{1F600} %_'\"\\";
    oracle.put_many(5);
    other.put_many(1);
    oracle.mark(2, tagged(1, &["find-tag-first", tag]));
    oracle.mark(4, tagged(1, &[tag]));
    other.mark(1, tagged(1, &[tag]));
    oracle.check();
    let all = |name| found(store, None, Name(name));
    // The order follows the checkpoints' stamps, not their marks.
    assert_eq!(all(tag), ["cp_find-tag-other_1", "cp_find-tag_4", "cp_find-tag_2"]);
    assert_eq!(found(store, Some(oracle.run()), Name(tag)), ["cp_find-tag_4", "cp_find-tag_2"]);
    assert_eq!(all("find-tag-first"), ["cp_find-tag_2"]);
    for name in [
        "find-tag-firs",
        "find-tag-first ",
        "FIND-TAG-FIRST",
        "find tag%",
        "find_tag_first",
        "",
        "cp_find-tag_2",
    ] {
        assert!(all(name).is_empty(), "name {name:?}");
    }
    oracle.mark(2, tagged(2, &["find-tag-second"]));
    assert!(all("find-tag-first").is_empty(), "a removed tag");
    assert_eq!(all("find-tag-second"), ["cp_find-tag_2"]);
    oracle.drop_all(&[4]);
    assert_eq!(all(tag), ["cp_find-tag-other_1"], "the tag of a dropped checkpoint");
    oracle.put_many(1).check();
    other.check();
}

/// By the foreign id of an imported checkpoint.
pub fn by_imported_id(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-imported");
    let mut other = Oracle::begin(store, "find-imported-other");
    for (label, foreign) in [("1", "foreign/é 1"), ("2", "foreign/é 2")] {
        oracle.put(&oracle.doc(label).imported(foreign));
    }
    other.put(&other.doc("1").imported("foreign/é 1"));
    oracle.check();
    let all = |name| found(store, None, Name(name));
    assert_eq!(all("foreign/é 1"), ["cp_find-imported-other_1", "cp_find-imported_1"]);
    assert_eq!(all("foreign/é 2"), ["cp_find-imported_2"]);
    assert_eq!(found(store, Some(other.run()), Name("foreign/é 1")), ["cp_find-imported-other_1"]);
    assert!(all("foreign/é").is_empty());
    assert!(found(store, None, Id("foreign/é 2")).is_empty(), "a foreign id is a name, not an id");
    // The foreign id belongs to the checkpoint, so changed marks do not affect it.
    oracle.mark(2, tagged(1, &["x"]));
    oracle.mark(2, tagged(2, &[]));
    assert_eq!(all("foreign/é 2"), ["cp_find-imported_2"]);
    oracle.drop_all(&[2]);
    assert!(all("foreign/é 2").is_empty());
}

/// A checkpoint that matches a name in several ways is found once.
pub fn name_finds_each_once(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-once");
    let doc = oracle.doc("both").imported("find-once-name");
    oracle.put_marked(&doc, Some(tagged(1, &["find-once-name", "find-once-name"])));
    oracle.put_tagged(&oracle.doc("tag"), "find-once-name");
    oracle.put(&oracle.doc("import").imported("find-once-name"));
    let expected = ["cp_find-once_import", "cp_find-once_tag", "cp_find-once_both"];
    assert_eq!(found(store, None, Name("find-once-name")), expected);
    assert_eq!(found(store, Some(oracle.run()), Name("find-once-name")), expected);
    oracle.check();
}

/// Direction, cursor and limit also apply to a search.
pub fn combined_with_paging(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "find-paged");
    for n in 1..=9 {
        let doc = oracle.doc(n);
        if n % 2 == 0 {
            oracle.put_tagged(&doc, "find-paged-even");
        } else {
            oracle.put(&doc);
        }
    }
    for find in [Name("find-paged-even"), Prefix("cp_find-paged_"), All] {
        let run = Some(oracle.run());
        let query = HeaderQuery::default().run(run).find(find);
        let whole = ids(store, query);
        assert_eq!(whole.len(), if matches!(find, Name(_)) { 4 } else { 9 });
        let mut turned = ids(store, query.oldest_first(true));
        turned.reverse();
        assert_eq!(turned, whole, "{find:?}, oldest first");
        assert_eq!(ids(store, query.limit(2)), whole[..2], "{find:?}, limit");
        let second = store.headers(&query.limit(2)).unwrap().pop().unwrap().cursor();
        let rest = query.after(second);
        assert_eq!(ids(store, rest), whole[2..], "{find:?}, after a cursor");
        if find != All {
            assert_eq!(ids(store, rest.run(None)), whole[2..], "{find:?}, over all runs");
        }
    }
}
