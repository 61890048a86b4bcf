//! Counts the tokens of a text. The default tokenizer needs no vocabulary and tends to overestimate; exact
//! counts are an optional feature. Counts are in quarters of a token, so that parts can be added before
//! rounding.

/// Number of quarters in a token; counts are in quarters.
pub const QUARTERS_PER_TOKEN: u64 = 4;

/// Counts the tokens of a text.
pub trait Tokenizer: Send + Sync {
    /// The name that results report.
    fn name(&self) -> &str;

    /// The number of quarter tokens that a text takes. Lines counted separately must not add up to less than
    /// the whole text.
    fn quarters(&self, text: &str) -> u64;

    /// Whether a text takes more than `quarters` quarter tokens. A tokenizer can override this to stop as
    /// soon as the limit is exceeded.
    fn exceeds(&self, text: &str, quarters: u64) -> bool {
        self.quarters(text) > quarters
    }
}

/// A tokenizer with a scale factor, for models whose tokenizer is not public.
#[derive(Clone, Copy)]
pub struct TokenCounter<'a> {
    tokenizer: &'a dyn Tokenizer,
    scale: f64,
}

impl std::fmt::Debug for TokenCounter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Default for TokenCounter<'_> {
    fn default() -> Self {
        Self { tokenizer: &HeuristicTokenizer, scale: 1.0 }
    }
}

impl<'a> TokenCounter<'a> {
    /// Counts with a tokenizer, unscaled.
    pub fn new(tokenizer: &'a dyn Tokenizer) -> Self {
        Self { tokenizer, scale: 1.0 }
    }

    /// Multiplies every count by `scale`; `None` unless it is greater than 0 and at most 1000.
    pub fn scaled(self, scale: f64) -> Option<Self> {
        (scale > 0.0 && scale <= 1000.0).then_some(Self { scale, ..self })
    }

    /// The name of the tokenizer, with the scale factor if it is not 1.
    pub fn name(&self) -> String {
        match self.scale {
            1.0 => self.tokenizer.name().to_owned(),
            scale => format!("{} x{scale}", self.tokenizer.name()),
        }
    }

    /// The number of tokens that a text takes, rounded up.
    pub fn tokens(&self, text: &str) -> u64 {
        self.round_up(self.quarters(text))
    }

    pub(super) fn quarters(&self, text: &str) -> u64 {
        self.tokenizer.quarters(text)
    }

    /// Whether a text takes more than `tokens` tokens.
    pub(super) fn exceeds(&self, text: &str, tokens: u64) -> bool {
        match self.scale == 1.0 {
            true => self.tokenizer.exceeds(text, tokens.saturating_mul(QUARTERS_PER_TOKEN)),
            false => self.tokens(text) > tokens,
        }
    }

    /// Converts quarters to tokens, scaled and rounded up.
    pub(super) fn round_up(&self, quarters: u64) -> u64 {
        if self.scale == 1.0 {
            return quarters.div_ceil(QUARTERS_PER_TOKEN);
        }
        (quarters as f64 * self.scale / QUARTERS_PER_TOKEN as f64).ceil() as u64
    }
}

/// The default tokenizer. Estimates words by their length, digits in groups of three, punctuation in pairs,
/// and other scripts by a cost per character.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeuristicTokenizer;

impl Tokenizer for HeuristicTokenizer {
    fn name(&self) -> &str {
        "heuristic-1"
    }

    fn exceeds(&self, text: &str, quarters: u64) -> bool {
        if QUARTERS_PER_TOKEN * min_word_count(text) > quarters {
            return true;
        }
        let (mut total, mut rest) = (0, text);
        while total <= quarters && !rest.is_empty() {
            // Counts portions that end at a line end, because no token crosses it.
            let portion =
                rest.as_bytes().iter().skip(1024).position(|b| *b == b'\n').map_or(rest.len(), |n| n + 1025);
            let (now, after) = rest.split_at(portion);
            total += self.quarters(now);
            rest = after;
        }
        total > quarters
    }

    fn quarters(&self, text: &str) -> u64 {
        let bytes = text.as_bytes();
        let (mut at, mut total, mut before) = (0, 0, ByteClass::Newline);
        while let Some(&byte) = bytes.get(at) {
            let class = class_of(byte);
            // Non-ASCII characters are counted individually.
            let mut end = if class == ByteClass::NonAscii { at + 1 } else { run_end(bytes, at, class) };
            let n = (end - at) as u64;
            total += match class {
                ByteClass::Lower => word_cost(n, before),
                // One capital starts a word; a run of capitals is a separate word.
                ByteClass::Upper if n == 1 => {
                    end = run_end(bytes, end, ByteClass::Lower);
                    word_cost((end - at) as u64, before)
                }
                ByteClass::Upper => QUARTERS_PER_TOKEN * n.div_ceil(4),
                ByteClass::Digit => QUARTERS_PER_TOKEN * n.div_ceil(3) + u64::from(before.is_letter()),
                ByteClass::Space => space_cost(n, bytes.get(end)),
                ByteClass::Newline => {
                    end = at + 1;
                    // A line end costs less after punctuation and on an empty line.
                    match before {
                        ByteClass::Newline | ByteClass::Punctuation => 1,
                        _ => QUARTERS_PER_TOKEN,
                    }
                }
                ByteClass::Punctuation => {
                    punctuation_cost(bytes.get(at..end).unwrap_or_default(), before, bytes.get(end))
                }
                ByteClass::NonAscii => {
                    let (cost, next) = non_ascii_cost(text, at);
                    end = next;
                    cost
                }
            };
            before = class;
            at = end;
        }
        total
    }
}

