//! A kind of store from outside the library: `toy:NAME`, in memory, registered by the test and opened by its
//! address. It shows what another crate has to implement, and that this is enough for the engine and the
//! conformance suite.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use milepost::internal::store::{EVENTS_KEPT, OLDEST_SHOWN};
use milepost::model::{Attachment, BlobId, CheckpointId, Event, Item, Marks, Message, RunId, RunRecord};
use milepost::store::{
    BLOB_LIMIT, BlobEntry, CheckpointEntry, CheckpointFilter, CollectReport, Commit, CommitLookup, Cursor,
    Damage, Decide, EventCursor, EventPage, EventQuery, FindLiveBlobs, HeaderQuery, Maintenance,
    MaintenanceReport, OpenOptions, Receipt, RetentionEntry, Row, RunDetails, RunQuery, RunRow, RunView,
    Sealed, Slot, Store, StoreError, StoreInfo, StoreOpener, StoreUrl, StoredRun, WriteDecision, register,
};
use milepost::{Milepost, Save, Status};

/// The tables, and the writers' lock. Readers do not need the lock, so a collection can read the store while
/// it holds the lock.
#[derive(Default)]
struct Shared {
    writing: Mutex<()>,
    tables: Mutex<Tables>,
}

/// Opens toy stores. Stores with the same name share their content.
struct ToyOpener;

static STORES: LazyLock<Mutex<HashMap<String, Arc<Shared>>>> = LazyLock::new(Mutex::default);

impl StoreOpener for ToyOpener {
    fn scheme(&self) -> &'static str {
        "toy"
    }

    fn open(&self, location: &OsStr, options: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
        let name = location.to_string_lossy().into_owned();
        let mut stores = STORES.lock().unwrap();
        if !options.create && !stores.contains_key(&name) {
            return Err(StoreError::Missing { location: name });
        }
        let shared = Arc::clone(stores.entry(name.clone()).or_default());
        Ok(Box::new(ToyStore { name, shared }))
    }
}

#[derive(Default)]
struct Tables {
    runs: BTreeMap<RunId, ToyRun>,
    /// The newest stamp that was assigned.
    stamp: u64,
    /// The newest position of an event.
    position: u64,
    /// Contents by id; `None` if the content was evicted.
    blobs: BTreeMap<BlobId, Option<Vec<u8>>>,
    roots: BTreeMap<String, BlobId>,
}

struct ToyRun {
    record: RunRecord,
    stamp: u64,
    last_sequence: u64,
    checkpoints: BTreeMap<u64, (Sealed, Marks)>,
    items: Vec<Item>,
    messages: Vec<Message>,
    /// Attachments by checkpoint, task and index.
    attachments: BTreeMap<(String, String, i64), Attachment>,
    events: Vec<(u64, Event)>,
}

impl ToyRun {
    fn entries(&self) -> impl DoubleEndedIterator<Item = CheckpointEntry> {
        self.checkpoints.values().map(entry)
    }

    fn view(&self, stamp: u64) -> RunView {
        let mut view = RunView::of_new_run(Slot::issue(self.last_sequence + 1, stamp));
        view.record = Some(self.record.clone());
        view.count = self.checkpoints.len() as u64;
        view.latest = self.checkpoints.values().next_back().map(entry);
        view.waiting = self.items.len() as u64;
        let mut details = RunDetails::default();
        let mut unprotected = 0;
        for entry in self.entries() {
            unprotected += usize::from(!entry.marks.protects());
            details.oldest.push(entry);
            if unprotected == OLDEST_SHOWN {
                break;
            }
        }
        details.items = self.items.clone();
        view.details = Some(details);
        view
    }

    fn row(&self, run: &RunId) -> RunRow {
        let mut row = RunRow::new(run.clone(), Ok(Box::new(self.record.clone())), self.stamp);
        row.count = self.checkpoints.len() as u64;
        row.latest = self.checkpoints.values().next_back().map(entry).map(Row::Intact);
        row
    }
}

fn entry((sealed, marks): &(Sealed, Marks)) -> CheckpointEntry {
    CheckpointEntry::new(sealed.header().clone(), marks.clone())
}

