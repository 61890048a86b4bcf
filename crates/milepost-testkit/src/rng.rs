//! Pseudo-random numbers and text from a seed. Must not use the system's generator, so that every failure is
//! reproducible.

use std::sync::atomic::{AtomicU64, Ordering};

/// A deterministic generator that threads can share.
#[derive(Debug)]
pub struct Rng(AtomicU64);

impl Rng {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next number (splitmix64).
    pub fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must not be 0.
    pub fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True with a probability of `rate` in a thousand.
    pub fn per_mille(&self, rate: u64) -> bool {
        self.below(1000) < rate
    }
}

const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";

/// A text of `len` characters that compresses poorly.
pub fn text(len: usize, seed: u64) -> String {
    let rng = Rng::new(seed);
    let mut out = String::with_capacity(len);
    while out.len() < len {
        let bits = rng.next();
        out.extend((0..8).map(|i| LETTERS[(bits >> (i * 8)) as usize & 63] as char).take(len - out.len()));
    }
    out
}

/// `old` with about `percent` percent of it replaced, in short ranges as in an edited document. ASCII only.
pub fn edited(old: &str, percent: u64, seed: u64) -> String {
    const STRETCH: usize = 40;
    let rng = Rng::new(seed);
    let mut out = String::with_capacity(old.len());
    for piece in old.as_bytes().chunks(STRETCH) {
        if rng.below(100) < percent {
            out.push_str(&text(piece.len(), rng.next()));
        } else {
            out.push_str(std::str::from_utf8(piece).expect("ASCII"));
        }
    }
    out
}
