//! Strict validation of untrusted JSON. Takes bytes and returns the same bytes as text, or an error with its
//! JSON pointer. Rejects duplicate keys, nesting deeper than 100 levels, numbers that overflow an f64,
//! invalid UTF-8 and anything that is not JSON.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::model::{JsonPath, RawJson, ValidationError};

/// The maximum nesting depth of arrays and objects.
pub const MAX_DEPTH: usize = 100;

/// Validates a whole document and returns it as text.
pub fn check(bytes: &[u8]) -> Result<&str, ValidationError> {
    let text = utf8(bytes)?;
    let mut reader = Reader { text: text.as_bytes(), at: 0 };
    reader.space();
    reader.value(&JsonPath::Root, 1)?;
    reader.space();
    if reader.at < bytes.len() {
        return Err(reader.fail(&JsonPath::Root, "more text after the end of the document"));
    }
    Ok(text)
}

/// Decodes a document as UTF-8.
pub fn utf8(bytes: &[u8]) -> Result<&str, ValidationError> {
    let invalid = |e: std::str::Utf8Error| format!("invalid UTF-8 at byte {}", e.valid_up_to());
    std::str::from_utf8(bytes).map_err(|e| ValidationError::document(invalid(e)))
}

/// Validates a document and returns it verbatim.
pub fn raw(bytes: &[u8]) -> Result<RawJson, ValidationError> {
    RawJson::parse(check(bytes)?)
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn fail(&self, path: &JsonPath<'_>, what: &str) -> ValidationError {
        let what = if self.at >= self.text.len() { "the document ends too early" } else { what };
        let before = &self.text[..self.at.min(self.text.len())];
        let line = 1 + before.iter().filter(|b| **b == b'\n').count();
        ValidationError::at(path, format!("{what} (line {line}, byte {})", self.at))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, path: &JsonPath<'_>, depth: usize) -> Result<(), ValidationError> {
        match self.peek() {
            Some(b'{' | b'[') if depth > MAX_DEPTH => {
                Err(ValidationError::document(format!("nests deeper than {MAX_DEPTH} levels")))
            }
            Some(b'{') => self.object(path, depth),
            Some(b'[') => self.array(path, depth),
            Some(b'"') => self.string(path).map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(path),
            Some(b't') => self.word(path, b"true"),
            Some(b'f') => self.word(path, b"false"),
            Some(b'n') => self.word(path, b"null"),
            _ => Err(self.fail(path, "not JSON: expected a value")),
        }
    }

    fn word(&mut self, path: &JsonPath<'_>, word: &[u8]) -> Result<(), ValidationError> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.fail(path, "not JSON: expected a value"))
    }

    fn object(&mut self, path: &JsonPath<'_>, depth: usize) -> Result<(), ValidationError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut seen = Keys::default();
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.fail(path, "not JSON: expected a member name in double quotes"));
            }
            let key = self.string(path)?;
            if !seen.insert(key.clone()) {
                return Err(self.fail(&path.key(&key), "appears twice in its object"));
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.fail(&path.key(&key), "not JSON: expected ':'"));
            }
            self.at += 1;
            self.space();
            self.value(&path.key(&key), depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.fail(&path.key(&key), "not JSON: expected ',' or '}'")),
            }
            self.space();
        }
    }

    fn array(&mut self, path: &JsonPath<'_>, depth: usize) -> Result<(), ValidationError> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        for index in 0.. {
            self.value(&path.index(index), depth + 1)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                _ => return Err(self.fail(&path.index(index), "not JSON: expected ',' or ']'")),
            }
            self.space();
        }
        self.at += 1;
        Ok(())
    }

    /// Scans a string and returns its decoded text.
    fn string(&mut self, path: &JsonPath<'_>) -> Result<Cow<'a, str>, ValidationError> {
        let start = self.at;
        self.at += 1;
        let mut escaped = false;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.at += 2;
                }
                Some(0..=0x1f) => return Err(self.fail(path, "a control character in a string")),
                Some(_) => self.at += 1,
                None => return Err(self.fail(path, "a string is not terminated")),
            }
        }
        self.at += 1;
        let quoted = &self.text[start..self.at];
        // The whole text is valid UTF-8 and a quote is a complete character, so this slice is valid too.
        let inner = std::str::from_utf8(&quoted[1..quoted.len() - 1]).unwrap_or_default();
        if !escaped {
            return Ok(Cow::Borrowed(inner));
        }
        // Decoding validates the escapes and makes keys comparable. A lone surrogate is an invalid escape.
        serde_json::from_slice(quoted).map(Cow::Owned).map_err(|_| {
            let what = format!("a string with an invalid escape: {inner}");
            ValidationError::at(path, what.chars().take(200).collect::<String>())
        })
    }

    fn digits(&mut self, path: &JsonPath<'_>) -> Result<(), ValidationError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.fail(path, "not JSON: expected a digit"));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self, path: &JsonPath<'_>) -> Result<(), ValidationError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
            if matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err(self.fail(path, "not JSON: a number with a leading zero"));
            }
        } else {
            self.digits(path)?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits(path)?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits(path)?;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(n) if n.is_finite() => Ok(()),
            _ => {
                let shown: String = text.chars().take(40).collect();
                Err(ValidationError::at(path, format!("{shown} is too large for a 64-bit float")))
            }
        }
    }
}

