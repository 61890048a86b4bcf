//! Formats JSON like Python's `json.dumps`. `canonical` returns sorted, compact JSON; the checksums of
//! snapshots are computed over that form. `indented` only adds white space and leaves numbers and strings
//! unchanged.

use serde_json::value::RawValue;

use crate::model::{FromRawJson, JsonPath, RawObject};

/// How non-ASCII characters are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NonAscii {
    /// As escapes, which is Python's default.
    Escaped,
    /// Unchanged.
    Plain,
}

/// Returns the JSON with sorted keys and without white space.
pub(super) fn canonical(text: &str, letters: NonAscii) -> String {
    let mut out = String::with_capacity(text.len());
    write(text, letters, &mut out);
    out
}

fn write(text: &str, letters: NonAscii, out: &mut String) {
    let text = text.trim();
    match text.as_bytes().first() {
        Some(b'{') => {
            let fields = RawObject::from_raw(text, &JsonPath::Root).unwrap_or_default();
            out.push('{');
            // Python sorts by code points, which is the same order as UTF-8 bytes.
            for (i, (name, raw)) in fields.sorted().into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                string(name, letters, out);
                out.push(':');
                write(raw.get(), letters, out);
            }
            out.push('}');
        }
        Some(b'[') => {
            let all: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
            out.push('[');
            for (i, raw) in all.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write(raw.get(), letters, out);
            }
            out.push(']');
        }
        Some(b'"') => string(&serde_json::from_str::<String>(text).unwrap_or_default(), letters, out),
        Some(b'-' | b'0'..=b'9') => out.push_str(&number(text)),
        _ => out.push_str(text),
    }
}

fn string(text: &str, letters: NonAscii, out: &mut String) {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    if letters == NonAscii::Plain {
        return out.push_str(&quoted);
    }
    for c in quoted.chars() {
        match c {
            ' '..='~' => out.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| *out += &format!("\\u{unit:04x}")),
        }
    }
}

/// Formats a number like Python. Integers stay unchanged.
fn number(text: &str) -> String {
    if !text.contains(['.', 'e', 'E']) {
        // Python has no negative zero integer.
        return if text == "-0" { "0".into() } else { text.to_owned() };
    }
    let Ok(value) = text.parse::<f64>() else { return text.to_owned() };
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..16).contains(&exponent) || value == 0.0 {
        let plain = format!("{value}");
        return if plain.contains('.') { plain } else { format!("{plain}.0") };
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Indents JSON by two spaces per level. Numbers, strings and the order of members do not change.
pub(super) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    let mut chars = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push('"');
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = chars.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(',');
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_what_python_writes() {
        // The expected values are the output of json.dumps(x, sort_keys=True, separators=(",", ":")).
        for (text, expected) in [
            (
                r#"{"b":1, "a":[1.0, 1e2, 1e16, 1e-5, 0.1, -0.0, 12345678901234567890]}"#,
                r#"{"a":[1.0,100.0,1e+16,1e-05,0.1,-0.0,12345678901234567890],"b":1}"#,
            ),
            (r#"{"ü":"😀\u00e9\/\n\u0001\u007f"}"#, r#"{"\u00fc":"\ud83d\ude00\u00e9/\n\u0001\u007f"}"#),
            (r#"[ ]"#, "[]"),
            (r#"{"x":{"z":null,"y":true}}"#, r#"{"x":{"y":true,"z":null}}"#),
        ] {
            assert_eq!(canonical(text, NonAscii::Escaped), expected);
        }
        assert_eq!(
            indented(r#"{"a":[1,{"b":"x,{"}],"c":{}}"#),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": \"x,{\"\n    }\n  ],\n  \"c\": {}\n}"
        );
    }
}
