//! A cache of recently verified and parsed values, shared by all threads: programs save the same run from several of
//! them. A writer that reads the same rows repeatedly verifies each of them only once. Returns a value only if key,
//! value and checksum match the cached ones exactly.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::model::RunRecord;
use crate::seal::Header;

pub(super) static HEADERS: Cache<Header> = Mutex::new(VerifiedCache::new(16));
pub(super) static RECORDS: Cache<RunRecord> = Mutex::new(VerifiedCache::new(8));

type Cache<T> = Mutex<VerifiedCache<T>>;

/// The most recent values of one type.
pub(super) struct VerifiedCache<T> {
    most: usize,
    known: VecDeque<Known<T>>,
}

struct Known<T> {
    key: Vec<u8>,
    value: Vec<u8>,
    checksum: Vec<u8>,
    parsed: T,
}

/// Maximum size of a cached value in bytes.
const LARGEST: usize = 64 * 1024;

impl<T: Clone> VerifiedCache<T> {
    const fn new(most: usize) -> Self {
        Self { most, known: VecDeque::new() }
    }

    fn get(&self, key: &[&[u8]], value: &[u8], checksum: &[u8]) -> Option<T> {
        let known = self.known.iter().find(|known| known.checksum == checksum)?;
        (known.key == key.concat() && known.value == value).then(|| known.parsed.clone())
    }

    fn put(&mut self, key: &[&[u8]], value: &[u8], checksum: &[u8], parsed: T) {
        if value.len() <= LARGEST {
            self.known.truncate(self.most - 1);
            let (key, value, checksum) = (key.concat(), value.to_vec(), checksum.to_vec());
            self.known.push_front(Known { key, value, checksum, parsed });
        }
    }
}

/// Every change leaves the cache consistent, even if a thread panicked.
fn locked<T>(cache: &Cache<T>) -> MutexGuard<'_, VerifiedCache<T>> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Caches a value that was just written with this checksum.
pub(super) fn remember<T: Clone>(cache: &Cache<T>, key: &[&[u8]], value: &[u8], checksum: &[u8], parsed: &T) {
    let parsed = parsed.clone();
    locked(cache).put(key, value, checksum, parsed);
}

/// Returns the cached value, or verifies, parses and caches it.
pub(super) fn recall<T: Clone, E>(
    cache: &Cache<T>,
    key: &[&[u8]],
    value: &[u8],
    checksum: &[u8],
    prove: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let known = locked(cache).get(key, value, checksum);
    if let Some(parsed) = known {
        return Ok(parsed);
    }
    let parsed = prove()?;
    remember(cache, key, value, checksum, &parsed);
    Ok(parsed)
}
