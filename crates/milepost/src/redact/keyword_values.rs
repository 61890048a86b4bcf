//! Finds secrets assigned to a keyword such as `password` or `token`: in text, in a JSON member or after a
//! flag. Returns the range and the rule of the secret.

use super::secret_likelihood::{self, KeywordStrength};
use super::structures::SecretMatch;
use super::text::{ByteClass, Text, is_in_class};
use super::{netrc, vendors};

/// The kind of value that follows a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// The whole value is the secret.
    Value(KeywordStrength),
    /// A credential, with or without a scheme.
    Authorization,
    Bearer,
    /// Everything up to the end of the line.
    Cookie,
    /// `user:password` in base64.
    Encoded,
    /// The value is a secret if the name also contains the name of a vendor.
    Vendor,
}

struct Keyword {
    word: &'static str,
    rule: &'static str,
    kind: ValueKind,
}

const fn keyword(word: &'static str, rule: &'static str, kind: ValueKind) -> Keyword {
    Keyword { word, rule, kind }
}

const STRONG: ValueKind = ValueKind::Value(KeywordStrength::Strong);
const MEDIUM: ValueKind = ValueKind::Value(KeywordStrength::Medium);

static KEYWORDS: [Keyword; 34] = [
    keyword("_auth", "registry_auth", ValueKind::Encoded),
    keyword("_key", "api_key", ValueKind::Vendor),
    keyword("_pass", "password", STRONG),
    keyword("_pat", "token", MEDIUM),
    keyword("access_key", "api_key", MEDIUM),
    keyword("access-key", "api_key", MEDIUM),
    keyword("accesskey", "api_key", MEDIUM),
    keyword("accountkey", "api_key", MEDIUM),
    keyword("account_key", "api_key", MEDIUM),
    keyword("api_key", "api_key", MEDIUM),
    keyword("api-key", "api_key", MEDIUM),
    keyword("api key", "api_key", MEDIUM),
    keyword("apikey", "api_key", MEDIUM),
    keyword("authorization", "authorization", ValueKind::Authorization),
    keyword("authkey", "api_key", MEDIUM),
    keyword("auth_key", "api_key", MEDIUM),
    keyword("auth", "registry_auth", ValueKind::Encoded),
    keyword("bearer", "bearer_token", ValueKind::Bearer),
    keyword("cookie", "cookie", ValueKind::Cookie),
    keyword("credential", "credential", MEDIUM),
    keyword("encryption_key", "api_key", MEDIUM),
    keyword("encryptionkey", "api_key", MEDIUM),
    keyword("master_key", "api_key", MEDIUM),
    keyword("passphrase", "password", STRONG),
    keyword("password", "password", STRONG),
    keyword("passwd", "password", STRONG),
    keyword("pass", "password", STRONG),
    keyword("private_key", "api_key", MEDIUM),
    keyword("privatekey", "api_key", MEDIUM),
    keyword("pwd", "password", STRONG),
    keyword("secret", "secret", MEDIUM),
    keyword("signing_key", "api_key", MEDIUM),
    keyword("storage_key", "api_key", MEDIUM),
    keyword("token", "token", MEDIUM),
];

/// The range of [`KEYWORDS`] for each first byte, in either case. Built at compile time.
static KEYWORDS_BY_FIRST_BYTE: [(u8, u8); 256] = {
    let mut table = [(0, 0); 256];
    let mut n = 0;
    while n < KEYWORDS.len() {
        let first = KEYWORDS[n].word.as_bytes()[0];
        let (from, to) = table[first as usize];
        let range = (if to == 0 { n as u8 } else { from }, n as u8 + 1);
        table[first as usize] = range;
        table[first.to_ascii_uppercase() as usize] = range;
        n += 1;
    }
    table
};

/// Suffixes of names that describe a secret but do not contain it.
const METADATA_SUFFIXES: [&str; 38] = [
    "at", "budget", "class", "count", "counts", "default", "digest", "enabled", "error", "expires", "expiry",
    "field", "file", "for", "format", "id", "ids", "index", "is", "izer", "kind", "len", "length", "limit",
    "limits", "list", "max", "min", "name", "names", "path", "policy", "size", "type", "types", "url",
    "usage", "used",
];

/// Suffixes of names that contain the secret.
const VALUE_SUFFIXES: [&str; 19] = [
    "s",
    "key",
    "keys",
    "value",
    "secret",
    "token",
    "text",
    "string",
    "data",
    "base64",
    "b64",
    "prod",
    "production",
    "dev",
    "test",
    "staging",
    "live",
    "accesskey",
    "password",
];

