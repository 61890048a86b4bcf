//! Compares a store with an oracle, using every query that a store supports about one run. Tolerates other
//! runs: makes no query whose result depends on them.

use std::collections::BTreeSet;

use milepost::internal::seal::Verified;
use milepost::internal::store::{EVENTS_KEPT, OLDEST_SHOWN};
use milepost::model::Event;
use milepost::store::{
    CheckpointEntry, CheckpointFilter, Cursor, EventQuery, HeaderQuery, Row, RunQuery, RunRow, Store,
    StoreError, ThreadFilter,
};

use super::{Oracle, shown, view};

impl Oracle<'_> {
    /// Compares everything that the store returns about the run.
    pub fn check(&self) {
        self.check_on(self.store);
    }

    /// Compares everything that `store`, another handle on the same data, returns about the run.
    pub fn check_on(&self, store: &dyn Store) {
        self.check_run(store);
        self.check_view(store);
        self.check_headers(store);
        self.check_positions(store);
        self.check_bodies(store);
        self.check_messages(store);
        self.check_attachments(store);
        self.check_events(store);
    }

    fn check_run(&self, store: &dyn Store) {
        let run = &self.run;
        let state = store.run(run).unwrap();
        let rows = store.runs(&RunQuery::default()).unwrap();
        let mut listed: Vec<&RunRow> = rows.iter().filter(|row| row.run_id == *run).collect();
        if self.record.is_none() {
            assert!(state.is_none(), "{run}: run() returns a run without a commit");
            assert!(listed.is_empty(), "{run}: runs() lists a run without a commit");
            return;
        }
        let state = state.unwrap_or_else(|| panic!("{run}: the run is missing"));
        assert_eq!(state.items, self.items, "{run}: pending items of run()");
        assert_eq!(state.damaged, [], "{run}: damaged items of run()");
        self.check_row(&state.row, "run()");
        assert_eq!(listed.len(), 1, "{run}: runs() lists it once");
        self.check_row(listed.remove(0), "runs()");
    }

    fn check_row(&self, row: &RunRow, of: &str) {
        let run = &self.run;
        assert_eq!(row.run_id, *run, "{of}");
        let record = row.record.as_ref().unwrap_or_else(|e| panic!("{run}: record by {of}: {e}"));
        assert_eq!(Some(record.as_ref()), self.record.as_ref(), "{run}: record by {of}");
        assert_eq!(row.count, self.rows.len() as u64, "{run}: count by {of}");
        assert!(row.stamp >= self.last_stamp, "{run}: stamp {} by {of}, not {}", row.stamp, self.last_stamp);
        assert_eq!(row.latest.clone().map(|row| good(run, row)), self.newest(), "{run}: latest by {of}");
    }

    fn newest(&self) -> Option<CheckpointEntry> {
        self.rows.last_key_value().map(|(sequence, _)| self.entry(*sequence))
    }

    fn check_view(&self, store: &dyn Store) {
        let run = &self.run;
        let seen = view(store, run);
        assert_eq!(seen.record, self.record, "{run}: record of the view");
        assert_eq!(seen.slot.sequence(), self.next_sequence, "{run}: next sequence");
        assert!(seen.slot.stamp() > self.last_stamp, "{run}: next stamp {}", seen.slot.stamp());
        assert_eq!(seen.count, self.rows.len() as u64, "{run}: count of the view");
        assert_eq!(seen.latest, self.newest(), "{run}: latest of the view");
        let more = shown(&seen);
        assert_eq!(seen.waiting, self.items.len() as u64, "{run}: number of pending items");
        assert_eq!(more.items, self.items, "{run}: items of the view");
        let mut oldest = Vec::new();
        let mut open = 0;
        for entry in self.entries() {
            open += usize::from(!entry.marks.protects());
            oldest.push(entry);
            if open == OLDEST_SHOWN {
                break;
            }
        }
        let sequences = |of: &[CheckpointEntry]| of.iter().map(|e| e.header.sequence()).collect::<Vec<_>>();
        assert_eq!(sequences(&more.oldest), sequences(&oldest), "{run}: oldest of the view");
        assert_eq!(more.oldest, oldest, "{run}: oldest of the view");
    }

    fn check_headers(&self, store: &dyn Store) {
        let run = &self.run;
        let ask = |query: HeaderQuery<'_>| -> Vec<CheckpointEntry> {
            store.headers(&query).unwrap().into_iter().map(|row| good(run, row)).collect()
        };
        let of_run = HeaderQuery::default().run(run);
        let mut all = self.entries();
        assert_eq!(ask(of_run.oldest_first(true)), all, "{run}: headers, oldest first");
        all.reverse();
        assert_eq!(ask(of_run), all, "{run}: headers, newest first");
        let gone = self.next_sequence;
        assert!(ask(of_run.find(CheckpointFilter::Sequence(gone))).is_empty(), "{run}: headers of {gone}");
        for at in [0, all.len() / 2, all.len().saturating_sub(1)] {
            let Some(entry) = all.get(at) else { continue };
            let header = &entry.header;
            let one = std::slice::from_ref(entry);
            let by_number = ask(of_run.find(CheckpointFilter::Sequence(header.sequence())));
            assert_eq!(by_number, one, "{run}: header by sequence {}", header.sequence());
            let find = CheckpointFilter::Id(header.snapshot_id().as_str());
            assert_eq!(ask(of_run.find(find)), one, "{run}: header by id within the run");
            assert_eq!(ask(HeaderQuery::default().find(find)), one, "{run}: header by id");
            let after = Some(Cursor { sequence: header.sequence(), stamp: header.stamp() });
            assert_eq!(ask(of_run.after(after)), all[at + 1..], "{run}: headers after a cursor");
            for tag in &entry.marks.tags {
                let found = ask(of_run.find(CheckpointFilter::Name(tag)));
                assert!(found.contains(entry), "{run}: header by tag {tag}");
            }
        }
    }

    fn check_positions(&self, store: &dyn Store) {
        let run = &self.run;
        let of_run = HeaderQuery::default().run(run);
        let ask = |query: HeaderQuery<'_>, filter: ThreadFilter<'_>| -> Vec<CheckpointEntry> {
            let rows = store.headers(&query.find(CheckpointFilter::Thread(filter))).unwrap();
            rows.into_iter().map(|row| good(run, row)).collect()
        };
        let mut all: Vec<_> =
            self.entries().into_iter().filter(|entry| entry.header.thread().is_some()).collect();
        let key = |entry: &CheckpointEntry| {
            (entry.header.thread().as_ref().unwrap().id.clone(), entry.header.stamp())
        };
        all.sort_by_key(|entry| std::cmp::Reverse(key(entry)));
        assert_eq!(ask(of_run, ThreadFilter::default()), all, "{run}: positions in threads");
        for at in BTreeSet::from([0, all.len() / 2, all.len().saturating_sub(1)]) {
            let Some(entry) = all.get(at) else { continue };
            let thread = entry.header.thread().as_ref().unwrap();
            let after = ThreadFilter::default().after((thread.id.as_str(), entry.header.stamp()));
            assert_eq!(ask(of_run, after), all[at + 1..], "{run}: positions after {}", thread.id);
            assert_eq!(
                ask(of_run.limit(at + 1), ThreadFilter::default()),
                all[..=at],
                "{run}: {at} positions"
            );
            let of_namespace = ThreadFilter::default().namespace(thread.namespace.as_str());
            let by_id = of_namespace.id(thread.id.as_str());
            let by_invocation = of_namespace.invocation(thread.invocation.as_deref());
            for filter in [of_namespace, by_id, by_invocation, of_namespace.after(after.after)] {
                let expected: Vec<_> =
                    all.iter().filter(|entry| filter.matches(&entry.header)).cloned().collect();
                assert_eq!(ask(of_run, filter), expected, "{run}: {filter:?}");
            }
            assert!(ask(HeaderQuery::default(), by_id).contains(entry), "{run}: {by_id:?} in all runs");
        }
    }

    fn check_bodies(&self, store: &dyn Store) {
        let run = &self.run;
        for (sequence, (sealed, _)) in &self.rows {
            let bytes = store.body(run, *sequence).unwrap_or_else(|e| panic!("{run}@{sequence}: {e}"));
            if bytes != sealed.bytes() {
                panic!("{run}@{sequence}: the body ({} bytes) differs from the one put", bytes.len());
            }
            Verified::read(bytes, sealed.header()).unwrap();
        }
        let gone = self.next_sequence;
        match (store.body(run, gone), self.record.is_some()) {
            (Err(StoreError::NoCheckpoint(of, sequence)), true) => {
                assert_eq!((&of, sequence), (run, gone), "the checkpoint in NoCheckpoint");
            }
            (Err(StoreError::NoRun(of)), false) => assert_eq!(&of, run, "the run in NoRun"),
            (answer, _) => panic!("{run}@{gone}: a missing body returned {answer:?}"),
        }
    }

    fn check_messages(&self, store: &dyn Store) {
        let run = &self.run;
        let messages = store.messages(run).unwrap();
        let messages: Vec<_> = messages
            .into_iter()
            .map(|m| m.unwrap_or_else(|e| panic!("{run}: damaged message: {e}")))
            .collect();
        assert_eq!(messages, self.messages, "{run}: messages");
    }

    fn check_attachments(&self, store: &dyn Store) {
        let run = &self.run;
        let keys: BTreeSet<_> = self.attachments.keys().map(|(checkpoint, ..)| checkpoint.as_str()).collect();
        let unknown = ["no-such-checkpoint"];
        for checkpoint in keys.into_iter().chain(unknown).map(Some).chain([None]) {
            let found = store.attachments(run, checkpoint).unwrap();
            let found: Vec<_> = found
                .into_iter()
                .map(|one| one.unwrap_or_else(|e| panic!("{run}: damaged attachment: {e}")))
                .collect();
            let expected = self.attachments(checkpoint);
            assert_eq!(found.iter().collect::<Vec<_>>(), expected, "{run}: attachments of {checkpoint:?}");
        }
    }

    fn check_events(&self, store: &dyn Store) {
        let run = &self.run;
        let page = store.events(&EventQuery::default().run(run)).unwrap();
        assert!(page.damaged.is_empty(), "{run}: damaged events");
        let events: Vec<Event> = page.events.into_iter().map(|(_, event)| event).collect();
        // The store may have removed the oldest events. The events tests check how many.
        assert!(self.events.ends_with(&events), "{run}: events");
        let least = self.events.len().min(EVENTS_KEPT as usize);
        assert!(events.len() >= least, "{run}: {} events, expected at least {least}", events.len());
    }
}

/// The entry of a row. Panics if the row is damaged.
pub fn good(run: &impl std::fmt::Display, row: Row) -> CheckpointEntry {
    match row {
        Row::Intact(entry) => entry,
        Row::Damaged { damage, .. } => panic!("{run}: a healthy row is reported as damaged: {damage}"),
    }
}
