//! Reads an agent's JSON payload in bounded memory, however large a tool's input or output is. Takes a stream
//! and returns the JSON value. Beyond the limits, it drops the middle of a long string and the end of a long
//! list or object. It still keeps later values, so an event with a large tool result remains usable.

use std::fmt;
use std::io::{BufReader, Read};

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Maximum size of a payload, which may include a whole file that a tool writes.
const LARGEST: u64 = 64 << 20;

/// Maximum number of values to keep. A list or object may use at most half of what is left for its parent.
const VALUES: usize = 64 << 10;
/// Strings up to this size are always kept whole.
const SHORT_TEXT: usize = 4 << 10;
/// Maximum number of bytes to keep of one long string.
const LONG_TEXT: usize = 1 << 20;
/// Number of bytes to keep of all long strings. Once it is used up, each keeps at most `SHORT_TEXT` bytes.
const ALL_LONG_TEXTS: usize = 8 << 20;
/// Replaces the middle of a long string.
const LEFT_OUT: &str = "\n[…]\n";

/// Reads one JSON document.
pub(crate) fn read(source: impl Read) -> serde_json::Result<Value> {
    let source = BufReader::with_capacity(64 << 10, source.take(LARGEST));
    let mut input = serde_json::Deserializer::from_reader(source);
    let mut budget = Budget { values: VALUES, long_texts: ALL_LONG_TEXTS };
    let value = Bounded { budget: &mut budget, reserved: 0 }.deserialize(&mut input)?;
    input.end()?;
    Ok(value)
}

/// The number of values and bytes that may still be kept.
struct Budget {
    values: usize,
    long_texts: usize,
}

impl Budget {
    fn text(&mut self, text: &str) -> String {
        if text.len() <= SHORT_TEXT {
            return text.to_owned();
        }
        let most = self.long_texts.clamp(SHORT_TEXT, LONG_TEXT);
        let kept = shortened(text, most);
        self.long_texts = self.long_texts.saturating_sub(kept.len());
        kept
    }
}

/// Keeps the start and the end of a text, which is where commands, prompts and exit codes are.
fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let half = most.saturating_sub(LEFT_OUT.len()) / 2;
    format!(
        "{}{LEFT_OUT}{}",
        &text[..text.floor_char_boundary(half)],
        &text[text.ceil_char_boundary(text.len() - half)..]
    )
}

/// Reads one value within a budget.
struct Bounded<'b> {
    budget: &'b mut Budget,
    /// Number of values to leave for the rest of the document.
    reserved: usize,
}

impl Bounded<'_> {
    /// Number of values that a list or object must leave for the rest of the document.
    fn reserve(&self) -> usize {
        self.reserved + self.budget.values.saturating_sub(self.reserved) / 2
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(self.budget.text(text).into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let reserved = self.reserve();
        let mut kept = Vec::new();
        while self.budget.values > reserved {
            self.budget.values -= 1;
            match list.next_element_seed(Bounded { budget: self.budget, reserved })? {
                Some(value) => kept.push(value),
                None => return Ok(kept.into()),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let reserved = self.reserve();
        let mut kept = Map::new();
        while self.budget.values > reserved {
            self.budget.values -= 1;
            match members.next_key_seed(Bounded { budget: self.budget, reserved })? {
                Some(Value::String(name)) => {
                    let value = members.next_value_seed(Bounded { budget: self.budget, reserved })?;
                    kept.insert(name, value);
                }
                Some(_) => return Err(A::Error::custom("an object key is not a string")),
                None => return Ok(kept.into()),
            }
        }
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(kept.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Value {
        read(text.as_bytes()).unwrap()
    }

    #[test]
    fn an_ordinary_payload_is_read_as_it_is() {
        let text = r#"{"a":[1,-2,2.5,"é\n",null,true,{"b":{}}],"c":"","d":18446744073709551615}"#;
        assert_eq!(read_text(text), serde_json::from_str::<Value>(text).unwrap());
        for wrong in ["", "{", "{} {}", "nothing", "[1,]", r#"{"a":1"#] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_follows_a_large_value_is_kept() {
        let many = |element: &str| format!("[{}]", vec![element; 300_000].join(","));
        let members: Vec<_> = (0..300_000).map(|n| format!("\"k{n}\":0")).collect();
        let values = [many("0"), many("{}"), many("[[]]"), format!("{{{}}}", members.join(","))];
        for large in values {
            let value = read_text(&format!(r#"{{"i":{large},"o":{large},"session_id":"s"}}"#));
            assert_eq!(value["session_id"], "s");
            let kept =
                |value: &Value| value.as_array().map_or_else(|| value.as_object().unwrap().len(), Vec::len);
            assert!((1..VALUES).contains(&kept(&value["o"])), "{}", kept(&value["o"]));
        }
    }

    #[test]
    fn a_long_text_keeps_its_start_and_its_end() {
        let long = format!("start{}end", "é".repeat(5 << 20));
        let list = vec![format!("\"{long}\""); 4].join(",");
        let value = read_text(&format!(r#"{{"texts":[{list}],"id":"{}"}}"#, "i".repeat(SHORT_TEXT)));
        let texts = value["texts"].as_array().unwrap();
        let kept = texts[3].as_str().unwrap();
        assert!(kept.starts_with("start") && kept.ends_with("end") && kept.contains(LEFT_OUT));
        assert!(kept.len() <= LONG_TEXT);
        assert_eq!(value["id"].as_str().unwrap().len(), SHORT_TEXT);
    }
}
