//! Makes text safe for a terminal. Recorded text, file names, settings and arguments can contain escape
//! sequences that retitle or clear a window, or reorder the text on a line. Takes text of any origin and
//! returns text without such sequences, or JSON of the same value.

use milepost::internal::brief::is_unsafe;

/// Replaces an unsafe character.
const REPLACEMENT: char = '·';

/// Every style sequence that this program writes: by its own helpers and in clap's help. Tests check that the
/// list is complete.
const STYLES: [&str; 8] =
    ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[4m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"];

/// Makes text safe for one line. Every unsafe character becomes `·`, including line breaks.
pub(crate) fn clean(text: &str) -> String {
    replaced(text, is_unsafe)
}

/// Makes multi-line text safe. Newlines and tabs are kept, CRLF becomes a newline, and a byte order mark at
/// the start is removed.
pub(crate) fn clean_lines(text: &str) -> String {
    lines(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Makes multi-line text safe and keeps this program's own style sequences. Recorded text in it must already
/// be clean.
pub(crate) fn clean_styled(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\x1b') {
        safe.push_str(&lines(&rest[..at]));
        rest = &rest[at..];
        let style = STYLES.into_iter().find(|style| rest.starts_with(style)).unwrap_or_default();
        if style.is_empty() {
            safe.push(REPLACEMENT);
        }
        safe.push_str(style);
        rest = &rest[style.len().max(1)..];
    }
    safe.push_str(&lines(rest));
    safe
}

/// Escapes unsafe characters in JSON strings as `\u` and four hex digits. The value stays the same.
pub(crate) fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // A raw carriage return in valid JSON is always white space between values.
            '\r' => safe.push(' '),
            c if is_unsafe_in_lines(c) => {
                let mut units = [0; 2];
                safe.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
            }
            c => safe.push(c),
        }
    }
    safe
}

fn is_unsafe_in_lines(c: char) -> bool {
    c != '\n' && c != '\t' && is_unsafe(c)
}

fn lines(text: &str) -> String {
    replaced(&text.replace("\r\n", "\n"), is_unsafe_in_lines)
}

fn replaced(text: &str, which: fn(char) -> bool) -> String {
    text.chars().map(|c| if which(c) { REPLACEMENT } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::present::{Output, format, table};

    const HOSTILE: &str = "\u{1b}]0;pwned\u{7}\u{1b}[2J\u{9b}31m\u{7f}\u{202e}\u{2028}\r";

    #[test]
    fn unsafe_characters_are_known() {
        let ranges = [
            ('\0', '\u{1f}'),
            ('\u{7f}', '\u{9f}'),
            ('\u{ad}', '\u{ad}'),
            ('\u{61c}', '\u{61c}'),
            ('\u{200b}', '\u{200b}'),
            ('\u{200e}', '\u{200f}'),
            ('\u{2028}', '\u{202e}'),
            ('\u{2060}', '\u{2064}'),
            ('\u{2066}', '\u{2069}'),
            ('\u{feff}', '\u{feff}'),
            ('\u{e0000}', '\u{e007f}'),
        ];
        let listed = |c: char| ranges.iter().any(|(first, last)| (*first..=*last).contains(&c));
        for c in '\0'..=char::MAX {
            assert_eq!(is_unsafe(c), listed(c), "{c:?}");
        }
    }

    #[test]
    fn no_escape_reaches_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\nc\td"), "a·[2Jb·c·d");
        assert_eq!(clean(HOSTILE), "·]0;pwned··[2J·31m····");
        assert_eq!(clean_lines("a\x1bb\nc\td\u{2029}"), "a·b\nc\td·");
        assert_eq!(clean_lines("\u{feff}---\r\na\rb\u{feff}\r\n"), "---\na·b·\n");
        assert_eq!(clean("שלום 👩‍💻 é"), "שלום 👩‍💻 é", "ordinary text is unchanged");
    }

    #[test]
    fn of_all_sequences_only_our_styles_stay() {
        assert_eq!(
            clean_styled("\x1b[1mx\x1b[0m\n\x1b[2J\x1b[1;31m\x1b]8;;u\x07\x1b"),
            "\x1b[1mx\x1b[0m\n·[2J·[1;31m·]8;;u··"
        );
        assert_eq!(clean_styled("a\r\nb\tc\u{202e}\r"), "a\nb\tc··");
        assert_eq!(clean_styled(HOSTILE), clean(HOSTILE));
    }

    #[test]
    fn every_style_of_this_program_stays() {
        let mut texts = vec![
            format::bold("x"),
            format::dim("x"),
            format::red("x"),
            format::yellow("x"),
            format::green("x"),
            format::cyan("x"),
            crate::cli::full_command().render_long_help().ansi().to_string(),
        ];
        let output = Output::for_color(anstream::ColorChoice::Always);
        let mut shown = table::Table::new(&output, &[table::Column::new("A")]);
        for status in ["in_progress", "failed", "completed", "paused"] {
            shown.add_row([table::status(status.parse().unwrap())]);
        }
        texts.push(shown.lines());
        for text in &texts {
            assert!(text.contains('\x1b'), "{text:?}");
            assert_eq!(clean_styled(text), *text);
        }
        for style in STYLES {
            assert!(texts.iter().any(|text| text.contains(style)), "{style:?} is never written");
        }
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ HOSTILE: [HOSTILE, "\u{e0041}\u{feff}\n\t\"\\é👩‍💻"] });
        let text = json(&value.to_string());
        assert!(!text.chars().any(is_unsafe), "{text}");
        assert!(
            text.contains("\\u009b") && text.contains("\\udb40\\udc41") && text.contains("é👩‍💻"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
        let spread = "{\"a\":\r\n\t[1.0,\r2]}";
        assert_eq!(json(spread), "{\"a\": \n\t[1.0, 2]}");
    }
}