/// The bytes that may follow `byte` at the start of a keyword, in either case, as a bit set.
pub(super) const fn second_bytes(byte: u8) -> u128 {
    let mut set = 0;
    let mut n = 0;
    while n < KEYWORDS.len() {
        let word = KEYWORDS[n].word.as_bytes();
        if word[0] == byte.to_ascii_lowercase() {
            set |= 1 << word[1] | 1 << word[1].to_ascii_uppercase();
        }
        n += 1;
    }
    set
}

pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().map(|keyword| keyword.rule).chain(vendors::rules()).chain(["netrc_password"])
}

pub(super) fn starts_keyword(text: &Text<'_>, at: usize) -> bool {
    keyword_at(text, at).is_some()
}

fn keyword_at(text: &Text<'_>, at: usize) -> Option<&'static Keyword> {
    let (from, to) = KEYWORDS_BY_FIRST_BYTE[usize::from(text.bytes[at])];
    let keywords = &KEYWORDS[usize::from(from)..usize::from(to)];
    keywords.iter().find(|keyword| text.starts_with_ignore_case(at, keyword.word.as_bytes()))
}

/// Matches the secret assigned to the keyword that starts at `at`.
pub(super) fn match_keyword_value(text: &Text<'_>, at: usize) -> Option<SecretMatch> {
    let keyword = keyword_at(text, at)?;
    if text.bytes[..at].ends_with(b"[redacted:") {
        return None;
    }
    let after = at + keyword.word.len();
    match keyword.kind {
        ValueKind::Bearer => {
            let from = after + count_blanks(text, after);
            let end = text.run_end(ByteClass::Value, from);
            let value = &text.text[from..end];
            let is_secret = from > after && value.len() >= 16 && secret_likelihood::looks_random(value);
            is_secret.then_some((from, end, keyword.rule))
        }
        ValueKind::Cookie => {
            if text.byte_before(at).is_some_and(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                return None;
            }
            let (from, _) = find_value_start(text, at, after)?;
            let end = text.run_end(ByteClass::Line, from);
            is_cookie(&text.text[from..end]).then_some((from, end, keyword.rule))
        }
        ValueKind::Authorization => {
            let (from, _) = find_value_start(text, at, after)?;
            let (from, end) = credential_range(text, from);
            let is_call = text.byte_at(end) == Some(b'(');
            (!is_call && is_credential(&text.text[from..end])).then_some((from, end, keyword.rule))
        }
        ValueKind::Encoded => {
            let (from, _) = find_value_start(text, at, after)?;
            let whole = !text.byte_before(at).is_some_and(|b| b.is_ascii_alphanumeric());
            let end = text.run_end(ByteClass::Base64, from);
            let is_secret = whole && secret_likelihood::is_encoded_pair(&text.text[from..end]);
            is_secret.then_some((from, end, keyword.rule))
        }
        ValueKind::Vendor => {
            let (from, end) = find_assigned_secret(text, at, after, KeywordStrength::Medium)?;
            vendors::find_vendor_rule(name_up_to_keyword(text, at, after)).map(|vendor| (from, end, vendor))
        }
        ValueKind::Value(strength) => {
            let name_end = text.run_end(ByteClass::Word, after).max(after);
            let strength = keyword.adjust_strength(&text.text[after..name_end], strength)?;
            if keyword.word == "pass" && !is_pass_assignment(text, at, after) {
                return None;
            }
            let Some((from, end)) = find_assigned_secret(text, at, name_end, strength) else {
                return netrc::match_netrc_password(text, at);
            };
            let vendor = if strength == KeywordStrength::Strong {
                None
            } else {
                vendors::find_vendor_rule(name_up_to_keyword(text, at, after))
            };
            Some((from, end, vendor.unwrap_or(keyword.rule)))
        }
    }
}

fn name_up_to_keyword<'a>(text: &Text<'a>, at: usize, after: usize) -> &'a str {
    &text.text[name_start(text, at)..after]
}

/// Whether `pass` is a complete name with a value, as in `PASS=…` or `--pass=…`, and not a test result.
fn is_pass_assignment(text: &Text<'_>, at: usize, after: usize) -> bool {
    let edge = !text.byte_before(at).is_some_and(|b| b == b'_' || b.is_ascii_alphanumeric());
    // `pass=pass+1` increments a counter.
    edge && text.byte_at(after) == Some(b'=') && !text.starts_with_ignore_case(after + 1, b"pass")
}

