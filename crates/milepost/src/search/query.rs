//! Parses what a user types: words, "phrases", prefix* and -excluded words. Anything else is plain text. Takes
//! text and returns terms and the expressions for the index, which are valid for every input. Pure.

use super::SearchKind;
use super::stop_words::is_stop_word;
use super::tokens::{Token, TokenKind, tokenize};

/// Maximum number of terms. Further words of a longer query are ignored.
const MOST_TERMS: usize = 24;
/// Minimum number of characters of a word for which words with the same start are similar.
const LONG_WORD: usize = 6;
/// Minimum number of characters of a prefix. A shorter one would match almost everything.
const SHORTEST_PREFIX: usize = 2;

/// Something that a document should contain: a word, or several words in sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Term {
    /// The folded words, in sequence.
    pub(super) words: Vec<String>,
    /// The stem of a single word, or the word itself.
    pub(super) stem: Option<String>,
    /// The start of similar words, for a single long word.
    pub(super) similar: Option<String>,
    /// Whether the last word is the start of a word.
    pub(super) is_prefix: bool,
}

/// A parsed query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ParsedQuery {
    /// Expressions of which a document should match all.
    all: Vec<String>,
    /// Phrases in quotation marks, which every document must contain.
    required: Vec<String>,
    excluded: Vec<String>,
    /// The single words and short sequences by which documents are ranked.
    pub(super) terms: Vec<Term>,
    /// The kinds that the words of the query ask for, such as decisions for "what did we decide".
    pub(super) kinds: Vec<SearchKind>,
    /// Whether the query contains a file name or a path.
    pub(super) is_path: bool,
}

/// A part of the query as it was typed.
struct Chunk<'a> {
    text: &'a str,
    is_phrase: bool,
    is_excluded: bool,
    is_prefix: bool,
}

impl ParsedQuery {
    /// Parses a query. With `prefix_last`, its last word may be incomplete.
    pub(super) fn parse(text: &str, prefix_last: bool) -> Self {
        let mut chunks = split(text);
        if prefix_last && let Some(last) = chunks.last_mut() {
            let is_complete = text.ends_with(char::is_whitespace) || last.is_phrase || last.is_excluded;
            last.is_prefix |= !is_complete;
        }
        if chunks.iter().all(|chunk| chunk.is_excluded) {
            chunks.iter_mut().for_each(|chunk| chunk.is_excluded = false);
        }
        let mut query = Self::default();
        let is_stop_chunk =
            |chunk: &Chunk<'_>| !chunk.is_phrase && !chunk.is_prefix && is_stop_word(chunk.text);
        let only_stop_words = chunks.iter().filter(|chunk| !chunk.is_excluded).all(is_stop_chunk);
        for chunk in &chunks {
            let tokens = tokenize(chunk.text);
            if tokens.is_empty() || query.terms.len() >= MOST_TERMS {
                continue;
            }
            if chunk.is_excluded {
                query.excluded.push(phrase(&tokens, Some("words"), chunk.is_prefix));
                continue;
            }
            if !chunk.is_phrase {
                query.note_intent(chunk.text, &tokens);
            }
            if is_stop_chunk(chunk) && !only_stop_words {
                continue;
            }
            query.add(chunk, &tokens);
        }
        query.terms.truncate(MOST_TERMS);
        query
    }

    fn add(&mut self, chunk: &Chunk<'_>, tokens: &[Token]) {
        if chunk.is_phrase {
            self.required.push(phrase(tokens, Some("words"), chunk.is_prefix));
            let basic: Vec<_> = basic(tokens).collect();
            self.terms.extend(sequence(&basic, chunk.is_prefix));
            return;
        }
        let own = terms_of(tokens, chunk.is_prefix);
        let mut choices = vec![phrase(tokens, None, chunk.is_prefix)];
        if tokens.len() > 1 {
            let basic: Vec<Token> = basic(tokens).cloned().collect();
            choices.push(phrase(&basic, None, chunk.is_prefix));
            if let [.., Token { kind: TokenKind::Identifier, text, range, .. }] = tokens
                && range.start == tokens[0].range.start
            {
                choices.push(quoted(text, chunk.is_prefix));
            }
        } else if let [term] = own.as_slice() {
            choices.extend(term.stem.iter().map(|stem| quoted(stem, false)));
        }
        choices.dedup();
        self.all.push(format!("({})", choices.join(" OR ")));
        self.terms.extend(own);
    }

