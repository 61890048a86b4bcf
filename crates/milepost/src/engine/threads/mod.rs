//! Threads: saves, lists, copies and removes the checkpoints of a program that keeps its state as named values,
//! such as LangGraph. Each thread is a run. Its checkpoints are found by the ids that the program gave them, and
//! their values are blobs: `crates/milepost/src/threads` encodes them.

mod cache;
mod copy;
mod put;
mod read;
mod remove;
mod writes;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cache::{ChunkCache, NewestValues};
pub use read::{LoadedThread, ThreadEntry, ThreadHistory, ThreadList, ThreadQuery};

use super::{Milepost, RunOptions};
use crate::Error;
use crate::model::{Profile, RunId};
use crate::store::{Damage, Part, StoreError};
use crate::threads::ThreadKey;
use crate::threads::table::TableError;

/// What the ids of all runs that are threads begin with.
const RUN_PREFIX: &str = "thread-";
/// Maximum length of a thread's id in the id of its run.
const NAME: usize = 64;

/// The threads of a store. Clones share a cache of the values that they read and wrote.
#[derive(Debug, Clone)]
pub struct Threads {
    mp: Milepost,
    key: Option<Arc<ThreadKey>>,
    /// Number of newest checkpoints that each namespace keeps.
    keep_newest: Option<usize>,
    cache: Arc<Mutex<ChunkCache>>,
    newest: Arc<Mutex<NewestValues>>,
    collection: Arc<Mutex<Collection>>,
}

/// When values that are no longer in use were collected last.
#[derive(Debug, Default)]
struct Collection {
    /// When the last collection ended, and how long it took.
    last: Option<(Instant, Duration)>,
    /// Whether checkpoints have been removed since.
    is_due: bool,
}

impl Milepost {
    /// The threads of this store. If it is on a server and has a copy on this machine, threads are only on the server.
    pub fn threads(&self) -> Threads {
        let store = match &self.synced {
            Some(synced) => Arc::clone(synced.server()),
            None => Arc::clone(&self.store),
        };
        Threads {
            mp: Self { store, synced: None, ..self.clone() },
            key: None,
            keep_newest: None,
            cache: Arc::default(),
            newest: Arc::default(),
            collection: Arc::default(),
        }
    }
}

impl Threads {
    /// Encrypts the values that are saved, and decrypts those that are read. Not secret are the ids of threads and
    /// checkpoints, summaries, the names of values that tasks wrote to, and the sizes of values.
    #[must_use]
    pub fn with_key(mut self, key: ThreadKey) -> Self {
        self.key = Some(Arc::new(key));
        self.cache = Arc::default();
        self.newest = Arc::default();
        self
    }

    /// Keeps only this many of the newest checkpoints of each namespace, at least 1. By default all are kept.
    #[must_use]
    pub fn keep_newest(mut self, count: usize) -> Self {
        self.keep_newest = Some(count.max(1));
        self
    }

