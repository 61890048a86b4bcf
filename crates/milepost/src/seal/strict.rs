//! Checks JSON from outside strictly. In: bytes. Out: the same bytes as text, or what is wrong and its JSON pointer.
//! Refuses duplicate keys, depth over 100, numbers that no f64 holds, invalid UTF-8 and anything that is not JSON.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::model::{JsonPath, RawJson, ValidationError};

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 100;

/// Checks a whole document and gives it back as text.
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

/// The text of a document.
pub fn utf8(bytes: &[u8]) -> Result<&str, ValidationError> {
    let invalid = |e: std::str::Utf8Error| format!("invalid UTF-8 at byte {}", e.valid_up_to());
    std::str::from_utf8(bytes).map_err(|e| ValidationError::document(invalid(e)))
}

/// Checks a document and takes it verbatim.
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
            _ => Err(self.fail(path, "not JSON: no value starts like this")),
        }
    }

    fn word(&mut self, path: &JsonPath<'_>, word: &[u8]) -> Result<(), ValidationError> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(());
        }
        Err(self.fail(path, "not JSON: no value starts like this"))
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
                return Err(self.fail(path, "not JSON: a member's name in double quotes is needed"));
            }
            let key = self.string(path)?;
            if !seen.insert(key.clone()) {
                return Err(self.fail(&path.key(&key), "stands twice in its object"));
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.fail(&path.key(&key), "not JSON: ':' is needed"));
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
                _ => return Err(self.fail(&path.key(&key), "not JSON: ',' or '}' is needed")),
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
                _ => return Err(self.fail(&path.index(index), "not JSON: ',' or ']' is needed")),
            }
            self.space();
        }
        self.at += 1;
        Ok(())
    }

    /// Walks a string and gives its decoded text.
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
                None => return Err(self.fail(path, "a string without an end")),
            }
        }
        self.at += 1;
        let quoted = &self.text[start..self.at];
        // The whole text is UTF-8, and quotes are where characters begin and end.
        let inner = std::str::from_utf8(&quoted[1..quoted.len() - 1]).unwrap_or_default();
        if !escaped {
            return Ok(Cow::Borrowed(inner));
        }
        // Escapes are checked, and keys compared, by what they stand for; a lone surrogate stands for nothing.
        serde_json::from_slice(quoted).map(Cow::Owned).map_err(|_| {
            let what = format!("a string with an escape that stands for no character: {inner}");
            ValidationError::at(path, what.chars().take(200).collect::<String>())
        })
    }

    fn digits(&mut self, path: &JsonPath<'_>) -> Result<(), ValidationError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.fail(path, "not JSON: a digit is needed"));
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
                Err(ValidationError::at(
                    path,
                    format!("{shown} is larger than any number a program can hold"),
                ))
            }
        }
    }
}

/// Keys of one object; most have few, so a list is searched before a set is made.
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
    #[case("nope", "", "no value starts like this")]
    #[case("{\"a\":NaN}", "/a", "no value starts like this")]
    #[case("{\"a\":Infinity}", "/a", "no value starts like this")]
    #[case("{\"a\":1e400}", "/a", "larger than any number")]
    #[case("{\"a\":{\"b\":1,\"b\":2}}", "/a/b", "twice")]
    #[case("{\"a\":1,\"\\u0061\":2}", "/a", "twice")]
    #[case("{\"x\":[1,{\"~/\":01}]}", "/x/1/~0~1", "leading zero")]
    #[case("{} {}", "", "more text")]
    #[case("{\"a\":1,}", "", "member's name")]
    #[case("[1,]", "/1", "no value starts")]
    #[case("{\"a\":\"\\ud800\"}", "/a", "stands for no character")]
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
