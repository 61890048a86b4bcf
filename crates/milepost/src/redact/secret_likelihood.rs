//! Decides whether a value assigned to a keyword such as `password` is likely a secret or ordinary text.

/// How strongly a keyword suggests that its value is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeywordStrength {
    /// `password`: the value is a secret if it is more than a plain word.
    Strong,
    /// `token`, `secret`, `api_key`: the value is often a secret.
    Medium,
    /// A longer name that only contains a keyword: the value itself must look like a secret.
    Weak,
}

#[derive(Default)]
struct CharacterStats {
    letters: usize,
    digits: usize,
    others: usize,
    upper: usize,
    lower: usize,
    /// How often upper and lower case alternate.
    case_changes: usize,
    distinct: usize,
}

/// The beginning of a value. The length is enough to judge the value, and bounded so that repeated scans of
/// long values stay cheap.
pub(super) fn bounded_prefix(value: &str) -> &str {
    const MAX_SCANNED: usize = 128;
    &value[..value.floor_char_boundary(MAX_SCANNED)]
}

impl CharacterStats {
    fn from_value(value: &str) -> Self {
        let mut stats = Self::default();
        let mut seen = [false; 256];
        let mut last = None;
        for byte in value.bytes() {
            stats.distinct += usize::from(!std::mem::replace(&mut seen[usize::from(byte)], true));
            match byte {
                b'0'..=b'9' => stats.digits += 1,
                b'a'..=b'z' | b'A'..=b'Z' => {
                    stats.letters += 1;
                    let upper = byte.is_ascii_uppercase();
                    stats.upper += usize::from(upper);
                    stats.lower += usize::from(!upper);
                    stats.case_changes += usize::from(last.is_some_and(|last| last != upper));
                    last = Some(upper);
                }
                _ => stats.others += 1,
            }
        }
        stats
    }

    /// Whether upper and lower case alternate more often than in names.
    fn has_random_case(&self) -> bool {
        self.letters >= 20 && self.case_changes * 5 > self.letters * 2
    }
}

/// Whether a value looks like a key or token: letters and digits that do not form words.
pub(super) fn looks_random(value: &str) -> bool {
    let value = bounded_prefix(value);
    let stats = CharacterStats::from_value(value);
    let both = stats.digits > 0 && stats.letters > 0;
    stats.distinct >= 8 && (both || stats.has_random_case()) && !is_made_of_words(value)
}

/// Whether a value assigned to a keyword of this strength is likely a secret. `quoted` means that the value
/// was in quotes.
pub(super) fn is_likely_secret(value: &str, strength: KeywordStrength, quoted: bool) -> bool {
    let least = match strength {
        KeywordStrength::Strong => 6,
        KeywordStrength::Medium => 10,
        KeywordStrength::Weak => 20,
    };
    let value = bounded_prefix(value);
    if value.len() < least {
        return false;
    }
    let stats = CharacterStats::from_value(value);
    let looks = if strength == KeywordStrength::Strong {
        let more_than_letters = stats.letters > 0 && stats.digits + stats.others > 0;
        let cased = stats.upper > 0 && stats.lower > 0 && stats.case_changes > 2;
        stats.distinct >= 4 && (more_than_letters || cased && quoted)
    } else {
        let both = stats.digits >= 2 && stats.letters >= 2;
        let enough = if strength == KeywordStrength::Weak { 12 } else { 7 };
        stats.distinct >= enough && (both || stats.has_random_case())
    };
    if !looks || is_placeholder(value) || is_version_or_date(value) || is_path(value, &stats) {
        return false;
    }
    // An identifier in source code, such as `config.password2` or `new_password`.
    let name = !quoted && stats.digits <= 2 && !stats.has_random_case() && is_identifier(value);
    if strength == KeywordStrength::Strong {
        return !(is_lowercase_words(value) || name && value.contains(['.', '_', ':']));
    }
    !name && !is_made_of_words(value)
}

