//! Sets and maps of short texts that live as long as one fit. Their hash is cheaper than the standard one, and begins
//! anew each time, so that nobody can prepare texts that collide.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};

pub(super) type Map<K, V> = HashMap<K, V, Seeded>;
pub(super) type Set<K> = HashSet<K, Seeded>;

/// Where hashing begins, which differs from fit to fit.
#[derive(Debug, Clone)]
pub(super) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded(self.0)
    }
}

/// Eight bytes at a time, each time multiplied and folded.
pub(super) struct Folded(u64);

impl Folded {
    fn fold(&mut self, word: u64) {
        // An odd number whose bits are spread evenly.
        let wide = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (wide as u64) ^ (wide >> 64) as u64;
    }
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.fold(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        self.fold(u64::from_le_bytes(last) ^ ((bytes.len() as u64) << 56));
    }

    fn write_u8(&mut self, byte: u8) {
        self.fold(u64::from(byte));
    }

    fn write_usize(&mut self, n: usize) {
        self.fold(n as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
