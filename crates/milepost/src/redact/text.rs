//! The text being scanned. Defines the byte classes and finds where a run of a class ends. Results are
//! cached, so the lookups for a whole text take linear time.

use std::cell::{Cell, RefCell};

use super::structures::SecretMatch;

/// A set of bytes that a secret or the text around it may consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ByteClass {
    Upper,
    Hex,
    Alnum,
    /// Letters, digits, `_` and `-`.
    Word,
    /// `Word` plus `.`, `=` and `~`.
    Dotted,
    /// The base64 alphabet and its padding.
    Base64,
    /// An unquoted value after `=` or `:`.
    Value,
    /// A quoted value without blanks.
    Quoted,
    /// User, password and host of a URL.
    Authority,
    /// Everything up to the end of the line or of the quoted text.
    Line,
    /// Encoded key material, including line ends.
    Armour,
}

use ByteClass::{Alnum, Armour, Authority, Base64, Dotted, Hex, Line, Quoted, Upper, Value, Word};

const CLASSES: [ByteClass; 11] =
    [Upper, Hex, Alnum, Word, Dotted, Base64, Value, Quoted, Authority, Line, Armour];

const fn class_contains(class: ByteClass, byte: u8) -> bool {
    let alnum = byte.is_ascii_alphanumeric();
    let word = alnum || byte == b'_' || byte == b'-';
    let shown = byte > b' ' && byte != 0x7f;
    match class {
        Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        Hex => byte.is_ascii_hexdigit(),
        Alnum => alnum,
        Word => word,
        Dotted => word || is_one_of(byte, b".=~"),
        Base64 => alnum || is_one_of(byte, b"+/="),
        Value => shown && !is_one_of(byte, b"\"'`,;&()[]{}<>|\\"),
        Quoted => shown && !is_one_of(byte, b"\"'`\\[]"),
        Authority => shown && !is_one_of(byte, b"\"'`<>/?#\\[]"),
        Line => !is_one_of(byte, b"\n\r\"'`\\"),
        Armour => alnum || is_one_of(byte, b"+/=\n\r \t\\"),
    }
}

const fn is_one_of(byte: u8, bytes: &[u8]) -> bool {
    let mut n = 0;
    while n < bytes.len() && bytes[n] != byte {
        n += 1;
    }
    n < bytes.len()
}

/// The classes of each byte, one bit per class. Built at compile time.
static MEMBERSHIP: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut class = 0;
        while class < CLASSES.len() {
            if class_contains(CLASSES[class], byte as u8) {
                table[byte] |= 1 << CLASSES[class] as u16;
            }
            class += 1;
        }
        byte += 1;
    }
    table
};

pub(super) fn is_in_class(byte: u8, class: ByteClass) -> bool {
    MEMBERSHIP[usize::from(byte)] & (1 << class as u16) != 0
}

/// A text with cached facts about it.
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    /// The last run found for each class, so that no run is walked twice.
    runs: [Cell<(usize, usize)>; CLASSES.len()],
    /// No private key footer starts at or after this position.
    no_footer_from: Cell<usize>,
    /// The last footer found. Searches run from front to back.
    next_footer: Cell<Option<usize>>,
    curl: Cell<Option<bool>>,
    pub(super) commands_scanned_to: Cell<usize>,
    pub(super) command_secrets: RefCell<Vec<SecretMatch>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            runs: Default::default(),
            no_footer_from: Cell::new(usize::MAX),
            next_footer: Cell::new(None),
            curl: Cell::new(None),
            commands_scanned_to: Cell::new(0),
            command_secrets: RefCell::new(Vec::new()),
        }
    }

    pub(super) fn byte_at(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    pub(super) fn byte_before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).and_then(|at| self.byte_at(at))
    }

    /// Number of consecutive bytes from `at` on that meet a condition, up to `most`.
    pub(super) fn count_from(&self, at: usize, most: usize, wanted: impl Fn(u8) -> bool) -> usize {
        self.bytes[at..].iter().take(most).take_while(|byte| wanted(**byte)).count()
    }

    /// Number of consecutive bytes directly before `at` that meet a condition, up to `most`.
    pub(super) fn count_before(&self, at: usize, most: usize, wanted: impl Fn(u8) -> bool) -> usize {
        self.bytes[..at].iter().rev().take(most).take_while(|byte| wanted(**byte)).count()
    }

    pub(super) fn starts_with(&self, at: usize, with: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(with))
    }

    /// Whether the text continues with `word` at `at`, ignoring ASCII case.
    pub(super) fn starts_with_ignore_case(&self, at: usize, word: &[u8]) -> bool {
        self.bytes.get(at..at + word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word))
    }

    /// End of the run of `class` that contains `at`, or `at` if there is none.
    pub(super) fn run_end(&self, class: ByteClass, at: usize) -> usize {
        let cache = &self.runs[class as usize];
        let (start, end) = cache.get();
        if start <= at && at < end {
            return end;
        }
        let mut end = at;
        while end < self.bytes.len() && is_in_class(self.bytes[end], class) {
            end += 1;
        }
        cache.set((at, end));
        end
    }

    /// First position of `footer` at or after `at`. The result is cached, so every call must pass the same
    /// footer.
    pub(super) fn find_key_footer(&self, footer: &str, at: usize) -> Option<usize> {
        if at >= self.no_footer_from.get() {
            return None;
        }
        if let Some(found) = self.next_footer.get().filter(|found| *found >= at) {
            return Some(found);
        }
        let found = self.text.get(at..).and_then(|rest| rest.find(footer)).map(|n| at + n);
        if found.is_none() {
            self.no_footer_from.set(at);
        }
        self.next_footer.set(found);
        found
    }

    /// Whether the text mentions curl, whose `-u` takes a password.
    pub(super) fn mentions_curl(&self) -> bool {
        let known = self.curl.get().unwrap_or_else(|| self.text.contains("curl"));
        self.curl.set(Some(known));
        known
    }
}