/// Range of the secret assigned to the name that ends at `name_end`.
fn find_assigned_secret(
    text: &Text<'_>,
    name: usize,
    name_end: usize,
    strength: KeywordStrength,
) -> Option<(usize, usize)> {
    let (from, quoted) = find_value_start(text, name, name_end)?;
    let end = text.run_end(if quoted { ByteClass::Quoted } else { ByteClass::Value }, from);
    // A call or a type is source code, not a value.
    let code = !quoted && matches!(text.byte_at(end), Some(b'(' | b'[' | b'{' | b'<'));
    let value = &text.text[from..end];
    let plain = strength == KeywordStrength::Strong
        && from == name_end + 1
        && text.byte_at(name_end) == Some(b'=')
        && secret_likelihood::is_plain_password(value)
        && (name_starts_with(text, name, b"--") || is_in_connection_string(text, name, end));
    (!code && (plain || secret_likelihood::is_likely_secret(value, strength, quoted))).then_some((from, end))
}

/// Whether `name=value` is a part of a connection string, such as `Server=db;Uid=sa;Pwd=…;`.
fn is_in_connection_string(text: &Text<'_>, name: usize, end: usize) -> bool {
    const MAX_SCANNED: usize = 96;
    const OTHER_KEYS: [&[u8]; 6] = [b"uid=", b"user=", b"user id=", b"username=", b"server=", b"host="];
    let capital = text.byte_at(name) == Some(b'P');
    let before = text.byte_before(name);
    let edge = before.is_none_or(|b| b" \t\n;\"'`".contains(&b));
    if capital && edge && text.starts_with(name, b"Pwd=") {
        return true;
    }
    if !edge || before != Some(b';') && text.byte_at(end) != Some(b';') {
        return false;
    }
    let near = &text.bytes[name.saturating_sub(MAX_SCANNED)..name];
    OTHER_KEYS.iter().any(|other| near.windows(other.len()).any(|there| there.eq_ignore_ascii_case(other)))
}

impl Keyword {
    /// The keyword's strength in a name that continues with `rest`; `None` if its value is not a secret.
    fn adjust_strength(&self, rest: &str, strength: KeywordStrength) -> Option<KeywordStrength> {
        // The shortest keywords are part of too many other words.
        let short = ["_pass", "_pat", "pass", "pwd"].contains(&self.word);
        if short && !rest.is_empty() { None } else { adjust_for_suffix(rest, strength) }
    }
}

/// A keyword's strength, given the rest of its name.
fn adjust_for_suffix(rest: &str, strength: KeywordStrength) -> Option<KeywordStrength> {
    const LONGEST: usize = 40;
    if rest.len() > LONGEST {
        return None;
    }
    let rest = rest.to_ascii_lowercase();
    let rest = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    let last = rest.rsplit(['_', '-']).next().unwrap_or_default();
    let whole = rest.trim_matches(['_', '-']);
    if whole.is_empty() || VALUE_SUFFIXES.contains(&whole) || VALUE_SUFFIXES.contains(&last) {
        Some(strength)
    } else if METADATA_SUFFIXES.contains(&last)
        || METADATA_SUFFIXES.iter().any(|about| about.len() > 3 && whole.ends_with(about))
    {
        None
    } else {
        Some(KeywordStrength::Weak)
    }
}

fn count_blanks(text: &Text<'_>, at: usize) -> usize {
    text.count_from(at, 8, |b| matches!(b, b' ' | b'\t'))
}

/// Start of the value of the name that ends at `end`, and whether the value is quoted.
fn find_value_start(text: &Text<'_>, name: usize, end: usize) -> Option<(usize, bool)> {
    const QUOTES: &[u8] = b"\"'`\\";
    let closing = text.count_from(end, 6, |b| QUOTES.contains(&b) || b == b']');
    let mut at = end + closing;
    let gap = count_blanks(text, at);
    match (text.byte_at(at + gap), text.byte_at(at + gap + 1)) {
        (Some(b':'), Some(b':')) => return None,
        (Some(b':' | b'='), Some(b'=' | b'>')) => at += gap + 2,
        (Some(b':' | b'='), _) => at += gap + 1,
        (Some(b'>'), _) if gap == 0 && closing == 0 && name_starts_with(text, name, b"<") => at += 1,
        _ if gap > 0 && closing == 0 && name_starts_with(text, name, b"--") => at += gap,
        _ => return None,
    }
    at += count_blanks(text, at);
    let opening = text.count_from(at, 6, |b| QUOTES.contains(&b));
    Some((at + opening, opening > 0))
}

