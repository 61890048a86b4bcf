//! A text under examination: which bytes belong to which class, and where a run of a class ends, found in linear time.

use std::cell::{Cell, RefCell};

use super::structures::Hit;

/// A set of bytes that a secret, or something around it, may consist of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Class {
    /// Upper-case letters and digits.
    Upper,
    /// Hexadecimal digits.
    Hex,
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `_` and `-`.
    Word,
    /// As `Word`, and `.`, `=`, `~`.
    Dotted,
    /// What base64 is made of.
    Base64,
    /// What stands after `=` or `:` without quotes.
    Value,
    /// What stands between quotes without a space.
    Quoted,
    /// User, password and host of an address.
    Authority,
    /// What goes on to the end of a line or of a quoted text.
    Line,
    /// What encoded key material is made of, line ends among it.
    Armour,
}

const CLASSES: usize = 11;

const fn belongs(class: u8, byte: u8) -> bool {
    let alnum = byte.is_ascii_alphanumeric();
    let word = alnum || byte == b'_' || byte == b'-';
    let shown = byte > b' ' && byte != 0x7f;
    match class {
        0 => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        1 => byte.is_ascii_hexdigit(),
        2 => alnum,
        3 => word,
        4 => word || byte == b'.' || byte == b'=' || byte == b'~',
        5 => alnum || byte == b'+' || byte == b'/' || byte == b'=',
        6 => {
            shown
                && !matches!(
                    byte,
                    b'"' | b'\''
                        | b'`'
                        | b','
                        | b';'
                        | b'&'
                        | b'('
                        | b')'
                        | b'['
                        | b']'
                        | b'{'
                        | b'}'
                        | b'<'
                        | b'>'
                        | b'|'
                        | b'\\'
                )
        }
        7 => shown && !matches!(byte, b'"' | b'\'' | b'`' | b'\\' | b'[' | b']'),
        8 => {
            shown
                && !matches!(
                    byte,
                    b'"' | b'\'' | b'`' | b'<' | b'>' | b'/' | b'?' | b'#' | b'\\' | b'[' | b']'
                )
        }
        9 => !matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'`' | b'\\'),
        _ => alnum || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r' | b' ' | b'\t' | b'\\'),
    }
}

/// For each byte the classes it belongs to, one bit each; made when the program is compiled.
static MEMBERSHIP: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut class = 0;
        while class < CLASSES {
            if belongs(class as u8, byte as u8) {
                table[byte] |= 1 << class;
            }
            class += 1;
        }
        byte += 1;
    }
    table
};

/// Whether a byte belongs to a class.
pub(super) fn is(byte: u8, class: Class) -> bool {
    MEMBERSHIP[usize::from(byte)] & (1 << class as u16) != 0
}

/// A text, and what was found out about it so far.
pub(super) struct Text<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    /// The last run of each class, so that none is walked twice.
    runs: [Cell<(usize, usize)>; CLASSES],
    /// From here on no private key ends.
    no_end: Cell<usize>,
    /// Where the last one that was looked for ends; asked from front to back.
    end: Cell<Option<usize>>,
    curl: Cell<Option<bool>>,
    /// Up to here commands were taken apart.
    pub(super) commands_end: Cell<usize>,
    /// The secrets in commands, in order.
    pub(super) commands: RefCell<Vec<Hit>>,
}

impl<'a> Text<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            runs: Default::default(),
            no_end: Cell::new(usize::MAX),
            end: Cell::new(None),
            curl: Cell::new(None),
            commands_end: Cell::new(0),
            commands: RefCell::new(Vec::new()),
        }
    }

    pub(super) fn at(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The byte before a place.
    pub(super) fn before(&self, at: usize) -> Option<u8> {
        at.checked_sub(1).and_then(|at| self.at(at))
    }

    pub(super) fn starts(&self, at: usize, with: &[u8]) -> bool {
        self.bytes.get(at..).is_some_and(|rest| rest.starts_with(with))
    }

    /// Whether a word stands here, in whatever case; the word itself is in lower case.
    pub(super) fn starts_any_case(&self, at: usize, word: &[u8]) -> bool {
        self.bytes.get(at..at + word.len()).is_some_and(|there| there.eq_ignore_ascii_case(word))
    }

    /// Where the run of a class that goes through `at` ends.
    pub(super) fn run(&self, class: Class, at: usize) -> usize {
        let cache = &self.runs[class as usize];
        let (start, end) = cache.get();
        if start <= at && at < end {
            return end;
        }
        let mut end = at;
        while end < self.bytes.len() && is(self.bytes[end], class) {
            end += 1;
        }
        cache.set((at, end));
        end
    }

    /// Where `what` stands at or after `at`; asked for one thing only, which is found missing once.
    pub(super) fn find_end(&self, what: &str, at: usize) -> Option<usize> {
        if at >= self.no_end.get() {
            return None;
        }
        if let Some(found) = self.end.get().filter(|found| *found >= at) {
            return Some(found);
        }
        let found = self.text.get(at..).and_then(|rest| rest.find(what)).map(|n| at + n);
        if found.is_none() {
            self.no_end.set(at);
        }
        self.end.set(found);
        found
    }

    /// Whether the text speaks of curl, whose `-u` has a password in it.
    pub(super) fn speaks_of_curl(&self) -> bool {
        let known = self.curl.get().unwrap_or_else(|| self.text.contains("curl"));
        self.curl.set(Some(known));
        known
    }
}
