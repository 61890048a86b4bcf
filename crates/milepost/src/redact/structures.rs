//! Secrets that their structure gives away: key blocks, signed tokens, addresses with a password, dotted tokens.

use super::text::{Class, Text, is};
use super::{anchored, secret_likelihood};

/// A secret: from where to where, and its rule.
pub(super) type Hit = (usize, usize, &'static str);

pub(super) const RULES: [&str; 15] = [
    "private_key",
    "jwt",
    "url_password",
    "slack_webhook",
    "discord_webhook",
    "discord_token",
    "telegram_token",
    "azure_secret",
    "basic_auth",
    "otpauth_secret",
    "putty_key",
    "teams_webhook",
    "twitter_token",
    "url_token",
    "zapier_webhook",
];

/// The bytes that follow this one where a structure is looked for, one bit each.
pub(super) const fn follows(byte: u8) -> u128 {
    /// Letters, digits, `_` and `-`.
    const WORD: u128 = 0x07ff_fffe_87ff_fffe_03ff_2000_0000_0000;
    match byte {
        b'-' => 1 << b'-' | 1 << b'u',
        b'e' => 1 << b'y',
        b':' => 1 << b'/' | 1 << b'A',
        b'M' | b'N' | b'O' => WORD,
        b'Q' => 1 << b'~',
        b'?' | b'&' => 1 << b's',
        b'h' => 1 << b'o',
        b'd' => 1 << b'i',
        b'A' => 1 << b'A',
        b'P' => 1 << b'r',
        b'o' => 1 << b't',
        b'w' => 1 << b'e',
        _ => 0,
    }
}

/// A secret that begins here, or that this byte is part of.
pub(super) fn find(text: &Text<'_>, at: usize, byte: u8) -> Option<Hit> {
    match byte {
        b'-' => private_key(text, at).or_else(|| basic_auth(text, at)),
        b'e' => jwt(text, at),
        b':' => address(text, at).or_else(|| telegram(text, at)),
        b'M' | b'N' | b'O' => discord(text, at),
        b'Q' => azure(text, at),
        b'?' | b'&' => signature(text, at),
        b'h' => webhook(text, at, b"hooks.slack.com/", "slack_webhook")
            .or_else(|| webhook(text, at, b"hooks.zapier.com/hooks/catch/", "zapier_webhook")),
        b'd' => webhook(text, at, b"discord.com/api/webhooks/", "discord_webhook")
            .or_else(|| webhook(text, at, b"discordapp.com/api/webhooks/", "discord_webhook")),
        b'w' => webhook(text, at, b"webhook.office.com/webhookb2/", "teams_webhook"),
        b'A' => twitter(text, at),
        b'P' => putty(text, at),
        b'o' => otpauth(text, at),
        _ => None,
    }
    .or_else(|| anchored::find(text, at, byte))
}

/// Whether a structure may begin here, also as one element of a list and its password as the next.
pub(super) fn may_begin(text: &Text<'_>, at: usize, byte: u8) -> bool {
    let user = byte == b'-'
        && [&b"-u\""[..], b"--user\"", b"--proxy-user\""].iter().any(|flag| text.starts(at, flag));
    user || find(text, at, byte).is_some()
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &str = "-----END ";
/// So much of base64 in one piece is part of a key.
const MATERIAL: usize = 40;

/// A whole block; one whose beginning was cut off, or whose end.
fn private_key(text: &Text<'_>, at: usize) -> Option<Hit> {
    if text.starts(at, END.as_bytes()) {
        let end = closing(text, at + END.len())?;
        let start = lead(text, at);
        return (at - start >= MATERIAL).then_some((start, end, "private_key"));
    }
    if !text.starts(at, BEGIN) {
        return None;
    }
    let body = closing(text, at + BEGIN.len())?;
    let found = text.find_end(END, body);
    // A block that is only spoken of has no key in it.
    const HEAD: usize = 512;
    let until = found.unwrap_or(text.bytes.len()).min(body + HEAD);
    let mut length = 0;
    let material = text.bytes[body..until].iter().position(|byte| {
        length = if is(*byte, Class::Base64) { length + 1 } else { 0 };
        length >= MATERIAL
    })?;
    let end = match found {
        Some(found) => closing(text, found + END.len()).unwrap_or(found),
        None => text.run(Class::Armour, body + material),
    };
    Some((at, end, "private_key"))
}

/// Where the key material begins that goes up to here: lines of base64, of which the first may be cut off.
fn lead(text: &Text<'_>, to: usize) -> usize {
    const SHORT: usize = 16;
    let mut start = to;
    let mut at = to;
    loop {
        let gap = text.bytes[..at].iter().rev().take(8).take_while(|b| b" \n\r\t\\".contains(b)).count();
        let line = text.bytes[..at - gap].iter().rev().take_while(|b| is(**b, Class::Base64)).count();
        // The end of the last line is short, and so is what is left of a first one.
        let first = at - gap == line;
        if line == 0 || line < SHORT && !first && start != to {
            return start;
        }
        at -= gap + line;
        start = at;
    }
}

/// Where a line such as `RSA PRIVATE KEY-----` ends that began here.
fn closing(text: &Text<'_>, from: usize) -> Option<usize> {
    const LONGEST: usize = 48;
    let line = text.bytes.get(from..text.bytes.len().min(from + LONGEST))?;
    let name = line.iter().take_while(|b| b.is_ascii_uppercase() || **b == b' ').count();
    let is_key = line[..name].ends_with(b"PRIVATE KEY") || line[..name].ends_with(b"PRIVATE KEY BLOCK");
    (is_key && line[name..].starts_with(b"-----")).then_some(from + name + 5)
}

/// Three parts in base64, of which the first is an object.
fn jwt(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b"eyJ") || text.before(at).is_some_and(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let first = text.run(Class::Word, at);
    if first - at < 12 || text.at(first) != Some(b'.') {
        return None;
    }
    let second = text.run(Class::Word, first + 1);
    if second - first < 8 || text.at(second) != Some(b'.') {
        return None;
    }
    // The signature, and the two more parts of an encrypted one.
    let end = text.run(Class::Dotted, second);
    Some((at, end, "jwt"))
}

/// `scheme://user:password@host`: the password, or a long user that stands alone or has a password that says so.
fn address(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b"://") || !text.before(at).is_some_and(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let from = at + 3;
    let end = text.run(Class::Authority, from);
    // Of an address without end only the beginning is looked at.
    let end = end.min(from + 2048);
    let authority = &text.bytes[from..end];
    let host = authority.iter().rposition(|b| *b == b'@')?;
    let Some(colon) = authority[..host].iter().position(|b| *b == b':') else {
        let user = text.text.get(from..from + host)?;
        return is_url_token(user).then_some((from, from + host, "url_token"));
    };
    // What git accepts beside a token that is the user.
    if [&b"x-oauth-basic"[..], b"x-oauth-token", b""].contains(&&authority[colon + 1..host]) {
        let user = text.text.get(from..from + colon)?;
        return is_url_token(user).then_some((from, from + colon, "url_token"));
    }
    let password = text.text.get(from + colon + 1..from + host)?;
    let plain = !password.is_empty() && !secret_likelihood::is_stand_in(password);
    plain.then_some((from + colon + 1, from + host, "url_password"))
}

fn is_url_token(user: &str) -> bool {
    user.len() >= 20 && secret_likelihood::is_mixed(user)
}

/// Eight to ten digits, a colon, and 35 more of which the first two are `AA`.
fn telegram(text: &Text<'_>, at: usize) -> Option<Hit> {
    let end = text.run(Class::Word, at + 1);
    if !text.starts(at, b":AA") || end - at - 1 != 35 {
        return None;
    }
    let digits = text.bytes[..at].iter().rev().take(11).take_while(|b| b.is_ascii_digit()).count();
    (8..=10).contains(&digits).then_some((at - digits, end, "telegram_token"))
}

/// An id in base64, a time and a signature, with dots between them.
fn discord(text: &Text<'_>, at: usize) -> Option<Hit> {
    if text.before(at).is_some_and(|b| b == b'.' || is(b, Class::Word)) {
        return None;
    }
    let first = text.run(Class::Word, at);
    if !(24..=28).contains(&(first - at)) || text.at(first) != Some(b'.') {
        return None;
    }
    let second = text.run(Class::Word, first + 1);
    if second - first - 1 != 6 || text.at(second) != Some(b'.') {
        return None;
    }
    let third = text.run(Class::Word, second + 1);
    let long = (27..=45).contains(&(third - second - 1));
    let mixed = text.bytes[at..third].iter().any(u8::is_ascii_digit);
    (long && mixed).then_some((at, third, "discord_token"))
}

/// `Q~` after four characters of which the last is a digit, and at least 31 more.
fn azure(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at, b"Q~") || !text.before(at)?.is_ascii_digit() {
        return None;
    }
    let start = at.checked_sub(4)?;
    let end = text.run(Class::Dotted, at + 2);
    let whole = text.bytes[start..at].iter().all(|b| is(*b, Class::Dotted));
    (whole && end - at >= 33).then_some((start, end, "azure_secret"))
}

/// The signature in an address that lets its holder in.
fn signature(text: &Text<'_>, at: usize) -> Option<Hit> {
    if !text.starts(at + 1, b"sig=") {
        return None;
    }
    let from = at + 5;
    let end = text.run(Class::Value, from);
    (end - from >= 40).then_some((from, end, "azure_secret"))
}

/// An address whose path lets its holder write.
fn webhook(text: &Text<'_>, at: usize, host: &[u8], rule: &'static str) -> Option<Hit> {
    if !text.starts(at, host) {
        return None;
    }
    let from = at + host.len();
    let end = text.run(Class::Value, from);
    (end - from >= 24).then_some((from, end, rule))
}

/// Zeros in base64, then a token that is percent-encoded; no other base64 has a `%` in it.
fn twitter(text: &Text<'_>, at: usize) -> Option<Hit> {
    if text.before(at).is_some_and(|b| is(b, Class::Base64)) || !text.starts(at, &[b'A'; 20]) {
        return None;
    }
    let end = text.run(Class::Value, at);
    let value = secret_likelihood::head(&text.text[at..end]);
    (end - at >= 90 && value.contains('%')).then_some((at, end, "twitter_token"))
}

/// The lines of a private key of PuTTY, between their number and the checksum.
fn putty(text: &Text<'_>, at: usize) -> Option<Hit> {
    const LINES: &[u8] = b"Private-Lines: ";
    if !text.starts(at, LINES) {
        return None;
    }
    let number = at + LINES.len();
    let digits = text.bytes[number..].iter().take(4).take_while(|b| b.is_ascii_digit()).count();
    let from = number + digits;
    let gap = text.bytes[from..].iter().take(4).take_while(|b| b"\r\n\\".contains(b)).count();
    let mut end = text.run(Class::Armour, from + gap);
    if text.starts(end, b"-MAC: ") && text.bytes[..end].ends_with(b"Private") {
        end -= b"Private".len();
        end -= text.bytes[..end].iter().rev().take(2).take_while(|b| b"\r\n".contains(b)).count();
    }
    (gap > 0 && end >= from + gap + MATERIAL).then_some((from + gap, end, "putty_key"))
}

/// The secret in the address of a one-time password.
fn otpauth(text: &Text<'_>, at: usize) -> Option<Hit> {
    const LOOKED_AT: usize = 256;
    let (name, parameter) = [("otpauth://", "secret="), ("otpauth-migration://", "data=")]
        .into_iter()
        .find(|(name, _)| text.starts(at, name.as_bytes()))?;
    let from = at + name.len();
    let end = text.run(Class::Quoted, from).min(from + LOOKED_AT);
    let query = &text.text[from..text.text.floor_char_boundary(end)];
    let from = from + query.find(parameter)? + parameter.len();
    let end = text.run(Class::Value, from);
    let secret = end - from >= 8 && !secret_likelihood::is_stand_in(&text.text[from..end]);
    secret.then_some((from, end, "otpauth_secret"))
}

/// `curl -u user:password`.
fn basic_auth(text: &Text<'_>, at: usize) -> Option<Hit> {
    let flag = [&b"-u"[..], b"--user", b"--proxy-user"].into_iter().find(|flag| text.starts(at, flag))?;
    let mut from = at + flag.len();
    let gap = text
        .bytes
        .get(from..)?
        .iter()
        .take(4)
        .take_while(|b| matches!(b, b' ' | b'=' | b'"' | b'\''))
        .count();
    from += gap;
    let edge = text.before(at).is_none_or(|b| b == b' ' || b == b'\n' || b == b'\t');
    if gap == 0 || !edge || !text.speaks_of_curl() {
        return None;
    }
    let end = text.run(Class::Value, from);
    password_of(text.text.get(from..end)?).map(|colon| (from + colon, end, "basic_auth"))
}

/// Where the password begins in `user:password`.
pub(super) fn password_of(pair: &str) -> Option<usize> {
    let colon = pair.bytes().take(256).position(|b| b == b':')? + 1;
    let password = pair.get(colon..)?;
    let ordinary = password.is_empty()
        || password.bytes().all(|b| b.is_ascii_digit())
        || secret_likelihood::is_stand_in(password);
    (colon > 1 && !ordinary).then_some(colon)
}
