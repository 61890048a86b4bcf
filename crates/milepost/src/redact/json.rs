//! Secrets in a JSON text: every string and every name, whatever its escapes; all that is not replaced stays as it was,
//! byte for byte. In: valid JSON. Out: valid JSON of the same shape.

use std::borrow::Cow;

use super::commands::Arguments;
use super::keyword_values::Beside;
use super::structures::password_of;
use super::{AllowList, MARK, marked, scan};

/// A step on the way to a place.
#[derive(Debug, Clone)]
enum Step<'a> {
    Key(Cow<'a, str>),
    Index(usize),
}

/// What is done with the strings of a document.
enum Work<'w> {
    /// Secrets are replaced, except for those that are allowed.
    Replace(&'w AllowList),
    /// What was replaced is counted: pointer and text.
    Locate(&'w mut dyn FnMut(String, &str)),
}

struct Walker<'a, 'w> {
    text: &'a str,
    at: usize,
    /// Up to here the text was copied.
    copied: usize,
    out: String,
    path: Vec<Step<'a>>,
    work: Work<'w>,
}

/// A document without its secrets; `None` if it has none. `name` is the member it stands at.
pub(super) fn replaced(text: &str, name: &str, allow: &AllowList) -> Option<String> {
    let beside = Beside::name(name);
    if beside.is_none() && !scan::may_hold(text) {
        return None;
    }
    let mut walker =
        Walker { text, at: 0, copied: 0, out: String::new(), path: Vec::new(), work: Work::Replace(allow) };
    walker.value(beside, None);
    if walker.copied == 0 {
        return None;
    }
    walker.out.push_str(&text[walker.copied..]);
    Some(walker.out)
}

/// Tells of every string and name in which something was replaced, with its pointer under `root`.
pub(super) fn locate(text: &str, root: &str, tell: &mut dyn FnMut(String, &str)) {
    if !text.contains(MARK) {
        return;
    }
    let path = vec![Step::Key(Cow::Borrowed(root))];
    let mut walker = Walker { text, at: 0, copied: 0, out: String::new(), path, work: Work::Locate(tell) };
    walker.value(None, None);
}

/// What an element of an array says about the next one.
#[derive(Clone, Copy)]
enum Next {
    Beside(Beside),
    /// A user and a password for curl.
    User,
    /// From here on it is a password of this rule.
    Password(usize, &'static str),
}

impl<'a> Walker<'a, '_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            pointer.push('/');
            match step {
                Step::Key(key) => pointer.push_str(&key.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer
    }

    fn value(&mut self, beside: Option<Beside>, next: Option<Next>) {
        self.space();
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.array(beside),
            Some(b'"') => {
                self.string(beside, next);
            }
            _ => {
                while !matches!(self.peek(), None | Some(b',' | b']' | b'}')) {
                    self.at += 1;
                }
            }
        }
        self.space();
    }

    fn array(&mut self, beside: Option<Beside>) {
        self.at += 1;
        self.space();
        let mut next = None;
        let mut curl = false;
        let mut arguments = Arguments::default();
        for index in 0.. {
            if !matches!(self.peek(), Some(byte) if byte != b']') {
                break;
            }
            self.path.push(Step::Index(index));
            let start = self.at;
            let is_text = self.peek() == Some(b'"');
            if is_text {
                let password = arguments.take(&decoded(self.ahead()));
                next = password.map(|(from, rule)| Next::Password(from, rule)).or(next);
            }
            self.value(beside, next.take());
            self.path.pop();
            if is_text {
                let word = self.text[start..self.at].trim_end().trim_matches('"');
                curl |= index == 0 && word.ends_with("curl");
                next = Beside::flag(word)
                    .map(Next::Beside)
                    .or((curl && Beside::user(word)).then_some(Next::User));
            }
            if self.peek() == Some(b',') {
                self.at += 1;
                self.space();
            }
        }
        self.at += 1;
    }

    fn object(&mut self) {
        let opening = self.at;
        self.at += 1;
        self.space();
        let mut taken: Option<Vec<String>> = None;
        // A variable or a header written as an object of two: its name, then its value.
        let mut named = None;
        while self.peek() == Some(b'"') {
            let key = self.key(opening, &mut taken);
            self.space();
            self.at += 1;
            self.space();
            let beside = Beside::name(&key).or(if key.eq_ignore_ascii_case("value") { named } else { None });
            let names =
                ["name", "key", "header", "variable"].iter().any(|name| key.eq_ignore_ascii_case(name));
            let start = self.at;
            self.path.push(Step::Key(key));
            self.value(beside, None);
            self.path.pop();
            if names {
                named = Beside::name(self.text[start..self.at].trim_end().trim_matches('"'));
            }
            if self.peek() == Some(b',') {
                self.at += 1;
                self.space();
            }
        }
        self.at += 1;
    }

    /// Walks over a string and gives what stands between its quotes.
    fn raw(&mut self) -> &'a str {
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

    /// What stands between the quotes of the string that begins here.
    fn ahead(&mut self) -> &'a str {
        let start = self.at;
        let raw = self.raw();
        self.at = start;
        raw
    }

    fn string(&mut self, beside: Option<Beside>, next: Option<Next>) {
        let start = self.at + 1;
        let raw = self.raw();
        let found = match &mut self.work {
            Work::Replace(allow) => without(raw, beside, next, allow),
            Work::Locate(_) => {
                self.tell(&decoded(raw));
                None
            }
        };
        if let Some(new) = found {
            self.splice(start, start + raw.len(), &new);
        }
    }

    fn tell(&mut self, text: &str) {
        if text.contains(MARK) {
            let pointer = self.pointer();
            if let Work::Locate(tell) = &mut self.work {
                tell(pointer, text);
            }
        }
    }

    /// Walks over a name. One that is replaced must not become the name of another member.
    fn key(&mut self, opening: usize, taken: &mut Option<Vec<String>>) -> Cow<'a, str> {
        let start = self.at + 1;
        let raw = self.raw();
        let key = decoded(raw);
        let Work::Replace(allow) = self.work else {
            self.path.push(Step::Key(key.clone()));
            self.tell(&key);
            self.path.pop();
            return key;
        };
        let Some(new) = without(raw, None, None, allow) else { return key };
        let taken = taken.get_or_insert_with(|| names(self.text, opening));
        let mut unique = new.clone();
        for n in 2.. {
            if !taken.contains(&unique) {
                break;
            }
            unique = format!("{new}#{n}");
        }
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

/// The names of an object's members, as they are written.
fn names(text: &str, opening: usize) -> Vec<String> {
    let ignore = &mut |_: String, _: &str| {};
    let mut walker = Walker {
        text,
        at: opening + 1,
        copied: 0,
        out: String::new(),
        path: Vec::new(),
        work: Work::Locate(ignore),
    };
    let mut names = Vec::new();
    walker.space();
    while walker.peek() == Some(b'"') {
        names.push(walker.raw().to_owned());
        walker.space();
        walker.at += 1;
        walker.value(None, None);
        if walker.peek() == Some(b',') {
            walker.at += 1;
            walker.space();
        }
    }
    names
}

/// What a string stands for.
fn decoded(raw: &str) -> Cow<'_, str> {
    if !raw.contains('\\') {
        return Cow::Borrowed(raw);
    }
    serde_json::from_str(&format!("\"{raw}\"")).map_or(Cow::Borrowed(raw), Cow::Owned)
}

