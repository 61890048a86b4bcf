//! Passwords in a `.netrc` file, on one line or on several: `machine HOST login USER password PASSWORD`.

use super::secret_likelihood;
use super::structures::Hit;
use super::text::{Class, Text};

/// The password after the word `password`, which stands at `at`, if what stands before it is an entry of such a file.
pub(super) fn password(text: &Text<'_>, at: usize) -> Option<Hit> {
    const WORD: &[u8] = b"password";
    /// `login USER` and `account NAME`.
    const PAIRS: usize = 2;
    if !text.starts(at, WORD) || !text.before(at)?.is_ascii_whitespace() {
        return None;
    }
    let after = at + WORD.len();
    let gap = text.bytes[after..].iter().take(64).take_while(|b| b.is_ascii_whitespace()).count();
    let from = after + gap;
    let end = text.run(Class::Quoted, from);
    let value = &text.text[from..end];
    if gap == 0 || value.is_empty() || secret_likelihood::is_stand_in(value) {
        return None;
    }
    let mut rest = &text.bytes[..at];
    for pairs in 0..=PAIRS {
        let name;
        (rest, name) = last_word(rest)?;
        if opening(name) == b"default" {
            return (pairs > 0).then_some((from, end, "netrc_password"));
        }
        let keyword;
        (rest, keyword) = last_word(rest)?;
        match opening(keyword) {
            b"login" | b"account" => {}
            // Without a user, only the name of a host tells it from a sentence.
            b"machine" if pairs > 0 || name.contains(&b'.') => {
                return Some((from, end, "netrc_password"));
            }
            _ => return None,
        }
    }
    None
}

/// A word without the quotes or the comment that it opens.
fn opening(word: &[u8]) -> &[u8] {
    let signs = word.iter().take_while(|b| b"`\"'#(".contains(b)).count();
    &word[signs..]
}

/// The last word, and what stands before it.
fn last_word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let gap = bytes.iter().rev().take(64).take_while(|b| b.is_ascii_whitespace()).count();
    let bytes = &bytes[..bytes.len() - gap];
    let length = bytes.iter().rev().take(128).take_while(|b| !b.is_ascii_whitespace()).count();
    let (rest, word) = bytes.split_at(bytes.len() - length);
    (length > 0).then_some((rest, word))
}