    /// Notes which kinds of documents a word asks for.
    fn note_intent(&mut self, text: &str, tokens: &[Token]) {
        let stem =
            tokens.first().map(|token| token.stem.as_deref().unwrap_or(&token.text)).unwrap_or_default();
        let kind = match stem {
            "decid" | "decis" | "chose" | "choos" => Some(SearchKind::Decision),
            "fail" | "error" | "crash" | "panic" | "failur" => Some(SearchKind::Failure),
            "ask" | "prompt" => Some(SearchKind::Prompt),
            _ => None,
        };
        self.kinds.extend(kind);
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let name_parts = text.split(['/', '.']).filter(|part| part.contains(is_name)).count();
        self.is_path |= name_parts > 1 && tokens.len() > 1 && !text.ends_with(['.', '/']);
    }

    /// Whether there is nothing to search for.
    pub(super) fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The expression for documents that match everything.
    pub(super) fn match_all(&self) -> String {
        self.with_exclusions(self.required.iter().chain(&self.all).cloned().collect::<Vec<_>>().join(" AND "))
    }

    /// The expression for documents in which all terms follow each other.
    pub(super) fn match_sequence(&self) -> String {
        let words: Vec<&str> =
            self.terms.iter().flat_map(|term| term.words.iter().map(String::as_str)).collect();
        self.with_exclusions(quoted(&words.join(" "), false))
    }

    /// The expression for documents that match at least one of the chosen terms, and every phrase in quotation marks.
    pub(super) fn match_some(&self, is_chosen: impl Fn(usize) -> bool) -> String {
        let chosen = self.terms.iter().enumerate().filter(|(n, _)| is_chosen(*n));
        let some = chosen.map(|(_, term)| term.expression(true)).collect::<Vec<_>>().join(" OR ");
        let parts = self.required.iter().cloned().chain([format!("({some})")]);
        self.with_exclusions(parts.collect::<Vec<_>>().join(" AND "))
    }

    fn with_exclusions(&self, expression: String) -> String {
        match self.excluded.as_slice() {
            [] => expression,
            excluded => format!("({expression}) NOT ({})", excluded.join(" OR ")),
        }
    }
}

impl Term {
    /// The expression for documents with this term.
    pub(super) fn expression(&self, with_similar: bool) -> String {
        let mut choices = vec![quoted(&self.words.join(" "), self.is_prefix)];
        choices.extend(self.stem.iter().map(|stem| quoted(stem, false)));
        if with_similar {
            choices.extend(self.similar.iter().map(|start| quoted(start, true)));
        }
        if choices.len() == 1 { choices.remove(0) } else { format!("({})", choices.join(" OR ")) }
    }

    fn word(token: &Token, is_prefix: bool) -> Self {
        let length = token.text.chars().count();
        let is_inflected =
            token.kind == TokenKind::Word && !token.text.contains(|c: char| c.is_ascii_digit());
        let similar = (is_inflected && length >= LONG_WORD).then(|| {
            let kept = (length - length / 4).max(5);
            token.text.chars().take(kept).collect::<String>()
        });
        Self {
            words: vec![token.text.clone()],
            stem: token.stem.clone(),
            similar,
            is_prefix: is_prefix && length >= SHORTEST_PREFIX,
        }
    }
}

/// Splits a query into words and phrases.
fn split(text: &str) -> Vec<Chunk<'_>> {
    let is_quote = |c: char| matches!(c, '"' | '“' | '”' | '„');
    let mut chunks = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_excluded = first == '-' && rest[1..].starts_with(|c: char| c.is_alphanumeric() || is_quote(c));
        let body = if is_excluded { &rest[1..] } else { rest };
        let quote = body.chars().next().filter(|c| is_quote(*c));
        let (text, after, is_phrase) = match quote {
            Some(quote) => {
                let inner = &body[quote.len_utf8()..];
                let end = inner.find(is_quote).unwrap_or(inner.len());
                let close = inner[end..].chars().next().map_or(0, char::len_utf8);
                (&inner[..end], &inner[end + close..], true)
            }
            None => {
                let end = body.find(|c: char| c.is_whitespace() || is_quote(c)).unwrap_or(body.len());
                (&body[..end], &body[end..], false)
            }
        };
        let is_prefix = text.len() > 1 && text.ends_with('*');
        let text = text.strip_suffix('*').unwrap_or(text);
        chunks.push(Chunk { text, is_phrase, is_excluded, is_prefix });
        rest = after.trim_start();
    }
    chunks
}