struct ToyStore {
    name: String,
    shared: Arc<Shared>,
}

impl ToyStore {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        // A decision that panics leaves the tables unchanged.
        self.shared.tables.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn lock_for_writing(&self) -> MutexGuard<'_, ()> {
        self.shared.writing.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The lookups that `Commit::validate` needs.
struct Lookup<'a> {
    tables: &'a Tables,
    run: &'a RunId,
}

impl CommitLookup for Lookup<'_> {
    fn marks_revision(&self, sequence: u64) -> Result<Option<u64>, StoreError> {
        let stored = self.tables.runs.get(self.run).and_then(|run| run.checkpoints.get(&sequence));
        Ok(stored.map(|(_, marks)| marks.revision).filter(|revision| *revision > 0))
    }

    fn find_taken_id(&self, ids: &[&CheckpointId]) -> Result<Option<CheckpointId>, StoreError> {
        let mut taken = self.tables.checkpoints().map(|(sealed, _)| sealed.header().snapshot_id());
        Ok(taken.find(|id| ids.contains(id)).cloned())
    }

    fn is_name_taken(&self, name: &str) -> Result<bool, StoreError> {
        let has = |checkpoint: &(Sealed, Marks)| {
            checkpoint.0.header().snapshot_id().as_str() == name || is_named(checkpoint, name)
        };
        Ok(self.tables.checkpoints().any(has))
    }

    fn find_missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        Ok(self.tables.missing_blobs(ids))
    }
}

fn is_named((sealed, marks): &(Sealed, Marks), name: &str) -> bool {
    marks.tags.iter().any(|tag| tag == name) || sealed.header().imported_id().as_deref() == Some(name)
}

fn matches(checkpoint: &(Sealed, Marks), find: CheckpointFilter<'_>) -> bool {
    let header = checkpoint.0.header();
    let id = header.snapshot_id().as_str();
    match find {
        CheckpointFilter::All => true,
        CheckpointFilter::Sequence(sequence) => header.sequence() == sequence,
        CheckpointFilter::Id(wanted) => id == wanted,
        CheckpointFilter::Prefix(start) => id.starts_with(start),
        CheckpointFilter::ShortId(start) => {
            header.snapshot_id().short().is_some_and(|short| short.starts_with(start))
        }
        CheckpointFilter::Thread(filter) => filter.matches(header),
        CheckpointFilter::Name(name) => is_named(checkpoint, name),
        _ => false,
    }
}

impl Tables {
    fn checkpoints(&self) -> impl Iterator<Item = &(Sealed, Marks)> {
        self.runs.values().flat_map(|run| run.checkpoints.values())
    }

    fn missing_blobs(&self, ids: &[BlobId]) -> Vec<BlobId> {
        let is_missing = |id: &&BlobId| !matches!(self.blobs.get(*id), Some(Some(_)));
        ids.iter().filter(is_missing).copied().collect()
    }

    fn apply(&mut self, run: &RunId, slot: &Slot, commit: Commit) {
        self.stamp = commit.puts.last().map_or(slot.stamp(), |put| put.header().stamp());
        let stored = self.runs.entry(run.clone()).or_insert_with(|| ToyRun {
            record: commit.record.clone(),
            stamp: 0,
            last_sequence: 0,
            checkpoints: BTreeMap::new(),
            items: Vec::new(),
            messages: Vec::new(),
            attachments: BTreeMap::new(),
            events: Vec::new(),
        });
        self.roots.extend(commit.roots);
        stored.record = commit.record;
        stored.stamp = self.stamp;
        for put in commit.puts {
            stored.last_sequence = put.header().sequence();
            stored.checkpoints.insert(put.header().sequence(), (put, Marks::default()));
        }
        for (sequence, marks) in commit.marks {
            if let Some(checkpoint) = stored.checkpoints.get_mut(&sequence) {
                checkpoint.1 = marks;
            }
        }
        for sequence in &commit.drops {
            if let Some((sealed, _)) = stored.checkpoints.remove(sequence) {
                let id = sealed.header().snapshot_id().as_str();
                stored.attachments.retain(|(checkpoint, ..), _| checkpoint != id);
            }
        }
        stored.attachments.retain(|(checkpoint, ..), _| !commit.detach.contains(checkpoint));
        for one in commit.attachments {
            let key = (one.checkpoint().clone(), one.task_id().clone(), one.index());
            if one.replace() || !stored.attachments.contains_key(&key) {
                stored.attachments.insert(key, one);
            }
        }
        stored.items.drain(..commit.consume);
        stored.items.extend(commit.push);
        stored.messages.extend(commit.messages);
        for event in commit.events {
            self.position += 1;
            stored.events.push((self.position, event));
        }
        let surplus = stored.events.len().saturating_sub(EVENTS_KEPT as usize);
        stored.events.drain(..surplus);
    }
}

