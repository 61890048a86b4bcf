//! Whether a value that stands beside a word such as `password` is worth keeping secret, or is ordinary.

/// How much a word says about what stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// `password`: what stands there is one, if it is more than a plain word.
    Heavy,
    /// `token`, `secret`, `api_key`: often it is one.
    Usual,
    /// A longer name that only contains such a word: it has to look like one by itself.
    Light,
}

/// How a value is made up.
#[derive(Default)]
struct Makeup {
    letters: usize,
    digits: usize,
    others: usize,
    upper: usize,
    lower: usize,
    /// How often upper and lower case take turns.
    turns: usize,
    distinct: usize,
}

/// The beginning of a value: more of it tells nothing more, and a long one must not be looked at again and again.
pub(super) fn head(value: &str) -> &str {
    const LOOKED_AT: usize = 128;
    &value[..value.floor_char_boundary(LOOKED_AT)]
}

impl Makeup {
    fn of(value: &str) -> Self {
        let mut makeup = Self::default();
        let mut seen = [false; 256];
        let mut last = None;
        for byte in value.bytes() {
            makeup.distinct += usize::from(!std::mem::replace(&mut seen[usize::from(byte)], true));
            match byte {
                b'0'..=b'9' => makeup.digits += 1,
                b'a'..=b'z' | b'A'..=b'Z' => {
                    makeup.letters += 1;
                    let upper = byte.is_ascii_uppercase();
                    makeup.upper += usize::from(upper);
                    makeup.lower += usize::from(!upper);
                    makeup.turns += usize::from(last.is_some_and(|last| last != upper));
                    last = Some(upper);
                }
                _ => makeup.others += 1,
            }
        }
        makeup
    }

    /// Letters in a case that no name has.
    fn is_jumbled(&self) -> bool {
        self.letters >= 20 && self.turns * 5 > self.letters * 2
    }
}

/// Whether it is made of letters and digits without being made of words: what keys and tokens look like.
pub(super) fn is_mixed(value: &str) -> bool {
    let value = head(value);
    let makeup = Makeup::of(value);
    let both = makeup.digits > 0 && makeup.letters > 0;
    makeup.distinct >= 8 && (both || makeup.is_jumbled()) && !is_wordy(value)
}

/// Whether a value beside a word of this weight is a secret. `quoted` says that it stood in quotes.
pub(super) fn is_secret(value: &str, weight: Weight, quoted: bool) -> bool {
    let least = match weight {
        Weight::Heavy => 6,
        Weight::Usual => 10,
        Weight::Light => 20,
    };
    let value = head(value);
    if value.len() < least {
        return false;
    }
    let makeup = Makeup::of(value);
    let looks = if weight == Weight::Heavy {
        let more_than_letters = makeup.letters > 0 && makeup.digits + makeup.others > 0;
        let cased = makeup.upper > 0 && makeup.lower > 0 && makeup.turns > 2;
        makeup.distinct >= 4 && (more_than_letters || cased && quoted)
    } else {
        let both = makeup.digits >= 2 && makeup.letters >= 2;
        let enough = if weight == Weight::Light { 12 } else { 7 };
        makeup.distinct >= enough && (both || makeup.is_jumbled())
    };
    if !looks || is_stand_in(value) || is_version_or_date(value) || is_path(value, &makeup) {
        return false;
    }
    // A name of the program's own, such as `config.password2` or `new_password`.
    let name = !quoted && makeup.digits <= 2 && !makeup.is_jumbled() && is_name(value);
    if weight == Weight::Heavy {
        return !(only_words(value) || name && value.contains(['.', '_', ':']));
    }
    !name && !is_wordy(value)
}

/// Whether a value is a password where only a password can stand, such as after `--password=`: letters are enough.
pub(super) fn is_plain_password(value: &str) -> bool {
    const SHORTEST: usize = 4;
    /// Words that stand for a value in help texts and types.
    const WORDS: [&str; 16] = [
        "arg", "ask", "env", "false", "file", "none", "null", "pass", "password", "prompt", "required",
        "secret", "string", "text", "true", "value",
    ];
    let value = head(value);
    let word = value.trim_end_matches(['.', '!', '?']);
    value.len() >= SHORTEST
        && !WORDS.iter().any(|one| one.eq_ignore_ascii_case(word))
        && !is_stand_in(value)
        // The name of something else that has a value.
        && !value.contains([':', '='])
        && !["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start))
}

/// Whether a value is `user:password` in base64.
pub(super) fn is_encoded_pair(value: &str) -> bool {
    let value = head(value).trim_end_matches('=');
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

/// Something that stands for a value: a variable, a placeholder, a place that was redacted.
pub(super) fn is_stand_in(value: &str) -> bool {
    let value = head(value);
    let first = value.as_bytes().first().copied().unwrap_or_default();
    if b"$<{%*([@&|".contains(&first) {
        return true;
    }
    // One pass over the value, whatever is looked for.
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

fn is_path(value: &str, makeup: &Makeup) -> bool {
    let begins = ["/", "./", "../", "~/"].iter().any(|start| value.starts_with(start));
    begins && !(value.len() >= 30 && makeup.upper > 3 && makeup.digits > 2 && !value.contains('.'))
}

/// A name in a program: parts of letters, digits and `_`, with dots or colons between them.
fn is_name(value: &str) -> bool {
    value.split(['.', ':']).all(|part| {
        let first = part.bytes().next().unwrap_or(b'a');
        !first.is_ascii_digit() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

fn only_words(value: &str) -> bool {
    value.split(['-', '_', ' ', '.', '/']).all(|part| part.bytes().all(|b| b.is_ascii_lowercase()))
}

/// Made of words as names are: `my-app-2024`, `hmac_sha256`, `x86_64-unknown-linux-gnu`.
fn is_wordy(value: &str) -> bool {
    let parts = value.split(['-', '_', '.', '/', ':', ' ', '@', '+', '=']);
    parts.clone().count() * 14 >= value.len() && parts.into_iter().all(is_word)
}

/// One word: letters in one case or capitalised, then few digits; or few digits alone.
fn is_word(part: &str) -> bool {
    let letters = part.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (word, digits) = part.split_at(letters);
    let rest = word.get(1..).unwrap_or_default();
    let cased = rest.bytes().all(|b| b.is_ascii_lowercase()) || word.bytes().all(|b| b.is_ascii_uppercase());
    cased && digits.len() <= 4 && digits.bytes().all(|b| b.is_ascii_digit())
}
