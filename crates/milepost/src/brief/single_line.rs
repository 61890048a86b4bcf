//! Keeps recorded values on one line: names, branches and prompts can contain control characters. Takes
//! untrusted text and returns it with unsafe characters escaped, so that it cannot start or hide a line. All
//! text composed for a brief or an agent passes through here.

use std::borrow::Cow;

/// Whether a character affects how other text is displayed: control characters (C0, DEL, C1), marks that
/// change the text direction, line and paragraph separators, the byte order mark, and invisible characters.
/// Characters that join others, as in emoji, are safe.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{200b}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2064}'
                | '\u{2066}'..='\u{2069}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Escapes text so that it stays on one line. An unsafe character becomes `\u{…}` with its code point in hex;
/// a line break becomes `\u{a}`. A backslash that would start such an escape becomes `\u{5c}`, so that two
/// different texts never look the same.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) && !text.contains("\\u{") {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        let begins_escape = || text.get(at..).is_some_and(|rest| rest.starts_with("\\u{"));
        if is_unsafe(c) || c == '\\' && begins_escape() {
            line.extend(c.escape_unicode());
        } else {
            line.push(c);
        }
    }
    Cow::Owned(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_breaks_and_control_characters_are_escaped() {
        assert_eq!(one_line("a\n\n## b"), r"a\u{a}\u{a}## b");
        assert_eq!(one_line("a\r\u{1b}[2J\u{85}\u{2028}\u{202e}"), r"a\u{d}\u{1b}[2J\u{85}\u{2028}\u{202e}");
        assert_eq!(one_line(r"a\u{a}"), r"a\u{5c}u{a}", "a literal escape differs from an escaped character");
        for plain in ["src/a b.rs", r"C:\users\x", "שלום 👩‍💻 é", "# x | `y`"] {
            assert_eq!(one_line(plain), plain);
        }
    }
}
