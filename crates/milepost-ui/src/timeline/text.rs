//! Text for pictures and reports: recorded text on one line, of bounded length and without characters that affect
//! other text; durations, sizes and counts for people.

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

/// A duration in its two largest units: `3 d 4 h`, `1 h 30 min`, `2 min 5 s`.
pub(crate) fn duration(length: Duration) -> String {
    let seconds = length.as_secs();
    let two = |large: u64, unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{large} {unit}"),
        _ => format!("{large} {unit} {small} {small_unit}"),
    };
    match seconds {
        0 if length.is_zero() => "0 s".to_owned(),
        0 => format!("{} ms", length.as_millis().max(1)),
        1..60 => format!("{seconds} s"),
        60..3600 => two(seconds / 60, "min", if seconds < 600 { seconds % 60 } else { 0 }, "s"),
        3600..86_400 => two(seconds / 3600, "h", seconds % 3600 / 60, "min"),
        86_400..31_536_000 => two(seconds / 86_400, "d", seconds % 86_400 / 3600, "h"),
        _ => two(seconds / 31_536_000, "y", seconds % 31_536_000 / 86_400, "d"),
    }
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

/// A number of bytes: `312 MB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if n < 1000 {
        return format!("{n} B");
    }
    let mut value = n as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(value < 9.95);
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// A number with its noun, which gets an `s` unless the number is 1.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// A number with commas between groups of three digits.
pub(crate) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
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
    fn durations_have_two_units() {
        let text = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(text(0), "0 s");
        assert_eq!(text(59), "59 s");
        assert_eq!(text(125), "2 min 5 s");
        assert_eq!(text(1800), "30 min");
        assert_eq!(text(5400), "1 h 30 min");
        assert_eq!(text(2 * 86_400 + 7200), "2 d 2 h");
        assert_eq!(text(u64::MAX / 1000), "584942417 y 129 d");
    }

    #[test]
    fn sizes_and_counts_are_short() {
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(312_000_000), "312 MB");
        assert_eq!(bytes(1_500), "1.5 kB");
        assert_eq!(bytes(u64::MAX), "18 EB");
        assert_eq!(counted(1, "checkpoint"), "1 checkpoint");
        assert_eq!(counted(12_345, "checkpoint"), "12,345 checkpoints");
        assert_eq!(short_count(12_345), "12k");
    }
}
