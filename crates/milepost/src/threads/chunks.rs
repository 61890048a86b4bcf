//! Splits a value into chunks whose boundaries depend on the content around them. A value that grows or changes in
//! one place keeps most of its chunks, and each distinct chunk is stored once.

use fastcdc::v2020::FastCDC;

use crate::model::BlobId;

/// Number of bytes at the start of a value that belong to no chunk. Encodings of lists begin with the number of
/// entries, which would otherwise change the first chunk whenever an entry is added.
pub(super) const HEAD: usize = 16;

/// Sizes of chunks by the size of the value: the maximum size of the value, and the average size of a chunk. Chunks
/// are at least a quarter and at most four times as large.
const SIZES: [(usize, usize); 3] = [(512 << 10, 2 << 10), (8 << 20, 16 << 10), (usize::MAX, 256 << 10)];

/// Splits a value after its first `HEAD` bytes, starting at an offset at which a chunk begins. `from` is counted from the
/// end of the head.
pub(super) fn split_from(value: &[u8], from: usize) -> impl Iterator<Item = &[u8]> {
    let rest = rest_of(value).get(from..).unwrap_or_default();
    let average = average_of(value);
    let chunks = FastCDC::new(rest, average / 4, average, longest(average));
    chunks.map(move |chunk| &rest[chunk.offset..chunk.offset + chunk.length])
}

/// The bytes of a value that are in chunks.
fn rest_of(value: &[u8]) -> &[u8] {
    value.get(HEAD..).unwrap_or_default()
}

/// The average size of the chunks of a value.
fn average_of(value: &[u8]) -> usize {
    SIZES.iter().find(|(most, _)| value.len() <= *most).map_or(256 << 10, |(_, average)| *average)
}

/// The maximum size of a chunk.
const fn longest(average: usize) -> usize {
    average * 4
}

/// A value that was split, so that a later version of it need not be split from its start.
#[derive(Debug)]
pub struct SplitValue {
    value: Vec<u8>,
    /// Where each chunk ends, counted from the end of the head, and the id of its blob.
    chunks: Vec<(usize, BlobId)>,
}

impl SplitValue {
    /// A value with the ends and the ids of its chunks.
    pub fn new(value: Vec<u8>, chunks: Vec<(usize, BlobId)>) -> Self {
        Self { value, chunks }
    }

    /// Number of bytes of the value.
    pub fn size(&self) -> usize {
        self.value.len()
    }

    /// The first chunks of the value that are also the first chunks of another version of it.
    pub(super) fn shared_with(&self, other: &[u8]) -> &[(usize, BlobId)] {
        let average = average_of(other);
        if average != average_of(&self.value) {
            return &[];
        }
        let same = common_start(rest_of(&self.value), rest_of(other));
        // Where a chunk ends depends on no byte further away than the longest chunk.
        let starts = std::iter::once(0).chain(self.chunks.iter().map(|(end, _)| *end));
        let count = starts.take_while(|start| start + longest(average) <= same).count();
        &self.chunks[..count.min(self.chunks.len())]
    }
}

/// Number of bytes at the start that are equal.
fn common_start(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    let blocks = a.chunks_exact(BLOCK).zip(b.chunks_exact(BLOCK)).take_while(|(a, b)| a == b).count() * BLOCK;
    blocks + a[blocks..].iter().zip(&b[blocks..]).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn split(value: &[u8]) -> impl Iterator<Item = &[u8]> {
        split_from(value, 0)
    }

    /// The chunks of a value with their ends.
    fn split_value(value: &[u8]) -> SplitValue {
        let mut end = 0;
        let chunks = split(value).map(|chunk| {
            end += chunk.len();
            (end, BlobId::of(chunk))
        });
        SplitValue::new(value.to_vec(), chunks.collect())
    }

    /// Bytes that do not repeat.
    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        let mut bytes = vec![0; len];
        hasher.finalize_xof().fill(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn chunks_cover_the_value(len in 0..40_000_usize, seed in any::<u64>()) {
            let value = noise(len, seed);
            let whole: Vec<u8> = value.iter().take(HEAD).copied().chain(split(&value).flatten().copied()).collect();
            prop_assert_eq!(whole, value);
        }
    }

    proptest! {
        #[test]
        fn a_later_version_is_split_as_if_it_was_the_first(
            len in 0..60_000_usize, at in 0..60_000_usize, removed in 0..30_000_usize, added in 0..30_000_usize,
        ) {
            let value = noise(len, 1);
            let at = at.min(len);
            let mut later = value.clone();
            later.splice(at..(at + removed).min(len), noise(added, 2));
            let earlier = split_value(&value);
            let shared = earlier.shared_with(&later);
            let from = shared.last().map_or(0, |(end, _)| *end);
            let resumed = shared.iter().map(|(_, id)| *id).chain(split_from(&later, from).map(BlobId::of));
            let whole: Vec<_> = split(&later).map(BlobId::of).collect();
            prop_assert_eq!(resumed.collect::<Vec<_>>(), whole);
        }
    }

    #[test]
    fn most_of_a_list_that_grows_is_not_split_again() {
        let value = noise(200_000, 1);
        let mut later = value.clone();
        later.extend(noise(200, 2));
        let shared = split_value(&value).shared_with(&later).last().map_or(0, |(end, _)| *end);
        assert!(shared > 180_000, "{shared}");
    }

    #[test]
    fn a_list_that_grows_keeps_its_chunks() {
        let (mut known, mut new_bytes, mut value) = (HashSet::new(), 0, vec![0; 5]);
        for step in 0..1000_u64 {
            value.extend(noise(200, step));
            value[..5].copy_from_slice(&[0xdd, 0, 0, (step >> 8) as u8, step as u8]);
            for chunk in split(&value) {
                if known.insert(blake3::hash(chunk)) {
                    new_bytes += chunk.len();
                }
            }
        }
        assert!(new_bytes < 2_500_000, "{new_bytes} bytes for a list of {}", value.len());
    }

    #[test]
    fn a_change_in_the_middle_changes_few_chunks() {
        let value = noise(200_000, 1);
        let mut changed = value.clone();
        changed.splice(100_000..100_010, *b"something else");
        let known: HashSet<_> = split(&value).collect();
        let new: usize = split(&changed).filter(|chunk| !known.contains(chunk)).map(<[u8]>::len).sum();
        assert!(new < 20_000, "{new}");
    }
}
