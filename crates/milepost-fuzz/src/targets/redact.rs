//! Redaction: what was redacted is not redacted again, JSON stays JSON, and the result is bounded. Placeholders such as
//! `{n20}` stand for letters and digits, as in the tests of redaction, so that no input looks like a secret.

use milepost::internal::redact;

/// The alphabets of placeholders.
const ALPHABETS: [(u8, &[u8]); 5] = [
    (b'n', b"q7RkX2mZ9bTc4VhW8sLd5YfG3jPa6NwE"),
    (b'h', b"0a3f9c1e7b5d2846"),
    (b'u', b"Q7RKX2MZ9BTC4VHW8SLD5YFG3JPA6NWE"),
    (b'd', b"8301946275"),
    (b'l', b"q7rkx2mz9btc4vhw8sld5yfg3jpa6nwe"),
];
/// Maximum length of what a placeholder stands for.
const LONGEST: usize = 200;

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let text = &expand(text);
    if let Some(redacted) = redact::text(text) {
        assert!(redacted.len() <= 32 * text.len() + 64, "{} bytes", redacted.len());
        assert_eq!(redact::text(&redacted), None, "redacted text is redacted again: {redacted:?}");
    }
    redact::without_cut_word(text);
    let Ok(before) = serde_json::from_str::<serde_json::Value>(text) else { return };
    if let Some(redacted) = redact::json(text, "state") {
        let after: serde_json::Value = serde_json::from_str(&redacted).expect("redacted JSON is JSON");
        assert_eq!(before.is_object(), after.is_object());
        assert_eq!(redact::json(&redacted, "state"), None, "redacted JSON is redacted again: {redacted}");
    }
}

/// Replaces the placeholders in a text.
fn expand(text: &str) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        expanded.push_str(before);
        match placeholder(from) {
            Some((value, len)) => {
                expanded.push_str(&value);
                rest = &from[len..];
            }
            None => {
                expanded.push('{');
                rest = &from[1..];
            }
        }
    }
    expanded + rest
}

/// What the placeholder at the start of a text stands for, and its length.
fn placeholder(text: &str) -> Option<(String, usize)> {
    let end = text.bytes().take(6).position(|byte| byte == b'}')?;
    if &text[..end] == "{U" {
        return Some(("1b4e28ba-2fa1-41d2-883f-0016d3cca427".to_owned(), end + 1));
    }
    let (_, alphabet) = ALPHABETS.iter().find(|(name, _)| text.as_bytes().get(1) == Some(name))?;
    let count: usize = text.get(2..end)?.parse().ok().filter(|count| *count <= LONGEST)?;
    let value = alphabet.iter().cycle().take(count).map(|byte| char::from(*byte)).collect();
    Some((value, end + 1))
}
