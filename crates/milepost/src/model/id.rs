//! Ids of runs, checkpoints and stores: their syntax, and how new ones are generated.
//! A valid id is safe to use as a file name.

use derive_getters::Getters;
use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{FromRawJson, JsonPath, ValidationError};

/// The error for an id with invalid syntax.
#[derive(Getters, Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} id \"{id}\" is not valid: {why}")]
pub struct IdError {
    /// The kind of id: `run`, `checkpoint` or `store`.
    #[getter(copy)]
    pub(crate) kind: &'static str,
    /// The invalid id, truncated to 64 characters.
    pub(crate) id: String,
    /// What is wrong with the id.
    #[getter(copy)]
    pub(crate) why: &'static str,
}

fn check(kind: &'static str, id: &str) -> Result<(), IdError> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let why = match id.as_bytes() {
        [] => "it is empty",
        bytes if bytes.len() > 128 => "it is longer than 128 characters",
        [first, ..] if !first.is_ascii_alphanumeric() => "it must start with a letter or a digit",
        bytes if !bytes.iter().copied().all(allowed) => "only letters, digits, '.', '_' and '-' are allowed",
        [.., b'.'] => "it must not end in a dot",
        _ => return Ok(()),
    };
    Err(IdError { kind, id: id.chars().take(64).collect(), why })
}

macro_rules! id {
    ($(#[$meta:meta])* $name:ident, $kind:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
        #[schemars(transparent)]
        pub struct $name(#[schemars(regex(pattern = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?$"))] String);

        impl $name {
            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(id: &str) -> Result<Self, IdError> {
                check($kind, id).map(|()| Self(id.to_owned()))
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let id = String::deserialize(deserializer)?;
                check($kind, &id).map_err(serde::de::Error::custom)?;
                Ok(Self(id))
            }
        }

        impl FromRawJson for $name {
            fn from_raw(text: &str, path: &JsonPath<'_>) -> Result<Self, ValidationError> {
                String::from_raw(text, path)?.parse().map_err(|e: IdError| ValidationError::at(path, e.to_string()))
            }
        }
    };
}

id! {
    /// The id of a checkpoint, unique within its store.
    CheckpointId, "checkpoint"
}
id! {
    /// The id of a run, unique within its store.
    RunId, "run"
}

id! {
    /// The id of a store, unique across machines.
    StoreId, "store"
}

impl StoreId {
    /// Generates an id with 80 random bits.
    pub fn generate() -> Self {
        Self(format!("st_{}", random_suffix(16)))
    }
}

/// The random part of an id, which is a prefix, the time, `_` and the random part. The random part begins at
/// `start` and has `len` characters.
fn random_part<'a>(id: &'a str, prefix: &str, start: usize, len: usize) -> Option<&'a str> {
    let (head, random) = id.split_at_checked(start)?;
    (head.starts_with(prefix) && head.ends_with('_') && random.len() == len).then_some(random)
}

impl CheckpointId {
    /// Where the random part of a generated id begins.
    pub(crate) const SHORT_START: usize = 23;

    /// The random part of a generated id. It identifies the checkpoint in lists, and any unique start of it
    /// is accepted as a reference. Ids that were not generated here, such as imported ones, have no short
    /// form.
    pub fn short(&self) -> Option<&str> {
        random_part(&self.0, "cp_", Self::SHORT_START, 12)
    }

    /// Generates an id from the time, for readability, and 60 random bits, which keep the ids of concurrent
    /// processes distinct.
    pub fn generate(now: Timestamp) -> Self {
        Self(format!("cp_{}_{}", now.strftime("%Y%m%dT%H%M%S%3fZ"), random_suffix(12)))
    }
}

impl RunId {
    /// The random part of a generated id, or `None` for a name that the caller chose.
    pub fn short(&self) -> Option<&str> {
        random_part(&self.0, "run_", 21, 8)
    }

    /// Generates an id from the time, for readability, and 40 random bits for uniqueness.
    pub fn generate(now: Timestamp) -> Self {
        Self(format!("run_{}_{}", now.strftime("%Y%m%dT%H%M%SZ"), random_suffix(8)))
    }