/// The tokens without whole identifiers.
fn basic(tokens: &[Token]) -> impl Iterator<Item = &Token> {
    tokens.iter().filter(|token| token.kind != TokenKind::Identifier)
}

/// The terms of one word as it was typed: its words, and pairs of characters where words are not separated.
fn terms_of(tokens: &[Token], is_prefix: bool) -> Vec<Term> {
    let basic: Vec<&Token> = basic(tokens).collect();
    let mut terms = Vec::new();
    for group in basic.chunk_by(|a, b| a.kind == b.kind && a.kind == TokenKind::Character) {
        if let [only] = group {
            let is_last = basic.last().is_some_and(|last| std::ptr::eq(*last, *only));
            terms.push(Term::word(only, is_prefix && is_last));
        } else {
            terms.extend(group.windows(2).flat_map(|pair| sequence(pair, false)));
        }
    }
    terms
}

/// One term of words in sequence.
fn sequence(tokens: &[&Token], is_prefix: bool) -> Option<Term> {
    match tokens {
        [] => None,
        [only] => Some(Term { stem: None, similar: None, ..Term::word(only, is_prefix) }),
        _ => Some(Term {
            words: tokens.iter().map(|token| token.text.clone()).collect(),
            stem: None,
            similar: None,
            is_prefix,
        }),
    }
}

/// The expression for words in sequence, in one column or in any.
fn phrase(tokens: &[Token], column: Option<&str>, is_prefix: bool) -> String {
    let words: Vec<&str> = tokens.iter().map(|token| token.text.as_str()).collect();
    let is_prefix =
        is_prefix && tokens.last().is_some_and(|last| last.text.chars().count() >= SHORTEST_PREFIX);
    let column = column.map_or_else(String::new, |column| format!("{column} : "));
    column + &quoted(&words.join(" "), is_prefix)
}

/// Words next to each other, as an expression.
pub(super) fn quoted(words: &str, is_prefix: bool) -> String {
    format!("\"{}\"{}", words.replace('"', "\"\""), if is_prefix { "*" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> String {
        ParsedQuery::parse(text, false).match_all()
    }

    #[test]
    fn words_phrases_prefixes_and_exclusions() {
        assert_eq!(all("retry"), r#"("retry" OR "retri")"#);
        assert_eq!(all("\"connection pool\" size"), r#"words : "connection pool" AND ("size")"#);
        assert_eq!(all("refac*"), r#"("refac"*)"#);
        assert_eq!(all("cache -redis"), r#"(("cache" OR "cach")) NOT (words : "redis")"#);
        assert_eq!(all("-x"), r#"("x")"#);
        assert_eq!(all("well-known"), r#"("well known")"#);
        assert_eq!(all("did we"), r#"("did") AND ("we")"#, "stop words alone are searched for");
        assert_eq!(all("did we cache"), r#"("cache" OR "cach")"#);
    }

    #[test]
    fn identifiers_match_in_every_spelling() {
        let expected = r#"("parse config parseconfig" OR "parse config" OR "parseconfig")"#;
        assert_eq!(all("parseConfig"), expected);
        assert_eq!(all("parse_config"), expected);
    }

    #[test]
    fn characters_are_a_phrase_and_pairs() {
        assert_eq!(all("登录超时"), r#"("登 录 超 时")"#);
        let some = ParsedQuery::parse("登录超时", false).match_some(|_| true);
        assert_eq!(some, r#"("登 录" OR "录 超" OR "超 时")"#);
    }

    #[test]
    fn the_last_word_can_be_incomplete() {
        let query = |text| ParsedQuery::parse(text, true).match_all();
        assert_eq!(query("token buc"), r#"("token") AND ("buc"*)"#);
        assert_eq!(query("token "), r#"("token")"#);
        assert_eq!(query("a"), r#"("a")"#);
    }

    #[test]
    fn nothing_to_search_for() {
        for text in ["", "  ", "\"\"", "***", "-", "--", "?!", "\"", "-\""] {
            assert!(ParsedQuery::parse(text, false).is_empty(), "{text}");
        }
    }
}
