//! A store on a server with copies on several machines: what is written while the server cannot be reached arrives
//! later, once and in order. The server is an embedded store that can be made unreachable.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use milepost::internal::model::KeepCount;
use milepost::internal::store::SqliteStore;
use milepost::model::{EventType, RunId};
use milepost::store::{OpenOptions, Store, StoreUrl, SyncOptions, SyncedStore};
use milepost::{ListQuery, MarkChange, Milepost, Reference, RunsQuery, Save, Settings, VerifyScope};
use milepost_testkit::fault::{Faults, Outage};
use milepost_testkit::rng::Rng;
use tempfile::TempDir;

/// A server, and machines that use it.
struct Network {
    folder: TempDir,
    server: Arc<dyn Store>,
}

/// A machine with its own copy of the store and its own connection.
struct Machine {
    name: String,
    is_down: Arc<AtomicBool>,
}

impl Network {
    fn new() -> Self {
        Self::with_faults(Faults::default())
    }

    fn with_faults(faults: Faults) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions::new().create(true);
        let server = SqliteStore::open(&folder.path().join("server.db"), &options).unwrap();
        Self { folder, server: Arc::from(faults.around(server)) }
    }

    fn machine(&self, name: &str) -> Machine {
        Machine { name: name.to_owned(), is_down: Arc::default() }
    }

    /// Opens the store as a new process on a machine does.
    fn open(&self, machine: &Machine, options: SyncOptions) -> Milepost {
        let server = Outage::new(Arc::clone(&self.server), Arc::clone(&machine.is_down));
        let local = StoreUrl::sqlite(self.folder.path().join(format!("{}.db", machine.name)));
        Milepost::with_sync(SyncedStore::new(Box::new(server), Some((local, OpenOptions::new())), options))
    }

    fn command(&self, machine: &Machine) -> Milepost {
        self.open(machine, SyncOptions::default())
    }

    /// What the server has, by the ids of the checkpoints: run, sequence number and summary.
    fn content(&self) -> BTreeMap<String, (String, u64, String)> {
        let mp = Milepost::on(Arc::clone(&self.server));
        let mut found = BTreeMap::new();
        for run in mp.runs(&RunsQuery::default()).unwrap() {
            let list = mp.list(&ListQuery::default().run(run.run_id().clone())).unwrap();
            for entry in &list.checkpoints {
                let header = &entry.entry().header;
                let summary = header.summary().clone().unwrap_or_default();
                let place = (header.run_id().to_string(), header.sequence(), summary);
                assert!(found.insert(header.snapshot_id().to_string(), place).is_none(), "twice: {header:?}");
            }
        }
        assert!(mp.verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().is_empty());
        found
    }
}

impl Machine {
    fn disconnect(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }
}

fn run_id(name: &str) -> RunId {
    name.parse().unwrap()
}

fn save(mp: &Milepost, run: &str, summary: &str) -> String {
    mp.save(&run_id(run), Save::new().summary(summary)).unwrap().snapshot_id().to_string()
}

#[test]
fn what_waits_is_sent_once_and_in_order() {
    let network = Network::new();
    let laptop = network.machine("laptop");
    save(&network.command(&laptop), "online", "one");
    laptop.disconnect(true);
    let hook = network.open(&laptop, SyncOptions::default().offline(true).local_first(true));
    let ids: Vec<_> = (0..5).map(|n| save(&hook, "job", &format!("step {n}"))).collect();
    let mp = network.command(&laptop);
    assert_eq!(mp.waiting().unwrap().runs().len(), 1);
    assert_eq!(mp.waiting().unwrap().checkpoints(), 5);
    assert!(mp.sync(None, &mut |_| {}).is_err(), "the server is down");
    // Reads on this machine include what waits.
    assert_eq!(mp.list(&ListQuery::default().run(run_id("job"))).unwrap().checkpoints.len(), 5);
    laptop.disconnect(false);
    let mp = network.command(&laptop);
    assert_eq!(mp.list(&ListQuery::default()).unwrap().checkpoints.len(), 6);
    let report = mp.sync(None, &mut |_| {}).unwrap();
    assert_eq!((report.checkpoints(), report.split().len(), report.failed().len()), (5, 0, 0));
    assert!(mp.waiting().unwrap().runs().is_empty());
    assert_eq!(mp.sync(None, &mut |_| {}).unwrap().runs().len(), 0);
    let content = network.content();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(content[id], ("job".to_owned(), n as u64 + 1, format!("step {n}")));
    }
    // More of the same run, and a run that no longer waits is read from the server.
    save(&hook, "job", "step 5");
    assert_eq!(network.command(&laptop).sync(None, &mut |_| {}).unwrap().checkpoints(), 1);
    assert_eq!(network.content().len(), 7);
}

