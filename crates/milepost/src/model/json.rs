//! JSON that is carried, not interpreted: raw text, members in their order, and where in a document something is wrong.
//! `record!` makes a struct that keeps the members it does not know; `closed_enum!` one that names what it allows.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// What is wrong with a document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", if path.is_empty() { "document" } else { path })]
pub struct ValidationError {
    /// JSON pointer of the offending value; empty for the document itself.
    pub path: String,
    /// One line: what was found and what is allowed.
    pub message: String,
}

impl ValidationError {
    /// Reports `message` at `path`.
    pub fn at(path: &JsonPath<'_>, message: impl Into<String>) -> Self {
        Self { path: path.to_string(), message: message.into() }
    }

    /// Reports `message` about the whole document.
    pub fn document(message: impl Into<String>) -> Self {
        Self::at(&JsonPath::Root, message)
    }
}

/// A place in a document, kept on the stack and rendered as a JSON pointer only when something is wrong.
#[derive(Debug, Clone, Copy)]
pub enum JsonPath<'a> {
    /// The document itself.
    Root,
    /// A member of an object.
    Key(&'a JsonPath<'a>, &'a str),
    /// An element of an array.
    Index(&'a JsonPath<'a>, usize),
}

impl<'a> JsonPath<'a> {
    /// The member `name` of this place.
    pub fn key(&'a self, name: &'a str) -> JsonPath<'a> {
        JsonPath::Key(self, name)
    }

    /// The element `index` of this place.
    pub fn index(&'a self, index: usize) -> JsonPath<'a> {
        JsonPath::Index(self, index)
    }
}

impl fmt::Display for JsonPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonPath::Root => Ok(()),
            JsonPath::Key(parent, name) => {
                write!(f, "{parent}/{}", name.replace('~', "~0").replace('/', "~1"))
            }
            JsonPath::Index(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

/// The exact text of one JSON value.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct RawJson(#[schemars(with = "serde_json::Value")] Box<RawValue>);

impl RawJson {
    /// Takes a JSON text as it is; surrounding white space goes.
    pub fn parse(text: impl Into<String>) -> Result<Self, ValidationError> {
        let text: String = text.into();
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
        let text = if trimmed.len() == text.len() { text } else { trimmed.to_owned() };
        RawValue::from_string(text).map(Self).map_err(|e| ValidationError::document(format!("not JSON: {e}")))
    }

    /// Writes a value as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, ValidationError> {
        serde_json::value::to_raw_value(value)
            .map(Self)
            .map_err(|e| ValidationError::document(format!("cannot be written as JSON: {e}")))
    }

    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Whether this is the literal `null`.
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

impl Default for RawJson {
    /// The literal `null`.
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

/// Members of an object in the order they came, each value verbatim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawObject(Vec<(String, RawJson)>);

impl RawObject {
    /// Reads an object; anything else is refused at `path`.
    pub fn parse(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        if !text.trim_start().starts_with('{') {
            return Err(ValidationError::at(path, format!("{} where an object is needed", kind_of(text))));
        }
        serde_json::from_str(text).map_err(|e| ValidationError::at(path, format!("not JSON: {e}")))
    }

    /// Takes a member out.
    pub fn take(&mut self, name: &str) -> Option<RawJson> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Looks at a member.
    pub fn get(&self, name: &str) -> Option<&RawJson> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets a member in place, or appends it.
    pub fn set(&mut self, name: &str, value: RawJson) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets a member to a value, written as JSON. A value that cannot be written is left out.
    pub(crate) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        if let Ok(raw) = RawJson::of(value) {
            self.set(name, raw);
        }
    }

    /// Sets every member of another object.
    pub(crate) fn set_all(&mut self, other: &Self) {
        other.iter().for_each(|(name, value)| self.set(name, value.clone()));
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The members by name.
    pub fn sorted(&self) -> Vec<(&str, &RawJson)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(b.0));
        all
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(16));
                while let Some(entry) = map.next_entry::<String, RawJson>()? {
                    members.push(entry);
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Reads a value from its JSON text and says where it fails.
pub trait FromRawJson: Sized {
    /// Reads `text`, which stands at `path`.
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError>;
}

/// Names what kind of JSON value a text starts.
pub(crate) fn kind_of(text: &str) -> &'static str {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(b'-' | b'0'..=b'9') => "a number",
        _ => "nothing",
    }
}

macro_rules! leaf {
    ($($ty:ty => $what:literal),* $(,)?) => {$(
        impl FromRawJson for $ty {
            fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
                serde_json::from_str(text).map_err(|_| {
                    let found = if text.len() <= 40 { text } else { kind_of(text) };
                    ValidationError::at(path, format!("{found} where {} is needed", $what))
                })
            }
        }
    )*};
}

