//! A run's record is returned exactly as it was written.

use milepost::internal::model::JsonPath;
use milepost::model::{RawObject, RunRecord};
use milepost::store::Store;
use serde_json::json;

use crate::fixtures;
use crate::oracle::Oracle;
use crate::rng::text;

/// Every kind of member is preserved, including unknown ones and non-ASCII text.
pub fn comes_back_verbatim(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "record-verbatim");
    let unknown = "{\"zeta\":9007199254740993,\"Alpha\":-0.0,\"é\":{\"b\": 1.0,\"a\":\"\\u00E9\\u00e9\"}}";
    let decision =
        r#"{"Alpha":-0.0,"at":"2026-01-01T00:00:02Z","supersedes":null,"text":"d","zeta":9007199254740993}"#;
    let started = json!({ "at": fixtures::at(1), "boot_id": "b", "uptime_ms": u64::MAX });
    let members = [
        ("title", json!("Größe \u{1F600} \u{0} '\"\\ \u{2028}\n").to_string()),
        ("plan", json!("").to_string()),
        ("status", json!("paused").to_string()),
        ("ended_at", json!(fixtures::at(-5)).to_string()),
        (
            "owner",
            json!({ "pid": u32::MAX, "start_ticks": u64::MAX, "boot_id": null, "name": "ü" }).to_string(),
        ),
        ("claim", json!({ "by_run": oracle.run(), "at": fixtures::at(3) }).to_string()),
        ("command", json!(["sh", "-c", "true\n"]).to_string()),
        ("session", json!({ "id": "s", "started": started, "elapsed_ms": 1, "checkpoints": 2 }).to_string()),
        ("recent", json!([{ "token": "0123456789ab", "sequence": u64::MAX, "coalesced": true }]).to_string()),
        ("working", format!(r#"{{"tasks":[{{"id":"t1","status":"pending"}}],"decisions":[{decision}]}}"#)),
        ("extra", unknown.to_owned()),
    ];
    oracle.commit(|_, commit| {
        for (name, json) in &members {
            commit.record = fixtures::set_member(&commit.record, name, json);
        }
    });
    oracle.check();
    oracle.put_many(1).check();
    let kept = store.run(oracle.run()).unwrap().unwrap().row.record.unwrap();
    assert_eq!(*kept.extra(), RawObject::parse(unknown, &JsonPath::Root).unwrap());
}

/// A record of 200 KB is preserved over several writes.
pub fn may_be_large(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "record-large");
    for n in 0..4 {
        let title = text(200 * 1024, n);
        oracle.commit(|_, commit| commit.record = titled(&commit.record, Some(&title)));
        oracle.put_many(1).check();
    }
    oracle.commit(|_, commit| commit.record = titled(&commit.record, None)).check();
}

/// A commit that only writes the record creates a run, and changes nothing else in an existing one.
pub fn is_rewritten_without_a_put(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "record-alone");
    oracle.commit(|_, commit| commit.record = titled(&commit.record, Some("one"))).check();
    oracle.put_many(2);
    oracle.commit(|_, commit| commit.record = titled(&commit.record, Some("two"))).check();
}

fn titled(record: &RunRecord, title: Option<&str>) -> RunRecord {
    fixtures::set_member(record, "title", &json!(title).to_string())
}