/// Whether a value is a password in a place that takes only passwords, such as after `--password=`. Letters
/// alone are enough there.
pub(super) fn is_plain_password(value: &str) -> bool {
    const SHORTEST: usize = 4;
    /// Words that represent a value in help texts and types.
    const WORDS: [&str; 16] = [
        "arg", "ask", "env", "false", "file", "none", "null", "pass", "password", "prompt", "required",
        "secret", "string", "text", "true", "value",
    ];
    let value = bounded_prefix(value);
    let word = value.trim_end_matches(['.', '!', '?']);
    value.len() >= SHORTEST
        && !WORDS.iter().any(|one| one.eq_ignore_ascii_case(word))
        && !is_placeholder(value)
        // A `:` or `=` means that this is another name with its own value.
        && !value.contains([':', '='])
        && !["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
}

/// Whether a value is `user:password` in base64.
pub(super) fn is_encoded_pair(value: &str) -> bool {
    let value = bounded_prefix(value).trim_end_matches('=');
    let mut bits = 0_u32;
    let mut decoded = Vec::with_capacity(96);
    for (n, byte) in value.bytes().enumerate() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return false,
        };
        bits = bits << 6 | u32::from(six);
        if n % 4 > 0 {
            decoded.push((bits >> (6 - 2 * (n % 4))) as u8);
        }
    }
    let colon = decoded.iter().position(|b| *b == b':');
    colon.is_some_and(|colon| colon > 0 && colon + 1 < decoded.len())
        && decoded.iter().all(|b| (b' '..=b'~').contains(b))
}

/// Whether a value is a variable, a placeholder or already redacted.
pub(super) fn is_placeholder(value: &str) -> bool {
    let value = bounded_prefix(value);
    let first = value.as_bytes().first().copied().unwrap_or_default();
    if b"$<{%*([@&|".contains(&first) {
        return true;
    }
    // Checks for all signs in one pass over the value.
    value.as_bytes().iter().enumerate().any(|(at, byte)| {
        let signs: &[&[u8]] = match byte {
            b'.' => &[b"..."],
            b'*' => &[b"***"],
            b'$' => &[b"${"],
            b'{' => &[b"{{"],
            b':' => &[b"://"],
            b'e' => &[b"example"],
            b'p' => &[b"placeholder"],
            b'c' => &[b"changeme"],
            b'y' => &[b"your_", b"your-"],
            _ => return false,
        };
        signs.iter().any(|sign| value.as_bytes()[at..].starts_with(sign))
    })
}

fn is_version_or_date(value: &str) -> bool {
    let bare = value.trim_start_matches(['v', '^', '~', '=', '<', '>', ' ']);
    let digits = bare.bytes().take_while(u8::is_ascii_digit).count();
    match bare.as_bytes().get(digits) {
        Some(b'.') => {
            digits > 0 && digits < 5 && bare.as_bytes().get(digits + 1).is_some_and(u8::is_ascii_digit)
        }
        Some(b'-') => {
            digits == 4
                && bare.as_bytes().get(7) == Some(&b'-')
                && bare.bytes().skip(5).take(2).all(|b| b.is_ascii_digit())
        }
        _ => false,
    }
}

fn is_path(value: &str, stats: &CharacterStats) -> bool {
    let begins = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    begins && !(value.len() >= 30 && stats.upper > 3 && stats.digits > 2 && !value.contains('.'))
}

/// Whether a value is an identifier: parts of letters, digits and `_`, separated by dots or colons.
fn is_identifier(value: &str) -> bool {
    value.split(['.', ':']).all(|part| {
        let first = part.bytes().next().unwrap_or(b'a');
        !first.is_ascii_digit() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn is_lowercase_words(value: &str) -> bool {
    value.split(['-', '_', ' ', '.', '/']).all(|part| part.bytes().all(|b| b.is_ascii_lowercase()))
}

/// Whether a value consists of words, as names do: `my-app-2024`, `hmac_sha256`, `x86_64-unknown-linux-gnu`.
fn is_made_of_words(value: &str) -> bool {
    let parts = value.split(['-', '_', '.', '/', ':', ' ', '@', '+', '=']);
    parts.clone().count() * 14 >= value.len() && parts.into_iter().all(is_word)
}

/// Whether a part is one word: letters in one case or capitalised, followed by at most four digits. Both may
/// be missing.
fn is_word(part: &str) -> bool {
    let letters = part.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (word, digits) = part.split_at(letters);
    let rest = word.get(1..).unwrap_or_default();
    let cased = rest.bytes().all(|b| b.is_ascii_lowercase()) || word.bytes().all(|b| b.is_ascii_uppercase());
    cased && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit())
}
