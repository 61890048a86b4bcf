//! How things are said: ages, sizes, counts, colours. Text of others is made safe by `escape`.

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
use milepost::model::PathText;

pub(crate) use super::escape::{clean, clean_lines};

fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Bold text.
pub(crate) fn bold(text: &str) -> String {
    styled(Style::new().bold(), text)
}

/// Faint text.
pub(crate) fn dim(text: &str) -> String {
    styled(Style::new().dimmed(), text)
}

/// Red and bold text.
pub(crate) fn red(text: &str) -> String {
    styled(AnsiColor::Red.on_default().bold(), text)
}

/// Yellow and bold text.
pub(crate) fn yellow(text: &str) -> String {
    styled(AnsiColor::Yellow.on_default().bold(), text)
}

/// Green text.
pub(crate) fn green(text: &str) -> String {
    styled(AnsiColor::Green.on_default(), text)
}

/// Adds one line for each value that is there, behind its label.
pub(crate) fn push_fields(
    text: &mut String,
    label: impl Fn(&str) -> String,
    fields: impl IntoIterator<Item = (&'static str, Option<String>)>,
) {
    for (name, value) in fields {
        let line = value.map(|value| format!("{} {}\n", label(name), clean(&value)));
        text.push_str(&line.unwrap_or_default());
    }
}

/// Adds a section: a heading, and below it lines of others; nothing where there are none.
pub(crate) fn push_section(text: &mut String, heading: &str, lines: &[String]) {
    if !lines.is_empty() {
        text.push_str(&format!("\n{}\n", bold(heading)));
        lines.iter().for_each(|line| text.push_str(&format!("  {}\n", clean(line))));
    }
}

/// A path.
pub(crate) fn path(path: &PathText) -> String {
    match path {
        PathText::Text(text) => clean(text),
        PathText::Bytes { b64 } => format!("base64:{b64}"),
    }
}

/// A number with its thousands apart.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things.
pub(crate) fn counted(n: u64, one: &str) -> String {
    format!("{} {one}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Bytes for people.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
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

/// How long something took or lasts.
pub(crate) fn lasting(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// How long ago something was.
pub(crate) fn ago(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).as_secs();
    match u64::try_from(seconds) {
        Err(_) => "in the future".to_owned(),
        Ok(0..5) => "just now".to_owned(),
        Ok(s @ 5..60) => format!("{s} s ago"),
        Ok(s @ 60..3600) => format!("{} min ago", s / 60),
        Ok(s @ 3600..86_400) => format!("{} h ago", s / 3600),
        Ok(s) => format!("{} d ago", s / 86_400),
    }
}

/// A time, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000), "1,000");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(counted(1, "checkpoint"), "1 checkpoint");
    }

    #[test]
    fn ages_for_people() {
        let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
        let said = |seconds| ago(now - jiff::SignedDuration::from_secs(seconds), now);
        assert_eq!(said(0), "just now");
        assert_eq!(said(59), "59 s ago");
        assert_eq!(said(200), "3 min ago");
        assert_eq!(said(90_000), "1 d ago");
        assert_eq!(said(-60), "in the future");
    }
}
