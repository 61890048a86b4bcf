//! One configuration file: its values by dotted key, and warnings about unknown keys. Takes a path and
//! returns the values or the reason not to use the file. Refuses symbolic links, devices and other users'
//! files.

use std::io;
use std::path::PathBuf;

use milepost::internal::fs::bounded;
use milepost::internal::trust::user_id;
use strsim::levenshtein;

use crate::error::{CommandError, Result};

/// Maximum size of a configuration file.
pub(super) const LIMIT: u64 = 64 << 10;
/// Maximum number of unknown keys to warn about by name.
const NAMED_KEYS: usize = 20;

/// A configuration file and its values.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: PathBuf,
    values: Vec<(String, toml::Value)>,
}

/// What was found at a configuration file's path.
#[derive(Debug)]
pub(super) enum FileLookup {
    Missing,
    File(File),
    /// A symbolic link, a device or another user's file, which is not used. Contains the reason.
    Refused(String),
}

/// The hint for a file that cannot be parsed.
const CORRECT_FILE: &str = "correct the file, or remove it and let `milepost init` write a new one";

impl File {
    /// Reads a file. Unless `any_owner` is set, it must belong to this user or to root.
    pub(super) fn read(path: PathBuf, any_owner: bool) -> Result<FileLookup> {
        let (bytes, about) = match bounded::read_with_metadata(&path, LIMIT) {
            Ok(read) => read,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(FileLookup::Missing);
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge) => {
                return Ok(FileLookup::Refused(format!("it is {e}")));
            }
            Err(e) => return Err(milepost::Error::file(path, "read")(e).into()),
        };
        let owner = bounded::owner(&about);
        if let Some(owner) = owner.filter(|owner| *owner != 0 && Some(*owner) != user_id() && !any_owner) {
            return Ok(FileLookup::Refused(format!("it belongs to another user (uid {owner})")));
        }
        let text = String::from_utf8(bytes).map_err(|_| {
            CommandError::usage(format!("{} is not valid UTF-8", path.display())).with_hint(CORRECT_FILE)
        })?;
        let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            let line = e.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count().max(1));
            CommandError::usage(format!("{}, line {line}: {}", path.display(), e.message()))
                .with_hint(CORRECT_FILE)
        })?;
        let mut values = Vec::new();
        flatten(String::new(), toml::Value::Table(table), &mut values);
        Ok(FileLookup::File(Self { path, values }))
    }

    pub(super) fn get(&self, key: &str) -> Option<&toml::Value> {
        self.values.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// Every key and its value.
    pub(super) fn values(&self) -> &[(String, toml::Value)] {
        &self.values
    }

    /// Removes keys.
    pub(super) fn remove(&mut self, unwanted: impl Fn(&str) -> bool) {
        self.values.retain(|(name, _)| !unwanted(name));
    }

    /// One warning per unknown key, with the closest known key.
    pub(super) fn warnings(&self, known: &[&str]) -> Vec<String> {
        let is_unknown = |(name, _): &&(String, toml::Value)| !known.contains(&name.as_str());
        let more = self.values.iter().filter(is_unknown).count().saturating_sub(NAMED_KEYS);
        let more = (more > 0).then(|| format!("{more} more unknown keys in {}", self.path.display()));
        let unknown = self.values.iter().filter(is_unknown).take(NAMED_KEYS);
        unknown
            .map(|(name, _)| {
                let nearest = known.iter().min_by_key(|key| levenshtein(name, key));
                let close = nearest.filter(|key| levenshtein(name, key) <= name.len().max(key.len()) / 2);
                let advice = close.map_or(String::new(), |key| format!("; did you mean {key}?"));
                format!("unknown key {name} in {}{advice}", self.path.display())
            })
            .chain(more)
            .collect()
    }
}

fn flatten(prefix: String, value: toml::Value, into: &mut Vec<(String, toml::Value)>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
                flatten(key, value, into);
            }
        }
        value => into.push((prefix, value)),
    }
}

#[cfg(test)]
mod tests {
    use super::levenshtein;

    #[test]
    fn counts_letters() {
        assert_eq!(levenshtein("retain.keep_lst", "retain.keep_last"), 1);
        assert_eq!(levenshtein("", "abc"), 3);
        assert_eq!(levenshtein("kitten", "sitting"), 3);
        assert_eq!(levenshtein("profile", "profile"), 0);
    }
}
