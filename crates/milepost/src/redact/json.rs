//! Redacts the strings and member names of a JSON text, including escaped characters. Takes valid JSON and
//! returns valid JSON of the same shape. Everything that is not a secret stays byte for byte the same.

use std::borrow::Cow;

use super::commands::ArgumentScanner;
use super::keyword_values::ValueHint;
use super::structures::find_password_start;
use super::{AllowList, MARK, replace_secrets, scan, unique_name};
use crate::model::JsonPath;

#[derive(Debug, Clone)]
enum PathSegment<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

enum Mode<'w> {
    /// Replace secrets, except for those on the allow list.
    Replace(&'w AllowList),
    /// Report strings that contain a mark, with their pointer.
    Locate(&'w mut dyn FnMut(String, &str)),
}

struct JsonWalker<'a, 'w> {
    text: &'a str,
    at: usize,
    /// The text before this position has been copied or replaced.
    copied: usize,
    out: String,
    path: Vec<PathSegment<'a>>,
    mode: Mode<'w>,
}

/// Returns the document with its secrets replaced, or `None` if it has none. `name` is the name of the
/// member that contains the document.
pub(super) fn redact_document(text: &str, name: &str, allow: &AllowList) -> Option<String> {
    let hint = ValueHint::from_member_name(name);
    if hint.is_none() && !scan::may_contain_secret(text) {
        return None;
    }
    let mut walker = JsonWalker::new(text, 0, Mode::Replace(allow));
    walker.walk_value(hint, None);
    if walker.copied == 0 {
        return None;
    }
    walker.out.push_str(&text[walker.copied..]);
    Some(walker.out)
}

/// Reports every string and member name that contains a mark, with its pointer under `root`.
pub(super) fn locate_marks(text: &str, root: &str, report: &mut dyn FnMut(String, &str)) {
    if !text.contains(MARK) {
        return;
    }
    let mut walker = JsonWalker::new(text, 0, Mode::Locate(report));
    walker.path.push(PathSegment::Key(Cow::Borrowed(root)));
    walker.walk_value(None, None);
}

/// What the preceding elements of an array imply about an element.
#[derive(Clone, Copy)]
enum NextElement {
    ValueHint(ValueHint),
    /// `user:password` for curl.
    CurlUser,
    /// A password that starts at this offset, and its rule.
    Password(usize, &'static str),
}

impl<'a, 'w> JsonWalker<'a, 'w> {
    fn new(text: &'a str, at: usize, mode: Mode<'w>) -> Self {
        Self { text, at, copied: 0, out: String::new(), path: Vec::new(), mode }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_whitespace(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Moves past a comma and the whitespace after it, if there is one.
    fn skip_comma(&mut self) {
        if self.peek() == Some(b',') {
            self.at += 1;
            self.skip_whitespace();
        }
    }

    fn pointer(&self) -> String {
        let segment = |segment: &PathSegment<'_>| match segment {
            PathSegment::Key(key) => JsonPath::Root.key(key).to_string(),
            PathSegment::Index(index) => JsonPath::Root.index(*index).to_string(),
        };
        self.path.iter().map(segment).collect()
    }

    fn walk_value(&mut self, hint: Option<ValueHint>, next: Option<NextElement>) {
        self.skip_whitespace();
        match self.peek() {
            Some(b'{') => self.walk_object(),
            Some(b'[') => self.walk_array(hint),
            Some(b'"') => {
                self.walk_string(hint, next);
            }
            _ => {
                while !matches!(self.peek(), None | Some(b',' | b']' | b'}')) {
                    self.at += 1;
                }
            }
        }
        self.skip_whitespace();
    }

    fn walk_array(&mut self, hint: Option<ValueHint>) {
        self.at += 1;
        self.skip_whitespace();
        let mut next = None;
        let mut curl = false;
        let mut arguments = ArgumentScanner::default();
        for index in 0.. {
            if !matches!(self.peek(), Some(byte) if byte != b']') {
                break;
            }
            self.path.push(PathSegment::Index(index));
            let start = self.at;
            let is_text = self.peek() == Some(b'"');
            if is_text {
                let password = arguments.scan_word(&decode_string(self.peek_raw_string()));
                next = password.map(|(from, rule)| NextElement::Password(from, rule)).or(next);
            }
            self.walk_value(hint, next.take());
            self.path.pop();
            if is_text {
                let word = self.text[start..self.at].trim_end().trim_matches('"');
                curl |= index == 0 && word.ends_with("curl");
                next = ValueHint::from_flag(word)
                    .map(NextElement::ValueHint)
                    .or((curl && ValueHint::is_curl_user_flag(word)).then_some(NextElement::CurlUser));
            }
            self.skip_comma();
        }
        self.at += 1;
    }

    fn walk_object(&mut self) {
        let opening = self.at;
        self.at += 1;
        self.skip_whitespace();
        let mut taken: Option<Vec<String>> = None;
        // The hint for `value` in a variable or header written as `{"name": …, "value": …}`.
        let mut named = None;
        while self.peek() == Some(b'"') {
            let key = self.walk_key(opening, &mut taken);
            self.skip_whitespace();
            self.at += 1;
            self.skip_whitespace();
            let hint = ValueHint::from_member_name(&key).or(if key.eq_ignore_ascii_case("value") {
                named
            } else {
                None
            });
            let is_name_member =
                ["name", "key", "header", "variable"].iter().any(|name| key.eq_ignore_ascii_case(name));
            let start = self.at;
            self.path.push(PathSegment::Key(key));
            self.walk_value(hint, None);
            self.path.pop();
            if is_name_member {
                named = ValueHint::from_member_name(self.text[start..self.at].trim_end().trim_matches('"'));
            }
            self.skip_comma();
        }
        self.at += 1;
    }

    /// Moves past a string and returns the text between its quotes.
    fn read_raw_string(&mut self) -> &'a str {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                None | Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        let end = self.at.min(self.text.len());
        self.at = end + 1;
        self.text.get(start..end).unwrap_or_default()
    }

    fn peek_raw_string(&mut self) -> &'a str {
        let start = self.at;
        let raw = self.read_raw_string();
        self.at = start;
        raw
    }

    fn walk_string(&mut self, hint: Option<ValueHint>, next: Option<NextElement>) {
        let start = self.at + 1;
        let raw = self.read_raw_string();
        let found = match &mut self.mode {
            Mode::Replace(allow) => redact_string(raw, hint, next, allow),
            Mode::Locate(_) => {
                self.report_marks(&decode_string(raw));
                None
            }
        };
        if let Some(new) = found {
            self.splice(start, start + raw.len(), &new);
        }
    }

    fn report_marks(&mut self, text: &str) {
        if text.contains(MARK) {
            let pointer = self.pointer();
            if let Mode::Locate(report) = &mut self.mode {
                report(pointer, text);
            }
        }
    }

    /// Moves past a member's name and redacts it. The new name must differ from those of the other members.
    fn walk_key(&mut self, opening: usize, taken: &mut Option<Vec<String>>) -> Cow<'a, str> {
        let start = self.at + 1;
        let raw = self.read_raw_string();
        let key = decode_string(raw);
        let Mode::Replace(allow) = self.mode else {
            self.path.push(PathSegment::Key(key.clone()));
            self.report_marks(&key);
            self.path.pop();
            return key;
        };
        let Some(new) = redact_string(raw, None, None, allow) else { return key };
        let taken = taken.get_or_insert_with(|| member_names(self.text, opening));
        let unique = unique_name(&new, |name| taken.iter().any(|other| other == name));
        taken.push(unique.clone());
        self.splice(start, start + raw.len(), &unique);
        key
    }

    fn splice(&mut self, start: usize, end: usize, new: &str) {
        self.out.push_str(&self.text[self.copied..start]);
        self.out.push_str(new);
        self.copied = end;
    }
}

