//! Finds secrets with a fixed string in the middle or at the end: `….atlasv1.…`, `…-us12`, signatures in
//! Azure keys. Locates the fixed string first, then checks a bounded length of text before it.

use super::secret_likelihood;
use super::structures::SecretMatch;
use super::text::{ByteClass, Text, is_in_class};

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

/// Signatures in Azure keys: the signature, the number of characters before it, and the length of the key.
const AZURE_KEYS: [(&[u8], usize, usize); 9] = [
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

/// The bytes that may follow `byte` at the start of a fixed string, as a bit set.
pub(super) const fn second_bytes(byte: u8) -> u128 {
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

/// Matches a secret whose fixed string starts at `at`.
pub(super) fn match_infix_shape(text: &Text<'_>, at: usize, byte: u8) -> Option<SecretMatch> {
    match byte {
        b'+' | b'A' => match_azure_key(text, at),
        b'-' => match_mailchimp_key(text, at),
        b'.' => match_terraform_token(text, at),
        b'0' => match_salesforce_session(text, at),
        b':' => match_firebase_key(text, at),
        b'N' => match_newrelic_license(text, at),
        b'_' => match_maxmind_key(text, at),
        b'|' => match_facebook_token(text, at),
        _ => None,
    }
}

/// Start of the sequence of `class` bytes that ends at `at`, if it is exactly `length` bytes long.
fn exact_run_before(text: &Text<'_>, at: usize, class: ByteClass, length: usize) -> Option<usize> {
    let start = at.checked_sub(length)?;
    let whole = text.bytes[start..at].iter().all(|b| is_in_class(*b, class));
    let edge = !text.byte_before(start).is_some_and(|b| is_in_class(b, class));
    (whole && edge).then_some(start)
}

fn is_word_end(text: &Text<'_>, at: usize) -> bool {
    !text.byte_at(at).is_some_and(|b| is_in_class(b, ByteClass::Word))
}

fn match_azure_key(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    let (_, before, length) = AZURE_KEYS.iter().find(|(piece, ..)| text.starts_with(at, piece))?;
    let start = at.checked_sub(*before)?;
    let end = text.run_end(ByteClass::Base64, at);
    if end != start + length {
        return None;
    }
    let start = exact_run_before(text, at, ByteClass::Base64, *before)?;
    let rule = if text.starts_with(at, b"AZDO") { "azure_devops_token" } else { "azure_key" };
    secret_likelihood::looks_random(&text.text[start..end]).then_some((start, end, rule))
}

/// 32 hexadecimal digits followed by a data centre: `…-us12`.
fn match_mailchimp_key(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b"-us") {
        return None;
    }
    let digits = text.count_from(at + 3, 3, |b| b.is_ascii_digit());
    let end = at + 3 + digits;
    let start = exact_run_before(text, at, ByteClass::Hex, 32)?;
    let edge = !text.byte_before(start).is_some_and(|b| is_in_class(b, ByteClass::Word));
    ((1..=2).contains(&digits) && is_word_end(text, end) && edge).then_some((start, end, "mailchimp_key"))
}

fn match_terraform_token(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    const INFIX: &[u8] = b".atlasv1.";
    if !text.starts_with(at, INFIX) {
        return None;
    }
    let start = exact_run_before(text, at, ByteClass::Alnum, 14)?;
    let from = at + INFIX.len();
    let end = text.run_end(ByteClass::Word, from);
    (end - from >= 60).then_some((start, end, "terraform_token"))
}

/// An organisation id, `!`, and the session token.
fn match_salesforce_session(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b"00D") || text.byte_before(at).is_some_and(|b| is_in_class(b, ByteClass::Word))
    {
        return None;
    }
    let id = text.run_end(ByteClass::Alnum, at);
    if !matches!(id - at, 15 | 18) || text.byte_at(id) != Some(b'!') {
        return None;
    }
    let end = text.run_end(ByteClass::Dotted, id + 1);
    (end - id > 80).then_some((at, end, "salesforce_session"))
}

/// A server key of Firebase Cloud Messaging.
fn match_firebase_key(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b":APA91b") {
        return None;
    }
    let start = exact_run_before(text, at, ByteClass::Word, 11)?;
    let end = text.run_end(ByteClass::Word, at + 1);
    (end - at > 120).then_some((start, end, "firebase_key"))
}

fn match_newrelic_license(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b"NRAL") || !is_word_end(text, at + 4) {
        return None;
    }
    let start = exact_run_before(text, at, ByteClass::Alnum, 36)?;
    let hex = text.bytes[start..at].iter().filter(|b| b.is_ascii_hexdigit()).count();
    // Keys of the European region start with `eu01xx`, which is not all hexadecimal.
    (hex >= 32).then_some((start, at + 4, "newrelic_license"))
}

fn match_maxmind_key(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b"_mmk") || !is_word_end(text, at + 4) {
        return None;
    }
    let key = exact_run_before(text, at, ByteClass::Alnum, 29)?;
    let underscore = key.checked_sub(1).filter(|at| text.byte_at(*at) == Some(b'_'))?;
    let start = exact_run_before(text, underscore, ByteClass::Alnum, 6)?;
    Some((start, at + 4, "maxmind_key"))
}

/// An application id, `|`, and the application's secret.
fn match_facebook_token(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.byte_before(at)?.is_ascii_digit() {
        return None;
    }
    let id = text.count_before(at, 17, |b| b.is_ascii_digit());
    let end = text.run_end(ByteClass::Word, at + 1);
    let start = at - id;
    let edge = !text.byte_before(start).is_some_and(|b| is_in_class(b, ByteClass::Word));
    let secret = &text.text[at + 1..end];
    let whole = (15..=16).contains(&id) && (27..=40).contains(&secret.len()) && edge;
    (whole && secret_likelihood::looks_random(secret)).then_some((start, end, "facebook_app_token"))
}
