//! JSON as a tree that can be folded. The size of the tree is limited: the rest is in the document.

use std::fmt;

use maud::{Markup, html};
use serde_json::value::RawValue;

use crate::text::{Shown, cut, make_visible};

/// Maximum number of values in a tree.
const MAX_VALUES: usize = 2_000;
/// Maximum depth of a tree.
const MAX_DEPTH: usize = 32;
/// Depth to which a tree is unfolded at first.
const OPEN_DEPTH: usize = 2;
/// Maximum number of characters of one value.
const MAX_VALUE: usize = 2_000;

/// Renders JSON text.
pub(super) fn render(text: &str, shown: Shown<'_>) -> Markup {
    let text = shown.json(text);
    let mut left = MAX_VALUES;
    html! {
        div.tree {
            (branch(None, &text, 0, &mut left))
            @if left == 0 { p.more { "The rest is in the document." } }
        }
    }
}

/// Renders one value and what is below it. Numbers are shown exactly as they are written.
fn branch(name: Option<&str>, text: &str, depth: usize, left: &mut usize) -> Markup {
    if *left == 0 {
        return html! {};
    }
    *left -= 1;
    let members = (depth < MAX_DEPTH).then(|| Members::parse(text)).flatten();
    let key = html! { @if let Some(name) = name { span.key { (visible(name)) ":" } " " } };
    match members {
        Some(members) if !members.0.is_empty() => html! {
            details open[depth < OPEN_DEPTH] {
                summary { (key) span.size { (members) } }
                ul { @for (name, value) in &members.0 {
                    @if *left > 0 { li { (branch(name.as_deref(), value.get(), depth + 1, left)) } }
                } }
            }
        },
        _ => html! { span.leaf { (key) span.(kind(text)) { (visible(text)) } } },
    }
}

/// The kind of a plain value.
fn kind(text: &str) -> &'static str {
    match text.as_bytes().first() {
        Some(b'"') => "string",
        Some(b'-' | b'0'..=b'9') => "number",
        _ => "word",
    }
}

fn visible(text: &str) -> String {
    let (start, is_cut) = cut(text, MAX_VALUE);
    let mut visible = make_visible(start, |_| false).into_owned();
    if is_cut {
        visible.push('…');
    }
    visible
}

/// The members of an object, or the elements of a list, as exact text.
struct Members(Vec<(Option<String>, Box<RawValue>)>);

impl Members {
    fn parse(text: &str) -> Option<Self> {
        match text.as_bytes().first()? {
            b'{' => {
                let members: Object = serde_json::from_str(text).ok()?;
                Some(Self(members.0.into_iter().map(|(name, value)| (Some(name), value)).collect()))
            }
            b'[' => {
                let elements: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
                Some(Self(elements.into_iter().map(|value| (None, value)).collect()))
            }
            _ => None,
        }
    }
}

impl maud::Render for Members {
    fn render(&self) -> Markup {
        let is_object = self.0.first().is_some_and(|(name, _)| name.is_some());
        let n = self.0.len();
        html! { @if is_object { "{" (n) "}" } @else { "[" (n) "]" } }
    }
}

/// The members of an object in their order.
struct Object(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Object(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

#[cfg(test)]
mod tests {
    use milepost::AllowList;

    use super::*;

    fn tree(text: &str) -> String {
        render(text, Shown::new(&AllowList::EMPTY)).into_string()
    }

    #[test]
    fn values_keep_their_exact_text() {
        let html = tree(r#"{"b": 1.10, "a": [true, null, 12345678901234567890123]}"#);
        for part in ["1.10", "12345678901234567890123", "true", "null", "{2}", "[3]"] {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(html.find("b:").unwrap() < html.find("a:").unwrap(), "{html}");
    }

    #[test]
    fn large_and_hostile_values_are_bounded() {
        let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
        assert!(tree(&deep).len() < 20_000);
        let wide = format!("[{}1]", "1,".repeat(1 << 20));
        assert!(tree(&wide).len() < 300_000 && tree(&wide).contains("The rest is in the document"));
        let long = format!("\"{}\"", "x".repeat(1 << 20));
        assert!(tree(&long).len() < 10_000);
        let html = tree("{\"<script>\": \"</span><img src=x>\", \"r\": \"\u{202e}\"}");
        assert!(!html.contains("<script>") && !html.contains("<img") && !html.contains('\u{202e}'), "{html}");
    }
}
