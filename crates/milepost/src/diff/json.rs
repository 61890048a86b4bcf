//! Compares two JSON texts by value and collects the differences. The order of members and the escaping of
//! strings do not matter; numbers are equal only if their text is equal. Reads each text once, regardless of
//! its depth.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::FieldChange;
use crate::model::{RawJson, ValidationError};

/// Maximum nesting depth; deeper values are compared as text.
const DEEPEST: usize = 128;

/// Paths that are not compared: the caller compares file lists as sets, and the other values are sizes, times
/// and memory usage.
const LEFT_OUT: [&str; 9] = [
    "/workspace/memory",
    "/workspace/files_modified",
    "/workspace/git/modified",
    "/workspace/git/staged",
    "/workspace/git/untracked",
    "/workspace/git/renamed",
    "/workspace/watched/files",
    "/workspace/watched/sizes",
    "/step_state/todo_compliance/checked_at",
];

/// A parsed value and its text.
struct Node<'a> {
    text: &'a str,
    kind: Kind<'a>,
}

enum Kind<'a> {
    /// A number, true, false, null, or a value that is nested too deeply.
    Plain,
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    /// Members, sorted by name.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// Adds a change for each difference in the member `name`.
pub(super) fn compare(
    name: &str,
    before: Option<&str>,
    after: Option<&str>,
    changed: &mut Vec<FieldChange>,
) -> Result<(), ValidationError> {
    if before == after {
        return Ok(());
    }
    let (before, after) = (before.map(read), after.map(read));
    let mut comparison = Comparison { path: format!("/{}", escaped(name)), changed };
    comparison.values(before.as_ref(), after.as_ref())
}

/// Parses a text; invalid JSON is compared as plain text.
fn read(text: &str) -> Node<'_> {
    Reader { text, at: 0 }.value(0).unwrap_or(Node { text, kind: Kind::Plain })
}

struct Comparison<'c> {
    path: String,
    changed: &'c mut Vec<FieldChange>,
}

impl Comparison<'_> {
    fn values(&mut self, before: Option<&Node<'_>>, after: Option<&Node<'_>>) -> Result<(), ValidationError> {
        match (before, after) {
            (Some(a), Some(b)) if a.text == b.text => Ok(()),
            (Some(Node { kind: Kind::Object(a), .. }), Some(Node { kind: Kind::Object(b), .. })) => {
                self.objects(a, b)
            }
            (Some(Node { kind: Kind::List(a), .. }), Some(Node { kind: Kind::List(b), .. })) => {
                self.lists(a, b)
            }
            (Some(a), Some(b)) if a.equals(b) => Ok(()),
            (None, None) => Ok(()),
            (before, after) => {
                let raw = |node: Option<&Node<'_>>| node.map(|node| RawJson::parse(node.text)).transpose();
                let change =
                    FieldChange { path: self.path.clone(), before: raw(before)?, after: raw(after)? };
                self.changed.push(change);
                Ok(())
            }
        }
    }

    /// Compares a child value, whose path is the current path plus `step`.
    fn at(
        &mut self,
        step: &str,
        before: Option<&Node<'_>>,
        after: Option<&Node<'_>>,
    ) -> Result<(), ValidationError> {
        let length = self.path.len();
        self.path.push_str(step);
        let done = if LEFT_OUT.contains(&self.path.as_str()) { Ok(()) } else { self.values(before, after) };
        self.path.truncate(length);
        done
    }

    /// Compares two lists of members that are sorted by name.
    fn objects(
        &mut self,
        before: &[(Cow<'_, str>, Node<'_>)],
        after: &[(Cow<'_, str>, Node<'_>)],
    ) -> Result<(), ValidationError> {
        let (mut a, mut b) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let name = match (a.peek(), b.peek()) {
                (None, None) => return Ok(()),
                (Some(a), None) => &a.0,
                (None, Some(b)) => &b.0,
                (Some(a), Some(b)) => (&a.0).min(&b.0),
            };
            let step = format!("/{}", escaped(name));
            let before = a.next_if(|member| member.0 == *name).map(|member| &member.1);
            let after = b.next_if(|member| member.0 == *name).map(|member| &member.1);
            self.at(&step, before, after)?;
        }
    }

    fn lists(&mut self, before: &[Node<'_>], after: &[Node<'_>]) -> Result<(), ValidationError> {
        let key = if self.path == "/files" { "path" } else { "id" };
        if let (Some(a), Some(b)) = (keyed(before, key), keyed(after, key)) {
            return self.keyed_lists(&a, &b);
        }
        // Equal elements at both ends are skipped; the rest is compared by position.
        let start = before.iter().zip(after).take_while(|(a, b)| a.equals(b)).count();
        let (before, after) = (&before[start..], &after[start..]);
        let end = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a.equals(b)).count();
        let (before, after) = (&before[..before.len() - end], &after[..after.len() - end]);
        for i in 0..before.len().max(after.len()) {
            self.at(&format!("/{}", start + i), before.get(i), after.get(i))?;
        }
        Ok(())
    }

    fn keyed_lists(
        &mut self,
        before: &[(&str, &Node<'_>)],
        after: &[(&str, &Node<'_>)],
    ) -> Result<(), ValidationError> {
        let (old, new): (HashMap<_, _>, HashMap<_, _>) =
            (before.iter().copied().collect(), after.iter().copied().collect());
        for (id, node) in before {
            self.at(&format!("[{}]", escaped(id)), Some(node), new.get(id).copied())?;
        }
        for (id, node) in after.iter().filter(|(id, _)| !old.contains_key(id)) {
            self.at(&format!("[{}]", escaped(id)), None, Some(node))?;
        }
        // Files are a set. In other lists, the order of the common elements is part of the value.
        let in_both = |id: &&str| old.contains_key(id) && new.contains_key(id);
        let order =
            |list: &[(&str, _)]| list.iter().map(|(id, _)| *id).filter(in_both).map(str::to_owned).collect();
        let (was, is): (Vec<String>, Vec<String>) = (order(before), order(after));
        if was != is && self.path != "/files" {
            let path = format!("{}[]", self.path);
            let (before, after) = (Some(RawJson::of(&was)?), Some(RawJson::of(&is)?));
            self.changed.push(FieldChange { path, before, after });
        }
        Ok(())
    }
}

impl Node<'_> {
    /// Whether both have the same value.
    fn equals(&self, other: &Node<'_>) -> bool {
        self.text == other.text
            || match (&self.kind, &other.kind) {
                (Kind::Text(a), Kind::Text(b)) => a == b,
                (Kind::List(a), Kind::List(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b))
                }
                (Kind::Object(a), Kind::Object(b)) => {
                    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1.equals(&b.1))
                }
                _ => false,
            }
    }

    fn name(&self, key: &str) -> Option<&str> {
        let Kind::Object(members) = &self.kind else { return None };
        let at = members.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        let value = &members.get(at)?.1;
        match &value.kind {
            Kind::Text(text) => Some(text),
            Kind::Plain if value.text != "null" => Some(value.text),
            _ => None,
        }
    }
}

