//! Seals checkpoints and verifies seals; does no I/O. `seal` turns a body and its slot in the store into a
//! `Sealed`; `verify` turns stored bytes into a `Verified`. No other module can create these types. The body
//! is serialised once; the checksum covers those bytes and the format version, and `integrity` is appended as
//! the last member in a fixed form. Stored bytes are always verified before they are parsed.

mod header;
pub mod strict;
mod version;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

pub use header::{Header, Material};
pub use version::FORMAT_VERSION;

use crate::ReasonCode;
use crate::model::{Body, JsonPath, Member, RawJson, RawObject, ValidationError};
use crate::store::Slot;

/// The reason why stored bytes are not an intact checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The checksum does not match the bytes.
    #[error("checksum mismatch: expected {expected}, found {found}")]
    Mismatch {
        /// The value in the seal or the header.
        expected: String,
        /// The value computed from the bytes.
        found: String,
    },
    /// The bytes are not a sealed document: empty, truncated, not JSON, or without an `integrity` member.
    #[error("not a sealed document: {0}")]
    Unsealed(&'static str),
    /// The seal is correct but the content is not a valid checkpoint.
    #[error(transparent)]
    Content(#[from] ValidationError),
    /// A newer version of Milepost wrote the document.
    #[error("format {found} is newer than format {FORMAT_VERSION}, the newest this program reads")]
    Newer {
        /// The format version of the document.
        found: u64,
    },
}

impl SealError {
    /// Returns the reason code. A wrong checksum is an integrity error; a missing seal or invalid content is
    /// a schema error.
    pub fn reason(&self) -> ReasonCode {
        match self {
            Self::Mismatch { .. } => ReasonCode::CheckpointIntegrityMismatch,
            Self::Unsealed(_) | Self::Content(_) => ReasonCode::CheckpointSchemaInvalid,
            Self::Newer { .. } => ReasonCode::StoreNewer,
        }
    }
}

/// A checkpoint ready to be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Sealed {
    header: Header,
    bytes: Vec<u8>,
}

impl Sealed {
    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the bytes of the sealed document.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Stored bytes whose seal was verified.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    bytes: Vec<u8>,
    checksum: String,
    version: u64,
}

/// A body that is complete except for its slot in the store, with the digests that coalescing compares.
#[derive(Debug, Clone)]
pub struct Unsealed {
    body: Body,
    members: Vec<Member>,
    state_given: bool,
    material: Material,
}

impl Unsealed {
    /// Prepares a body for sealing. `seal` sets its sequence number.
    pub fn new(body: Body, state_given: bool) -> Result<Self, ValidationError> {
        let members = body.members()?;
        let material = Material::of(&body, &members)?;
        Ok(Self { body, members, state_given, material })
    }

    /// Returns the body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// Iterates over the members as they will be written, except for the sequence number.
    pub fn members(&self) -> impl Iterator<Item = (&str, &RawJson)> {
        self.members.iter().map(|member| (member.name.as_ref(), &member.value))
    }

    /// Returns the body so that it can be changed again.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Returns the digests that coalescing compares.
    pub fn material(&self) -> &Material {
        &self.material
    }
}

const SEAL: &str = ",\"integrity\":{\"algorithm\":\"sha256\",\"checksum\":\"";
const VERSION: &str = "\",\"format_version\":";

/// Seals a body for the slot that the store assigned.
pub fn seal(unsealed: Unsealed, slot: &Slot) -> Result<Sealed, ValidationError> {
    let Unsealed { mut body, mut members, state_given, material } = unsealed;
    body.sequence = slot.sequence();
    if let Some(member) = members.iter_mut().find(|member| member.name == "sequence") {
        member.value = RawJson::of(&body.sequence)?;
    }
    let mut bytes = Vec::with_capacity(
        members.iter().map(|m| m.name.len() + m.value.get().len() + 4).sum::<usize>() + 160,
    );
    for (i, Member { name, value, .. }) in members.iter().enumerate() {
        bytes.push(if i == 0 { b'{' } else { b',' });
        bytes.extend_from_slice(serde_json::to_string(name).unwrap_or_default().as_bytes());
        bytes.push(b':');
        bytes.extend_from_slice(value.get().as_bytes());
    }
    bytes.push(b'}');
    let checksum = checksum(&bytes, FORMAT_VERSION);
    bytes.pop();
    bytes.extend_from_slice(SEAL.as_bytes());
    bytes.extend_from_slice(checksum.as_bytes());
    bytes.extend_from_slice(VERSION.as_bytes());
    bytes.extend_from_slice(FORMAT_VERSION.to_string().as_bytes());
    bytes.extend_from_slice(b"}}");
    let mut header = Header::of(&body, &material, state_given);
    header.stamp = slot.stamp();
    header.size = bytes.len() as u64;
    header.checksum = checksum;
    Ok(Sealed { header, bytes })
}