leaf! {
    String => "a string",
    bool => "true or false",
    u64 => "a whole number, 0 or more,",
    jiff::Timestamp => "an RFC 3339 time",
}

impl FromRawJson for RawJson {
    fn from_raw(text: &str, _: &JsonPath<'_>) -> Result<Self, ValidationError> {
        RawJson::parse(text)
    }
}

impl FromRawJson for RawObject {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        RawObject::parse(text, path)
    }
}

impl<T: FromRawJson> FromRawJson for Option<T> {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        if text == "null" { Ok(None) } else { T::from_raw(text, path).map(Some) }
    }
}

impl<T: FromRawJson> FromRawJson for Vec<T> {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        let raw: Vec<&RawValue> = serde_json::from_str(text)
            .map_err(|_| ValidationError::at(path, format!("{} where an array is needed", kind_of(text))))?;
        raw.iter().enumerate().map(|(i, value)| T::from_raw(value.get(), &path.index(i))).collect()
    }
}

impl<T: FromRawJson> FromRawJson for std::collections::BTreeMap<String, T> {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        RawObject::parse(text, path)?
            .iter()
            .map(|(key, value)| Ok((key.to_owned(), T::from_raw(value.get(), &path.key(key))?)))
            .collect()
    }
}

/// Makes a struct whose members are written in alphabetical order, with the members it does not know kept verbatim.
/// `required` members must be there; `optional` ones may be missing or null.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident {
        $( $(#[$field_meta:meta])* $field:ident : $ty:ty [$kind:ident] ),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, schemars::JsonSchema)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
            /// Members this version does not know, verbatim.
            #[schemars(skip)]
            pub extra: $crate::model::RawObject,
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                let mut extra = self.extra.sorted().into_iter().peekable();
                $(
                    while let Some((key, value)) = extra.next_if(|(key, _)| *key < stringify!($field)) {
                        map.serialize_entry(key, value)?;
                    }
                    map.serialize_entry(stringify!($field), &self.$field)?;
                )*
                for (key, value) in extra {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }

        impl $crate::model::FromRawJson for $name {
            fn from_raw(text: &str, path: &$crate::model::JsonPath<'_>) -> Result<Self, $crate::model::ValidationError> {
                #[allow(unused_mut)]
                let mut fields = $crate::model::RawObject::parse(text, path)?;
                Ok(Self {
                    $( $field: $crate::model::json::$kind(&mut fields, stringify!($field), path)?, )*
                    extra: fields,
                })
            }
        }

        $crate::model::json::deserialize_from_raw!($name);
    };
}

/// Gives a `FromRawJson` type serde's `Deserialize`, for documents that embed it.
macro_rules! deserialize_from_raw {
    ($name:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = <$crate::model::RawJson as serde::Deserialize>::deserialize(deserializer)?;
                <$name as $crate::model::FromRawJson>::from_raw(raw.get(), &$crate::model::JsonPath::Root)
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Makes an enum whose values have fixed names in JSON and on the command line.
macro_rules! closed_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $value:literal ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, schemars::JsonSchema)]
        pub enum $name {
            $( $(#[$variant_meta])* #[schemars(rename = $value)] $variant, )*
        }

        impl $name {
            /// The name of every value, in order.
            pub const NAMES: &[&str] = &[$($value),*];

            /// The name of this value.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $value, )* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::model::ValidationError;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                match name {
                    $( $value => Ok(Self::$variant), )*
                    _ => Err(Self::Err::document(format!("\"{name}\" is not one of {}", Self::NAMES.join(", ")))),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl $crate::model::FromRawJson for $name {
            fn from_raw(text: &str, path: &$crate::model::JsonPath<'_>) -> Result<Self, $crate::model::ValidationError> {
                let name = String::from_raw(text, path)?;
                name.parse().map_err(|e: $crate::model::ValidationError| $crate::model::ValidationError::at(path, e.message))
            }
        }

        $crate::model::json::deserialize_from_raw!($name);
    };
}

pub(crate) use {closed_enum, deserialize_from_raw, record};

/// Reads a member that has to be there.
pub(crate) fn required<T: FromRawJson>(
    fields: &mut RawObject,
    name: &str,
    path: &JsonPath<'_>,
) -> Result<T, ValidationError> {
    match fields.take(name) {
        Some(raw) => T::from_raw(raw.get(), &path.key(name)),
        None => Err(ValidationError::at(&path.key(name), "is missing")),
    }
}

/// Reads a member that may be missing or null.
pub(crate) fn optional<T: FromRawJson + Default>(
    fields: &mut RawObject,
    name: &str,
    path: &JsonPath<'_>,
) -> Result<T, ValidationError> {
    match fields.take(name) {
        Some(raw) if !raw.is_null() => T::from_raw(raw.get(), &path.key(name)),
        _ => Ok(T::default()),
    }
}