impl Store for ToyStore {
    fn write(&self, run: &RunId, decide: &mut Decide<'_>) -> Result<Receipt, StoreError> {
        let _writing = self.lock_for_writing();
        let mut tables = self.lock();
        let stamp = tables.stamp + 1;
        let view = match tables.runs.get(run) {
            Some(stored) => stored.view(stamp),
            None => RunView::of_new_run(Slot::issue(1, stamp)),
        };
        match decide(&view) {
            WriteDecision::NoChange => {}
            WriteDecision::NeedDetails => return Err(StoreError::Rules("all details were shown")),
            WriteDecision::Commit(commit) => {
                commit.validate(run, &view, &Lookup { tables: &tables, run })?;
                tables.apply(run, &view.slot, *commit);
            }
        }
        Ok(Receipt::default())
    }

    fn run(&self, run: &RunId) -> Result<Option<StoredRun>, StoreError> {
        Ok(self.lock().runs.get(run).map(|stored| {
            let mut found = StoredRun::new(stored.row(run));
            found.items = stored.items.clone();
            found
        }))
    }

    fn runs(&self, query: &RunQuery<'_>) -> Result<Vec<RunRow>, StoreError> {
        let tables = self.lock();
        let mut rows: Vec<_> = tables.runs.iter().map(|(run, stored)| stored.row(run)).collect();
        rows.retain(|row| query.before.is_none_or(|before| row.stamp < before));
        if let Some(project) = query.project {
            let id = |row: &RunRow| row.record.as_ref().ok().and_then(|record| record.project_id().clone());
            rows.retain(|row| id(row).as_deref() == Some(project));
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.stamp));
        rows.truncate(if query.limit == 0 { usize::MAX } else { query.limit });
        Ok(rows)
    }

    fn headers(&self, query: &HeaderQuery<'_>) -> Result<Vec<Row>, StoreError> {
        let tables = self.lock();
        let position = |cursor: Cursor| if query.run.is_some() { cursor.sequence } else { cursor.stamp };
        let place = |checkpoint: &&(Sealed, Marks)| {
            let header = checkpoint.0.header();
            position(Cursor { sequence: header.sequence(), stamp: header.stamp() })
        };
        let by_thread = matches!(query.find, CheckpointFilter::Thread(_));
        let oldest_first = query.oldest_first && query.run.is_some() && !by_thread;
        let in_run = |run: &RunId| query.run.is_none_or(|only| only == run);
        let runs = tables.runs.iter().filter(|(run, _)| in_run(run)).map(|(_, stored)| stored);
        let found = runs.flat_map(|run| run.checkpoints.values());
        let mut found: Vec<_> = found.filter(|checkpoint| matches(checkpoint, query.find)).collect();
        found.sort_by_key(place);
        if by_thread {
            found.sort_by_key(|(sealed, _)| {
                let header = sealed.header();
                (header.thread().as_ref().map(|thread| thread.id.clone()), header.stamp())
            });
        }
        if !oldest_first {
            found.reverse();
        }
        if let (Some(after), false) = (query.after.map(position), by_thread) {
            found.retain(|checkpoint| {
                let at = place(checkpoint);
                if oldest_first { at > after } else { at < after }
            });
        }
        found.truncate(if query.limit == 0 { usize::MAX } else { query.limit });
        Ok(found.into_iter().map(|checkpoint| Row::Intact(entry(checkpoint))).collect())
    }

    fn body(&self, run: &RunId, sequence: u64) -> Result<Vec<u8>, StoreError> {
        let tables = self.lock();
        let stored = tables.runs.get(run).ok_or_else(|| StoreError::NoRun(run.clone()))?;
        let found = stored.checkpoints.get(&sequence);
        found
            .map(|(sealed, _)| sealed.bytes().to_vec())
            .ok_or_else(|| StoreError::NoCheckpoint(run.clone(), sequence))
    }

    fn events(&self, query: &EventQuery<'_>) -> Result<EventPage, StoreError> {
        let tables = self.lock();
        let runs = tables.runs.iter().filter(|(run, _)| query.run.is_none_or(|only| only == *run));
        let all = runs.flat_map(|(_, stored)| stored.events.iter().cloned());
        let after = query.after.and_then(|after| after.as_str().parse().ok()).unwrap_or(0);
        let mut found: Vec<_> = all.filter(|(position, _)| *position > after).collect();
        found.sort_by_key(|(position, _)| *position);
        if query.limit > 0 {
            found.drain(..found.len().saturating_sub(query.limit));
        }
        let mut page = EventPage::default();
        let cursor = |position: u64| EventCursor::new(format!("{position:05}"));
        page.events = found.into_iter().map(|(position, event)| (cursor(position), event)).collect();
        Ok(page)
    }

    fn messages(&self, run: &RunId) -> Result<Vec<Result<Message, Damage>>, StoreError> {
        let tables = self.lock();
        Ok(tables.runs.get(run).map_or_else(Vec::new, |run| run.messages.iter().cloned().map(Ok).collect()))
    }

    fn attachments(
        &self,
        run: &RunId,
        checkpoint: Option<&str>,
    ) -> Result<Vec<Result<Attachment, Damage>>, StoreError> {
        let tables = self.lock();
        let all = tables.runs.get(run).into_iter().flat_map(|run| run.attachments.values());
        let wanted = all.filter(|one| checkpoint.is_none_or(|only| only == one.checkpoint()));
        let mut found: Vec<_> = wanted.cloned().collect();
        found.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
        Ok(found.into_iter().map(Ok).collect())
    }

    fn retention_entries(&self, run: &RunId, _: Option<u64>) -> Result<Vec<RetentionEntry>, StoreError> {
        let tables = self.lock();
        let of = |entry: CheckpointEntry| RetentionEntry::of(&entry).with_size(entry.header.size(), true);
        Ok(tables.runs.get(run).map_or_else(Vec::new, |stored| stored.entries().map(of).collect()))
    }

    fn put_blobs(&self, contents: &[&[u8]]) -> Result<(), StoreError> {
        if contents.iter().any(|content| content.len() as u64 > BLOB_LIMIT) {
            return Err(StoreError::Rules("a blob is too large"));
        }
        let _writing = self.lock_for_writing();
        let mut tables = self.lock();
        tables.blobs.extend(contents.iter().map(|content| (BlobId::of(content), Some(content.to_vec()))));
        Ok(())
    }

    fn missing_blobs(&self, ids: &[BlobId]) -> Result<Vec<BlobId>, StoreError> {
        Ok(self.lock().missing_blobs(ids))
    }

    fn blob(&self, id: &BlobId) -> Result<Vec<u8>, StoreError> {
        self.lock().blobs.get(id).cloned().flatten().ok_or(StoreError::NoBlob(*id))
    }

    fn blobs(&self, after: Option<&BlobId>, limit: usize) -> Result<Vec<BlobEntry>, StoreError> {
        let tables = self.lock();
        let entry = |(id, content): (&BlobId, &Option<Vec<u8>>)| match content {
            Some(content) => BlobEntry::new(*id, content.len() as u64),
            None => BlobEntry::evicted(*id),
        };
        let listed = tables.blobs.iter().filter(|(id, _)| after.is_none_or(|after| *id > after)).map(entry);
        Ok(listed.take(if limit == 0 { usize::MAX } else { limit }).collect())
    }

    fn blob_bytes(&self) -> Result<u64, StoreError> {
        Ok(self.lock().blobs.values().flatten().map(|content| content.len() as u64).sum())
    }

    fn blob_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        Ok(self.lock().roots.clone().into_iter().collect())
    }

    fn collect_blobs(&self, find_live: &mut FindLiveBlobs<'_>) -> Result<CollectReport, StoreError> {
        let _writing = self.lock_for_writing();
        let live = find_live()?;
        let mut tables = self.lock();
        let mut report = CollectReport::default();
        tables.blobs.retain(|id, content| {
            let evict = live.evict.contains(id);
            if !evict && live.keep.contains(id) {
                return true;
            }
            if let Some(removed) = content.take() {
                report.removed += 1;
                report.bytes_freed += removed.len() as u64;
            }
            evict
        });
        tables.roots.retain(|name, _| !live.drop_roots.contains(name));
        Ok(report)
    }

    fn delete_run(&self, run: &RunId, only_at: Option<u64>) -> Result<bool, StoreError> {
        let _writing = self.lock_for_writing();
        let mut tables = self.lock();
        let Some(stored) = tables.runs.get(run) else { return Ok(false) };
        if only_at.is_some_and(|stamp| stamp != stored.stamp) {
            return Ok(false);
        }
        tables.runs.remove(run);
        tables.stamp += 1;
        Ok(true)
    }

    fn maintain(&self, _: Maintenance<'_>) -> Result<MaintenanceReport, StoreError> {
        Ok(MaintenanceReport::default())
    }

    fn info(&self) -> Result<StoreInfo, StoreError> {
        let tables = self.lock();
        let sealed = tables.runs.values().flat_map(|run| run.checkpoints.values());
        let bytes: u64 = sealed.map(|(sealed, _)| sealed.bytes().len() as u64).sum();
        let blobs: u64 = tables.blobs.values().flatten().map(|content| content.len() as u64).sum();
        Ok(StoreInfo::new(format!("toy:{}", self.name), bytes + blobs))
    }
}

