//! Reads JSON, and JSON with comments and trailing commas, and remembers where everything stands.
//! In: a text. Out: nodes with byte spans, or the line and what is wrong there. Pure.

use std::ops::Range;

/// What a program accepts in its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Plain JSON.
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
}

/// How deep settings may nest: far beyond any real file, and far from the end of the stack.
const DEPTH: usize = 200;

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Object(Vec<Item>),
    Array(Vec<Item>),
    Text(String),
    /// A number, a truth value or null: its text says it.
    Plain,
}

/// A member of an object, or an element of an array.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The name, in an object.
    pub(super) name: Option<String>,
    /// From the name, or the value, to the end of the value.
    pub(super) span: Range<usize>,
    pub(super) value: Node,
    /// Where the comma after it stands.
    pub(super) comma: Option<usize>,
}

impl Node {
    pub(super) fn items(&self) -> &[Item] {
        match &self.kind {
            Kind::Object(items) | Kind::Array(items) => items,
            Kind::Text(_) | Kind::Plain => &[],
        }
    }
}

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) line: usize,
    pub(crate) what: String,
}

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

/// Reads a whole text; a byte order mark may stand before it.
pub(super) fn read(text: &str, dialect: Dialect) -> Result<Node, Wrong> {
    let mut reader = Reader { text: text.as_bytes(), at: bom(text), dialect };
    reader.blank()?;
    let root = reader.value(text, 0)?;
    reader.blank()?;
    match reader.peek() {
        None => Ok(root),
        Some(_) => Err(reader.wrong("more text after the end of the value")),
    }
}

/// The length of a byte order mark at the start.
pub(super) fn bom(text: &str) -> usize {
    if text.starts_with('\u{feff}') { 3 } else { 0 }
}

/// The end of a comment that starts at `at`, and whether it runs to the end of its line; `None` where none starts.
pub(super) fn comment(text: &[u8], at: usize) -> Option<(usize, bool)> {
    let rest = text.get(at..)?;
    if rest.starts_with(b"//") {
        let end = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
        // The return before a newline belongs to the newline.
        let end = if end > 0 && rest[end - 1] == b'\r' { end - 1 } else { end };
        return Some((at + end, true));
    }
    if rest.starts_with(b"/*") {
        let end = rest.windows(2).skip(2).position(|pair| pair == b"*/")?;
        return Some((at + end + 4, false));
    }
    None
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    dialect: Dialect,
}