/// Whether the name that contains this position starts with `with` or directly follows it.
fn name_starts_with(text: &Text<'_>, name: usize, with: &[u8]) -> bool {
    let start = name_start(text, name);
    text.starts_with(start, with) || text.bytes[..start].ends_with(with)
}

/// Start of the name that contains this position. The search covers a limited length.
fn name_start(text: &Text<'_>, at: usize) -> usize {
    const LONGEST: usize = 40;
    at - text.count_before(at, LONGEST, |b| is_in_class(b, ByteClass::Word))
}

/// Range of the credential in the value of an `Authorization` header, without its scheme.
fn credential_range(text: &Text<'_>, from: usize) -> (usize, usize) {
    let end = text.run_end(ByteClass::Value, from);
    let scheme = text.bytes[from..end].iter().all(|b| b.is_ascii_alphabetic() || *b == b'-');
    let gap = count_blanks(text, end);
    if scheme && gap > 0 && end > from {
        let from = end + gap;
        return (from, text.run_end(ByteClass::Value, from));
    }
    (from, end)
}

fn is_credential(value: &str) -> bool {
    let plain = value.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'_' || b == b'.');
    value.len() >= 8 && !plain && !secret_likelihood::is_placeholder(value)
}

fn is_cookie(value: &str) -> bool {
    let head = secret_likelihood::bounded_prefix(value);
    let name = head.bytes().take_while(|b| is_in_class(*b, ByteClass::Word)).count();
    head.len() >= 8
        && name > 0
        && head.as_bytes().get(name) == Some(&b'=')
        && !head.contains("[redacted:")
        && !secret_likelihood::is_placeholder(head)
}

/// The kind of secret that a member name or a flag suggests for its value.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueHint {
    kind: ValueKind,
    rule: &'static str,
}

impl ValueHint {
    pub(super) fn from_member_name(name: &str) -> Option<Self> {
        const LONGEST: usize = 80;
        if name.len() > LONGEST || name.contains("[redacted:") {
            return None;
        }
        let text = Text::new(name);
        (0..name.len()).find_map(|at| {
            let keyword = keyword_at(&text, at)?;
            let rest = name.get(at + keyword.word.len()..)?;
            let vendor = vendors::find_vendor_rule(&name[..at + keyword.word.len()]);
            let (kind, rule) = match keyword.kind {
                ValueKind::Value(strength) => {
                    let strength = keyword.adjust_strength(rest, strength)?;
                    let vendor = vendor.filter(|_| strength != KeywordStrength::Strong);
                    let whole = keyword.word != "pass" || name.len() == rest.len() + keyword.word.len();
                    (whole.then_some(ValueKind::Value(strength))?, vendor.unwrap_or(keyword.rule))
                }
                ValueKind::Vendor => (MEDIUM, vendor.filter(|_| rest.is_empty())?),
                ValueKind::Encoded if !rest.is_empty() => return None,
                kind => (kind, keyword.rule),
            };
            Some(Self { kind, rule })
        })
    }

    /// The hint of a flag that is a separate list element.
    pub(super) fn from_flag(word: &str) -> Option<Self> {
        let name = word.strip_prefix('-')?;
        if name.contains(['=', ' ', ':']) { None } else { Self::from_member_name(name) }
    }

    /// Whether the next argument is curl's `user:password`.
    pub(super) fn is_curl_user_flag(word: &str) -> bool {
        ["-u", "--user", "--proxy-user"].contains(&word)
    }

    /// Matches the secret in the complete value that the hint applies to.
    pub(super) fn find_secret(&self, value: &str) -> Option<SecretMatch> {
        let whole = (0, value.len(), self.rule);
        if value.contains("[redacted:") {
            return None;
        }
        match self.kind {
            ValueKind::Value(strength) => {
                let one = !value.bytes().any(|b| matches!(b, b' ' | b'\t' | b'\n'));
                (one && secret_likelihood::is_likely_secret(value, strength, true)).then_some(whole)
            }
            ValueKind::Cookie => is_cookie(value).then_some(whole),
            ValueKind::Encoded => secret_likelihood::is_encoded_pair(value).then_some(whole),
            ValueKind::Vendor => None,
            ValueKind::Authorization | ValueKind::Bearer => {
                let text = Text::new(value);
                let (from, end) = credential_range(&text, 0);
                is_credential(&value[from..end]).then_some((from, end, self.rule))
            }
        }
    }
}
