//! Formats ages, durations, sizes and counts for people. Every interface uses these functions, so that the terminal,
//! the local page and reports show a value in the same way. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// Formats how long ago `then` was: `just now`, `40 s ago`, `3 d ago`.
pub fn age(then: Timestamp, now: Timestamp) -> String {
    match u64::try_from(now.duration_since(then).as_secs()) {
        Err(_) => "in the future".to_owned(),
        Ok(0..5) => "just now".to_owned(),
        Ok(s @ 5..60) => format!("{s} s ago"),
        Ok(s @ 60..3600) => format!("{} min ago", s / 60),
        Ok(s @ 3600..86_400) => format!("{} h ago", s / 3600),
        Ok(s) => format!("{} d ago", s / 86_400),
    }
}

/// Formats a duration in its two largest units: `3 d 4 h`, `1 h 30 min`, `2 min 5 s`. Seconds are left out from ten
/// minutes on.
pub fn duration(length: Duration) -> String {
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

/// Formats a size in bytes with a binary unit: `1.5 KiB`.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} B");
    }
    let mut size = n as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Formats a number with commas between groups of three digits.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun, which gets an `s` unless the count is 1.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let said = |seconds| age(now - jiff::SignedDuration::from_secs(seconds), now);
        assert_eq!(said(0), "just now");
        assert_eq!(said(59), "59 s ago");
        assert_eq!(said(200), "3 min ago");
        assert_eq!(said(90_000), "1 d ago");
        assert_eq!(said(-60), "in the future");
    }

    #[test]
    fn durations_have_two_units() {
        let text = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(text(0), "0 s");
        assert_eq!(text(59), "59 s");
        assert_eq!(text(125), "2 min 5 s");
        assert_eq!(text(1801), "30 min");
        assert_eq!(text(5400), "1 h 30 min");
        assert_eq!(text(2 * 86_400 + 7200), "2 d 2 h");
        assert_eq!(text(u64::MAX / 1000), "584942417 y 129 d");
        assert_eq!(duration(Duration::from_millis(7)), "7 ms");
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(counted(1, "checkpoint"), "1 checkpoint");
        assert_eq!(counted(12_345, "checkpoint"), "12,345 checkpoints");
    }
}
