//! Splits text into words for the index and for queries, with the same rules for both. Takes original text and
//! returns folded words with their position in it. Characters of scripts that are written without spaces are
//! words of their own, and identifiers are split into their parts. Pure.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::stem::stem;

/// Maximum number of bytes of a word. The rest of a longer one, such as encoded data, is not searched.
const LONGEST: usize = 64;

/// One word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// The position in the original text.
    pub(super) range: Range<usize>,
    /// The folded word: lower case, without accents.
    pub(super) text: String,
    /// The stem, if it differs from the word.
    pub(super) stem: Option<String>,
    pub(super) kind: TokenKind,
}

/// What a token stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A word, or a part of an identifier.
    Word,
    /// One character of a script that is written without spaces.
    Character,
    /// A whole identifier. It follows its parts.
    Identifier,
}

/// The words of a text, in order.
pub(super) fn tokenize(text: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len() / 6);
    let mut chars = text.char_indices().peekable();
    while let Some((start, c)) = chars.next() {
        if is_separate(c) {
            let range = start..start + c.len_utf8();
            let text: String = c.nfkc().flat_map(char::to_lowercase).collect();
            tokens.push(Token { range, text, stem: None, kind: TokenKind::Character });
        } else if is_word_char(c) {
            let mut end = start + c.len_utf8();
            while let Some((at, next)) =
                chars.next_if(|(_, c)| (is_word_char(*c) || *c == '_') && !is_separate(*c))
            {
                end = at + next.len_utf8();
            }
            push_word(&mut tokens, text, start..end);
        }
    }
    tokens
}

/// Adds a word or, if it is an identifier, its parts and then the whole of it.
fn push_word(tokens: &mut Vec<Token>, text: &str, range: Range<usize>) {
    let word = &text[range.clone()];
    let parts = identifier_parts(word);
    for part in &parts {
        let range = range.start + part.start..range.start + part.end;
        let text_of_part = &text[range.clone()];
        let text = fold(text_of_part);
        if !text.is_empty() {
            let stem = folded_stem(text_of_part, &text);
            tokens.push(Token { range, stem, text, kind: TokenKind::Word });
        }
    }
    if parts.len() > 1 {
        let whole: String = word.split('_').map(fold).collect();
        let whole = cut(&whole).to_owned();
        tokens.push(Token { range, text: whole, stem: None, kind: TokenKind::Identifier });
    }
}

/// The parts of an identifier such as `parseConfigFile` or `parse_config_file`. One part for an ordinary word.
fn identifier_parts(word: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    for (n, (at, c)) in chars.iter().enumerate() {
        let before = n.checked_sub(1).map(|n| chars[n].1);
        let is_next_lower = chars.get(n + 1).is_some_and(|(_, c)| c.is_lowercase());
        let begins = match before {
            Some('_') => true,
            Some(before) if c.is_uppercase() => {
                before.is_lowercase() || before.is_numeric() || (before.is_uppercase() && is_next_lower)
            }
            _ => false,
        };
        if *c == '_' || begins {
            if start < *at {
                parts.push(start..*at);
            }
            start = if *c == '_' { at + 1 } else { *at };
        }
    }
    if start < word.len() {
        parts.push(start..word.len());
    }
    parts
}

/// The folded stem of a word; `None` if it is the folded word itself. Accents distinguish endings in some languages, so
/// that they are removed after the ending.
fn folded_stem(word: &str, folded: &str) -> Option<String> {
    let stem = if word.is_ascii() {
        stem(folded)
    } else {
        let lower: String =
            word.nfc().flat_map(char::to_lowercase).map(|c| if c == 'ё' { 'е' } else { c }).collect();
        stem(cut(&lower)).map(|stem| fold(&stem))
    };
    stem.filter(|stem| stem != folded && !stem.is_empty())
}

