//! How many tokens a text takes. The default needs no vocabulary and errs on the safe side; exact ones are a feature.
//! Counts are quarters of a token, so that parts add up before anything is rounded.

/// Quarters of a token in a token.
pub const QUARTERS: u64 = 4;

/// Counts tokens.
pub trait Counter: Send + Sync {
    /// What it is called in results.
    fn name(&self) -> &str;

    /// How many quarters of a token a text takes. Lines counted one by one must not give less than lines together.
    fn quarters(&self, text: &str) -> u64;
}

/// A counter and a factor for models whose tokenizer is not public.
#[derive(Clone, Copy)]
pub struct Gauge<'a> {
    counter: &'a dyn Counter,
    scale: f64,
}

impl std::fmt::Debug for Gauge<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Default for Gauge<'_> {
    fn default() -> Self {
        Self { counter: &Heuristic, scale: 1.0 }
    }
}

impl<'a> Gauge<'a> {
    /// Counts with this counter.
    pub fn new(counter: &'a dyn Counter) -> Self {
        Self { counter, scale: 1.0 }
    }

    /// Counts so many times as much; `None` for a factor that is no positive number up to 1,000.
    pub fn scaled(self, scale: f64) -> Option<Self> {
        (scale > 0.0 && scale <= 1000.0).then_some(Self { scale, ..self })
    }

    /// What counts, and by which factor.
    pub fn name(&self) -> String {
        match self.scale {
            1.0 => self.counter.name().to_owned(),
            scale => format!("{} x{scale}", self.counter.name()),
        }
    }

    /// How many tokens a text takes.
    pub fn tokens(&self, text: &str) -> u64 {
        self.whole(self.quarters(text))
    }

    pub(super) fn quarters(&self, text: &str) -> u64 {
        self.counter.quarters(text)
    }

    /// Quarters as tokens, rounded up.
    pub(super) fn whole(&self, quarters: u64) -> u64 {
        if self.scale == 1.0 {
            return quarters.div_ceil(QUARTERS);
        }
        (quarters as f64 * self.scale / QUARTERS as f64).ceil() as u64
    }
}

/// The default: words by their length, digits by three, marks by two, other scripts by what their letters cost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heuristic;

impl Counter for Heuristic {
    fn name(&self) -> &str {
        "heuristic-1"
    }

    fn quarters(&self, text: &str) -> u64 {
        let bytes = text.as_bytes();
        let (mut at, mut total, mut line_start) = (0, 0, 0);
        while let Some(&byte) = bytes.get(at) {
            let class = class(byte);
            let end = run(bytes, at, class);
            let n = (end - at) as u64;
            match class {
                Class::Lower => total += word(n),
                Class::Upper => {
                    // A capital begins a word; several are a word of their own.
                    let lower = if n == 1 { run(bytes, end, Class::Lower) } else { end };
                    if lower > end {
                        total += word((lower - at) as u64);
                        at = lower;
                        continue;
                    }
                    total += capitals(n);
                }
                Class::Digit => total += QUARTERS * n.div_ceil(3),
                Class::Space => {
                    total += if n == 1 { blank(bytes.get(end)) } else { QUARTERS * n.div_ceil(16) }
                }
                Class::Line => {
                    // The end of a line with something on it, then empty lines.
                    total += if at == line_start { 1 } else { QUARTERS };
                    at += 1;
                    line_start = at;
                    continue;
                }
                Class::Mark => total += marks(bytes.get(at..end).unwrap_or_default()),
                Class::Wide => {
                    let (cost, next) = wide(text, at);
                    total += cost;
                    at = next;
                    continue;
                }
            }
            at = end;
        }
        total
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Space,
    Line,
    Mark,
    Wide,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Mark; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' | b'\r' => Class::Space,
            b'\n' => Class::Line,
            0x80.. => Class::Wide,
            _ => Class::Mark,
        };
        byte += 1;
    }
    classes
};

fn class(byte: u8) -> Class {
    CLASSES[usize::from(byte)]
}

/// Where the run of a class that begins at `at` ends.
fn run(bytes: &[u8], at: usize, class: Class) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().position(|&byte| self::class(byte) != class).unwrap_or(rest.len())
}

/// A word in small letters, perhaps with a capital in front.
fn word(n: u64) -> u64 {
    match n {
        0..=5 => 4,
        6..=7 => 5,
        8..=9 => 6,
        10..=12 => 8,
        n => n - 3,
    }
}

/// A word in capitals.
fn capitals(n: u64) -> u64 {
    QUARTERS * n.div_ceil(3)
}

/// One blank: part of the word after it, unless there is none.
fn blank(next: Option<&u8>) -> u64 {
    match next.copied().map(class) {
        Some(Class::Line) | None => 0,
        Some(Class::Digit) => 1,
        Some(_) => 0,
    }
}

/// A run of marks: two by two, and long runs of the same mark at once.
fn marks(run: &[u8]) -> u64 {
    let mut rest = run;
    let (mut total, mut loose) = (0, 0);
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|byte| *byte == first).count();
        if same >= 4 {
            total += QUARTERS * (1 + same as u64 / 16);
        } else {
            loose += same as u64;
        }
        rest = rest.get(same..).unwrap_or_default();
    }
    total + QUARTERS * loose.div_ceil(2)
}

/// One character beyond ASCII: what it costs and where the next one begins.
fn wide(text: &str, at: usize) -> (u64, usize) {
    let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) else { return (QUARTERS, at + 1) };
    let cost = match c as u32 {
        // Latin letters with marks break words apart.
        0x80..=0x24f => 4,
        // Greek, Cyrillic.
        0x370..=0x52f => 2,
        // Hebrew, Arabic.
        0x590..=0x6ff | 0x750..=0x77f => 4,
        // Scripts of India and South East Asia.
        0x900..=0xfff => 5,
        0x1780..=0x17ff => 8,
        // Dashes, quotes, dots, arrows.
        0x2010..=0x2026 => 3,
        0x2190..=0x21ff => 5,
        0x2200..=0x2bff => 8,
        // Kana, Hangul, ideographs and their punctuation.
        0x3000..=0x30ff => 4,
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
