//! Secrets that a piece in their middle or at their end gives away: `….atlasv1.…`, `…-us12`, signatures of Azure.
//! The piece is looked for; what has to stand before it is then compared, within a bound.

use super::secret_likelihood;
use super::structures::Hit;
use super::text::{Class, Text, is};

pub(super) const RULES: [&str; 9] = [
    "azure_devops_token",
    "azure_key",
    "facebook_app_token",
    "firebase_key",
    "mailchimp_key",
    "maxmind_key",
    "newrelic_license",
    "salesforce_session",
    "terraform_token",
];

/// Signatures in keys of Azure: the piece, how much stands before it, and how long the key is.
const AZURE: [(&[u8], usize, usize); 9] = [
    (b"+ABa", 76, 88),
    (b"+ACR", 42, 52),
    (b"+ASt", 76, 88),
    (b"ACDb", 76, 88),
    (b"APIM", 76, 88),
    (b"AZDO", 76, 84),
    (b"AzCa", 33, 44),
    (b"AzFu", 44, 56),
    (b"AzSe", 42, 52),
];

/// The bytes that follow this one in a piece, one bit each.
pub(super) const fn follows(byte: u8) -> u128 {
    /// Letters, digits, `_` and `-`.
    const WORD: u128 = 0x07ff_fffe_87ff_fffe_03ff_2000_0000_0000;
    match byte {
        b'+' => 1 << b'A',
        b'-' => 1 << b'u',
        b'.' => 1 << b'a',
        b'0' => 1 << b'0',
        b':' => 1 << b'A',
        b'A' => 1 << b'C' | 1 << b'P' | 1 << b'Z' | 1 << b'z',
        b'N' => 1 << b'R',
        b'_' => 1 << b'm',
        b'|' => WORD,
        _ => 0,
    }
}

/// A secret whose piece begins here.
pub(super) fn find(text: &Text<'_>, at: usize, byte: u8) -> Option<Hit> {
    match byte {
        b'+' | b'A' => azure(text, at),
        b'-' => mailchimp(text, at),
        b'.' => terraform(text, at),
        b'0' => salesforce(text, at),
        b':' => firebase(text, at),
        b'N' => newrelic(text, at),
        b'_' => maxmind(text, at),
        b'|' => facebook(text, at),
        _ => None,
    }
}

/// Where exactly so much of a class begins that ends here.
fn lead(text: &Text<'_>, at: usize, class: Class, length: usize) -> Option<usize> {
    let start = at.checked_sub(length)?;
    let whole = text.bytes[start..at].iter().all(|b| is(*b, class));
    let edge = !text.before(start).is_some_and(|b| is(b, class));
    (whole && edge).then_some(start)
}

/// Whether nothing goes on here.
fn ends(text: &Text<'_>, at: usize) -> bool {
    !text.at(at).is_some_and(|b| is(b, Class::Word))
}

fn azure(text: &Text<'_>, at: usize) -> Option<Hit> {
    let (_, before, length) = AZURE.iter().find(|(piece, ..)| text.starts(at, piece))?;
    let start = at.checked_sub(*before)?;
    let end = text.run(Class::Base64, at);
    if end != start + length {
        return None;
    }
    let start = lead(text, at, Class::Base64, *before)?;
    let rule = if text.starts(at, b"AZDO") { "azure_devops_token" } else { "azure_key" };
    secret_likelihood::is_mixed(&text.text[start..end]).then_some((start, end, rule))
}

/// 32 hexadecimal digits and a data centre: `…-us12`.
fn mailchimp(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b"-us") {
        return None;
    }
    let digits = text.bytes[at + 3..].iter().take(3).take_while(|b| b.is_ascii_digit()).count();
    let end = at + 3 + digits;
    let start = lead(text, at, Class::Hex, 32)?;
    let edge = !text.before(start).is_some_and(|b| is(b, Class::Word));
    ((1..=2).contains(&digits) && ends(text, end) && edge).then_some((start, end, "mailchimp_key"))
}

fn terraform(text: &Text<'_>, at: usize) -> Option<Hit> {
    const PIECE: &[u8] = b".atlasv1.";
    if !text.starts(at, PIECE) {
        return None;
    }
    let start = lead(text, at, Class::Alnum, 14)?;
    let from = at + PIECE.len();
    let end = text.run(Class::Word, from);
    (end - from >= 60).then_some((start, end, "terraform_token"))
}

/// The id of an organisation, `!`, and the session.
fn salesforce(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b"00D") || text.before(at).is_some_and(|b| is(b, Class::Word)) {
        return None;
    }
    let id = text.run(Class::Alnum, at);
    if !matches!(id - at, 15 | 18) || text.at(id) != Some(b'!') {
        return None;
    }
    let end = text.run(Class::Dotted, id + 1);
    (end - id > 80).then_some((at, end, "salesforce_session"))
}

/// The key of a server of Firebase Cloud Messaging.
fn firebase(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b":APA91b") {
        return None;
    }
    let start = lead(text, at, Class::Word, 11)?;
    let end = text.run(Class::Word, at + 1);
    (end - at > 120).then_some((start, end, "firebase_key"))
}

fn newrelic(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b"NRAL") || !ends(text, at + 4) {
        return None;
    }
    let start = lead(text, at, Class::Alnum, 36)?;
    let hex = text.bytes[start..at].iter().filter(|b| b.is_ascii_hexdigit()).count();
    // Those of the European region begin with `eu01xx`.
    (hex >= 32).then_some((start, at + 4, "newrelic_license"))
}

fn maxmind(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b"_mmk") || !ends(text, at + 4) {
        return None;
    }
    let key = lead(text, at, Class::Alnum, 29)?;
    let underscore = key.checked_sub(1).filter(|at| text.at(*at) == Some(b'_'))?;
    let start = lead(text, underscore, Class::Alnum, 6)?;
    Some((start, at + 4, "maxmind_key"))
}

/// The id of an application, and its secret.
fn facebook(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.before(at)?.is_ascii_digit() {
        return None;
    }
    let id = text.bytes[..at].iter().rev().take(17).take_while(|b| b.is_ascii_digit()).count();
    let end = text.run(Class::Word, at + 1);
    let start = at - id;
    let edge = !text.before(start).is_some_and(|b| is(b, Class::Word));
    let secret = &text.text[at + 1..end];
    let whole = (15..=16).contains(&id) && (27..=40).contains(&secret.len()) && edge;
    (whole && secret_likelihood::is_mixed(secret)).then_some((start, end, "facebook_app_token"))
}