    /// The run that contains a thread. A thread whose id is a valid run id has it in the id of its run; any other
    /// one gets a hash of its id. Only the ids of runs with a hash have a second `-` after the prefix, so no thread can
    /// be named like the run of another one.
    pub fn run_of(thread: &str) -> Result<RunId, Error> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if thread.is_empty() {
            return Err(Error::ThreadId("it is empty"));
        }
        if thread.len() <= NAME
            && thread.chars().all(is_plain)
            && !thread.starts_with('-')
            && !thread.ends_with('.')
        {
            return Ok(format!("{RUN_PREFIX}{thread}").parse()?);
        }
        let name: String = thread.chars().filter(|c| is_plain(*c)).take(24).collect();
        let hash = blake3::hash(thread.as_bytes()).to_hex();
        Ok(format!("{RUN_PREFIX}-{name}-{}", &hash[..32]).parse()?)
    }

    /// The options that the run of a thread is opened with.
    fn run_options(&self, thread: &str) -> RunOptions {
        RunOptions {
            profile: Some(Profile::Thread),
            title: Some(thread.to_owned()),
            location: self.mp.location.clone(),
            ..RunOptions::default()
        }
    }

    fn key(&self) -> Option<&ThreadKey> {
        self.key.as_deref()
    }

    // Both caches are consistent even if another thread panicked.

    fn cache(&self) -> std::sync::MutexGuard<'_, ChunkCache> {
        self.cache.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn newest(&self) -> std::sync::MutexGuard<'_, NewestValues> {
        self.newest.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Collects the values that no checkpoint uses any more, at once or with a later removal: collections take at most
    /// a twentieth of the time.
    fn collect_later(&self) -> Result<(), Error> {
        let mut state = self.collection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        state.is_due = true;
        if state.last.is_some_and(|(ended, took)| ended.elapsed() < took * 20) {
            return Ok(());
        }
        let start = Instant::now();
        self.mp.collect_files()?;
        *state = Collection { last: Some((Instant::now(), start.elapsed())), is_due: false };
        Ok(())
    }

    /// Collects the values of removed checkpoints that have not been collected yet.
    pub fn flush_removals(&self) -> Result<(), Error> {
        let mut state = self.collection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.is_due {
            self.mp.collect_files()?;
            state.is_due = false;
        }
        Ok(())
    }
}

/// What the values of a checkpoint are bound to if they are encrypted.
fn context(run: &RunId, namespace: &str, id: &str) -> String {
    format!("{run} {}:{namespace}{id}", namespace.len())
}

/// The key of the writes of a checkpoint among the attachments of the run. The checkpoint need not exist yet.
fn writes_key(namespace: &str, id: &str) -> String {
    format!("{}:{namespace}{id}", namespace.len())
}

/// The namespace and the id in the key of a checkpoint's writes.
fn place_of_writes(key: &str) -> Option<(&str, &str)> {
    let (length, rest) = key.split_once(':')?;
    rest.split_at_checked(length.parse().ok()?)
}

/// The error for values that cannot be read.
fn value_error(run: &RunId, error: TableError) -> Error {
    match error {
        TableError::Damaged(why) => {
            let damage = Damage::integrity(Part::Body, "the values of a thread", why);
            StoreError::from(damage.at(Some(run), None)).into()
        }
        TableError::WrongKey => Error::ThreadKey { run: run.clone() },
    }
}

/// The error for values that cannot be encoded.
fn encoding_error(why: String) -> Error {
    crate::model::ValidationError::document(why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_has_a_run_of_its_own() {
        let run = |thread: &str| Threads::run_of(thread).unwrap().to_string();
        assert_eq!(run("1"), "thread-1");
        assert_eq!(
            run("1e9c2a7c-5d2e-4c1c-9d3b-1f1f4a0e2a11"),
            "thread-1e9c2a7c-5d2e-4c1c-9d3b-1f1f4a0e2a11"
        );
        let unusual = [
            "user@example.org",
            "userexample.org",
            "ends.",
            "ends",
            "日本語",
            "日本",
            " ",
            "\0",
            &"a".repeat(500),
            &"a".repeat(501),
            // What follows `thread-` in the runs of other threads.
            "userexample.org-ae7d08f9919229032a15ecd822cb331f",
            "-userexample.org-ae7d08f9919229032a15ecd822cb331f",
            "-",
        ];
        assert_eq!(run("user@example.org"), "thread--userexample.org-ae7d08f9919229032a15ecd822cb331f");
        let runs: std::collections::HashSet<_> = unusual.iter().map(|thread| run(thread)).collect();
        assert_eq!(runs.len(), unusual.len());
        assert!(Threads::run_of("").is_err());
    }

    #[test]
    fn keys_of_writes_name_one_place() {
        for (namespace, id) in [("", "1"), ("a:b", "c"), ("a", ":bc"), ("日本", "本")] {
            assert_eq!(place_of_writes(&writes_key(namespace, id)), Some((namespace, id)));
        }
        assert_eq!(place_of_writes("cp_20260101"), None);
        assert_eq!(place_of_writes("9:x"), None);
    }
}
