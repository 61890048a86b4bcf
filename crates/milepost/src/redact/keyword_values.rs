//! Values that stand beside a word such as `password` or `token`: in text, after the name of a member, after a flag.

use super::secret_likelihood::{self, Weight};
use super::structures::Hit;
use super::text::{Class, Text, is};
use super::{netrc, vendors};

/// A word that speaks of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What stands beside it is one by itself.
    Value(Weight),
    /// A scheme and a value, or a value.
    Authorization,
    /// The value comes after a blank.
    Bearer,
    /// All of it, to the end of the line.
    Cookie,
    /// A user and a password in base64.
    Encoded,
    /// What stands beside it is a secret if the name also holds the name of a vendor.
    Vendor,
}

struct Keyword {
    /// In lower case.
    word: &'static str,
    rule: &'static str,
    kind: Kind,
}

const fn keyword(word: &'static str, rule: &'static str, kind: Kind) -> Keyword {
    Keyword { word, rule, kind }
}

const HEAVY: Kind = Kind::Value(Weight::Heavy);
const USUAL: Kind = Kind::Value(Weight::Usual);

static KEYWORDS: [Keyword; 34] = [
    keyword("_auth", "registry_auth", Kind::Encoded),
    keyword("_key", "api_key", Kind::Vendor),
    keyword("_pass", "password", HEAVY),
    keyword("_pat", "token", USUAL),
    keyword("access_key", "api_key", USUAL),
    keyword("access-key", "api_key", USUAL),
    keyword("accesskey", "api_key", USUAL),
    keyword("accountkey", "api_key", USUAL),
    keyword("account_key", "api_key", USUAL),
    keyword("api_key", "api_key", USUAL),
    keyword("api-key", "api_key", USUAL),
    keyword("api key", "api_key", USUAL),
    keyword("apikey", "api_key", USUAL),
    keyword("authorization", "authorization", Kind::Authorization),
    keyword("authkey", "api_key", USUAL),
    keyword("auth_key", "api_key", USUAL),
    keyword("auth", "registry_auth", Kind::Encoded),
    keyword("bearer", "bearer_token", Kind::Bearer),
    keyword("cookie", "cookie", Kind::Cookie),
    keyword("credential", "credential", USUAL),
    keyword("encryption_key", "api_key", USUAL),
    keyword("encryptionkey", "api_key", USUAL),
    keyword("master_key", "api_key", USUAL),
    keyword("passphrase", "password", HEAVY),
    keyword("password", "password", HEAVY),
    keyword("passwd", "password", HEAVY),
    keyword("pass", "password", HEAVY),
    keyword("private_key", "api_key", USUAL),
    keyword("privatekey", "api_key", USUAL),
    keyword("pwd", "password", HEAVY),
    keyword("secret", "secret", USUAL),
    keyword("signing_key", "api_key", USUAL),
    keyword("storage_key", "api_key", USUAL),
    keyword("token", "token", USUAL),
];

