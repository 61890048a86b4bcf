//! Formats values for a terminal: colours, paths, times and wrapped text. Escapes recorded text with `escape`.
//! Ages, sizes and counts are formatted by the library.

use std::time::Duration;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;
pub(crate) use milepost::internal::humanize::{age as ago, bytes, count, counted};
use milepost::model::PathText;
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

pub(crate) use super::escape::{clean, clean_lines};
use milepost::internal::humanize::duration;

fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

pub(crate) fn bold(text: &str) -> String {
    styled(Style::new().bold(), text)
}

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

pub(crate) fn green(text: &str) -> String {
    styled(AnsiColor::Green.on_default(), text)
}

/// Red text, for removed lines.
pub(crate) fn plain_red(text: &str) -> String {
    styled(AnsiColor::Red.on_default(), text)
}

pub(crate) fn cyan(text: &str) -> String {
    styled(AnsiColor::Cyan.on_default(), text)
}

/// Wraps text to `width` columns. `indent` is the column at which the text starts; continuation lines are
/// indented by it.
pub(crate) fn wrap(text: &str, indent: usize, width: Option<usize>) -> String {
    const NARROWEST: usize = 20;
    let Some(width) = width else { return text.to_owned() };
    textwrap::wrap(text, width.saturating_sub(indent).max(NARROWEST)).join(&format!("\n{:indent$}", ""))
}

/// Shortens a path to `width` columns and keeps its end, which distinguishes paths best.
pub(crate) fn shorten_path(path: &str, width: usize) -> String {
    if path.width() <= width {
        return path.to_owned();
    }
    let from_end: Vec<&str> = path.graphemes(true).rev().collect();
    let mut used = 1;
    let fits = |part: &&&str| {
        used += part.width();
        used <= width
    };
    let end: Vec<&str> = from_end.iter().take_while(fits).copied().collect();
    std::iter::once("…").chain(end.into_iter().rev()).collect()
}

/// Adds one line for each value that is present. Its label takes `indent` columns. Long values are wrapped.
pub(crate) fn push_fields(
    text: &mut String,
    width: Option<usize>,
    indent: usize,
    label: impl Fn(&str) -> String,
    fields: impl IntoIterator<Item = (&'static str, Option<String>)>,
) {
    for (name, value) in fields {
        let line = value.map(|value| format!("{}{}\n", label(name), wrap(&clean(&value), indent, width)));
        text.push_str(&line.unwrap_or_default());
    }
}

/// Adds a heading and wrapped recorded lines below it. Adds nothing if there are no lines.
pub(crate) fn push_section(text: &mut String, width: Option<usize>, heading: &str, lines: &[String]) {
    /// Continuation lines are indented further than the first, which has two columns.
    const INDENT: usize = 4;
    if !lines.is_empty() {
        text.push_str(&format!("\n{}\n", bold(heading)));
        for line in lines {
            text.push_str(&format!("  {}\n", wrap(&clean(line), INDENT, width)));
        }
    }
}

/// Formats a path. A path that is not UTF-8 is shown as base64.
pub(crate) fn path(path: &PathText) -> String {
    match path {
        PathText::Text(text) => clean(text),
        PathText::Bytes { b64 } => format!("base64:{b64}"),
    }
}

/// Formats the working time of a run, in whole seconds.
pub(crate) fn worked(ms: u64) -> String {
    duration(Duration::from_secs(ms / 1000))
}

/// Formats a time to the second.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// Formats a time for a column whose heading names the time zone, UTC.
pub(crate) fn short_time(at: Timestamp) -> String {
    at.strftime("%m-%d %H:%M:%S").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_keep_their_end() {
        assert_eq!(shorten_path("/home/u/app/milepost.db", 40), "/home/u/app/milepost.db");
        assert_eq!(shorten_path("/home/u/app/milepost.db", 16), "…app/milepost.db");
    }

    #[test]
    fn wrapped_text_is_aligned_with_its_start() {
        assert_eq!(wrap("one two three four five six", 4, Some(24)), "one two three four\n    five six");
        assert_eq!(wrap("one two", 4, None), "one two");
    }
}