fn member_names(text: &str, opening: usize) -> Vec<String> {
    let ignore = &mut |_: String, _: &str| {};
    let mut walker = JsonWalker::new(text, opening + 1, Mode::Locate(ignore));
    let mut names = Vec::new();
    walker.skip_whitespace();
    while walker.peek() == Some(b'"') {
        names.push(walker.read_raw_string().to_owned());
        walker.skip_whitespace();
        walker.at += 1;
        walker.walk_value(None, None);
        walker.skip_comma();
    }
    names
}

fn decode_string(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    serde_json::from_str(&format!("\"{raw}\"")).map_or(Cow::Borrowed(raw), Cow::Owned)
}

/// Returns the raw string with its secrets replaced, or `None` if it has none.
fn redact_string(
    raw: &str,
    hint: Option<ValueHint>,
    next: Option<NextElement>,
    allow: &AllowList,
) -> Option<String> {
    let mut raw = Cow::Borrowed(raw);
    for _ in 0..super::MAX_ROUNDS {
        let text = decode_string(&raw);
        let hint = match next {
            Some(NextElement::ValueHint(hint)) => Some(hint),
            Some(NextElement::CurlUser | NextElement::Password(..)) | None => hint,
        };
        let mut found = scan::find_secrets(&text, hint, allow);
        if found.is_empty() && !text.contains(MARK) {
            let start = match next {
                Some(NextElement::CurlUser) => find_password_start(&text).map(|start| (start, "basic_auth")),
                Some(NextElement::Password(start, rule)) => Some((start, rule)),
                Some(NextElement::ValueHint(_)) | None => None,
            };
            let start = start.filter(|(start, _)| !allow.allows(&text[*start..]));
            found.extend(start.map(|(start, rule)| scan::SecretSpan { start, end: text.len(), rule }));
        }
        if found.is_empty() {
            break;
        }
        let offsets = raw_offsets(&raw);
        let at =
            |n: usize| offsets.as_ref().map_or(n, |offsets| offsets.get(n).copied().unwrap_or(raw.len()));
        raw = Cow::Owned(replace_secrets(&raw, &found, at));
    }
    match raw {
        Cow::Borrowed(_) => None,
        Cow::Owned(new) => Some(new),
    }
}

/// Maps each byte of the decoded string to its offset in the raw one; `None` if both are the same.
fn raw_offsets(raw: &str) -> Option<Vec<usize>> {
    if !raw.contains('\\') {
        return None;
    }
    let mut offsets = Vec::with_capacity(raw.len() + 1);
    let bytes = raw.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (raw_len, decoded_len) = match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(b'u')) => {
                let unit =
                    |at: usize| raw.get(at + 2..at + 6).and_then(|hex| u32::from_str_radix(hex, 16).ok());
                match unit(at).unwrap_or_default() {
                    0xd800..=0xdbff => (12, 4),
                    0..=0x7f => (6, 1),
                    0x80..=0x7ff => (6, 2),
                    _ => (6, 3),
                }
            }
            (b'\\', _) => (2, 1),
            _ => (1, 1),
        };
        offsets.extend(std::iter::repeat_n(at, decoded_len));
        at += raw_len;
    }
    offsets.push(raw.len());
    Some(offsets)
}