/// For each byte where the keywords begin and end that start with it, in either case; made when the program is compiled.
static FIRST: [(u8, u8); 256] = {
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

/// Names that end so speak about the secret and do not hold it.
const ABOUT: [&str; 38] = [
    "at", "budget", "class", "count", "counts", "default", "digest", "enabled", "error", "expires", "expiry",
    "field", "file", "for", "format", "id", "ids", "index", "is", "izer", "kind", "len", "length", "limit",
    "limits", "list", "max", "min", "name", "names", "path", "policy", "size", "type", "types", "url",
    "usage", "used",
];

/// Names that end so still hold it.
const STILL: [&str; 19] = [
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

/// The bytes that follow this one in a keyword, in either case, one bit each.
pub(super) const fn follows(byte: u8) -> u128 {
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

/// Whether a keyword begins here.
pub(super) fn is_keyword(text: &Text<'_>, at: usize) -> bool {
    keyword_at(text, at).is_some()
}

fn keyword_at(text: &Text<'_>, at: usize) -> Option<&'static Keyword> {
    let (from, to) = FIRST[usize::from(text.bytes[at])];
    let keywords = &KEYWORDS[usize::from(from)..usize::from(to)];
    keywords.iter().find(|keyword| text.starts_any_case(at, keyword.word.as_bytes()))
}

/// A secret beside a word that begins here.
pub(super) fn find(text: &Text<'_>, at: usize) -> Option<Hit> {
    let keyword = keyword_at(text, at)?;
    if text.bytes[..at].ends_with(b"[redacted:") {
        return None;
    }
    let after = at + keyword.word.len();
    match keyword.kind {
        Kind::Bearer => {
            let from = after + blanks(text, after);
            let end = text.run(Class::Value, from);
            let value = &text.text[from..end];
            (from > after && value.len() >= 16 && secret_likelihood::is_mixed(value)).then_some((
                from,
                end,
                keyword.rule,
            ))
        }
        Kind::Cookie => {
            if text.before(at).is_some_and(|b| b == b'_' || b.is_ascii_alphanumeric()) {
                return None;
            }
            let (from, _) = separated(text, at, after)?;
            let end = text.run(Class::Line, from);
            is_cookie(&text.text[from..end]).then_some((from, end, keyword.rule))
        }
        Kind::Authorization => {
            let (from, _) = separated(text, at, after)?;
            let (from, end) = credentials(text, from);
            let code = text.at(end) == Some(b'(');
            (!code && is_credential(&text.text[from..end])).then_some((from, end, keyword.rule))
        }
        Kind::Encoded => {
            let (from, _) = separated(text, at, after)?;
            let end = text.run(Class::Base64, from);
            let whole = !text.before(at).is_some_and(|b| b.is_ascii_alphanumeric());
            (whole && secret_likelihood::is_encoded_pair(&text.text[from..end])).then_some((
                from,
                end,
                keyword.rule,
            ))
        }
        Kind::Vendor => {
            let (from, end) = value_beside(text, at, after, Weight::Usual)?;
            vendors::named_in(name_through(text, at, after)).map(|vendor| (from, end, vendor))
        }
        Kind::Value(weight) => {
            let name_end = text.run(Class::Word, after).max(after);
            let weight = keyword.weighed(&text.text[after..name_end], weight)?;
            if keyword.word == "pass" && !is_pass(text, at, after) {
                return None;
            }
            let Some((from, end)) = value_beside(text, at, name_end, weight) else {
                return netrc::password(text, at);
            };
            let vendor =
                if weight == Weight::Heavy { None } else { vendors::named_in(name_through(text, at, after)) };
            Some((from, end, vendor.unwrap_or(keyword.rule)))
        }
    }
}

/// The part of a name up to the end of a keyword in it.
fn name_through<'a>(text: &Text<'a>, at: usize, after: usize) -> &'a str {
    const LONGEST: usize = 40;
    let length = text.bytes[..at].iter().rev().take(LONGEST).take_while(|b| is(**b, Class::Word)).count();
    &text.text[at - length..after]
}

/// Whether `pass` is a name of its own that is given a value: `PASS=…`, `--pass=…`; a test that passed is none.
fn is_pass(text: &Text<'_>, at: usize, after: usize) -> bool {
    let edge = !text.before(at).is_some_and(|b| b == b'_' || b.is_ascii_alphanumeric());
    // `pass=pass+1` counts.
    edge && text.at(after) == Some(b'=') && !text.starts_any_case(after + 1, b"pass")
}

/// The secret value of a name that ends here.
fn value_beside(text: &Text<'_>, name: usize, name_end: usize, weight: Weight) -> Option<(usize, usize)> {
    let (from, quoted) = separated(text, name, name_end)?;
    let end = text.run(if quoted { Class::Quoted } else { Class::Value }, from);
    // A call or a type: this is a program, not a value.
    let code = !quoted && matches!(text.at(end), Some(b'(' | b'[' | b'{' | b'<'));
    let value = &text.text[from..end];
    let plain = weight == Weight::Heavy
        && from == name_end + 1
        && text.at(name_end) == Some(b'=')
        && secret_likelihood::is_plain_password(value)
        && (opened(text, name, b"--") || is_connection(text, name, end));
    (!code && (plain || secret_likelihood::is_secret(value, weight, quoted))).then_some((from, end))
}

/// Whether `name=value` is a part of a connection string, such as `Server=db;Uid=sa;Pwd=…;`.
fn is_connection(text: &Text<'_>, name: usize, end: usize) -> bool {
    const LOOKED_AT: usize = 96;
    const OTHERS: [&[u8]; 6] = [b"uid=", b"user=", b"user id=", b"username=", b"server=", b"host="];
    let capital = text.at(name) == Some(b'P');
    let before = text.before(name);
    let edge = before.is_none_or(|b| b" \t\n;\"'`".contains(&b));
    if capital && edge && text.starts(name, b"Pwd=") {
        return true;
    }
    if !edge || before != Some(b';') && text.at(end) != Some(b';') {
        return false;
    }
    let near = &text.bytes[name.saturating_sub(LOOKED_AT)..name];
    OTHERS.iter().any(|other| near.windows(other.len()).any(|there| there.eq_ignore_ascii_case(other)))
}

impl Keyword {
    /// How much the keyword says in a name that goes on like this.
    fn weighed(&self, rest: &str, weight: Weight) -> Option<Weight> {
        // The shortest of them are parts of too many words.
        let short = ["_pass", "_pat", "pass", "pwd"].contains(&self.word);
        if short && !rest.is_empty() { None } else { weighed(rest, weight) }
    }
}

/// What the rest of a name makes of a keyword in it.
fn weighed(rest: &str, weight: Weight) -> Option<Weight> {
    const LONGEST: usize = 40;
    if rest.len() > LONGEST {
        return None;
    }
    let rest = rest.to_ascii_lowercase();
    let rest = rest.trim_end_matches(|c: char| c.is_ascii_digit());
    let last = rest.rsplit(['_', '-']).next().unwrap_or_default();
    let whole = rest.trim_matches(['_', '-']);
    if whole.is_empty() || STILL.contains(&whole) || STILL.contains(&last) {
        Some(weight)
    } else if ABOUT.contains(&last) || ABOUT.iter().any(|about| about.len() > 3 && whole.ends_with(about)) {
        None
    } else {
        Some(Weight::Light)
    }
}

fn blanks(text: &Text<'_>, at: usize) -> usize {
    text.bytes[at..].iter().take(8).take_while(|b| matches!(b, b' ' | b'\t')).count()
}

/// Where the value begins that belongs to a name which ends here, and whether it stands in quotes.
fn separated(text: &Text<'_>, name: usize, end: usize) -> Option<(usize, bool)> {
    const QUOTES: [u8; 4] = [b'"', b'\'', b'`', b'\\'];
    let mut at = end;
    let closing = text.bytes[at..].iter().take(6).take_while(|b| QUOTES.contains(b) || **b == b']').count();
    at += closing;
    let gap = blanks(text, at);
    match (text.at(at + gap), text.at(at + gap + 1)) {
        (Some(b':'), Some(b':')) => return None,
        (Some(b':' | b'='), Some(b'=' | b'>')) => at += gap + 2,
        (Some(b':' | b'='), _) => at += gap + 1,
        (Some(b'>'), _) if gap == 0 && closing == 0 && opened(text, name, b"<") => at += 1,
        _ if gap > 0 && closing == 0 && opened(text, name, b"--") => at += gap,
        _ => return None,
    }
    at += blanks(text, at);
    let opening = text.bytes[at..].iter().take(6).take_while(|b| QUOTES.contains(b)).count();
    Some((at + opening, opening > 0))
}

/// Whether the name that goes through here begins with this.
fn opened(text: &Text<'_>, name: usize, with: &[u8]) -> bool {
    const LONGEST: usize = 40;
    let word = text.bytes[..name].iter().rev().take(LONGEST).take_while(|b| is(**b, Class::Word)).count();
    let start = name - word;
    text.starts(start, with) || text.bytes[..start].ends_with(with)
}

/// The value of an `Authorization` header, without its scheme.
fn credentials(text: &Text<'_>, from: usize) -> (usize, usize) {
    let end = text.run(Class::Value, from);
    let scheme = text.bytes[from..end].iter().all(|b| b.is_ascii_alphabetic() || *b == b'-');
    let gap = blanks(text, end);
    if scheme && gap > 0 && end > from {
        let from = end + gap;
        return (from, text.run(Class::Value, from));
    }
    (from, end)
}

fn is_credential(value: &str) -> bool {
    let plain = value.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'_' || b == b'.');
    value.len() >= 8 && !plain && !secret_likelihood::is_stand_in(value)
}

fn is_cookie(value: &str) -> bool {
    let head = secret_likelihood::head(value);
    let name = head.bytes().take_while(|b| is(*b, Class::Word)).count();
    head.len() >= 8
        && name > 0
        && head.as_bytes().get(name) == Some(&b'=')
        && !head.contains("[redacted:")
        && !secret_likelihood::is_stand_in(head)
}

/// What the name of a member, or a flag, says about the value that follows it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    kind: Kind,
    rule: &'static str,
}

