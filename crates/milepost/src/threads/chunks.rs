//! Splits a value into chunks whose boundaries depend on the content around them. A value that grows or changes in
//! one place keeps most of its chunks, and each distinct chunk is stored once.

use fastcdc::v2020::FastCDC;

/// Number of bytes at the start of a value that belong to no chunk. Encodings of lists begin with the number of
/// entries, which would otherwise change the first chunk whenever an entry is added.
pub(super) const HEAD: usize = 16;

/// Sizes of chunks by the size of the value: the maximum size of the value, and the average size of a chunk. Chunks
/// are at least a quarter and at most four times as large.
const SIZES: [(usize, usize); 3] = [(512 << 10, 2 << 10), (8 << 20, 16 << 10), (usize::MAX, 256 << 10)];

/// Returns the chunks of a value after its first `HEAD` bytes.
pub(super) fn split(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    let rest = value.get(HEAD..).unwrap_or_default();
    let average =
        SIZES.iter().find(|(most, _)| value.len() <= *most).map_or(256 << 10, |(_, average)| *average);
    let chunks = FastCDC::new(rest, average / 4, average, average * 4);
    chunks.map(move |chunk| &rest[chunk.offset..chunk.offset + chunk.length])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

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
