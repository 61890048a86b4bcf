//! Disables the filters and hooks that a repository's own configuration defines by name. Takes a repository
//! and returns the key and value of each override. Must not change the user's own definitions.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Instant;

use super::{Git, GitError};
use crate::fs::bounded;
use crate::store::Repository;

/// Maximum size of a configuration file.
const FILE_LIMIT: u64 = 1 << 20;
/// Maximum size of all definitions together. Their overrides must fit on a command line.
const OUTPUT_LIMIT: u64 = 64 << 10;

/// Sections that define programs or include other files.
const SECTIONS: [&[u8]; 3] = [b"filter", b"include", b"[hook"];

/// The keys that define or enable a filter or a hook.
const KEYS: &str = r"^(filter\..*\.(clean|smudge|process|required)|hook\..*\.(command|event|enabled))$";

/// Whether the repository's configuration may define filters or hooks. Reads at most two files.
pub(super) fn may_be_defined(repository: &Repository) -> bool {
    let files = [repository.common_dir().join("config"), repository.git_dir().join("config.worktree")];
    files.iter().any(|file| mentions_drivers(file))
}

fn mentions_drivers(file: &Path) -> bool {
    match bounded::read(file, FILE_LIMIT) {
        Ok(mut text) => {
            text.make_ascii_lowercase();
            SECTIONS.iter().any(|section| text.windows(section.len()).any(|at| at == *section))
        }
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

/// Whether the repository defines a key, and the user's value for it.
#[derive(Default)]
struct Setting {
    in_repository: bool,
    of_user: Option<Vec<u8>>,
}

/// Queries git for all definitions and returns overrides for the ones that the repository sets.
pub(super) fn overrides(git: &Git, deadline: Instant) -> Result<Vec<(OsString, OsString)>, GitError> {
    let args = ["config", "--show-scope", "-z", "--get-regexp", KEYS];
    let done = git.output(args, deadline, OUTPUT_LIMIT).map_err(|e| match e {
        GitError::TooLarge(_) => GitError::Refused("the repository defines too many filters".to_owned()),
        other => other,
    })?;
    // Exit code 1 means that no key matches.
    if !done.status.success() && done.status.code() != Some(1) {
        let why = done.stderr.unwrap_or_else(|| format!("git config failed: {}", done.status));
        return Err(GitError::Refused(why));
    }
    Ok(disabling_overrides(&done.output))
}

fn disabling_overrides(answer: &[u8]) -> Vec<(OsString, OsString)> {
    let mut settings: BTreeMap<&[u8], Setting> = BTreeMap::new();
    let mut pieces = answer.split(|byte| *byte == 0);
    while let (Some(scope), Some(entry)) = (pieces.next(), pieces.next()) {
        // A key without a value means true.
        let end = entry.iter().position(|byte| *byte == b'\n');
        let (key, value) = end.map_or((entry, &b"true"[..]), |end| (&entry[..end], &entry[end + 1..]));
        let setting = settings.entry(key).or_default();
        if [&b"local"[..], b"worktree"].contains(&scope) {
            setting.in_repository = true;
        } else {
            setting.of_user = Some(value.to_vec());
        }
    }
    let mut overrides: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut emptied: Vec<&[u8]> = Vec::new();
    for (key, setting) in settings.iter().filter(|(_, setting)| setting.in_repository) {
        let Some(dot) = key.iter().rposition(|byte| *byte == b'.') else { continue };
        let (driver, name) = (&key[..=dot], &key[dot + 1..]);
        if driver.starts_with(b"hook.") {
            overrides.insert([driver, b"enabled"].concat(), b"false".to_vec());
            continue;
        }
        match (&setting.of_user, name) {
            (Some(value), _) => drop(overrides.insert(key.to_vec(), value.clone())),
            (None, b"required") => drop(overrides.insert(key.to_vec(), b"false".to_vec())),
            (None, _) => {
                overrides.insert(key.to_vec(), Vec::new());
                emptied.push(driver);
            }
        }
    }
    // Git fails if a required filter does not run.
    overrides.extend(emptied.iter().map(|driver| ([driver, &b"required"[..]].concat(), b"false".to_vec())));
    overrides.into_iter().map(|(key, value)| (os_string(key), os_string(value))).collect()
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> OsString {
    OsString::from(String::from_utf8_lossy(&bytes).into_owned())
}
