//! Parses JSON and JSONC settings with `jsonc-parser`, and keeps byte positions. Takes a text and returns its
//! values, commas and comments with their positions, or the line of the first error.

use std::ops::Range;

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged as _;
use jsonc_parser::tokens::Token;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

/// The JSON dialect that a program accepts in its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Plain JSON.
    Json,
    /// JSON with comments and trailing commas.
    Jsonc,
}

/// A value and its position. Equality ignores positions.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Object(Vec<Item>),
    Array(Vec<Item>),
    String(String),
    /// A number, a boolean or null, as written.
    Literal(String),
}

/// A member of an object, or an element of an array.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The name, in an object.
    pub(super) name: Option<String>,
    /// From the name, or the value in an array, to the end of the value.
    pub(super) span: Range<usize>,
    pub(super) value: Node,
    /// Position of the comma after it.
    pub(super) comma: Option<usize>,
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Node {
    pub(super) fn items(&self) -> &[Item] {
        match &self.kind {
            Kind::Object(items) | Kind::Array(items) => items,
            Kind::String(_) | Kind::Literal(_) => &[],
        }
    }

    pub(super) fn items_mut(&mut self) -> Option<&mut Vec<Item>> {
        match &mut self.kind {
            Kind::Object(items) | Kind::Array(items) => Some(items),
            Kind::String(_) | Kind::Literal(_) => None,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Comment {
    pub(super) span: Range<usize>,
    /// Whether it runs to the end of its line.
    pub(super) is_line: bool,
}

/// A syntax error and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(super) line: usize,
    pub(super) message: String,
}

impl std::fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Parses a whole text without a byte order mark.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<(Node, Vec<Comment>), SyntaxError> {
    // The parser rejects comments only if it does not return them as tokens.
    let comments = match dialect {
        Dialect::Json => CommentCollectionStrategy::Separate,
        Dialect::Jsonc => CommentCollectionStrategy::AsTokens,
    };
    let collect = CollectOptions { comments, tokens: true };
    let error = |line, message: String| SyntaxError { line, message };
    let parsed = parse_to_ast(text, &collect, &options(dialect)).map_err(|e| {
        let message = e.kind().to_string();
        let (first, rest) = message.split_at(message.chars().next().map_or(0, char::len_utf8));
        error(e.line_display(), format!("{}{rest}", first.to_lowercase()))
    })?;
    let root = parsed.value.ok_or_else(|| error(1, "a value is missing".into()))?;
    let (mut comments, mut tokens) = (Vec::new(), Vec::new());
    for token in parsed.tokens.unwrap_or_default() {
        let span = token.range.start..token.range.end;
        match token.token {
            Token::CommentLine(_) => comments.push(Comment { span, is_line: true }),
            Token::CommentBlock(_) => comments.push(Comment { span, is_line: false }),
            token => tokens.push((span.start, token == Token::Comma)),
        }
    }
    if dialect == Dialect::Json {
        // The parser accepts some strings and white space that are not valid JSON.
        if let Err(e) = serde_json::from_str::<serde::de::IgnoredAny>(text) {
            let message = e.to_string();
            let message = message.split(" at line ").next().unwrap_or_default();
            return Err(error(e.line(), message.to_owned()));
        }
    }
    Ok((node(text, &root, &tokens), comments))
}

fn options(dialect: Dialect) -> ParseOptions {
    ParseOptions {
        allow_comments: dialect == Dialect::Jsonc,
        allow_trailing_commas: dialect == Dialect::Jsonc,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Converts a value of the parser. `tokens` contains the start of every token, and whether it is a comma.
fn node(text: &str, value: &Value<'_>, tokens: &[(usize, bool)]) -> Node {
    let item = |name: Option<String>, span: Range<usize>, value: &Value<'_>| {
        let next = tokens.get(tokens.partition_point(|(start, _)| *start < span.end));
        let comma = next.filter(|(_, is_comma)| *is_comma).map(|(start, _)| *start);
        Item { name, span, value: node(text, value, tokens), comma }
    };
    let member = |member: &ObjectProp<'_>| {
        item(Some(member.name.as_str().to_owned()), member.start()..member.end(), &member.value)
    };
    let kind = match value {
        Value::Object(object) => Kind::Object(object.properties.iter().map(member).collect()),
        Value::Array(array) => Kind::Array(
            array.elements.iter().map(|value| item(None, value.start()..value.end(), value)).collect(),
        ),
        Value::StringLit(string) => Kind::String(string.value.clone().into_owned()),
        literal => Kind::Literal(literal.text(text).to_owned()),
    };
    Node { span: value.start()..value.end(), kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_and_where() {
        for (text, line, message) in [
            ("", 1, "value is missing"),
            ("{\n\"a\": 1\n\"b\": 2}", 2, "expected comma"),
            ("{\"a\": 1,}", 1, "trailing commas are not allowed"),
            ("{\n// no\n}", 2, "comments are not allowed"),
            ("{\"a\" 1}", 1, "expected colon"),
            ("{a: 1}", 1, "expected string for object property"),
            ("{\"a\": nope}", 1, "unexpected token"),
            ("{\"a\": \"x\ny\"}", 1, "control character"),
            ("{\"a\": \"\\q\"}", 1, "escape"),
            ("{} {}", 1, "more than one"),
            ("{\"a\": [1, 2}", 1, "unexpected close brace"),
            ("{\"a\": \"", 1, "unterminated"),
            ("{\"a\": 01}", 1, "comma"),
            ("{}\u{a0}", 1, "trailing characters"),
        ] {
            let error = parse(text, Dialect::Json).unwrap_err();
            let found = error.message.to_lowercase().contains(message);
            assert_eq!((error.line, found), (line, true), "{text:?}: {error}");
        }
        assert!(parse(&"[".repeat(100_000), Dialect::Json).unwrap_err().message.contains("depth"));
        assert!(parse("{/* a", Dialect::Jsonc).is_err());
    }

    #[test]
    fn accepts_comments_and_trailing_commas_where_they_are_allowed() {
        let text = "// head\r\n{ \"a\": [1, /* b */ 2,], // tail\r\n}\n";
        let (root, comments) = parse(text, Dialect::Jsonc).unwrap();
        assert_eq!(&text[root.items()[0].value.span.clone()], "[1, /* b */ 2,]");
        let comments: Vec<_> = comments.into_iter().map(|comment| &text[comment.span]).collect();
        assert_eq!(comments, ["// head", "/* b */", "// tail"]);
        assert!(parse(text, Dialect::Json).is_err());
    }
}
