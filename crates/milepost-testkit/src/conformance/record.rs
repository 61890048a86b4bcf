//! The run's record comes back as it was given.

use milepost::internal::model::JsonPath;
use milepost::model::{Claim, ClockReading, Decision, Owner, RawObject, Session, Status, Task, WriteToken};
use milepost::store::Store;

use crate::fixtures;
use crate::oracle::Oracle;
use crate::rng::text;

/// Every kind of member, unknown ones and text outside ASCII survive.
pub fn comes_back_verbatim(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "record-verbatim");
    let unknown = "{\"zeta\":9007199254740993,\"Alpha\":-0.0,\"é\":{\"b\": 1.0,\"a\":\"\\u00E9\\u00e9\"}}";
    let by_run = oracle.run().clone();
    let token = WriteToken::generate();
    oracle.commit(|_, commit| {
        let record = &mut commit.record;
        record.title = Some("Größe \u{1F600} \u{0} '\"\\ \u{2028}\n".into());
        record.plan = Some(String::new());
        record.status = Status::Paused;
        record.ended_at = Some(fixtures::at(-5));
        record.owner = Some(Owner {
            pid: u32::MAX,
            start_ticks: Some(u64::MAX),
            boot_id: None,
            pid_namespace: Some("pid:[4026531836]".into()),
            machine_id: None,
            name: Some("ü".into()),
        });
        record.claim = Some(Claim { by_run: by_run.clone(), at: fixtures::at(3) });
        record.command = Some(vec!["sh".into(), "-c".into(), "true\n".into()]);
        let started =
            ClockReading { at: fixtures::at(1), boot_id: Some("b".into()), uptime_ms: Some(u64::MAX) };
        record.session = Some(Session { id: "s".into(), started, elapsed_ms: 1, checkpoints: 2 });
        record.recent =
            vec![milepost::model::RecentCommit { token: token.clone(), sequence: u64::MAX, coalesced: true }];
        record.working.tasks = vec![Task::new("t1", "pending", Some("Täsk")).unwrap()];
        // The model writes unknown members of a part by name; those of the record keep their order.
        let sorted = RawObject::parse("{\"Alpha\":-0.0,\"zeta\":9007199254740993}", &JsonPath::Root).unwrap();
        record.working.decisions =
            vec![Decision { at: fixtures::at(2), supersedes: None, text: "d".into(), extra: sorted }];
        record.extra = RawObject::parse(unknown, &JsonPath::Root).unwrap();
    });
    oracle.check();
    oracle.put_many(1);
    oracle.check();
    let kept = store.run(oracle.run()).unwrap().unwrap().row.record.unwrap().extra;
    assert_eq!(kept, RawObject::parse(unknown, &JsonPath::Root).unwrap());
}

/// A record of 200 KB is carried over many writes.
pub fn may_be_large(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "record-large");
    for n in 0..4 {
        let title = text(200 * 1024, n);
        oracle.commit(|_, commit| commit.record.title = Some(title.clone()));
        oracle.put_many(1);
        oracle.check();
    }
    oracle.commit(|_, commit| commit.record.title = None);
    oracle.check();
}

/// A commit that only rewrites the record makes a run, and changes nothing else of one.
pub fn is_rewritten_without_a_put(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "record-alone");
    oracle.commit(|_, commit| commit.record.title = Some("one".into()));
    oracle.check();
    oracle.put_many(2);
    oracle.commit(|_, commit| commit.record.title = Some("two".into()));
    oracle.check();
}
