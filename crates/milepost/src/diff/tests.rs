//! Tests of comparing JSON: exact numbers, lists by id, and the time for a large state.

use proptest::prelude::*;

use super::*;

fn changes(before: &str, after: &str) -> Vec<(String, String, String)> {
    let mut changed = Vec::new();
    json::compare("state", Some(before), Some(after), &mut changed).unwrap();
    let text = |raw: Option<RawJson>| raw.map_or("-".to_owned(), |raw| raw.get().to_owned());
    changed.into_iter().map(|c| (c.path, text(c.before), text(c.after))).collect()
}

fn change(path: &str, before: &str, after: &str) -> (String, String, String) {
    (path.to_owned(), before.to_owned(), after.to_owned())
}

#[test]
fn values_count_and_not_how_they_are_written() {
    assert_eq!(changes(r#"{"a":1,"b":{"c":"é"}}"#, r#"{ "b": {"c":"\u00e9"}, "a": 1 }"#), []);
    assert_eq!(changes("[1, 2]", "[1,2]"), []);
    assert_eq!(changes("1", "1.0"), [change("/state", "1", "1.0")]);
    assert_eq!(changes("9007199254740993", "9007199254740992").len(), 1, "beyond 2^53");
    assert_eq!(changes("{\"a\":1e2}", "{\"a\":100}"), [change("/state/a", "1e2", "100")]);
    assert_eq!(changes("-0.0", "0.0").len(), 1);
}

#[test]
fn paths_lead_to_the_smallest_change() {
    assert_eq!(
        changes(r#"{"a":{"x":1,"y":[1,2,3]},"gone":true}"#, r#"{"a":{"x":2,"y":[1,9,2,3]},"n/w~":null}"#),
        [
            change("/state/a/x", "1", "2"),
            change("/state/a/y/1", "-", "9"),
            change("/state/gone", "true", "-"),
            change("/state/n~1w~0", "-", "null"),
        ]
    );
    assert_eq!(changes("{\"a\":[]}", "{\"a\":{}}"), [change("/state/a", "[]", "{}")]);
}

#[test]
fn elements_with_an_id_are_found_by_it() {
    let before = r#"[{"id":"a","n":1},{"id":"b","n":2},{"id":3,"n":3}]"#;
    let after = r#"[{"id":3,"n":3},{"n":9,"id":"b"},{"id":"c"}]"#;
    assert_eq!(
        changes(before, after),
        [
            change("/state[a]", r#"{"id":"a","n":1}"#, "-"),
            change("/state[b]/n", "2", "9"),
            change("/state[c]", "-", r#"{"id":"c"}"#),
            change("/state[]", r#"["b","3"]"#, r#"["3","b"]"#),
        ]
    );
    assert_eq!(changes(r#"[{"id":"b"}]"#, r#"[{"id":"a"},{"id":"b"}]"#).len(), 1, "only an insertion");
    let doubled = r#"[{"id":"a"},{"id":"a"}]"#;
    assert_eq!(changes(doubled, "[{\"id\":\"a\"}]").len(), 1, "a duplicate id identifies no element");
}

#[test]
fn a_large_state_is_read_once() {
    let state = |changed: usize| {
        let tasks: Vec<_> = (0..16_000)
            .map(|i| format!(r#"{{"id":"t{i}","title":"some task or other","n":{}}}"#, i / changed.max(1)))
            .collect();
        // Deeply nested as well.
        format!("{}{}{}", "[".repeat(90), tasks.join(","), "]".repeat(90))
    };
    let (a, b) = (state(1), state(2));
    assert!(a.len() > 700_000);
    let start = std::time::Instant::now();
    assert_eq!(changes(&a, &b).len(), 15_999);
    // Fast even without optimisation; comparing each pair of elements would take minutes.
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

/// Arbitrary JSON text.
fn value(depth: u32) -> BoxedStrategy<String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|b| b.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        "[a-z\u{e9}\"\\\\\n/~]{0,6}".prop_map(|text| serde_json::to_string(&text).unwrap()),
    ];
    leaf.prop_recursive(depth, 40, 5, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(",")));
        let object = prop::collection::btree_map("[a-d/~]{1,2}|id", inner, 0..5).prop_map(|all| {
            let members = all.into_iter().map(|(k, v)| format!("{}:{v}", serde_json::to_string(&k).unwrap()));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        });
        prop_oneof![list, object]
    })
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nothing_changed_means_the_same_value(a in value(4), b in value(4)) {
        prop_assert!(changes(&a, &a).is_empty());
        let parsed = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        // All numbers here are integers, so equal numbers have equal text.
        prop_assert_eq!(changes(&a, &b).is_empty(), parsed(&a) == parsed(&b));
        prop_assert_eq!(changes(&a, &b).len(), changes(&b, &a).len(), "comparing is symmetric");
    }
}
