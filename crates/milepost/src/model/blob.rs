//! Blob ids. A blob is file content or other bytes, stored once under the hash of its content.

use std::fmt;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{FromRawJson, IdError, JsonPath, ValidationError};

/// The id of a blob: the BLAKE3 hash of its content. Written as 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobId([u8; 32]);

impl BlobId {
    /// Returns the id of a blob with this content.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }

    /// Returns the bytes of the hash.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Creates an id from the bytes of a hash.
    pub fn from_bytes(hash: [u8; 32]) -> Self {
        Self(hash)
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobId({self})")
    }
}

impl FromStr for BlobId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| IdError {
            kind: "blob",
            id: text.chars().take(64).collect(),
            why: "expected 64 lowercase hexadecimal digits",
        })
    }
}

impl Serialize for BlobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for BlobId {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BlobId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

impl FromRawJson for BlobId {
    fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
        serde_json::from_str(text).map_err(|_| ValidationError::at(path, "expected a blob id"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_hexadecimal_digits() {
        let id = BlobId::of(b"hello");
        assert_eq!(id.to_string().parse::<BlobId>(), Ok(id));
        assert_eq!(serde_json::from_str::<BlobId>(&serde_json::to_string(&id).unwrap()).unwrap(), id);
        for wrong in ["", "00", &id.to_string().to_uppercase(), &format!("{id}0")] {
            assert!(wrong.parse::<BlobId>().is_err(), "{wrong}");
        }
    }
}