impl Beside {
    /// By the name of a member.
    pub(super) fn name(name: &str) -> Option<Self> {
        const LONGEST: usize = 80;
        if name.len() > LONGEST || name.contains("[redacted:") {
            return None;
        }
        let text = Text::new(name);
        (0..name.len()).find_map(|at| {
            let keyword = keyword_at(&text, at)?;
            let rest = name.get(at + keyword.word.len()..)?;
            let vendor = vendors::named_in(&name[..at + keyword.word.len()]);
            let (kind, rule) = match keyword.kind {
                Kind::Value(weight) => {
                    let weight = keyword.weighed(rest, weight)?;
                    let vendor = vendor.filter(|_| weight != Weight::Heavy);
                    let whole = keyword.word != "pass" || name.len() == rest.len() + keyword.word.len();
                    (whole.then_some(Kind::Value(weight))?, vendor.unwrap_or(keyword.rule))
                }
                Kind::Vendor => (USUAL, vendor.filter(|_| rest.is_empty())?),
                Kind::Encoded if !rest.is_empty() => return None,
                kind => (kind, keyword.rule),
            };
            Some(Self { kind, rule })
        })
    }

    /// By a flag that stands alone in a list of arguments.
    pub(super) fn flag(word: &str) -> Option<Self> {
        let name = word.strip_prefix('-')?;
        if name.contains(['=', ' ', ':']) { None } else { Self::name(name) }
    }

    /// By `-u` of curl.
    pub(super) fn user(word: &str) -> bool {
        ["-u", "--user", "--proxy-user"].contains(&word)
    }

    /// The secret in a value that stands there as a whole.
    pub(super) fn find(&self, value: &str) -> Option<Hit> {
        let whole = (0, value.len(), self.rule);
        if value.contains("[redacted:") {
            return None;
        }
        match self.kind {
            Kind::Value(weight) => {
                let one = !value.bytes().any(|b| matches!(b, b' ' | b'\t' | b'\n'));
                (one && secret_likelihood::is_secret(value, weight, true)).then_some(whole)
            }
            Kind::Cookie => is_cookie(value).then_some(whole),
            Kind::Encoded => secret_likelihood::is_encoded_pair(value).then_some(whole),
            Kind::Vendor => None,
            Kind::Authorization | Kind::Bearer => {
                let text = Text::new(value);
                let (from, end) = credentials(&text, 0);
                is_credential(&value[from..end]).then_some((from, end, self.rule))
            }
        }
    }
}