impl Reader<'_> {
    fn wrong(&self, what: &str) -> Wrong {
        let before = &self.text[..self.at.min(self.text.len())];
        let what = if self.at >= self.text.len() { "the text ends too early" } else { what };
        Wrong { line: 1 + before.iter().filter(|b| **b == b'\n').count(), what: what.to_owned() }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips white space and, where they are allowed, comments.
    fn blank(&mut self) -> Result<(), Wrong> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                Some(b'/') if self.dialect == Dialect::Json => {
                    return Err(self.wrong("comments are not allowed in this file"));
                }
                Some(b'/') => match comment(self.text, self.at) {
                    Some((end, _)) => self.at = end,
                    None => return Err(self.wrong("a comment that does not end, or a stray slash")),
                },
                _ => return Ok(()),
            }
        }
    }

    fn value(&mut self, text: &str, depth: usize) -> Result<Node, Wrong> {
        let start = self.at;
        let kind = match self.peek() {
            Some(b'{' | b'[') if depth >= DEPTH => return Err(self.wrong("it nests too deep")),
            Some(b'{') => Kind::Object(self.items(text, depth, b'}')?),
            Some(b'[') => Kind::Array(self.items(text, depth, b']')?),
            Some(b'"') => Kind::Text(self.string(text)?),
            _ => {
                self.plain(text)?;
                Kind::Plain
            }
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn items(&mut self, text: &str, depth: usize, close: u8) -> Result<Vec<Item>, Wrong> {
        let mut items: Vec<Item> = Vec::new();
        self.at += 1;
        loop {
            self.blank()?;
            if self.peek() == Some(close) {
                let trailing = items.last().is_some_and(|item| item.comma.is_some());
                if trailing && self.dialect == Dialect::Json {
                    return Err(self.wrong("a comma stands before the end"));
                }
                self.at += 1;
                return Ok(items);
            }
            if items.last().is_some_and(|item| item.comma.is_none()) {
                return Err(self.wrong("a comma or the end is missing"));
            }
            let start = self.at;
            let name = if close == b'}' { Some(self.name(text)?) } else { None };
            let value = self.value(text, depth + 1)?;
            let span = start..self.at;
            self.blank()?;
            let comma = (self.peek() == Some(b',')).then_some(self.at);
            self.at += usize::from(comma.is_some());
            items.push(Item { name, span, value, comma });
        }
    }

    /// A name and its colon.
    fn name(&mut self, text: &str) -> Result<String, Wrong> {
        if self.peek() != Some(b'"') {
            return Err(self.wrong("a name in quotes is missing"));
        }
        let name = self.string(text)?;
        self.blank()?;
        if self.peek() != Some(b':') {
            return Err(self.wrong("a colon is missing"));
        }
        self.at += 1;
        self.blank()?;
        Ok(name)
    }

    fn string(&mut self, text: &str) -> Result<String, Wrong> {
        let start = self.at;
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(0..0x20) => {
                    return Err(self.wrong("a string runs over its line or holds a control character"));
                }
                Some(_) => self.at += 1,
                None => return Err(self.wrong("a string does not end")),
            }
        }
        self.at += 1;
        let quoted = text.get(start..self.at).unwrap_or_default();
        serde_json::from_str(quoted).map_err(|_| {
            self.at = start;
            self.wrong("a string holds an escape that does not exist")
        })
    }

    fn plain(&mut self, text: &str) -> Result<(), Wrong> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b)) {
            self.at += 1;
        }
        let word = text.get(start..self.at).unwrap_or_default();
        if serde_json::from_str::<serde::de::IgnoredAny>(word).is_err() {
            self.at = start;
            return Err(self.wrong("a value is missing, or is none that JSON knows"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_and_where() {
        for (text, line, what) in [
            ("", 1, "ends too early"),
            ("{\n\"a\": 1\n\"b\": 2}", 3, "comma or the end"),
            ("{\"a\": 1,}", 1, "before the end"),
            ("{// no\n}", 1, "comments are not allowed"),
            ("{\"a\" 1}", 1, "colon"),
            ("{a: 1}", 1, "name in quotes"),
            ("{\"a\": nope}", 1, "value is missing"),
            ("{\"a\": \"x\ny\"}", 1, "runs over its line"),
            ("{\"a\": \"\\q\"}", 1, "escape"),
            ("{} {}", 1, "more text"),
            ("{\"a\": [1, 2}", 1, "comma or the end"),
            ("{\"a\": \"", 1, "ends too early"),
        ] {
            let wrong = read(text, Dialect::Json).unwrap_err();
            assert_eq!((wrong.line, wrong.what.contains(what)), (line, true), "{text:?}: {wrong}");
        }
        assert!(read(&"[".repeat(100_000), Dialect::Json).unwrap_err().what.contains("deep"));
        assert!(read("{/* a", Dialect::Jsonc).is_err());
    }

    #[test]
    fn takes_comments_and_trailing_commas_where_they_are_allowed() {
        let text = "\u{feff}// head\r\n{ \"a\": [1, /* b */ 2,], // tail\r\n}\n";
        let root = read(text, Dialect::Jsonc).unwrap();
        assert_eq!(&text[root.items()[0].value.span.clone()], "[1, /* b */ 2,]");
        assert!(read(text, Dialect::Json).is_err());
    }
}
