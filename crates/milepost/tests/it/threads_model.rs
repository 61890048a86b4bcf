//! Random histories of threads, compared with a model that is obviously correct.

use std::collections::BTreeMap;

use milepost::{PruneOptions, ThreadKey, ThreadQuery, ThreadWrite, Threads, TypedValue};
use proptest::prelude::*;

use crate::engine::{Kind, World};
use crate::threads::{assert_intact, checkpoint, noise};

/// One step of a random history.
#[derive(Debug, Clone)]
enum Step {
    Put { thread: u8, namespace: u8, id: u8, invocation: Option<u8>, value: u16 },
    Write { thread: u8, namespace: u8, id: u8, task: u8, replace: bool, value: u16 },
    Delete(u8),
    DeleteInvocation(u8),
    Copy(u8, u8),
    Prune(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let small = || 0..3_u8;
    prop_oneof![
        8 => (small(), small(), 0..8_u8, proptest::option::of(small()), any::<u16>())
            .prop_map(|(thread, namespace, id, invocation, value)| Step::Put { thread, namespace, id, invocation, value }),
        6 => (small(), small(), 0..8_u8, small(), any::<bool>(), any::<u16>())
            .prop_map(|(thread, namespace, id, task, replace, value)| Step::Write { thread, namespace, id, task, replace, value }),
        1 => small().prop_map(Step::Delete),
        1 => small().prop_map(Step::DeleteInvocation),
        1 => (small(), 3..5_u8).prop_map(|(from, to)| Step::Copy(from, to)),
        1 => (small(), 1..4_u8).prop_map(|(thread, keep)| Step::Prune(thread, keep)),
    ]
}

/// What a thread should contain: checkpoints by namespace and id, and writes by namespace, id and task.
#[derive(Debug, Clone, Default)]
struct Model {
    checkpoints: BTreeMap<(String, String), (Option<String>, Vec<u8>)>,
    writes: BTreeMap<(String, String, String), Vec<u8>>,
}

impl Model {
    fn remove(&mut self, places: &[(String, String)]) {
        for place in places {
            self.checkpoints.remove(place);
            self.writes.retain(|(namespace, id, _), _| (namespace, id) != (&place.0, &place.1));
        }
    }
}

fn bytes(value: u16) -> Vec<u8> {
    noise(usize::from(value) / 8, u64::from(value % 5))
}

fn apply(step: &Step, threads: &Threads, models: &mut BTreeMap<u8, Model>) {
    match step {
        Step::Put { thread, namespace, id, invocation, value } => {
            let (namespace, id) = (format!("n{namespace}"), format!("id{id}"));
            let mut new = checkpoint(&thread.to_string(), &id)
                .namespace(namespace.clone())
                .values(vec![("v".to_owned(), TypedValue::new("bytes", bytes(*value)))]);
            let invocation = invocation.map(|invocation| format!("run{invocation}"));
            if let Some(invocation) = &invocation {
                new = new.invocation(invocation.clone());
            }
            threads.put(&new).unwrap();
            models
                .entry(*thread)
                .or_default()
                .checkpoints
                .insert((namespace, id), (invocation, bytes(*value)));
        }
        Step::Write { thread, namespace, id, task, replace, value } => {
            let (namespace, id, task) = (format!("n{namespace}"), format!("id{id}"), format!("task{task}"));
            let one = ThreadWrite::new("", &task, 0, "c", TypedValue::new("bytes", bytes(*value)));
            threads.put_writes(&thread.to_string(), &namespace, &id, &[one], *replace).unwrap();
            let writes = &mut models.entry(*thread).or_default().writes;
            let known = writes.entry((namespace, id, task)).or_insert_with(|| bytes(*value));
            if *replace {
                *known = bytes(*value);
            }
        }
        Step::Delete(thread) => {
            threads.delete_thread(&thread.to_string()).unwrap();
            models.remove(thread);
        }
        Step::DeleteInvocation(invocation) => {
            let invocation = format!("run{invocation}");
            threads.delete_invocations(&[&invocation]).unwrap();
            models.retain(|_, model| {
                let of_invocation = |(of, _): &(Option<String>, _)| of.as_deref() == Some(&invocation);
                let places: Vec<_> = model
                    .checkpoints
                    .iter()
                    .filter(|(_, one)| of_invocation(one))
                    .map(|(place, _)| place.clone())
                    .collect();
                model.remove(&places);
                // A thread whose last checkpoint is deleted is gone, with writes that have no checkpoint.
                places.is_empty() || !model.checkpoints.is_empty()
            });
        }
        Step::Copy(from, to) => {
            threads.copy_thread(&from.to_string(), &to.to_string()).unwrap();
            let Some(source) = models.get(from).cloned() else { return };
            let target = models.entry(*to).or_default();
            target.checkpoints.extend(source.checkpoints);
            target.writes.extend(source.writes);
        }
        Step::Prune(thread, keep) => {
            threads.prune(&thread.to_string(), usize::from(*keep)).unwrap();
            let Some(model) = models.get_mut(thread) else { return };
            let mut counts: BTreeMap<String, u8> = BTreeMap::new();
            let places: Vec<_> = model.checkpoints.keys().rev().cloned().collect();
            let surplus: Vec<_> = places
                .into_iter()
                .filter(|(namespace, _)| {
                    let count = counts.entry(namespace.clone()).or_default();
                    *count += 1;
                    *count > *keep
                })
                .collect();
            model.remove(&surplus);
        }
    }
}

fn compare(threads: &Threads, models: &BTreeMap<u8, Model>) {
    for thread in 0..5_u8 {
        let model = models.get(&thread).cloned().unwrap_or_default();
        let mut found = BTreeMap::new();
        for entry in threads.list(ThreadQuery::default().thread(thread.to_string())).unwrap() {
            let entry = entry.unwrap();
            let place = (entry.position().namespace.clone(), entry.position().id.clone());
            let value = threads.value(&entry, "v").unwrap().unwrap().into_parts().1;
            let writes: Vec<_> = threads
                .writes(&entry)
                .unwrap()
                .into_iter()
                .map(|write| (write.task_id().clone(), write.value().bytes().clone()))
                .collect();
            let expected: Vec<_> = model
                .writes
                .iter()
                .filter(|((namespace, id, _), _)| (namespace, id) == (&place.0, &place.1))
                .map(|((_, _, task), value)| (task.clone(), value.clone()))
                .collect();
            assert!(writes == expected, "writes of {place:?} in {thread}");
            assert!(found.insert(place, (entry.position().invocation.clone(), value)).is_none());
        }
        assert!(found == model.checkpoints, "thread {thread}: {:?}", found.keys());
        for namespace in ["n0", "n1", "n2"] {
            let newest = threads.find(&thread.to_string(), namespace, None).unwrap();
            let expected =
                model.checkpoints.keys().rev().find(|(of, _)| of == namespace).map(|(_, id)| id.clone());
            assert_eq!(newest.map(|entry| entry.position().id.clone()), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn random_histories_match_a_model(
        steps in proptest::collection::vec(step(), 1..60),
        kind in prop_oneof![Just(Kind::Sqlite), Just(Kind::Files)],
        encrypted in any::<bool>(),
    ) {
        let world = World::new(kind);
        let open = || match encrypted {
            true => world.mp.threads().with_key(ThreadKey::from_bytes([3; 32])),
            false => world.mp.threads(),
        };
        // Two handles, which do not share what they remember.
        let handles = [open(), open()];
        let mut models = BTreeMap::new();
        for (n, step) in steps.iter().enumerate() {
            apply(step, &handles[n % 2], &mut models);
        }
        let threads = open();
        compare(&threads, &models);
        world.mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
        compare(&open(), &models);
        assert_intact(&world.mp);
    }
}