/// A string without its secrets, as it is written; `None` if it has none.
fn without(raw: &str, beside: Option<Beside>, next: Option<Next>, allow: &AllowList) -> Option<String> {
    let mut raw = Cow::Borrowed(raw);
    for _ in 0..super::ROUNDS {
        let text = decoded(&raw);
        let beside = match next {
            Some(Next::Beside(beside)) => Some(beside),
            Some(Next::User | Next::Password(..)) | None => beside,
        };
        let mut found = scan::scan(&text, beside, allow);
        if found.is_empty() && !text.contains(MARK) {
            let start = match next {
                Some(Next::User) => password_of(&text).map(|start| (start, "basic_auth")),
                Some(Next::Password(start, rule)) => Some((start, rule)),
                Some(Next::Beside(_)) | None => None,
            };
            let start = start.filter(|(start, _)| !allow.allows(&text[*start..]));
            found.extend(start.map(|(start, rule)| scan::Found { start, end: text.len(), rule }));
        }
        if found.is_empty() {
            break;
        }
        let offsets = offsets(&raw);
        let at =
            |n: usize| offsets.as_ref().map_or(n, |offsets| offsets.get(n).copied().unwrap_or(raw.len()));
        let mut new = String::with_capacity(raw.len());
        let mut copied = 0;
        for one in found {
            new.push_str(&raw[copied..at(one.start)]);
            new.push_str(&marked(one.rule));
            copied = at(one.end);
        }
        new.push_str(&raw[copied..]);
        raw = Cow::Owned(new);
    }
    match raw {
        Cow::Borrowed(_) => None,
        Cow::Owned(new) => Some(new),
    }
}

/// For each byte of what a string stands for where it is written; `None` where both are the same.
fn offsets(raw: &str) -> Option<Vec<usize>> {
    if !raw.contains('\\') {
        return None;
    }
    let mut offsets = Vec::with_capacity(raw.len() + 1);
    let bytes = raw.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let (written, stands_for) = match (bytes[at], bytes.get(at + 1)) {
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
        offsets.extend(std::iter::repeat_n(at, stands_for));
        at += written;
    }
    offsets.push(raw.len());
    Some(offsets)
}
