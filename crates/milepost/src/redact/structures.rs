//! Finds secrets with a known structure: key blocks, signed tokens, URLs with a password, dotted tokens.
//! Takes a position in a text and returns the range and the rule of the secret there.

use super::text::{ByteClass, Text, is_in_class};
use super::{infix_shapes, secret_likelihood};

/// Start, end and rule of a secret.
pub(super) type SecretMatch = (usize, usize, &'static str);

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

/// The bytes that may follow `byte` at the start of a structure, as a bit set.
pub(super) const fn second_bytes(byte: u8) -> u128 {
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

/// Matches a secret that starts at `at`, contains it or follows it.
pub(super) fn match_structure(text: &Text<'_>, at: usize, byte: u8) -> Option<SecretMatch> {
    match byte {
        b'-' => match_private_key(text, at).or_else(|| match_basic_auth(text, at)),
        b'e' => match_jwt(text, at),
        b':' => match_url_credentials(text, at).or_else(|| match_telegram_token(text, at)),
        b'M' | b'N' | b'O' => match_discord_token(text, at),
        b'Q' => match_azure_secret(text, at),
        b'?' | b'&' => match_url_signature(text, at),
        b'h' => match_webhook(text, at, b"hooks.slack.com/", "slack_webhook")
            .or_else(|| match_webhook(text, at, b"hooks.zapier.com/hooks/catch/", "zapier_webhook")),
        b'd' => match_webhook(text, at, b"discord.com/api/webhooks/", "discord_webhook")
            .or_else(|| match_webhook(text, at, b"discordapp.com/api/webhooks/", "discord_webhook")),
        b'w' => match_webhook(text, at, b"webhook.office.com/webhookb2/", "teams_webhook"),
        b'A' => match_twitter_token(text, at),
        b'P' => match_putty_key(text, at),
        b'o' => match_otpauth_secret(text, at),
        _ => None,
    }
    .or_else(|| infix_shapes::match_infix_shape(text, at, byte))
}

/// Whether a structure may start at `at`. This includes curl's user flag as a list element, with the
/// password in the next element.
pub(super) fn may_start_secret(text: &Text<'_>, at: usize, byte: u8) -> bool {
    let user = byte == b'-'
        && [&b"-u\""[..], b"--user\"", b"--proxy-user\""].iter().any(|flag| text.starts_with(at, flag));
    user || match_structure(text, at, byte).is_some()
}

const KEY_HEADER: &[u8] = b"-----BEGIN ";
const KEY_FOOTER: &str = "-----END ";
/// Shortest run of base64 that counts as key material.
const MIN_KEY_MATERIAL: usize = 40;

/// A private key block. Its beginning or its end may be missing.
fn match_private_key(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if text.starts_with(at, KEY_FOOTER.as_bytes()) {
        let end = key_header_end(text, at + KEY_FOOTER.len())?;
        let start = key_material_start(text, at);
        return (at - start >= MIN_KEY_MATERIAL).then_some((start, end, "private_key"));
    }
    if !text.starts_with(at, KEY_HEADER) {
        return None;
    }
    let body = key_header_end(text, at + KEY_HEADER.len())?;
    let found = text.find_key_footer(KEY_FOOTER, body);
    // A header that the text only mentions is not followed by key material.
    const MAX_KEY_PREAMBLE: usize = 512;
    let until = found.unwrap_or(text.bytes.len()).min(body + MAX_KEY_PREAMBLE);
    let mut length = 0;
    let material = text.bytes[body..until].iter().position(|byte| {
        length = if is_in_class(*byte, ByteClass::Base64) { length + 1 } else { 0 };
        length >= MIN_KEY_MATERIAL
    })?;
    let end = match found {
        Some(found) => key_header_end(text, found + KEY_FOOTER.len()).unwrap_or(found),
        None => text.run_end(ByteClass::Armour, body + material),
    };
    Some((at, end, "private_key"))
}

/// Start of the key material that ends at `to`: lines of base64, the first of which may be truncated.
fn key_material_start(text: &Text<'_>, to: usize) -> usize {
    const MIN_LINE: usize = 16;
    let mut start = to;
    let mut at = to;
    loop {
        let gap = text.count_before(at, 8, |b| b" \n\r\t\\".contains(&b));
        let line = text.count_before(at - gap, usize::MAX, |b| is_in_class(b, ByteClass::Base64));
        // The last line may be short, and so may a truncated line at the start of the text.
        let first = at - gap == line;
        if line == 0 || line < MIN_LINE && !first && start != to {
            return start;
        }
        at -= gap + line;
        start = at;
    }
}

/// End of a key's header or footer. The last part of it, such as `RSA PRIVATE KEY-----`, starts at `from`.
fn key_header_end(text: &Text<'_>, from: usize) -> Option<usize> {
    const MAX_LENGTH: usize = 48;
    let line = text.bytes.get(from..text.bytes.len().min(from + MAX_LENGTH))?;
    let name = line.iter().take_while(|b| b.is_ascii_uppercase() || **b == b' ').count();
    let is_key = line[..name].ends_with(b"PRIVATE KEY") || line[..name].ends_with(b"PRIVATE KEY BLOCK");
    (is_key && line[name..].starts_with(b"-----")).then_some(from + name + 5)
}

/// Three base64 parts separated by dots, the first of which encodes a JSON object.
fn match_jwt(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b"eyJ") || text.byte_before(at).is_some_and(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let first = text.run_end(ByteClass::Word, at);
    if first - at < 12 || text.byte_at(first) != Some(b'.') {
        return None;
    }
    let second = text.run_end(ByteClass::Word, first + 1);
    if second - first < 8 || text.byte_at(second) != Some(b'.') {
        return None;
    }
    // The signature. An encrypted token has two further parts.
    let end = text.run_end(ByteClass::Dotted, second);
    Some((at, end, "jwt"))
}

/// Matches the password in `scheme://user:password@host`. If the user is a token and the password is missing
/// or a fixed word such as `x-oauth-basic`, matches the user instead.
fn match_url_credentials(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b"://") || !text.byte_before(at).is_some_and(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let from = at + 3;
    let end = text.run_end(ByteClass::Authority, from);
    // Check only the beginning of a very long URL.
    let end = end.min(from + 2048);
    let authority = &text.bytes[from..end];
    let host = authority.iter().rposition(|b| *b == b'@')?;
    let Some(colon) = authority[..host].iter().position(|b| *b == b':') else {
        let user = text.text.get(from..from + host)?;
        return is_url_token(user).then_some((from, from + host, "url_token"));
    };
    // Passwords that git hosts accept when the user is a token.
    if [&b"x-oauth-basic"[..], b"x-oauth-token", b""].contains(&&authority[colon + 1..host]) {
        let user = text.text.get(from..from + colon)?;
        return is_url_token(user).then_some((from, from + colon, "url_token"));
    }
    let password = text.text.get(from + colon + 1..from + host)?;
    let plain = !password.is_empty() && !secret_likelihood::is_placeholder(password);
    plain.then_some((from + colon + 1, from + host, "url_password"))
}

fn is_url_token(user: &str) -> bool {
    user.len() >= 20 && secret_likelihood::looks_random(user)
}

/// Eight to ten digits, a colon, and 35 characters that start with `AA`.
fn match_telegram_token(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    let end = text.run_end(ByteClass::Word, at + 1);
    if !text.starts_with(at, b":AA") || end - at - 1 != 35 {
        return None;
    }
    let digits = text.count_before(at, 11, |b| b.is_ascii_digit());
    (8..=10).contains(&digits).then_some((at - digits, end, "telegram_token"))
}

/// A base64 id, a timestamp and a signature, separated by dots.
fn match_discord_token(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if text.byte_before(at).is_some_and(|b| b == b'.' || is_in_class(b, ByteClass::Word)) {
        return None;
    }
    let first = text.run_end(ByteClass::Word, at);
    if !(24..=28).contains(&(first - at)) || text.byte_at(first) != Some(b'.') {
        return None;
    }
    let second = text.run_end(ByteClass::Word, first + 1);
    if second - first - 1 != 6 || text.byte_at(second) != Some(b'.') {
        return None;
    }
    let third = text.run_end(ByteClass::Word, second + 1);
    let long = (27..=45).contains(&(third - second - 1));
    let mixed = text.bytes[at..third].iter().any(u8::is_ascii_digit);
    (long && mixed).then_some((at, third, "discord_token"))
}

/// Four characters that end in a digit, `Q~`, and at least 31 more characters.
fn match_azure_secret(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at, b"Q~") || !text.byte_before(at)?.is_ascii_digit() {
        return None;
    }
    let start = at.checked_sub(4)?;
    let end = text.run_end(ByteClass::Dotted, at + 2);
    let whole = text.bytes[start..at].iter().all(|b| is_in_class(*b, ByteClass::Dotted));
    (whole && end - at >= 33).then_some((start, end, "azure_secret"))
}

/// The `sig` parameter of a URL that grants access.
fn match_url_signature(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if !text.starts_with(at + 1, b"sig=") {
        return None;
    }
    let from = at + 5;
    let end = text.run_end(ByteClass::Value, from);
    (end - from >= 40).then_some((from, end, "azure_secret"))
}

/// A webhook URL, whose path is the secret.
fn match_webhook(text: &Text<'_>, at: usize, host: &[u8], rule: &'static str) -> Option<SecretMatch> {
    if !text.starts_with(at, host) {
        return None;
    }
    let from = at + host.len();
    let end = text.run_end(ByteClass::Value, from);
    (end - from >= 24).then_some((from, end, rule))
}

/// A percent-encoded token after base64 zeros. The `%` distinguishes it from other base64.
fn match_twitter_token(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    if text.byte_before(at).is_some_and(|b| is_in_class(b, ByteClass::Base64))
        || !text.starts_with(at, &[b'A'; 20])
    {
        return None;
    }
    let end = text.run_end(ByteClass::Value, at);
    let value = secret_likelihood::bounded_prefix(&text.text[at..end]);
    (end - at >= 90 && value.contains('%')).then_some((at, end, "twitter_token"))
}

/// The private lines of a PuTTY key, between the line count and the checksum.
fn match_putty_key(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    const LINES: &[u8] = b"Private-Lines: ";
    if !text.starts_with(at, LINES) {
        return None;
    }
    let number = at + LINES.len();
    let from = number + text.count_from(number, 4, |b| b.is_ascii_digit());
    let gap = text.count_from(from, 4, |b| b"\r\n\\".contains(&b));
    let mut end = text.run_end(ByteClass::Armour, from + gap);
    if text.starts_with(end, b"-MAC: ") && text.bytes[..end].ends_with(b"Private") {
        end -= b"Private".len();
        end -= text.count_before(end, 2, |b| b"\r\n".contains(&b));
    }
    (gap > 0 && end >= from + gap + MIN_KEY_MATERIAL).then_some((from + gap, end, "putty_key"))
}

/// The secret in an `otpauth://` URL of a one-time password.
fn match_otpauth_secret(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    const MAX_SCANNED: usize = 256;
    let (name, parameter) = [("otpauth://", "secret="), ("otpauth-migration://", "data=")]
        .into_iter()
        .find(|(name, _)| text.starts_with(at, name.as_bytes()))?;
    let from = at + name.len();
    let end = text.run_end(ByteClass::Quoted, from).min(from + MAX_SCANNED);
    let query = &text.text[from..text.text.floor_char_boundary(end)];
    let from = from + query.find(parameter)? + parameter.len();
    let end = text.run_end(ByteClass::Value, from);
    let secret = end - from >= 8 && !secret_likelihood::is_placeholder(&text.text[from..end]);
    secret.then_some((from, end, "otpauth_secret"))
}

/// `curl -u user:password`.
fn match_basic_auth(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    let flag =
        [&b"-u"[..], b"--user", b"--proxy-user"].into_iter().find(|flag| text.starts_with(at, flag))?;
    let after = at + flag.len();
    let gap = text.count_from(after, 4, |b| b" =\"'".contains(&b));
    let from = after + gap;
    let edge = text.byte_before(at).is_none_or(|b| b" \n\t".contains(&b));
    if gap == 0 || !edge || !text.mentions_curl() {
        return None;
    }
    let end = text.run_end(ByteClass::Value, from);
    find_password_start(text.text.get(from..end)?).map(|colon| (from + colon, end, "basic_auth"))
}

/// Start of the password in `user:password`, unless the password is a number or a placeholder.
pub(super) fn find_password_start(pair: &str) -> Option<usize> {
    let colon = pair.bytes().take(256).position(|b| b == b':')? + 1;
    let password = pair.get(colon..)?;
    let ordinary = password.is_empty()
        || password.bytes().all(|b| b.is_ascii_digit())
        || secret_likelihood::is_placeholder(password);
    (colon > 1 && !ordinary).then_some(colon)
}