    /// Derives the run id for an agent's session. The same session always has the same id. If the session id
    /// contains characters that are not allowed, they are replaced and a digest keeps the result distinct.
    pub fn for_session(agent: &str, session: &str) -> Self {
        let whole = format!("{agent}-{session}");
        if check("run", &whole).is_ok() {
            return Self(whole);
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        let start: String = whole.chars().map(plain).take(80).collect();
        let start = start.trim_start_matches(['-', '_']);
        Self(format!("{}x{}", start, &blake3::hash(whole.as_bytes()).to_hex()[..16]))
    }
}

/// Identifies one write across its retries, so that a commit whose reply was lost is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WriteToken(String);

impl WriteToken {
    /// Generates a token with 60 random bits.
    pub fn generate() -> Self {
        Self(random_suffix(12))
    }

    /// Returns the token as text, for a store that keeps tokens in a table.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns `len` random characters (at most 16) of five bits each.
pub fn random_suffix(len: usize) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut bytes = [0u8; 16];
    if getrandom::fill(&mut bytes).is_err() {
        // Without the kernel's random generator, the hasher's random keys and a counter keep ids distinct.
        use std::hash::{BuildHasher, RandomState};
        use std::sync::atomic::{AtomicU64, Ordering};
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let keys = RandomState::new();
        bytes[..8].copy_from_slice(&keys.hash_one((n, std::process::id())).to_le_bytes());
        bytes[8..].copy_from_slice(&keys.hash_one((std::process::id(), n)).to_le_bytes());
    }
    bytes.iter().take(len).map(|b| DIGITS[usize::from(b & 31)] as char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("")]
    #[case("../../x")]
    #[case("/etc/x")]
    #[case("a/b")]
    #[case("..")]
    #[case(".hidden")]
    #[case("-flag")]
    #[case("a\n")]
    #[case("a b")]
    #[case("trailing.")]
    #[case("ü")]
    #[case("a\0b")]
    fn refuses_what_could_leave_its_folder(#[case] id: &str) {
        assert!(id.parse::<RunId>().is_err());
        assert!(id.parse::<CheckpointId>().is_err());
    }

    #[test]
    fn length_is_bounded_at_128() {
        assert!("a".repeat(128).parse::<RunId>().is_ok());
        assert!("a".repeat(129).parse::<RunId>().is_err());
        assert!("a".repeat(300).parse::<RunId>().is_err());
    }

    #[test]
    fn derived_ids_are_valid_and_differ() {
        assert_eq!(RunId::for_session("codex", "01a1-b").as_str(), "codex-01a1-b");
        let odd = ["", "../../x", "a/b", "a b", "trailing.", "ü", "a\nb", &"x".repeat(300), &"x".repeat(301)];
        let ids: std::collections::HashSet<_> =
            odd.iter().map(|odd| RunId::for_session("codex", odd)).collect();
        assert_eq!(ids.len(), odd.len());
        for id in ids.iter().chain([&RunId::for_session("../", "..")]) {
            id.as_str().parse::<RunId>().unwrap();
        }
    }

    #[test]
    fn fresh_ids_are_valid_and_differ() {
        let now: Timestamp = "2026-01-02T03:04:05.006Z".parse().unwrap();
        let ids: std::collections::HashSet<_> = (0..10_000).map(|_| CheckpointId::generate(now)).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids {
            assert!(id.as_str().starts_with("cp_20260102T030405006Z_"), "{id}");
            id.as_str().parse::<CheckpointId>().unwrap();
        }
        RunId::generate(now).as_str().parse::<RunId>().unwrap();
    }

    #[test]
    fn generated_ids_alone_have_a_short_form() {
        let now: Timestamp = "2026-01-02T03:04:05.006Z".parse().unwrap();
        let id = CheckpointId::generate(now);
        assert_eq!(id.as_str(), format!("cp_20260102T030405006Z_{}", id.short().unwrap()));
        let run = RunId::generate(now);
        assert_eq!(run.as_str(), format!("run_20260102T030405Z_{}", run.short().unwrap()));
        for id in ["cp_1", "CHK-7", "cp_20260102T030405006Z_abc", "xx_20260102T030405006Z_0123456789ab"] {
            assert_eq!(id.parse::<CheckpointId>().unwrap().short(), None, "{id}");
        }
        assert_eq!("nightly".parse::<RunId>().unwrap().short(), None);
    }
}
