//! JSON that is carried, not interpreted: raw text, members in their order, and where in a document something is wrong.
//! `record!` makes a struct that keeps the members it does not know; `closed_enum!` one that names what it allows.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::value::RawValue;

/// What is wrong with a document, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", if path.is_empty() { "document" } else { path })]
pub struct Invalid {
    /// JSON pointer of the offending value; empty for the document itself.
    pub path: String,
    /// One line: what was found and what is allowed.
    pub message: String,
}

impl Invalid {
    /// Reports `message` at `path`.
    pub fn at(path: &Path<'_>, message: impl Into<String>) -> Self {
        Self { path: path.to_string(), message: message.into() }
    }
}

/// A place in a document, kept on the stack and rendered as a JSON pointer only when something is wrong.
#[derive(Debug, Clone, Copy)]
pub enum Path<'a> {
    /// The document itself.
    Root,
    /// A member of an object.
    Key(&'a Path<'a>, &'a str),
    /// An element of an array.
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// The member `name` of this place.
    pub fn key(&'a self, name: &'a str) -> Path<'a> {
        Path::Key(self, name)
    }

    /// The element `index` of this place.
    pub fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Key(parent, name) => write!(f, "{parent}/{}", name.replace('~', "~0").replace('/', "~1")),
            Path::Index(parent, index) => write!(f, "{parent}/{index}"),
        }
    }
}

/// The exact text of one JSON value.
#[derive(Debug, Clone)]
pub struct Raw(Box<RawValue>);

impl Raw {
    /// Takes a JSON text as it is; surrounding white space goes.
    pub fn parse(text: impl Into<String>) -> Result<Self, Invalid> {
        let text: String = text.into();
        let trimmed = text.trim_matches([' ', '\t', '\n', '\r']);
        let text = if trimmed.len() == text.len() { text } else { trimmed.to_owned() };
        RawValue::from_string(text)
            .map(Self)
            .map_err(|e| Invalid { path: String::new(), message: format!("not JSON: {e}") })
    }

    /// Writes a value as JSON.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, Invalid> {
        serde_json::value::to_raw_value(value)
            .map(Self)
            .map_err(|e| Invalid { path: String::new(), message: format!("cannot be written as JSON: {e}") })
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

impl Default for Raw {
    /// The literal `null`.
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Raw {}

impl Serialize for Raw {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self)
    }
}

impl schemars::JsonSchema for Raw {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}

/// Members of an object in the order they came, each value verbatim.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, Raw)>);

impl Fields {
    /// Reads an object; anything else is refused at `path`.
    pub fn parse(text: &str, path: &Path<'_>) -> Result<Self, Invalid> {
        if !text.trim_start().starts_with('{') {
            return Err(Invalid::at(path, format!("{} where an object is needed", kind_of(text))));
        }
        serde_json::from_str(text).map_err(|e| Invalid::at(path, format!("not JSON: {e}")))
    }

