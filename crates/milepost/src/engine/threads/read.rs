//! Reads checkpoints of threads: the newest one, one by its id, lists in the order of the ids, and the history of
//! values that are computed from writes. Every value is verified.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use derive_getters::Getters;
use jiff::Timestamp;

use super::{Threads, context, value_error};
use crate::Error;
use crate::model::{BlobId, CheckpointId, RawJson, RunId, ThreadPosition};
use crate::store::{
    CheckpointEntry, CheckpointFilter, Damage, HeaderQuery, Part, Row, StoreError, ThreadFilter,
};
use crate::threads::table::TableError;
use crate::threads::{ThreadWrite, TypedValue, ValueReader};

/// Number of checkpoints that a list reads at first, and at most at a time.
const FIRST_PAGE: usize = 10;
const LARGEST_PAGE: usize = 200;
/// Number of attempts if the checkpoint found is removed before it is read.
const TRIES: u32 = 16;

options! {
    /// Which checkpoints of threads to list.
    #[derive(Debug, Clone, Default)]
    pub struct ThreadQuery {
        /// Only checkpoints of this thread.
        pub(crate) thread: Option<String>,
        /// Only checkpoints in this namespace; empty for the main one.
        pub(crate) namespace: Option<String>,
        /// Only the checkpoint with this id.
        pub(crate) id: Option<String>,
        /// Only checkpoints that this invocation created.
        pub(crate) invocation: Option<String>,
        /// Only checkpoints whose id is smaller than this one.
        pub(crate) before: Option<String>,
    }
}

/// A checkpoint of a thread, with the table of its values. [`Threads`] reads the values.
#[derive(Getters, Debug)]
pub struct ThreadEntry {
    /// The run that is the thread.
    run: RunId,
    /// The id of the checkpoint in Milepost.
    snapshot_id: CheckpointId,
    /// When it was saved.
    #[getter(copy)]
    created_at: Timestamp,
    /// Its place in the thread.
    position: ThreadPosition,
    #[getter(skip)]
    pub(super) reader: ValueReader,
}

impl ThreadEntry {
    /// The id of the thread.
    pub fn thread(&self) -> &str {
        self.reader.thread()
    }

    /// The names of its values, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.reader.names()
    }
}

/// Everything about a checkpoint of a thread.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
pub struct LoadedThread {
    /// The checkpoint without its values.
    checkpoint: TypedValue,
    /// Its metadata.
    metadata: TypedValue,
    /// Its values, sorted by name.
    values: Vec<(String, TypedValue)>,
    /// The writes that belong to it, sorted by task path, task and index.
    writes: Vec<ThreadWrite>,
}

/// What the ancestors of a checkpoint say about one value.
#[derive(Getters, Debug, Clone, PartialEq, Eq)]
pub struct ThreadHistory {
    /// The value in the nearest ancestor that contains it; `None` if there is none.
    seed: Option<TypedValue>,
    /// What tasks wrote since, oldest first, without the writes of the checkpoint itself.
    writes: Vec<ThreadWrite>,
}

impl ThreadHistory {
    /// The value of the nearest ancestor, and the writes since.
    pub fn into_parts(self) -> (Option<TypedValue>, Vec<ThreadWrite>) {
        (self.seed, self.writes)
    }
}

impl Threads {
    /// Finds the newest checkpoint in a namespace of a thread, or the one with an id.
    pub fn find(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<&str>,
    ) -> Result<Option<ThreadEntry>, Error> {
        let run = Self::run_of(thread)?;
        self.find_in(&run, namespace, id)
    }

