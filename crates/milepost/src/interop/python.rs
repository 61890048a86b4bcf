//! JSON as Python's standard writer gives it: sorted, compact, ASCII. Checksums of snapshots are over such text.

use serde_json::value::RawValue;

use crate::model::{FromRawJson, JsonPath, RawJson, RawObject};

/// How characters beyond ASCII are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NonAscii {
    /// As escapes, which is the writer's default.
    Escaped,
    /// As they are.
    Plain,
}

/// Sorted and compact.
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
            let mut all: Vec<(&str, &RawJson)> = fields.iter().collect();
            // Python sorts by code points, as UTF-8 does.
            all.sort_by(|a, b| a.0.cmp(b.0));
            out.push('{');
            for (i, (name, raw)) in all.into_iter().enumerate() {
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
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || c == '\u{7f}' && letters == NonAscii::Escaped => {
                if c == '\u{7f}' {
                    out.push(c)
                } else {
                    out.push_str(&format!("\\u{:04x}", u32::from(c)))
                }
            }
            c if !c.is_ascii() && letters == NonAscii::Escaped => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Whole numbers stay; others are what Python prints for the same value.
fn number(text: &str) -> String {
    if !text.contains(['.', 'e', 'E']) {
        // Python has no negative zero among whole numbers.
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

/// The same JSON with two blanks of indentation; numbers, strings and order stay as they are.
pub(super) fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0;
    let mut bytes = text.char_indices().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some((_, c)) = bytes.next() {
        match c {
            '"' => {
                out.push('"');
                while let Some((_, c)) = bytes.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(bytes.next().map(|(_, c)| c)),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' => {
                out.push(c);
                while bytes.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
                if let Some((_, close)) = bytes.next_if(|(_, c)| matches!(c, '}' | ']')) {
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
        // The right side is what json.dumps(x, sort_keys=True, separators=(",", ":")) prints.
        for (text, expected) in [
            (
                r#"{"b":1, "a":[1.0, 1e2, 1e16, 1e-5, 0.1, -0.0, 12345678901234567890]}"#,
                r#"{"a":[1.0,100.0,1e+16,1e-05,0.1,-0.0,12345678901234567890],"b":1}"#,
            ),
            (
                r#"{"ü":"😀\u00e9\/\n\u0001\u007f"}"#,
                "{\"\\u00fc\":\"\\ud83d\\ude00\\u00e9/\\n\\u0001\u{7f}\"}",
            ),
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
