//! Text for pictures and reports: recorded text on one line, of bounded length and without characters that affect
//! other text; time zones; short counts.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use milepost::internal::brief::one_line as escape;
use unicode_width::UnicodeWidthChar as _;

/// Recorded text on one line, with at most `columns` columns. Characters that affect how other text is displayed are
/// made visible.
pub(crate) fn one_line(text: &str, columns: usize) -> String {
    // Escaping a megabyte to show a hundred characters would be slow.
    let end = text.char_indices().nth(columns + 1).map_or(text.len(), |(end, _)| end);
    let start: String =
        text[..end].chars().map(|c| if is_no_character(c) { '\u{fffd}' } else { c }).collect();
    shorten(&escape(&start), columns)
}

/// XML cannot contain these, not even escaped.
fn is_no_character(c: char) -> bool {
    matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// The beginning of a text, with at most `columns` columns.
pub(super) fn shorten(text: &str, columns: usize) -> String {
    let width = |c: char| c.width().unwrap_or(1);
    if text.chars().map(width).sum::<usize>() <= columns {
        return text.to_owned();
    }
    let mut used = 1;
    let mut short: String = text
        .chars()
        .take_while(|c| {
            used += width(*c);
            used <= columns
        })
        .collect();
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

/// The width of a text in pixels, roughly, in a proportional font of this size.
pub(super) fn pixels(text: &str, size: f64) -> f64 {
    text.chars().map(|c| c.width().unwrap_or(1) as f64 * 0.58 * size).sum()
}

/// The time between two instants; zero if the second one is earlier.
pub(crate) fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

/// The offset of a time zone from UTC.
pub(crate) fn zone_name(at: Timestamp, zone: &TimeZone) -> String {
    match zone.to_offset(at).seconds() {
        0 => "UTC".to_owned(),
        _ => format!("UTC{}", at.to_zoned(zone.clone()).strftime("%:z")),
    }
}

/// A count in at most four characters: `7`, `412`, `1k`, `10k`, `2M`.
pub(super) fn short_count(n: usize) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{}k", n / 1000),
        _ => format!("{}M", (n / 1_000_000).min(999)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_text_is_bounded_and_visible() {
        assert_eq!(one_line("plain", 10), "plain");
        assert_eq!(one_line("one\ntwo", 40), "one\\u{a}two");
        assert_eq!(one_line("ab\u{202e}cd", 40), "ab\\u{202e}cd");
        assert_eq!(one_line("a\u{ffff}b", 40), "a\u{fffd}b");
        assert_eq!(one_line("日本語日本語", 7), "日本語…");
        assert_eq!(one_line(&"x".repeat(1_000_000), 5), "xxxx…");
        assert_eq!(one_line("", 5), "");
    }

    #[test]
    fn counts_are_short() {
        assert_eq!(short_count(12_345), "12k");
    }
}