/// A lower bound on the number of words, each of which takes at least one token. Faster than counting tokens.
fn min_word_count(text: &str) -> u64 {
    let begins = |(before, first): (&u8, &u8)| u8::from((*before == b' ') & first.is_ascii_alphabetic());
    let portion = |bytes: &[u8]| bytes.iter().zip(bytes.iter().skip(1)).map(begins).sum::<u8>();
    text.as_bytes().chunks(usize::from(u8::MAX)).map(|bytes| u64::from(portion(bytes))).sum()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Lower,
    Upper,
    Digit,
    Space,
    Newline,
    Punctuation,
    NonAscii,
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Punctuation; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => ByteClass::Lower,
            b'A'..=b'Z' => ByteClass::Upper,
            b'0'..=b'9' => ByteClass::Digit,
            b' ' | b'\t' | b'\r' => ByteClass::Space,
            b'\n' => ByteClass::Newline,
            0x80.. => ByteClass::NonAscii,
            _ => ByteClass::Punctuation,
        };
        byte += 1;
    }
    classes
};

fn class_of(byte: u8) -> ByteClass {
    CLASSES[usize::from(byte)]
}

/// The end of the run of bytes of one class that starts at `at`.
fn run_end(bytes: &[u8], at: usize, class: ByteClass) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| self::class_of(byte) != class).unwrap_or(rest.len())
}

impl ByteClass {
    fn is_letter(self) -> bool {
        matches!(self, Self::Lower | Self::Upper)
    }
}

/// The cost of a lower-case word of `n` letters, possibly with a leading capital. A fragment of one or two
/// letters directly after a letter or a digit costs more.
fn word_cost(n: u64, before: ByteClass) -> u64 {
    let scrap = n <= 2 && matches!(before, ByteClass::Lower | ByteClass::Upper | ByteClass::Digit);
    let cost = match n {
        0..=7 => 4,
        8..=9 => 5,
        10..=11 => 6,
        n => n - 3,
    };
    cost + 2 * u64::from(scrap)
}

/// The cost of `n` spaces. A single space is part of the following word, but not of a number.
fn space_cost(n: u64, next: Option<&u8>) -> u64 {
    match (n, next.copied().map(class_of)) {
        (1, Some(ByteClass::Digit)) => QUARTERS_PER_TOKEN,
        (1, _) => 0,
        (n, _) => QUARTERS_PER_TOKEN * n.div_ceil(16),
    }
}

/// The cost of a run of punctuation. Characters count in pairs, and four or more identical ones count
/// together. A single character that joins a following letter costs less.
fn punctuation_cost(run: &[u8], before: ByteClass, next: Option<&u8>) -> u64 {
    if run.len() == 1 {
        let joins =
            before != ByteClass::Space && next.copied().map(class_of).is_some_and(ByteClass::is_letter);
        return if joins { 3 } else { QUARTERS_PER_TOKEN };
    }
    let mut rest = run;
    let (mut total, mut loose) = (0, 0);
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|byte| *byte == first).count();
        if same >= 4 {
            total += QUARTERS_PER_TOKEN * (1 + same as u64 / 16);
        } else {
            loose += same as u64;
        }
        rest = rest.get(same..).unwrap_or_default();
    }
    total + QUARTERS_PER_TOKEN * loose.div_ceil(2)
}

/// The cost of the non-ASCII character at `at`, and the start of the next character.
fn non_ascii_cost(text: &str, at: usize) -> (u64, usize) {
    let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else {
        return (QUARTERS_PER_TOKEN, at + 1);
    };
    let cost = match c as u32 {
        // Accented Latin letters split a word into more tokens.
        0x80..=0x24f => 5,
        // Greek, Cyrillic.
        0x370..=0x3ff => 4,
        0x400..=0x52f => 2,
        // Hebrew, Arabic.
        0x590..=0x6ff | 0x750..=0x77f => 4,
        // Scripts of India and South-East Asia.
        0x900..=0xfff => 5,
        0x1780..=0x17ff => 8,
        // Dashes, quotes, dots, arrows.
        0x2010..=0x2026 => 3,
        0x2190..=0x21ff => 5,
        0x2200..=0x2bff => 8,
        // Kana, Hangul, ideographs and their punctuation.
        0x3000..=0x30ff => 5,
        0xac00..=0xd7af => 6,
        0x3400..=0x9fff => 5,
        0xfe00..=0xfe0f => 4,
        0xff00..=0xffef => 5,
        0x1_f000..=0x1_faff => 12,
        0x1_0000.. => 12,
        _ => 8,
    };
    (cost, at + c.len_utf8())
}
