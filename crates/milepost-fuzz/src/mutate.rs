//! Mutates inputs from a seed, for tests without coverage instrumentation. The same seed and inputs always give the same
//! result.

use milepost_testkit::rng::Rng;

/// Bytes and tokens that parsers treat specially.
const TOKENS: [&[u8]; 32] = [
    b"\0",
    b"\n",
    b"\r\n",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"-0",
    b"1e999",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"---\n",
    b"## ",
    b"```",
    b"| ",
    b"..",
    b"/",
    b"%00",
    b"@",
    b"\xff",
    b"\xef\xbb\xbf",
    "\u{e9}".as_bytes(),
    "\u{1f3af}".as_bytes(),
    "\u{202e}".as_bytes(),
];

/// Creates variants of inputs.
#[derive(Debug)]
pub struct Mutator(Rng);

impl Mutator {
    /// Creates a mutator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(Rng::new(seed))
    }

    /// A variant of one of `inputs`, with at most `max_len` bytes.
    pub fn next(&self, inputs: &[Vec<u8>], max_len: usize) -> Vec<u8> {
        let mut bytes = self.pick(inputs).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, inputs);
        }
        bytes.truncate(max_len);
        bytes
    }

    fn change(&self, bytes: &mut Vec<u8>, inputs: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end.max(at))),
            2 => {
                let copy = bytes[at..end.max(at)].to_vec();
                let to = self.below(bytes.len() + 1);
                drop(bytes.splice(to..to, copy));
            }
            3 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.below(8);
                }
            }
            4 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = u8::try_from(self.below(256)).unwrap_or_default();
                }
            }
            5 => {
                let other = self.pick(inputs).map(Vec::as_slice).unwrap_or_default();
                let from = self.below(other.len() + 1);
                let to = (from + self.below(64)).min(other.len());
                drop(bytes.splice(at..at, other[from..to].to_vec()));
            }
            _ => {
                let token = TOKENS[self.below(TOKENS.len())];
                drop(bytes.splice(at..at, token.to_vec()));
            }
        }
    }

    fn pick<'a>(&self, inputs: &'a [Vec<u8>]) -> Option<&'a Vec<u8>> {
        inputs.get(self.below(inputs.len().max(1)))
    }

    fn below(&self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound.max(1) as u64)).unwrap_or_default()
    }
}
