//! Finds passwords in `.netrc` entries on one or several lines: `machine HOST login USER password PASSWORD`.

use super::secret_likelihood;
use super::structures::SecretMatch;
use super::text::{ByteClass, Text};

/// Matches the password after the word `password` at `at`, if the words before it form a `.netrc` entry.
pub(super) fn match_netrc_password(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    const WORD: &[u8] = b"password";
    /// `login USER` and `account NAME`.
    const MAX_PAIRS: usize = 2;
    if !text.starts_with(at, WORD) || !text.byte_before(at)?.is_ascii_whitespace() {
        return None;
    }
    let after = at + WORD.len();
    let gap = text.count_from(after, 64, |b| b.is_ascii_whitespace());
    let from = after + gap;
    let end = text.run_end(ByteClass::Quoted, from);
    let value = &text.text[from..end];
    if gap == 0 || value.is_empty() || secret_likelihood::is_placeholder(value) {
        return None;
    }
    let mut rest = &text.bytes[..at];
    for pairs in 0..=MAX_PAIRS {
        let name;
        (rest, name) = split_last_word(rest)?;
        if strip_opening_quotes(name) == b"default" {
            return (pairs > 0).then_some((from, end, "netrc_password"));
        }
        let keyword;
        (rest, keyword) = split_last_word(rest)?;
        match strip_opening_quotes(keyword) {
            b"login" | b"account" => {}
            // Without a user, only a host name distinguishes an entry from a sentence.
            b"machine" if pairs > 0 || name.contains(&b'.') => {
                return Some((from, end, "netrc_password"));
            }
            _ => return None,
        }
    }
    None
}

fn strip_opening_quotes(word: &[u8]) -> &[u8] {
    let signs = word.iter().take_while(|b| b"`\"'#(".contains(b)).count();
    &word[signs..]
}

fn split_last_word(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let gap = bytes.iter().rev().take(64).take_while(|b| b.is_ascii_whitespace()).count();
    let bytes = &bytes[..bytes.len() - gap];
    let length = bytes.iter().rev().take(128).take_while(|b| !b.is_ascii_whitespace()).count();
    let (rest, word) = bytes.split_at(bytes.len() - length);
    (length > 0).then_some((rest, word))
}
