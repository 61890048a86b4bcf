//! What was read or written recently: chunks by the id of their blob, which is the hash of their content, so that a
//! cached chunk is never out of date; and the newest versions of large values, which save most of the work of splitting
//! the next version.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{BlobId, RunId};
use crate::threads::SplitValue;

/// Size in bytes at which the older half is dropped.
const HALF: usize = 16 << 20;

/// A cache of chunks in two halves. New chunks and those that are used go to the newer half. When it is full, it
/// becomes the older one, and what was in that is dropped.
#[derive(Debug, Default)]
pub(super) struct ChunkCache {
    newer: HashMap<BlobId, Arc<[u8]>>,
    older: HashMap<BlobId, Arc<[u8]>>,
    newer_bytes: usize,
}

impl ChunkCache {
    pub(super) fn get(&mut self, id: &BlobId) -> Option<Arc<[u8]>> {
        if let Some(chunk) = self.newer.get(id) {
            return Some(Arc::clone(chunk));
        }
        let chunk = self.older.remove(id)?;
        self.put(*id, Arc::clone(&chunk));
        Some(chunk)
    }

    pub(super) fn contains(&self, id: &BlobId) -> bool {
        self.newer.contains_key(id) || self.older.contains_key(id)
    }

    pub(super) fn put(&mut self, id: BlobId, chunk: Arc<[u8]>) {
        // Besides the content, an entry takes about as much as its key.
        const ENTRY: usize = 96;
        let bytes = chunk.len() + ENTRY;
        if self.newer.insert(id, chunk).is_none() {
            self.newer_bytes += bytes;
        }
        if self.newer_bytes > HALF {
            self.older = std::mem::take(&mut self.newer);
            self.newer_bytes = 0;
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// The run, the namespace and the name of a value.
pub(super) type ValuePlace = (RunId, String, String);

/// Maximum size in bytes of the values that are kept.
const VALUES: usize = 16 << 20;

/// The newest versions of large values. All are dropped when they exceed their maximum size.
#[derive(Debug, Default)]
pub(super) struct NewestValues {
    values: HashMap<ValuePlace, Arc<SplitValue>>,
    bytes: usize,
}

impl NewestValues {
    pub(super) fn get(&self, place: &ValuePlace) -> Option<Arc<SplitValue>> {
        self.values.get(place).cloned()
    }

    pub(super) fn put(&mut self, place: ValuePlace, value: SplitValue) {
        let added = value.size();
        let replaced = self.values.insert(place, Arc::new(value));
        self.bytes = self.bytes - replaced.map_or(0, |value| value.size()) + added;
        if self.bytes > VALUES {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_values_are_replaced_and_their_size_is_bounded() {
        let place = |name: &str| ("r".parse().unwrap(), String::new(), name.to_owned());
        let value = |size: usize| SplitValue::new(vec![0; size], Vec::new());
        let mut newest = NewestValues::default();
        for _ in 0..100 {
            newest.put(place("a"), value(VALUES / 2));
        }
        assert!(newest.get(&place("a")).is_some() && newest.get(&place("b")).is_none());
        newest.put(place("b"), value(VALUES));
        assert!(newest.get(&place("a")).is_none() && newest.get(&place("b")).is_none());
        assert_eq!(newest.bytes, 0);
    }

    #[test]
    fn chunks_in_use_stay_and_the_size_is_bounded() {
        let mut cache = ChunkCache::default();
        let used = BlobId::of(b"used");
        cache.put(used, Arc::from(&b"used"[..]));
        let megabyte: Arc<[u8]> = Arc::from(vec![0; 1 << 20]);
        for n in 0..100_u32 {
            cache.put(BlobId::of(&n.to_le_bytes()), Arc::clone(&megabyte));
            assert!(cache.get(&used).is_some());
        }
        assert!(cache.newer.len() + cache.older.len() < 40);
        assert!(!cache.contains(&BlobId::of(&0_u32.to_le_bytes())));
    }
}
