//! Raw JSON that is stored without interpretation: exact text, members in their original order, and the
//! location of errors. `record!` declares a struct that preserves unknown members. `closed_enum!` declares an
//! enum whose errors list the allowed values.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// An error in a JSON document, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", if path.is_empty() { "document" } else { path })]
pub struct ValidationError {
    /// The JSON pointer of the invalid value; empty for the document itself.
    pub path: String,
    /// A one-line message that states what was found and what is allowed.
    pub message: String,
}

impl ValidationError {
    /// Creates an error about the value at `path`.
    pub fn at(path: &JsonPath<'_>, message: impl Into<String>) -> Self {
        Self { path: path.to_string(), message: message.into() }
    }

    /// Creates an error about the whole document.
    pub fn document(message: impl Into<String>) -> Self {
        Self::at(&JsonPath::Root, message)
    }
}

/// A location in a document. It is cheap to build and is formatted as a JSON pointer only for errors.
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
    /// Returns the location of the member `name` of this value.
    pub fn key(&'a self, name: &'a str) -> JsonPath<'a> {
        JsonPath::Key(self, name)
    }

    /// Returns the location of the element `index` of this value.
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
    /// Parses JSON text and keeps it verbatim, without leading and trailing white space.
    pub fn parse(text: impl Into<String>) -> Result<Self, ValidationError> {
        let text: String = text.into();
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
        let text = if trimmed.len() == text.len() { text } else { trimmed.to_owned() };
        RawValue::from_string(text).map(Self).map_err(|e| ValidationError::document(format!("not JSON: {e}")))
    }

    /// Serialises a value as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, ValidationError> {
        serde_json::value::to_raw_value(value)
            .map(Self)
            .map_err(|e| ValidationError::document(format!("cannot be written as JSON: {e}")))
    }

    /// Returns the JSON text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// Returns true if this is the literal `null`.
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

impl Default for RawJson {
    /// Returns the literal `null`.
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

/// The members of a JSON object in their original order, each value verbatim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RawObject(Vec<(String, RawJson)>);

impl RawObject {
    /// Parses a JSON object. Any other value is an error at `path`.
    pub fn parse(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        if !text.trim_start().starts_with('{') {
            return Err(ValidationError::at(path, format!("expected an object, found {}", kind_of(text))));
        }
        serde_json::from_str(text).map_err(|e| ValidationError::at(path, format!("not JSON: {e}")))
    }

    /// Removes a member and returns its value.
    pub fn take(&mut self, name: &str) -> Option<RawJson> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Returns the value of a member.
    pub fn get(&self, name: &str) -> Option<&RawJson> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Replaces the value of a member in place, or appends the member.
    pub fn set(&mut self, name: &str, value: RawJson) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Sets a member to the JSON form of a value. Does nothing if the value cannot be serialised.
    pub(crate) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        if let Ok(raw) = RawJson::of(value) {
            self.set(name, raw);
        }
    }

    /// Copies every member of another object into this one.
    pub(crate) fn set_all(&mut self, other: &Self) {
        other.iter().for_each(|(name, value)| self.set(name, value.clone()));
    }

    /// Iterates over the members in their original order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the members sorted by name.
    pub fn sorted(&self) -> Vec<(&str, &RawJson)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(b.0));
        all
    }

    /// Returns true if the object has no members.
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

/// Parses a value from JSON text and reports the location of an error.
pub trait FromRawJson: Sized {
    /// Parses `text`, which is located at `path`.
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError>;
}

/// Returns the kind of JSON value that `text` starts with, for error messages.
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
                    ValidationError::at(path, format!("expected {}, found {found}", $what))
                })
            }
        }
    )*};
}

leaf! {
    String => "a string",
    bool => "true or false",
    u64 => "a whole number of 0 or more",
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
            .map_err(|_| ValidationError::at(path, format!("expected an array, found {}", kind_of(text))))?;
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

/// Declares a struct that preserves unknown members verbatim and writes all members in alphabetical order. A
/// `required` member must be present; an `optional` member can be missing or null. Declare the fields in
/// alphabetical order.
macro_rules! record {
    ($(#[$meta:meta])* pub struct $name:ident {
        $( $(#[$field_meta:meta])* $field:ident : $ty:ty [$kind:ident] ),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, schemars::JsonSchema)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $ty, )*
            /// Members that this version does not recognise, verbatim.
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

/// Implements serde's `Deserialize` for a `FromRawJson` type, so that other documents can embed it.
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

/// Declares an enum whose values have fixed names in JSON and on the command line.
macro_rules! closed_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $value:literal ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, schemars::JsonSchema)]
        pub enum $name {
            $( $(#[$variant_meta])* #[schemars(rename = $value)] $variant, )*
        }

        impl $name {
            /// The names of all values, in declaration order.
            pub const NAMES: &[&str] = &[$($value),*];

            /// Returns the name of this value.
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

/// Removes and parses a member that must be present.
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

/// Removes and parses a member that can be missing or null.
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
