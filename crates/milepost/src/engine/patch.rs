//! Patches: compares the files of a worktree at two instants. Takes two views of the files and returns one
//! patch per changed file, in the order of their paths. Reads contents; writes nothing.

use std::collections::{BTreeSet, HashSet};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use super::files::{Files, Worktree};
use super::snapshot::inside_root;
use crate::Error;
use crate::diff::patch::{FilePatch, FileVersion, LineSide, MAX_COMPARED, compare};
use crate::model::{PathText, ValidationError};
use crate::redact::AllowList;
use crate::snapshot::FileContent;
use crate::store::StoreError;

/// How long the lines of one file are compared before a coarser comparison.
const TIME_PER_FILE: Duration = Duration::from_secs(2);
/// How long the lines of all files are compared before a coarser comparison.
const TIME: Duration = Duration::from_secs(20);

/// Replaces a line that belongs to a secret of several lines.
const REDACTED_LINE: &str = "[redacted]";

/// The differences between the files of a worktree at two instants.
#[derive(Debug, Clone)]
pub struct FilePatches {
    patches: Vec<FilePatch>,
    left_out: u64,
    redacted: u64,
}

impl FilePatches {
    /// The patches, in the order of their paths.
    pub fn patches(&self) -> &[FilePatch] {
        &self.patches
    }

    /// Number of changed files that were left out because of the limit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether no file differs.
    pub fn is_empty(&self) -> bool {
        self.patches.is_empty() && self.left_out == 0
    }

    /// Number of lines from which secrets were redacted.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn redacted(&self) -> u64 {
        self.redacted
    }
}

impl Worktree<'_> {
    /// Compares the files at two instants. `paths` restricts the comparison to files and folders, which are
    /// absolute or relative to the root of the worktree; if it is empty, all files are compared. Returns the
    /// patches of at most `limit` files.
    pub fn patches(
        &self,
        from: &Files<'_>,
        to: &Files<'_>,
        paths: &[PathBuf],
        limit: usize,
    ) -> Result<FilePatches, Error> {
        self.compare_files(from, to, paths, limit, None)
    }

    /// Like `patches`, with the secrets in paths and lines redacted.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn redacted_patches(
        &self,
        from: &Files<'_>,
        to: &Files<'_>,
        paths: &[PathBuf],
        limit: usize,
        allow: &AllowList,
    ) -> Result<FilePatches, Error> {
        self.compare_files(from, to, paths, limit, Some(allow))
    }

    /// The content of a path, which is absolute or relative to the root of the worktree.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn content_at(&self, files: &Files<'_>, path: &Path) -> FileContent {
        inside_root(&self.root, path).map_or(FileContent::Absent, |path| files.content(&path))
    }

    /// Whether a file at or below a path has changed at either of two instants.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn has_changes_at(&self, path: &Path, from: &Files<'_>, to: &Files<'_>) -> bool {
        let Ok(filter) = self.filter(path) else { return false };
        let filters = [filter];
        from.changed_paths().iter().chain(&to.changed_paths()).any(|path| is_selected(path, &filters))
    }

    fn compare_files(
        &self,
        from: &Files<'_>,
        to: &Files<'_>,
        paths: &[PathBuf],
        limit: usize,
        redact: Option<&AllowList>,
    ) -> Result<FilePatches, Error> {
        let filters = paths.iter().map(|path| self.filter(path)).collect::<Result<Vec<_>, _>>()?;
        let end = Instant::now() + TIME;
        let mut all = FilePatches { patches: Vec::new(), left_out: 0, redacted: 0 };
        let mut files = 0;
        let changed: BTreeSet<_> = from.changed_paths().into_iter().chain(to.changed_paths()).collect();
        for path in changed.iter().filter(|path| is_selected(path, &filters)) {
            let contents = (from.content(path), to.content(path));
            if is_unchanged(path, from, to, &contents) {
                continue;
            }
            if files == limit {
                all.left_out += 1;
                continue;
            }
            let (old, new) = (version(from, &contents.0)?, version(to, &contents.1)?);
            let deadline = end.min(Instant::now() + TIME_PER_FILE);
            let mut patches = compare(path, &old, &new, Some(deadline));
            if let Some(allow) = redact {
                all.redacted +=
                    patches.iter_mut().map(|patch| redact_patch(patch, &old, &new, allow)).sum::<u64>();
            }
            files += usize::from(!patches.is_empty());
            all.patches.append(&mut patches);
        }
        Ok(all)
    }

    /// A path relative to the root, in bytes. Empty for the root itself.
    fn filter(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let inside = match path.is_absolute() {
            true => crate::fs::below(path, &self.root),
            false => Some(path.to_owned()),
        };
        let parts = inside.as_deref().map(|path| path.components().filter(|part| *part != Component::CurDir));
        let inside: Option<PathBuf> = parts.and_then(|parts| {
            parts.map(|part| matches!(part, Component::Normal(_)).then_some(part)).collect()
        });
        let Some(inside) = inside else {
            let message = format!("{} is outside of {}", path.display(), self.root.display());
            return Err(Error::Value {
                name: "path".into(),
                source: ValidationError { path: String::new(), message },
            });
        };
        Ok(crate::fs::stored_bytes(&inside).into_owned())
    }
}