/// The keys of one object. Most objects have few keys, so a list is used until a set pays off.
#[derive(Default)]
struct Keys<'a> {
    list: Vec<Cow<'a, str>>,
    set: HashSet<Cow<'a, str>>,
}

impl<'a> Keys<'a> {
    fn insert(&mut self, key: Cow<'a, str>) -> bool {
        if self.set.is_empty() {
            if self.list.contains(&key) {
                return false;
            }
            self.list.push(key);
            if self.list.len() > 16 {
                self.set.extend(self.list.drain(..));
            }
            return true;
        }
        self.set.insert(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("", "", "ends too early")]
    #[case("nope", "", "expected a value")]
    #[case("{\"a\":NaN}", "/a", "expected a value")]
    #[case("{\"a\":Infinity}", "/a", "expected a value")]
    #[case("{\"a\":1e400}", "/a", "too large")]
    #[case("{\"a\":{\"b\":1,\"b\":2}}", "/a/b", "twice")]
    #[case("{\"a\":1,\"\\u0061\":2}", "/a", "twice")]
    #[case("{\"x\":[1,{\"~/\":01}]}", "/x/1/~0~1", "leading zero")]
    #[case("{} {}", "", "more text")]
    #[case("{\"a\":1,}", "", "member name")]
    #[case("[1,]", "/1", "expected a value")]
    #[case("{\"a\":\"\\ud800\"}", "/a", "invalid escape")]
    #[case("{\"a\":\"\u{1}\"}", "/a", "control character")]
    #[case("{\"a\":\"b", "/a", "too early")]
    #[case("{\"a\":-}", "/a", "a digit")]
    fn refuses(#[case] text: &str, #[case] path: &str, #[case] why: &str) {
        let error = check(text.as_bytes()).unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(error.message.contains(why), "{error}");
    }

    #[test]
    fn depth_and_bytes() {
        let nest = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert!(check(nest(100).as_bytes()).is_ok());
        assert!(check(nest(101).as_bytes()).unwrap_err().message.contains("deeper than 100"));
        assert!(check(nest(10_000).as_bytes()).is_err());
        assert!(check(b"\"\xff\"").unwrap_err().message.contains("UTF-8 at byte 1"));
        assert!(check("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn many_keys_are_compared_too() {
        let mut text = String::from("{");
        for i in 0..100 {
            text.push_str(&format!("\"k{i}\":{i},"));
        }
        assert!(check((text.clone() + "\"k100\":0}").as_bytes()).is_ok());
        assert_eq!(check((text + "\"k42\":0}").as_bytes()).unwrap_err().path, "/k42");
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_lenient_parser_on_what_is_json(text in "[\\[\\]{}:,\"a0-9.eE+\\- \\\\ntrufalse]{0,24}") {
            if check(text.as_bytes()).is_ok() {
                proptest::prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
            }
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..64)) {
            let _ = check(&bytes);
        }
    }
}
