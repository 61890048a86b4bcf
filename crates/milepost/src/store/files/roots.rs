//! The named roots of a store of files: one file, `.store/blob-roots`, with a checksum on every line. The first
//! line has the number of roots, so that a missing line is detected. Written atomically, under the lock.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::opener::OWN_FOLDER;
use super::{FilesStore, read_error};
use crate::fs::atomic::{self, Mode};
use crate::fs::{bounded, if_exists};
use crate::model::BlobId;
use crate::store::check::{checksummed_line, parse_checksummed_line};
use crate::store::{Damage, Part, StoreError};

/// Maximum size of the file in bytes.
const LIMIT: u64 = 64 << 20;

/// The content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Roots {
    pub(super) by_name: BTreeMap<String, BlobId>,
    /// Lines that cannot be read. They stay in the file until it is repaired, so that no blob is collected
    /// because its root is damaged.
    pub(super) damaged: Vec<String>,
}

impl FilesStore {
    fn roots_file(&self) -> PathBuf {
        self.root.join(OWN_FOLDER).join("blob-roots")
    }

    /// All roots, readable or damaged.
    pub(super) fn read_roots(&self) -> Result<Roots, StoreError> {
        let path = self.roots_file();
        let mut roots = Roots::default();
        let text = if_exists(bounded::read(&path, LIMIT)).map_err(|e| read_error(&path, e))?;
        let Some(text) = text else { return Ok(roots) };
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines();
        let count = lines.next().and_then(|line| parse_checksummed_line(Part::Blob, b"roots", line));
        let mut found = 0_usize;
        for line in lines {
            found += 1;
            match parse(line) {
                Some((name, blob)) => drop(roots.by_name.insert(name, blob)),
                None => roots.damaged.push(line.to_owned()),
            }
        }
        if count.and_then(|count| count.parse().ok()) != Some(found) {
            roots.damaged.push("lines are missing".to_owned());
        }
        Ok(roots)
    }

    /// All roots, sorted by name. Fails if one is damaged.
    pub(super) fn intact_roots(&self) -> Result<Vec<(String, BlobId)>, StoreError> {
        let roots = self.read_roots()?;
        if roots.damaged.is_empty() {
            return Ok(roots.by_name.into_iter().collect());
        }
        Err(Damage::integrity(Part::Blob, "intact lines in .store/blob-roots", "damaged ones").into())
    }

    /// Changes the roots durably, unless they stay the same. The caller must hold the lock.
    pub(super) fn change_roots(&self, change: impl FnOnce(&mut Roots)) -> Result<(), StoreError> {
        let before = self.read_roots()?;
        let mut roots = before.clone();
        change(&mut roots);
        if roots == before {
            return Ok(());
        }
        let path = self.roots_file();
        let count = roots.by_name.len() + roots.damaged.len();
        let mut text = checksummed_line(Part::Blob, b"roots", &count.to_string());
        for (name, blob) in &roots.by_name {
            let name = serde_json::to_string(name).map_err(|e| self.write_error(&path, e.into()))?;
            text.push_str(&checksummed_line(Part::Blob, b"root", &format!("{blob} {name}")));
        }
        for line in &roots.damaged {
            text.push_str(line);
            text.push('\n');
        }
        atomic::write(&path, text.as_bytes(), Mode::Private).map_err(|e| self.write_error(&path, e))
    }
}

fn parse(line: &str) -> Option<(String, BlobId)> {
    let (blob, name) = parse_checksummed_line(Part::Blob, b"root", line)?.split_once(' ')?;
    Some((serde_json::from_str(name).ok()?, blob.parse().ok()?))
}