/// Whether a path is one of the files, or below one of the folders.
fn is_selected(path: &[u8], filters: &[Vec<u8>]) -> bool {
    let is_below = |filter: &Vec<u8>| {
        let rest = path.strip_prefix(&filter[..]);
        filter.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    filters.is_empty() || filters.iter().any(is_below)
}

/// Whether a path has the same content in both. If neither content is available, it is unchanged if no change
/// was observed in between.
fn is_unchanged(
    path: &[u8],
    from: &Files<'_>,
    to: &Files<'_>,
    (old, new): &(FileContent, FileContent),
) -> bool {
    if !old.is_omitted() && !new.is_omitted() {
        return old == new;
    }
    match (from.manifest.entries.get(path), to.manifest.entries.get(path)) {
        (Some(one), Some(other)) => one.now == other.now && one.change.at == other.change.at,
        _ => false,
    }
}

/// Reads a version of a file. A content that the store no longer has is not available.
fn version(files: &Files<'_>, content: &FileContent) -> Result<FileVersion, Error> {
    Ok(match content {
        FileContent::Absent => FileVersion::Absent,
        FileContent::File { blob, size, executable } if *size > MAX_COMPARED => {
            FileVersion::Large { blob: *blob, executable: *executable }
        }
        FileContent::File { executable, .. } => match files.read(content) {
            Ok(bytes) => FileVersion::File { bytes, executable: *executable },
            Err(Error::Store(StoreError::NoBlob(_))) => {
                FileVersion::Unavailable { reason: "its content was removed from the store".into() }
            }
            Err(e) => return Err(e),
        },
        FileContent::Symlink { .. } => FileVersion::Symlink { target: files.read(content)? },
        FileContent::Submodule { commit } => FileVersion::Submodule { commit: commit.clone() },
        FileContent::Omitted { reason, .. } => FileVersion::Unavailable { reason: reason.clone() },
    })
}

/// Redacts a patch and returns the number of changed lines. A secret of several lines, such as a key, is found
/// in the whole file, because a hunk may contain only a part of it.
fn redact_patch(patch: &mut FilePatch, old: &FileVersion, new: &FileVersion, allow: &AllowList) -> u64 {
    let (old, new) = (harmless_lines(old, allow), harmless_lines(new, allow));
    let is_harmless =
        |lines: &Option<HashSet<String>>, line: &str| lines.as_ref().is_none_or(|lines| lines.contains(line));
    let path = match patch.path() {
        PathText::Text(path) => allow.redact_text(path),
        PathText::Bytes { .. } => None,
    };
    let mut redacted = u64::from(path.is_some());
    if let Some(path) = path {
        patch.set_path(PathText::Text(path));
    }
    patch.replace_lines(|side, text| {
        let line = String::from_utf8_lossy(text);
        let is_kept = match side {
            LineSide::Removed => is_harmless(&old, &line),
            LineSide::Added => is_harmless(&new, &line),
            LineSide::Both => is_harmless(&old, &line) && is_harmless(&new, &line),
        };
        let replaced = allow.redact_text(&line).or_else(|| (!is_kept).then(|| REDACTED_LINE.to_owned()))?;
        redacted += 1;
        Some(replaced.into_bytes())
    });
    redacted
}

/// The lines of a file that redaction keeps. `None` if it keeps all of them.
fn harmless_lines(version: &FileVersion, allow: &AllowList) -> Option<HashSet<String>> {
    let FileVersion::File { bytes, .. } = version else { return None };
    let redacted = allow.redact_text(&String::from_utf8_lossy(bytes))?;
    Some(redacted.split('\n').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> FileVersion {
        FileVersion::File { bytes: text.as_bytes().to_vec(), executable: false }
    }

    fn redacted(old: &str, new: &str) -> (String, u64) {
        let (old, new) = (file(old), file(new));
        let mut patch = compare(b"x", &old, &new, None).remove(0);
        let lines = redact_patch(&mut patch, &old, &new, &AllowList::EMPTY);
        (String::from_utf8(patch.to_bytes()).unwrap(), lines)
    }

    #[test]
    fn secrets_in_patches_are_redacted() {
        let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let (text, lines) = redacted("a\n", &format!("a\ntoken = {token}\nb\n"));
        assert!(!text.contains(&token) && text.contains("[redacted:") && text.contains("+b\n"), "{text}");
        assert_eq!(lines, 1);
        let (text, lines) = redacted("a\n", "a\nb\n");
        assert!(text.ends_with(" a\n+b\n") && lines == 0, "{text}");
    }

    #[test]
    fn a_part_of_a_key_in_a_hunk_is_redacted() {
        let body = |c: char| format!("{}\n", c.to_string().repeat(60));
        let all: String = ('a'..='t').map(body).collect();
        let key = |all: &str| {
            let (begin, end) = (
                ["-----BEGIN RSA", "PRIVATE KEY-----"].join(" "),
                ["-----END RSA", "PRIVATE KEY-----"].join(" "),
            );
            format!("before\n{begin}\n{all}{end}\nafter\n")
        };
        let (old, new) = (key(&all), key(&all.replace(&body('k'), "changed\n")));
        let (text, lines) = redacted(&old, &new);
        assert!(!text.contains("kkkk") && !text.contains("jjjj") && !text.contains("changed"), "{text}");
        assert_eq!(lines, 8, "{text}");
    }

    #[test]
    fn a_folder_selects_the_files_below_it() {
        let filters = [b"src".to_vec(), b"a/b.txt".to_vec()];
        for path in ["src/x", "src/deep/y", "a/b.txt", "src"] {
            assert!(is_selected(path.as_bytes(), &filters), "{path}");
        }
        for path in ["srcs/x", "a/b.txt2", "a/c", "x/src"] {
            assert!(!is_selected(path.as_bytes(), &filters), "{path}");
        }
        assert!(is_selected(b"any", &[]) && is_selected(b"any", &[Vec::new()]));
    }
}