/// The address of a toy store. Registers the scheme on first use.
fn address(name: &str) -> StoreUrl {
    static OPENER: ToyOpener = ToyOpener;
    static REGISTERED: LazyLock<bool> = LazyLock::new(|| register(&OPENER));
    assert!(*REGISTERED);
    assert!(!register(&OPENER), "a scheme can be registered only once");
    format!("toy:{name}").parse().unwrap()
}

/// Checks all rules of the conformance suite in one store.
#[test]
fn a_registered_store_conforms() {
    let url = address("conformance");
    milepost_testkit::conformance::all(&|| url.open(&OpenOptions::new().create(true)).unwrap());
}

#[test]
fn the_engine_works_on_a_registered_store() {
    let url = address("engine");
    assert!(matches!(url.open(&OpenOptions::new()), Err(StoreError::Missing { .. })));
    assert_eq!((url.to_string().as_str(), url.path(), url.owners_folder()), ("toy:engine", None, None));
    let mp = Milepost::at(&url, &OpenOptions::new().create(true)).unwrap();
    let run = mp.run("nightly").rejoin_or_start().unwrap();
    run.put(&vec![1, 2, 3]).unwrap();
    let saved = run.save(Save::default()).unwrap();
    run.finish(Status::Completed).unwrap();
    let again = Milepost::at(&url, &OpenOptions::new()).unwrap();
    let shown = again.show(&saved.snapshot_id().as_str().parse().unwrap(), None).unwrap();
    assert_eq!(shown.entry().header.snapshot_id(), saved.snapshot_id());
}

#[test]
fn unknown_and_taken_schemes_are_refused() {
    assert!("nosuch:place".parse::<StoreUrl>().is_err());
    struct Impostor;
    impl StoreOpener for Impostor {
        fn scheme(&self) -> &'static str {
            "sqlite"
        }
        fn open(&self, _: &OsStr, _: &OpenOptions) -> Result<Box<dyn Store>, StoreError> {
            Err(StoreError::Missing { location: String::new() })
        }
    }
    static IMPOSTOR: Impostor = Impostor;
    assert!(!register(&IMPOSTOR));
}
