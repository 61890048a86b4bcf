//! Makes recorded text fit to be shown: secrets redacted, characters that affect other text made visible, long text
//! cut. HTML is escaped where the text becomes part of a page.

use std::borrow::Cow;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use milepost::AllowList;
use milepost::internal::brief::is_unsafe;
use milepost::internal::redact::without_cut_word;

/// Maximum number of characters of a text in a list.
pub(crate) const LINE: usize = 240;
/// Maximum number of characters of a text that is shown in full.
pub(crate) const BLOCK: usize = 40_000;

/// Prepares the recorded text of a project.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    allow: &'a AllowList,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(allow: &'a AllowList) -> Self {
        Self { allow }
    }

    /// The text on one line, with at most `LINE` characters.
    pub(crate) fn line(&self, text: &str) -> String {
        self.prepare(text, LINE, |_| false)
    }

    /// The text with its line breaks, with at most `BLOCK` characters.
    pub(crate) fn block(&self, text: &str) -> String {
        self.prepare(text, BLOCK, |c| matches!(c, '\n' | '\t'))
    }

    /// Redacts a JSON document.
    pub(crate) fn json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.allow.redact_json(text, "").map_or(Cow::Borrowed(text), Cow::Owned)
    }

    fn prepare(&self, text: &str, limit: usize, keeps: impl Fn(char) -> bool) -> String {
        // Only the part that is shown is searched for secrets, and enough after it to recognise one at the cut.
        let searched = cut(text, limit.saturating_mul(2).saturating_add(4096)).0;
        let redacted = self.allow.redact_text(searched);
        let mut redacted = redacted.as_deref().unwrap_or(searched);
        if searched.len() < text.len() {
            redacted = without_cut_word(redacted);
        }
        let (shown, is_cut) = cut(redacted, limit);
        let mut visible = make_visible(shown, keeps).into_owned();
        if is_cut || searched.len() < text.len() {
            visible.push('…');
        }
        visible
    }
}

/// The first characters of a text, and whether any were cut off.
pub(crate) fn cut(text: &str, characters: usize) -> (&str, bool) {
    match text.char_indices().nth(characters) {
        Some((at, _)) => (text.get(..at).unwrap_or(text), true),
        None => (text, false),
    }
}

/// Replaces characters that affect how other text is displayed with their escapes, except those to keep.
pub(crate) fn make_visible(text: &str, keeps: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(|c| is_unsafe(c) && !keeps(c)) {
        return Cow::Borrowed(text);
    }
    let mut visible = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unsafe(c) && !keeps(c) {
            true if matches!(c, '\n' | '\t' | '\r') => visible.push(' '),
            true => visible.extend(c.escape_unicode()),
            false => visible.push(c),
        }
    }
    Cow::Owned(visible)
}

/// A time in the local time zone.
pub(crate) fn local_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// Encodes a text as one segment of a path, or as a value in a query.
pub(crate) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_redacted_made_visible_and_cut() {
        let shown = Shown::new(&AllowList::EMPTY);
        assert_eq!(shown.line("a\nb\u{202e}c\u{1b}[2J"), "a b\\u{202e}c\\u{1b}[2J");
        assert_eq!(shown.block("a\nb\tc"), "a\nb\tc");
        let long = shown.line(&"x ".repeat(1 << 20));
        assert_eq!(long.chars().count(), LINE + 1);
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        assert!(!shown.line(&format!("token {token}")).contains(&token));
        // A secret at the cut is recognised, although only its start is shown.
        let at_cut = format!("{} {token}", "y ".repeat(LINE / 2 - 4));
        assert!(!shown.line(&at_cut).contains("ghp_a1"), "{}", shown.line(&at_cut));
    }

    #[test]
    fn addresses_are_encoded() {
        assert_eq!(encode("a b/ü?"), "a%20b%2F%C3%BC%3F");
    }
}