    pub(super) fn find_in(
        &self,
        run: &RunId,
        namespace: &str,
        id: Option<&str>,
    ) -> Result<Option<ThreadEntry>, Error> {
        let mut filter = ThreadFilter::default().namespace(namespace);
        filter.id = id;
        let query = HeaderQuery::default().run(run).find(CheckpointFilter::Thread(filter)).limit(1);
        for _ in 0..TRIES {
            let Some(row) = self.mp.store.headers(&query)?.into_iter().next() else { return Ok(None) };
            if let Some(entry) = self.entry(row)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// Lists checkpoints, those with the greatest ids first.
    pub fn list(&self, query: ThreadQuery) -> Result<ThreadList, Error> {
        let run = query.thread.as_deref().map(Self::run_of).transpose()?;
        Ok(ThreadList {
            threads: self.clone(),
            run,
            after: query.before.clone().map(|id| (id, 0)),
            query,
            page: Vec::new().into_iter(),
            page_size: FIRST_PAGE,
            is_last_page: false,
            seen: HashSet::new(),
        })
    }

    /// Reads a checkpoint without its values.
    pub fn checkpoint(&self, entry: &ThreadEntry) -> Result<TypedValue, Error> {
        self.with_chunks(entry, |reader, read| reader.checkpoint(self.key(), read))
    }

    /// Reads the metadata of a checkpoint.
    pub fn metadata(&self, entry: &ThreadEntry) -> Result<TypedValue, Error> {
        self.with_chunks(entry, |reader, read| reader.metadata(self.key(), read))
    }

    /// Reads one value of a checkpoint; returns `None` if the checkpoint does not contain it.
    pub fn value(&self, entry: &ThreadEntry, name: &str) -> Result<Option<TypedValue>, Error> {
        self.with_chunks(entry, |reader, read| reader.value(name, self.key(), read))
    }

    /// Reads all values of a checkpoint, sorted by name.
    pub fn values(&self, entry: &ThreadEntry) -> Result<Vec<(String, TypedValue)>, Error> {
        self.fetch(entry)?;
        let mut values = Vec::new();
        for name in entry.names() {
            values.extend(self.value(entry, name)?.map(|value| (name.to_owned(), value)));
        }
        Ok(values)
    }

    /// Reads everything about a checkpoint. Returns `None` if it was removed since it was found.
    pub fn load(&self, entry: &ThreadEntry) -> Result<Option<LoadedThread>, Error> {
        let load = || {
            Ok(LoadedThread {
                values: self.values(entry)?,
                checkpoint: self.checkpoint(entry)?,
                metadata: self.metadata(entry)?,
                writes: self.writes(entry)?,
            })
        };
        match load() {
            Err(Error::Store(StoreError::Damaged(_) | StoreError::NoBlob(_)))
                if !self.is_listed(entry)? =>
            {
                Ok(None)
            }
            loaded => loaded.map(Some),
        }
    }

    /// Reads the writes that belong to a checkpoint, sorted by task path, task and index.
    pub fn writes(&self, entry: &ThreadEntry) -> Result<Vec<ThreadWrite>, Error> {
        self.writes_of(&entry.run, &entry.position.namespace, &entry.position.id)
    }

    /// What the ancestors of a checkpoint say about each of these values: for values that a program computes from
    /// an earlier value and the writes since.
    pub fn history(
        &self,
        entry: &ThreadEntry,
        names: &[&str],
    ) -> Result<HashMap<String, ThreadHistory>, Error> {
        let mut found: HashMap<String, ThreadHistory> = names
            .iter()
            .map(|name| ((*name).to_owned(), ThreadHistory { seed: None, writes: Vec::new() }))
            .collect();
        let mut wanted: HashSet<&str> = names.iter().copied().collect();
        let mut parent = entry.position.parent.clone();
        let mut visited = HashSet::new();
        // Newest first; turned around at the end.
        while let Some(id) = parent.filter(|id| !wanted.is_empty() && visited.insert(id.clone())) {
            let Some(ancestor) = self.find_in(&entry.run, &entry.position.namespace, Some(&id))? else {
                break;
            };
            for write in self.writes(&ancestor)?.into_iter().rev() {
                if wanted.contains(write.channel.as_str())
                    && let Some(history) = found.get_mut(&write.channel)
                {
                    history.writes.push(write);
                }
            }
            for name in wanted.clone() {
                if ancestor.reader.has_value(name) {
                    let seed = self.value(&ancestor, name)?;
                    if let Some(history) = found.get_mut(name) {
                        history.seed = seed;
                    }
                    wanted.remove(name);
                }
            }
            parent = ancestor.position.parent.clone();
        }
        found.values_mut().for_each(|history| history.writes.reverse());
        Ok(found)
    }
}

impl Threads {
    /// The checkpoint of a row, with the table of its values; `None` if it was removed since it was listed.
    pub(super) fn entry(&self, row: Row) -> Result<Option<ThreadEntry>, Error> {
        let entry = match row {
            Row::Intact(entry) => entry,
            Row::Damaged { damage, .. } => return Err(StoreError::from(damage).into()),
        };
        let Some(position) = entry.header.thread.clone() else { return Ok(None) };
        let Some(body) = self.mp.body_if_there(&entry)? else { return Ok(None) };
        let header = entry.header;
        let bound = context(&header.run_id, &position.namespace, &position.id);
        let table = body.values.as_ref().map_or("", RawJson::get);
        let reader =
            ValueReader::open(table, self.key(), &bound).map_err(|e| value_error(&header.run_id, e))?;
        Ok(Some(ThreadEntry {
            run: header.run_id,
            snapshot_id: header.snapshot_id,
            created_at: header.created_at,
            position,
            reader,
        }))
    }

    /// Whether a checkpoint has not been removed. Searches where `find` does, so that a caller who tries again does not
    /// find it again. A damaged row may be the checkpoint.
    fn is_listed(&self, entry: &ThreadEntry) -> Result<bool, Error> {
        let position = &entry.position;
        let filter = ThreadFilter::default().namespace(position.namespace.as_str()).id(position.id.as_str());
        let query = HeaderQuery::default().run(&entry.run).find(CheckpointFilter::Thread(filter));
        Ok(self.mp.store.headers(&query)?.iter().any(|row| match row {
            Row::Intact(listed) => listed.header.snapshot_id == entry.snapshot_id,
            Row::Damaged { .. } => true,
        }))
    }

    /// Reads the chunks of a checkpoint into the cache, so that they are read together.
    fn fetch(&self, entry: &ThreadEntry) -> Result<(), Error> {
        let missing: Vec<BlobId> = {
            let cache = self.cache();
            entry.reader.chunks().iter().filter(|id| !cache.contains(id)).copied().collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let contents = match self.mp.store.blob_contents(&missing) {
            Err(StoreError::NoBlob(id)) => return Err(no_content(&id)),
            contents => contents?,
        };
        let mut cache = self.cache();
        for (id, content) in missing.into_iter().zip(contents) {
            cache.put(id, Arc::from(content));
        }
        Ok(())
    }

    fn with_chunks<T>(
        &self,
        entry: &ThreadEntry,
        read: impl FnOnce(
            &ValueReader,
            &mut dyn FnMut(&BlobId) -> Result<Arc<[u8]>, ReadError>,
        ) -> Result<T, ReadError>,
    ) -> Result<T, Error> {
        let mut read_chunk = |id: &BlobId| {
            let cached = self.cache().get(id);
            if let Some(chunk) = cached {
                return Ok(chunk);
            }
            let chunk: Arc<[u8]> = match self.mp.store.blob(id) {
                Err(StoreError::NoBlob(id)) => return Err(ReadError::Failed(no_content(&id))),
                content => Arc::from(content.map_err(|e| ReadError::Failed(e.into()))?),
            };
            self.cache().put(*id, Arc::clone(&chunk));
            Ok(chunk)
        };
        read(&entry.reader, &mut read_chunk).map_err(|e| match e {
            ReadError::Failed(e) => e,
            ReadError::Invalid(why) => value_error(&entry.run, TableError::Damaged(why)),
        })
    }
}

/// Why a value cannot be read.
enum ReadError {
    Failed(Error),
    /// The stored bytes do not form a value.
    Invalid(String),
}

impl From<String> for ReadError {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

/// The error for a blob that a listed checkpoint needs.
fn no_content(id: &BlobId) -> Error {
    StoreError::from(Damage::integrity(Part::Blob, id.to_string(), "no content")).into()
}

/// A list of checkpoints, read page by page.
#[derive(Debug)]
pub struct ThreadList {
    threads: Threads,
    run: Option<RunId>,
    query: ThreadQuery,
    /// The position after which the next page begins.
    after: Option<(String, u64)>,
    page: std::vec::IntoIter<Row>,
    page_size: usize,
    is_last_page: bool,
    /// Checkpoints with the same id as the last one: an earlier one with the same place was replaced.
    seen: HashSet<(RunId, String, String)>,
}

impl ThreadList {
    fn next_page(&mut self) -> Result<(), Error> {
        let filter = ThreadFilter {
            namespace: self.query.namespace.as_deref(),
            id: self.query.id.as_deref(),
            invocation: self.query.invocation.as_deref(),
            after: self.after.as_ref().map(|(id, stamp)| (id.as_str(), *stamp)),
        };
        let mut query = HeaderQuery::default().find(CheckpointFilter::Thread(filter)).limit(self.page_size);
        query.run = self.run.as_ref();
        let rows = self.threads.mp.store.headers(&query)?;
        self.is_last_page = rows.len() < self.page_size;
        self.page_size = (self.page_size * 2).min(LARGEST_PAGE);
        self.page = rows.into_iter();
        Ok(())
    }

    fn next_entry(&mut self) -> Result<Option<ThreadEntry>, Error> {
        loop {
            let Some(row) = self.page.next() else {
                if self.is_last_page {
                    return Ok(None);
                }
                self.next_page()?;
                continue;
            };
            if let Row::Intact(CheckpointEntry { header, .. }) = &row
                && let Some(position) = &header.thread
            {
                if self.after.as_ref().is_none_or(|(id, _)| *id != position.id) {
                    self.seen.clear();
                }
                self.after = Some((position.id.clone(), header.stamp));
                let place = (header.run_id.clone(), position.namespace.clone(), position.id.clone());
                if !self.seen.insert(place) {
                    continue;
                }
            }
            if let Some(entry) = self.threads.entry(row)? {
                return Ok(Some(entry));
            }
        }
    }
}

impl Iterator for ThreadList {
    type Item = Result<ThreadEntry, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().transpose()
    }
}