    /// Takes a member out.
    pub fn take(&mut self, name: &str) -> Option<Raw> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Looks at a member.
    pub fn get(&self, name: &str) -> Option<&Raw> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Sets a member in place, or appends it.
    pub fn set(&mut self, name: &str, value: Raw) {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, slot)) => *slot = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// The members in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Raw)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The members by name.
    pub fn sorted(&self) -> Vec<(&str, &Raw)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by(|a, b| a.0.cmp(b.0));
        all
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut members = Vec::with_capacity(map.size_hint().unwrap_or(16));
                while let Some(entry) = map.next_entry::<String, Raw>()? {
                    members.push(entry);
                }
                Ok(Fields(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// Reads a value from its JSON text and says where it fails.
pub trait FromRaw: Sized {
    /// Reads `text`, which stands at `path`.
    fn from_raw(text: &str, path: &Path<'_>) -> Result<Self, Invalid>;
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
        impl FromRaw for $ty {
            fn from_raw(text: &str, path: &Path<'_>) -> Result<Self, Invalid> {
                serde_json::from_str(text).map_err(|_| {
                    let found = if text.len() <= 40 { text } else { kind_of(text) };
                    Invalid::at(path, format!("{found} where {} is needed", $what))
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

impl FromRaw for Raw {
    fn from_raw(text: &str, _: &Path<'_>) -> Result<Self, Invalid> {
        Raw::parse(text)
    }
}

impl FromRaw for Fields {
    fn from_raw(text: &str, path: &Path<'_>) -> Result<Self, Invalid> {
        Fields::parse(text, path)
    }
}

impl<T: FromRaw> FromRaw for Option<T> {
    fn from_raw(text: &str, path: &Path<'_>) -> Result<Self, Invalid> {
        if text == "null" { Ok(None) } else { T::from_raw(text, path).map(Some) }
    }
}

impl<T: FromRaw> FromRaw for Vec<T> {
    fn from_raw(text: &str, path: &Path<'_>) -> Result<Self, Invalid> {
        let raw: Vec<&RawValue> = serde_json::from_str(text)
            .map_err(|_| Invalid::at(path, format!("{} where an array is needed", kind_of(text))))?;
        raw.iter().enumerate().map(|(i, value)| T::from_raw(value.get(), &path.index(i))).collect()
    }
}

impl<T: FromRaw> FromRaw for std::collections::BTreeMap<String, T> {
    fn from_raw(text: &str, path: &Path<'_>) -> Result<Self, Invalid> {
        Fields::parse(text, path)?
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
            pub extra: $crate::model::Fields,
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

        impl $crate::model::FromRaw for $name {
            fn from_raw(text: &str, path: &$crate::model::Path<'_>) -> Result<Self, $crate::model::Invalid> {
                #[allow(unused_mut)]
                let mut fields = $crate::model::Fields::parse(text, path)?;
                Ok(Self {
                    $( $field: $crate::model::json::$kind(&mut fields, stringify!($field), path)?, )*
                    extra: fields,
                })
            }
        }

        $crate::model::json::deserialize_from_raw!($name);
    };
}

/// Gives a `FromRaw` type serde's `Deserialize`, for documents that embed it.
macro_rules! deserialize_from_raw {
    ($name:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let raw = <$crate::model::Raw as serde::Deserialize>::deserialize(deserializer)?;
                <$name as $crate::model::FromRaw>::from_raw(raw.get(), &$crate::model::Path::Root)
                    .map_err(serde::de::Error::custom)
            }
        }
    };
}

/// Makes an enum of fixed words.
macro_rules! closed_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $( $(#[$variant_meta:meta])* $variant:ident = $word:literal ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, schemars::JsonSchema)]
        pub enum $name {
            $( $(#[$variant_meta])* #[schemars(rename = $word)] $variant, )*
        }

        impl $name {
            /// Every word, in order.
            pub const WORDS: &[&str] = &[$($word),*];

            /// The word of this value.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::model::Invalid;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $( $word => Ok(Self::$variant), )*
                    _ => Err($crate::model::Invalid {
                        path: String::new(),
                        message: format!("\"{word}\" is not one of {}", Self::WORDS.join(", ")),
                    }),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl $crate::model::FromRaw for $name {
            fn from_raw(text: &str, path: &$crate::model::Path<'_>) -> Result<Self, $crate::model::Invalid> {
                let word = String::from_raw(text, path)?;
                word.parse().map_err(|e: $crate::model::Invalid| $crate::model::Invalid::at(path, e.message))
            }
        }

        $crate::model::json::deserialize_from_raw!($name);
    };
}

pub(crate) use {closed_enum, deserialize_from_raw, record};

/// Reads a member that has to be there.
pub(crate) fn required<T: FromRaw>(fields: &mut Fields, name: &str, path: &Path<'_>) -> Result<T, Invalid> {
    match fields.take(name) {
        Some(raw) => T::from_raw(raw.get(), &path.key(name)),
        None => Err(Invalid::at(&path.key(name), "is missing")),
    }
}

/// Reads a member that may be missing or null.
pub(crate) fn optional<T: FromRaw + Default>(
    fields: &mut Fields,
    name: &str,
    path: &Path<'_>,
) -> Result<T, Invalid> {
    match fields.take(name) {
        Some(raw) if !raw.is_null() => T::from_raw(raw.get(), &path.key(name)),
        _ => Ok(T::default()),
    }
}
