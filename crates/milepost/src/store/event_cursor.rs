//! The position of an event, as a text that only the store which created it interprets.
//! Callers keep it and pass it back. They cannot compare two positions or compute with them.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The position of an event, to continue a list after it. The default is the position before the first event.
///
/// Only the store that created a cursor knows its order: a store may put one position per run into it. To
/// follow events, pass back the cursor of the last event received. A store that does not recognise a cursor
/// starts with the oldest event, so that no event is skipped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventCursor(String);

impl EventCursor {
    /// A cursor with this text. For implementers of `Store`. The text should be short, printable and without
    /// spaces, because users pass it on the command line. `0` is reserved for the start.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text of the cursor.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The cursor of an embedded store, which numbers its events.
    pub(super) fn at(position: u64) -> Self {
        Self(position.to_string())
    }

    /// The number in a cursor of an embedded store; 0, which is the start, for any other text.
    pub(in crate::store) fn position(&self) -> u64 {
        self.0.parse().unwrap_or(0)
    }
}

impl Default for EventCursor {
    fn default() -> Self {
        Self::at(0)
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for EventCursor {
    type Err = Infallible;

    /// Every text is a cursor: only a store can tell whether it is one of its own.
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self::new(text))
    }
}

impl Serialize for EventCursor {
    /// Writes a number if the text is one, as the embedded stores use them, and a string otherwise.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.parse::<u64>() {
            Ok(number) if number.to_string() == self.0 => serializer.serialize_u64(number),
            _ => serializer.serialize_str(&self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_numbers_in_json() {
        let json = |text: &str| serde_json::to_string(&EventCursor::new(text)).unwrap();
        assert_eq!(json("1200"), "1200");
        assert_eq!(json("007"), "\"007\"");
        assert_eq!(json("a=1,b=2"), "\"a=1,b=2\"");
        assert_eq!(serde_json::to_string(&EventCursor::default()).unwrap(), "0");
    }

    #[test]
    fn an_unknown_text_is_the_start() {
        for text in ["", "x", "-1", "99999999999999999999999"] {
            assert_eq!(text.parse::<EventCursor>().unwrap().position(), 0, "{text}");
        }
        assert_eq!(EventCursor::at(7).position(), 7);
    }
}