/// Verifies the seal of stored bytes.
pub fn verify(bytes: Vec<u8>) -> Result<Verified, SealError> {
    let (body_len, checksum_found, version) = split(&bytes)?;
    if version > FORMAT_VERSION {
        return Err(SealError::Newer { found: version });
    }
    let mut hasher = hasher(version);
    hasher.update(&bytes[..body_len]);
    hasher.update(b"}");
    let computed = HEXLOWER.encode(&hasher.finalize());
    if computed != checksum_found {
        return Err(SealError::Mismatch { expected: checksum_found, found: computed });
    }
    Ok(Verified { bytes, checksum: computed, version })
}

/// Finds the seal. Returns the length of the body without its closing brace, the checksum and the version.
fn split(bytes: &[u8]) -> Result<(usize, String, u64), SealError> {
    let tail = bytes.strip_suffix(b"}}").ok_or(SealError::Unsealed("the document does not end in a seal"))?;
    let digits = tail.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let (rest, version) = tail.split_at(tail.len() - digits);
    let version = std::str::from_utf8(version).unwrap_or_default();
    if version.is_empty() || version.starts_with('0') {
        return Err(SealError::Unsealed("the seal has no format version"));
    }
    let version = version.parse().map_err(|_| SealError::Unsealed("the seal has no format version"))?;
    let rest = rest.strip_suffix(VERSION.as_bytes()).ok_or(SealError::Unsealed("the seal is malformed"))?;
    let at = rest.len().checked_sub(64).ok_or(SealError::Unsealed("the seal has no checksum"))?;
    let (rest, checksum) = rest.split_at(at);
    let checksum = std::str::from_utf8(checksum)
        .ok()
        .filter(|text| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
        .ok_or(SealError::Unsealed("the seal has no checksum"))?;
    let rest = rest.strip_suffix(SEAL.as_bytes()).ok_or(SealError::Unsealed("the seal is malformed"))?;
    Ok((rest.len(), checksum.to_owned(), version))
}

impl Verified {
    /// Returns the bytes of the sealed document.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the checksum of the seal.
    pub fn checksum(&self) -> &str {
        &self.checksum
    }

    /// Returns the members of the body, upgraded to the current format, each value verbatim.
    pub fn fields(&self) -> Result<RawObject, SealError> {
        let mut fields = RawObject::parse(strict::utf8(&self.bytes)?, &JsonPath::Root)?;
        fields.take("integrity");
        Ok(version::upgrade(self.version, fields))
    }

    /// Returns the body, upgraded to the current format.
    pub fn body(&self) -> Result<Body, SealError> {
        Ok(Body::from_object(self.fields()?)?)
    }

    /// Verifies stored bytes against their header. A format version that differs from the header is reported
    /// as damage. So is a broken seal on bytes of the expected length: those bytes are this document with
    /// some bytes changed.
    pub fn read(bytes: Vec<u8>, header: &Header) -> Result<Self, SealError> {
        let same_length = bytes.len() as u64 == header.size;
        match verify(bytes) {
            Err(SealError::Unsealed(why)) if same_length => {
                Err(SealError::Mismatch { expected: header.checksum.clone(), found: why.to_owned() })
            }
            Err(SealError::Newer { found }) if found != header.format_version => Err(SealError::Mismatch {
                expected: format!("format {}", header.format_version),
                found: format!("format {found}"),
            }),
            Err(e) => Err(e),
            Ok(verified) => verified.matches(header).map(|()| verified),
        }
    }

    /// Checks that `header` describes these bytes.
    pub fn matches(&self, header: &Header) -> Result<(), SealError> {
        if self.checksum != header.checksum {
            return Err(SealError::Mismatch {
                expected: header.checksum.clone(),
                found: self.checksum.clone(),
            });
        }
        Ok(())
    }

    /// Prepares the unchanged bytes to be stored again under the stamp of `slot`. Used by copies, imports and
    /// rebuilt headers.
    pub fn into_sealed(self, slot: &Slot) -> Result<Sealed, SealError> {
        let fields = self.fields()?;
        let state_given = fields.get("state").is_some_and(|raw| !raw.is_null());
        let body = Body::from_object(fields)?;
        let material = Material::of(&body, &body.members()?)?;
        let mut header = Header::of(&body, &material, state_given);
        header.stamp = slot.stamp();
        header.size = self.bytes.len() as u64;
        header.format_version = self.version;
        header.checksum = self.checksum;
        Ok(Sealed { header, bytes: self.bytes })
    }
}

fn hasher(version: u64) -> Sha256 {
    Sha256::new_with_prefix(format!("milepost checkpoint format {version}\n"))
}

fn checksum(body: &[u8], version: u64) -> String {
    let mut hasher = hasher(version);
    hasher.update(body);
    HEXLOWER.encode(&hasher.finalize())
}

#[cfg(test)]
mod tests;
