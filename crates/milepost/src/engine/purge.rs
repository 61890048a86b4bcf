//! Purge: removes the stored contents of chosen files everywhere: from every checkpoint, pending item and undo
//! point of the store. Takes paths of a worktree; its files themselves are not touched. For a file that should
//! never have been recorded, such as one with a password.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use derive_getters::Getters;
use serde::Serialize;

use super::collect::{self, References, Roots};
use super::files::Worktree;
use super::snapshot::inside_root;
use crate::Error;
use crate::model::{BlobId, PathText};
use crate::restore;
use crate::store::{Maintenance, Store, StoreError};

/// The result of a purge, or what it would do.
#[derive(Getters, Debug, Clone, Serialize)]
pub struct PurgeReport {
    /// Whether nothing was changed.
    #[getter(copy)]
    pub(crate) dry_run: bool,
    /// The paths whose contents were removed, relative to the root of the worktree.
    pub(crate) paths: Vec<PathText>,
    /// Number of different contents that were removed from the store.
    #[getter(copy)]
    pub(crate) contents: u64,
    /// Number of files that restores had moved aside and that were removed.
    #[getter(copy)]
    pub(crate) moved_aside: u64,
    /// Number of bytes that the contents took in the store.
    #[getter(copy)]
    pub(crate) bytes: u64,
    /// Other paths that lost a content, because it was the same.
    pub(crate) shared_with: Vec<PathText>,
}

impl PurgeReport {
    /// Combines what was removed from this machine and from the server of a store. Most contents were in both.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    #[must_use]
    pub(crate) fn combined(mut self, server: Self) -> Self {
        let merge = |all: &mut Vec<PathText>, more: Vec<PathText>| {
            all.extend(more.into_iter().filter(|path| !all.contains(path)).collect::<Vec<_>>());
        };
        merge(&mut self.paths, server.paths);
        merge(&mut self.shared_with, server.shared_with);
        self.contents = self.contents.max(server.contents);
        self.bytes += server.bytes;
        // Both find the same files, and the first one removes them.
        self.moved_aside = self.moved_aside.max(server.moved_aside);
        self
    }
}

/// The contents to remove, and the paths that have them.
#[derive(Default)]
struct Found {
    contents: HashSet<BlobId>,
    paths: BTreeSet<Vec<u8>>,
    shared_with: BTreeSet<Vec<u8>>,
}

impl Worktree<'_> {
    /// Removes the contents of these files, and of all files in these folders, from all checkpoints, pending items
    /// and undo points. Removes them for all worktrees that use the store. If a file still exists, its next change
    /// is stored again.
    pub fn purge(&self, paths: &[PathBuf], dry_run: bool) -> Result<PurgeReport, Error> {
        let store = &*self.milepost.store;
        let wanted = self.relative_paths(paths)?;
        let is_wanted = |path: &[u8]| wanted.iter().any(|wanted| is_at_or_below(path, wanted));
        // A restore that was interrupted may need the contents.
        if !dry_run {
            self.recover()?;
        }
        let mut references = References::default();
        let found = self.find(&Roots::read(store)?, &mut references, &is_wanted)?;
        let sizes: HashMap<BlobId, u64> =
            store.blobs(None, 0)?.iter().map(|blob| (blob.id, blob.bytes)).collect();
        let stored = |id: &&BlobId| sizes.get(*id).is_some_and(|bytes| *bytes > 0);
        let contents: Vec<_> = found.contents.iter().filter(stored).collect();
        let moved_aside = restore::remove_aside(&self.target(), &is_wanted, dry_run)?;
        if !dry_run && !contents.is_empty() {
            store.collect_blobs(&mut || {
                let roots = Roots::read(store)?;
                let mut live = collect::find_live(store, &roots, &mut references, None)?;
                live.evict = self.find(&roots, &mut references, &is_wanted)?.contents;
                live.erase = true;
                Ok(live)
            })?;
            store.maintain(Maintenance::Compact)?;
        }
        #[cfg(feature = "search")]
        if !dry_run {
            self.milepost.forget_paths(|path| {
                let inside =
                    inside_root(&self.root, path.as_ref()).unwrap_or_else(|| path.as_bytes().to_vec());
                is_wanted(&inside)
            });
        }
        let path_texts = |paths: &BTreeSet<Vec<u8>>| paths.iter().map(|path| PathText::of(path)).collect();
        Ok(PurgeReport {
            dry_run,
            paths: path_texts(&found.paths),
            contents: contents.len() as u64,
            moved_aside,
            bytes: contents.iter().map(|id| sizes[*id]).sum(),
            shared_with: path_texts(&found.shared_with),
        })
    }

    fn relative_paths(&self, paths: &[PathBuf]) -> Result<Vec<Vec<u8>>, Error> {
        let relative = |path: &PathBuf| {
            // The root stands for all files.
            let all = (*path == self.root).then(Vec::new);
            all.or_else(|| inside_root(&self.root, path)).ok_or_else(|| Error::FileUnavailable {
                path: path.display().to_string(),
                reference: "any checkpoint".to_owned(),
                why: "it is outside of the worktree".to_owned(),
            })
        };
        paths.iter().map(relative).collect()
    }

    /// Finds the contents that wanted paths have in any manifest or pending item.
    fn find(
        &self,
        roots: &Roots,
        references: &mut References,
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Found, StoreError> {
        let store: &dyn Store = &*self.milepost.store;
        let mut found = Found::default();
        let manifests = references.all(store, roots)?;
        for id in &manifests {
            let Some(manifest) = references.of(store, id)? else { continue };
            for (path, contents) in manifest.paths.iter().filter(|(path, _)| is_wanted(path)) {
                let contents: Vec<_> = contents.iter().flatten().collect();
                if !contents.is_empty() {
                    found.paths.insert(path.clone());
                }
                found.contents.extend(contents);
            }
        }
        for (path, content) in &roots.contents {
            let Some(path) = inside_root(&self.root, path.as_ref()).filter(|path| is_wanted(path)) else {
                continue;
            };
            found.paths.insert(path);
            found.contents.insert(*content);
        }
        // Values that belong to no file are never removed.
        found.contents.retain(|id| !roots.attached.contains(id));
        for id in &manifests {
            let Some(manifest) = references.of(store, id)? else { continue };
            let has_content = |contents: &[Option<BlobId>; 2]| {
                contents.iter().flatten().any(|id| found.contents.contains(id))
            };
            let others =
                manifest.paths.iter().filter(|(path, contents)| !is_wanted(path) && has_content(contents));
            found.shared_with.extend(others.map(|(path, _)| path.clone()));
        }
        Ok(found)
    }
}

/// Whether a path is this file or is in this folder.
fn is_at_or_below(path: &[u8], wanted: &[u8]) -> bool {
    path.strip_prefix(wanted)
        .is_some_and(|rest| wanted.is_empty() || rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_contains_its_files_only() {
        assert!(
            is_at_or_below(b"a/b", b"a") && is_at_or_below(b"a", b"a") && is_at_or_below(b"a/b/c", b"a/b")
        );
        assert!(
            !is_at_or_below(b"ab", b"a") && !is_at_or_below(b"a", b"a/b") && !is_at_or_below(b"b/a", b"a")
        );
    }
}