#[test]
fn retention_is_applied_on_the_server_too() {
    let network = Network::new();
    let laptop = network.machine("laptop");
    let settings = || Settings::default().keep_last(Some(KeepCount::Last(10)));
    let hook = || {
        let options = SyncOptions::default().offline(true).local_first(true);
        network.open(&laptop, options).with_settings(settings())
    };
    let sync = || network.command(&laptop).with_settings(settings()).sync(None, &mut |_| {}).unwrap();
    for n in 0..15 {
        save(&hook(), "job", &n.to_string());
        sync();
    }
    let kept: Vec<u64> = network.content().values().map(|(_, sequence, _)| *sequence).collect();
    assert_eq!(kept.len(), 10, "{kept:?}");
    let server = Milepost::on(Arc::clone(&network.server));
    let events = server.events(Some(&run_id("job")), None, 0).unwrap();
    let pruned = events.events.iter().filter(|event| event.kind == EventType::Pruned).count();
    assert_eq!(pruned, 5, "each removal is recorded once");
    // Many at once are removed step by step.
    for n in 0..30 {
        save(&hook(), "job", &n.to_string());
    }
    sync();
    for n in 0..3 {
        save(&hook(), "job", &n.to_string());
        sync();
    }
    assert_eq!(network.content().len(), 10);
}

#[test]
fn a_run_that_moved_on_is_split_at_the_last_common_checkpoint() {
    let network = Network::new();
    let (laptop, desktop) = (network.machine("laptop"), network.machine("desktop"));
    let hook = || network.open(&laptop, SyncOptions::default().offline(true).local_first(true));
    save(&hook(), "job", "both");
    network.command(&laptop).sync(None, &mut |_| {}).unwrap();
    let offline = save(&hook(), "job", "laptop");
    save(&network.command(&desktop), "job", "desktop");
    let report = network.command(&laptop).sync(None, &mut |_| {}).unwrap();
    let [(from, became)] = &report.split()[..] else { panic!("{report:?}") };
    assert_eq!(from.as_str(), "job");
    let content = network.content();
    assert_eq!(content[&offline], (became.to_string(), 2, "laptop".to_owned()));
    let server = Milepost::on(Arc::clone(&network.server));
    let record = server.run_detail(became).unwrap().summary().intact().unwrap().clone();
    let parent = record.parent().clone().unwrap().to_string();
    assert_eq!(content[&parent], ("job".to_owned(), 1, "both".to_owned()));
    // What follows goes to the new run, and is not split again.
    save(&hook(), "job", "laptop again");
    let report = network.command(&laptop).sync(None, &mut |_| {}).unwrap();
    assert!(report.split().is_empty() && report.failed().is_empty(), "{report:?}");
    let runs = server.runs(&RunsQuery::default()).unwrap();
    assert_eq!(runs.len(), 2, "{runs:?}");
}

#[test]
fn marks_of_others_do_not_split_a_run() {
    let network = Network::new();
    let (laptop, desktop) = (network.machine("laptop"), network.machine("desktop"));
    let hook = || network.open(&laptop, SyncOptions::default().offline(true).local_first(true));
    let first = save(&hook(), "job", "one");
    network.command(&laptop).sync(None, &mut |_| {}).unwrap();
    let reference: Reference = first.parse().unwrap();
    let mp = network.command(&desktop);
    let entry = mp.find(&reference, None).unwrap();
    mp.mark(&entry, &MarkChange::default().pin(true)).unwrap();
    save(&hook(), "job", "two");
    let report = network.command(&laptop).sync(None, &mut |_| {}).unwrap();
    assert!(report.split().is_empty() && report.failed().is_empty(), "{report:?}");
    assert_eq!(network.content().len(), 2);
    let server = Milepost::on(Arc::clone(&network.server));
    assert!(server.find(&reference, None).unwrap().marks.pinned);
}

/// Two machines with random outages, a server that loses requests and replies, and processes that end at any moment:
/// in the end, every acknowledged checkpoint is on the server exactly once.
#[test]
fn random_outages_lose_and_repeat_nothing() {
    for seed in 0..15 {
        let rng = Rng::new(seed);
        let network = Network::with_faults(Faults { seed, lost_replies: 100, lost_requests: 100 });
        let machines = ["a", "b"].map(|name| network.machine(name));
        let mut acknowledged = BTreeMap::new();
        for step in 0..60 {
            let machine = &machines[rng.below(2) as usize];
            if rng.below(4) == 0 {
                machine.disconnect(rng.below(2) == 0);
            }
            let is_hook = rng.below(2) == 0;
            let options = SyncOptions::default().offline(is_hook).local_first(is_hook);
            let mp = network.open(machine, options);
            let run = ["shared", &format!("own-{}", machine.name)][rng.below(2) as usize].to_owned();
            let summary = format!("{} {step}", machine.name);
            match rng.below(5) {
                0 => drop(mp.sync(None, &mut |_| {})),
                _ => {
                    if let Ok(saved) = mp.save(&run_id(&run), Save::new().summary(&summary)) {
                        acknowledged.insert(saved.snapshot_id().to_string(), summary);
                    }
                }
            }
        }
        for machine in &machines {
            machine.disconnect(false);
            let mp = network.command(machine);
            let done = (0..20).any(|_| {
                let report = mp.sync(None, &mut |_| {});
                report.is_ok_and(|report| report.failed().is_empty())
                    && mp.waiting().unwrap().runs().is_empty()
            });
            assert!(done, "seed {seed}: {:?}", mp.sync(None, &mut |_| {}));
        }
        let content = network.content();
        for (id, summary) in &acknowledged {
            assert_eq!(content.get(id).map(|(.., found)| found), Some(summary), "seed {seed}: {id}");
        }
        let mut summaries: Vec<_> = content.values().map(|(.., summary)| summary).collect();
        summaries.sort();
        let all = summaries.len();
        summaries.dedup();
        assert_eq!(summaries.len(), all, "seed {seed}: a save is there twice");
    }
}