/// The elements with their keys; `None` unless every element has a unique key.
fn keyed<'n, 'a>(list: &'n [Node<'a>], key: &str) -> Option<Vec<(&'n str, &'n Node<'a>)>> {
    let mut seen = HashSet::with_capacity(list.len());
    list.iter()
        .map(|node| node.name(key).filter(|name| seen.insert(*name)).map(|name| (name, node)))
        .collect()
}

/// Escapes a name for a JSON pointer.
fn escaped(name: &str) -> Cow<'_, str> {
    if name.contains(['~', '/']) { name.replace('~', "~0").replace('/', "~1").into() } else { name.into() }
}

/// Parses JSON that was validated when it was saved; returns `None` if it is invalid anyway.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn value(&mut self, depth: usize) -> Option<Node<'a>> {
        let first = self.peek()?;
        let start = self.at;
        if depth > DEEPEST && matches!(first, b'{' | b'[') {
            self.skip()?;
            return Some(Node { text: &self.text[start..self.at], kind: Kind::Plain });
        }
        let kind = match first {
            b'"' => Kind::Text(self.string()?),
            b'[' => {
                let mut list = Vec::new();
                self.at += 1;
                while self.peek()? != b']' {
                    if !list.is_empty() {
                        self.take(b',')?;
                    }
                    list.push(self.value(depth + 1)?);
                }
                self.at += 1;
                Kind::List(list)
            }
            b'{' => {
                let mut members = Vec::new();
                self.at += 1;
                while self.peek()? != b'}' {
                    if !members.is_empty() {
                        self.take(b',')?;
                    }
                    self.peek()?;
                    let name = self.string()?;
                    self.take(b':')?;
                    members.push((name, self.value(depth + 1)?));
                }
                self.at += 1;
                members.sort_by(|a, b| a.0.cmp(&b.0));
                Kind::Object(members)
            }
            _ => {
                let rest = &self.text.as_bytes()[start..];
                let length = rest
                    .iter()
                    .take_while(|b| !matches!(b, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t'));
                self.at += length.count();
                Kind::Plain
            }
        };
        (self.at > start).then(|| Node { text: &self.text[start..self.at], kind })
    }

    fn string(&mut self) -> Option<Cow<'a, str>> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        self.at += 1;
        let mut plain = true;
        while *bytes.get(self.at)? != b'"' {
            let escape = bytes[self.at] == b'\\';
            plain &= !escape;
            self.at += if escape { 2 } else { 1 };
        }
        self.at += 1;
        let text = self.text.get(start..self.at)?;
        if plain { Some(text.get(1..text.len() - 1)?.into()) } else { serde_json::from_str(text).ok() }
    }

    /// Skips a value without parsing its content.
    fn skip(&mut self) -> Option<()> {
        let mut open = 0usize;
        loop {
            match self.peek()? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => (open, self.at) = (open + 1, self.at + 1),
                b'}' | b']' => (open, self.at) = (open - 1, self.at + 1),
                _ => self.at += 1,
            }
            if open == 0 {
                return Some(());
            }
        }
    }
}