/// Lower case, without accents and with the usual spelling of letters that have several.
pub(super) fn fold(word: &str) -> String {
    if word.is_ascii() {
        return cut(word).to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(word.len());
    for c in word.nfkd().filter(|c| !is_accent(*c) && !c.is_whitespace()).flat_map(char::to_lowercase) {
        match c {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' => folded.push('d'),
            'ı' => folded.push('i'),
            'ς' => folded.push('σ'),
            'ى' => folded.push('ي'),
            'ة' => folded.push('ه'),
            'ٱ' => folded.push('ا'),
            // Lower case can consist of a letter and an accent.
            c if is_accent(c) => {}
            c => folded.push(c),
        }
    }
    cut(&folded).to_owned()
}

/// The start of a word, if it is too long.
fn cut(word: &str) -> &str {
    &word[..word.floor_char_boundary(LONGEST)]
}

/// Whether a combining character does not distinguish words: accents, and the vowel signs of Hebrew and Arabic.
fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{61a}' | '\u{640}' | '\u{64b}'..='\u{65f}' | '\u{670}')
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || (!c.is_ascii() && is_combining_mark(c))
}

/// Whether a character belongs to a script that is written without spaces, or with spaces that searches ignore:
/// Han, kana, hangul, Thai, Lao, Khmer and Burmese.
pub(super) fn is_separate(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{1100}'..='\u{11ff}' | '\u{3041}'..='\u{30ff}' | '\u{3131}'..='\u{318e}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}' | '々' | '〇')
        && c.is_alphanumeric()
        || matches!(c, 'ー' | 'ｰ')
}

/// A text as the index stores it: all words, and in a column of their own the stems that differ from them.
pub(super) struct IndexedText {
    pub(super) words: String,
    pub(super) stems: String,
}

impl IndexedText {
    pub(super) fn of(text: &str) -> Self {
        let (mut words, mut stems) = (String::with_capacity(text.len() + text.len() / 4), String::new());
        for token in tokenize(text) {
            push(&mut words, &token.text);
            if let Some(stem) = &token.stem {
                push(&mut stems, stem);
            }
        }
        Self { words, stems }
    }
}

fn push(all: &mut String, word: &str) {
    if !all.is_empty() {
        all.push(' ');
    }
    all.push_str(word);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokenize(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn words_are_folded() {
        assert_eq!(words("Größe, café ÉCOLE"), ["grosse", "cafe", "ecole"]);
        assert_eq!(words("ＡＰＩ　ｖ２"), ["api", "v2"]);
        assert_eq!(words("don't E0382 utf-8"), ["don", "t", "e0382", "utf", "8"]);
    }

    #[test]
    fn identifiers_and_paths_are_found_whole_and_in_parts() {
        assert_eq!(words("parseConfigFile"), ["parse", "config", "file", "parseconfigfile"]);
        assert_eq!(words("parse_config_file"), ["parse", "config", "file", "parseconfigfile"]);
        assert_eq!(words("HTTPServer2"), ["http", "server2", "httpserver2"]);
        assert_eq!(words("src/api/user_store.rs"), ["src", "api", "user", "store", "userstore", "rs"]);
        assert_eq!(words("__init__ _x"), ["init", "x"]);
    }

    #[test]
    fn scripts_without_spaces_are_split_into_characters() {
        assert_eq!(words("登录timeout错误"), ["登", "录", "timeout", "错", "误"]);
        assert_eq!(words("データ移行"), ["デ", "ー", "タ", "移", "行"]);
        assert_eq!(words("로그인 실패"), ["로", "그", "인", "실", "패"]);
    }

    proptest! {
        #[test]
        fn every_position_is_in_the_text(text in any::<String>()) {
            for token in tokenize(&text) {
                prop_assert!(text.get(token.range.clone()).is_some());
                prop_assert!(!token.text.contains(char::is_whitespace));
                prop_assert!(token.text.len() <= LONGEST + 8);
            }
        }

        #[test]
        fn folding_twice_changes_nothing(text in "\\PC{0,40}") {
            for token in tokenize(&text).into_iter().filter(|token| token.kind == TokenKind::Word) {
                prop_assert_eq!(fold(&token.text), token.text);
            }
        }
    }
}
