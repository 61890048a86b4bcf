//! Compares two versions of a file line by line. Takes both versions and returns patches with hunks, or the
//! reason why the lines are not compared: binary, too large, not available. Pure.

use std::ops::Range;
use std::time::Instant;

use similar::{Algorithm, ChangeTag, DiffOp, capture_diff_slices_deadline, group_diff_ops};

use crate::model::{BlobId, PathText};

/// Number of unchanged lines around each change.
const CONTEXT_LINES: usize = 3;
/// The largest version whose lines are compared.
pub(crate) const MAX_COMPARED: u64 = 1 << 20;

/// One version of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileVersion {
    /// There is no file.
    Absent,
    /// A regular file.
    File {
        /// The content.
        bytes: Vec<u8>,
        /// Whether the owner may execute it.
        executable: bool,
    },
    /// A regular file that is too large to compare.
    Large {
        /// Identifies the content.
        blob: BlobId,
        /// Whether the owner may execute it.
        executable: bool,
    },
    /// A symbolic link.
    Symlink {
        /// The path that it points to.
        target: Vec<u8>,
    },
    /// A submodule.
    Submodule {
        /// The commit that is checked out.
        commit: String,
    },
    /// The content is not available.
    Unavailable {
        /// Why not.
        reason: String,
    },
}

impl FileVersion {
    /// The mode in git's notation. `None` if there is no file or if it is unknown.
    fn mode(&self) -> Option<&'static str> {
        match self {
            Self::Absent | Self::Unavailable { .. } => None,
            Self::File { executable, .. } | Self::Large { executable, .. } => {
                Some(if *executable { "100755" } else { "100644" })
            }
            Self::Symlink { .. } => Some("120000"),
            Self::Submodule { .. } => Some("160000"),
        }
    }

    /// The content that is compared. `None` if it must not be compared line by line.
    fn text(&self) -> Option<Vec<u8>> {
        match self {
            Self::Absent => Some(Vec::new()),
            Self::File { bytes, .. } => Some(bytes.clone()),
            Self::Symlink { target } => Some(target.clone()),
            // This is how git shows a submodule.
            Self::Submodule { commit } => Some(format!("Subproject commit {commit}\n").into_bytes()),
            Self::Large { .. } | Self::Unavailable { .. } => None,
        }
    }

    fn is_too_large(&self) -> bool {
        match self {
            Self::Large { .. } => true,
            Self::File { bytes, .. } => bytes.len() as u64 > MAX_COMPARED,
            _ => false,
        }
    }

    fn has_same_bytes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File { bytes, .. }, Self::File { bytes: others, .. }) => bytes == others,
            (Self::Large { blob, .. }, Self::Large { blob: other, .. }) => blob == other,
            _ => self == other,
        }
    }
}

/// How a file changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum PatchStatus {
    /// The file is new.
    Added,
    /// The file was deleted.
    Deleted,
    /// The content changed, and maybe the mode.
    Modified,
    /// Only the mode changed.
    ModeChanged,
    /// A version is not available, so it is unknown what changed.
    Unavailable,
}

/// The change of one file. A file that became a symbolic link, or the reverse, has two: a deleted and an
/// added file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch {
    pub(super) path: PathText,
    pub(super) status: PatchStatus,
    pub(super) old_mode: Option<&'static str>,
    pub(super) new_mode: Option<&'static str>,
    added: u64,
    removed: u64,
    pub(super) content: ContentChange,
}

/// How the content of a file changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContentChange {
    /// The changed lines with their context. Empty if only the mode changed, or if the file is empty.
    Hunks(Vec<Hunk>),
    /// A version is a binary file.
    Binary,
    /// A version is larger than `MAX_COMPARED`.
    TooLarge,
    /// A version is not available, for this reason.
    Unavailable(String),
}

/// A group of changed lines with their context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hunk {
    /// The lines of the old version, counted from 0.
    pub(super) old: Range<usize>,
    /// The lines of the new version, counted from 0.
    pub(super) new: Range<usize>,
    pub(super) lines: Vec<Line>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) side: LineSide,
    /// The text without its newline.
    pub(super) text: Vec<u8>,
    /// Whether a newline follows. Only the last line of a file may have none.
    pub(super) has_newline: bool,
}

/// The versions that a line is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineSide {
    /// Only the old version.
    Removed,
    /// Only the new version.
    Added,
    /// Both versions.
    Both,
}

impl FilePatch {
    /// The path, relative to the root of the worktree.
    pub fn path(&self) -> &PathText {
        &self.path
    }

    /// How the file changed.
    pub fn status(&self) -> PatchStatus {
        self.status
    }

    /// The earlier mode in git's notation, such as `100644`. `None` if there was no file or if it is unknown.
    pub fn old_mode(&self) -> Option<&'static str> {
        self.old_mode
    }

    /// The later mode in git's notation. `None` if there is no file or if it is unknown.
    pub fn new_mode(&self) -> Option<&'static str> {
        self.new_mode
    }

    /// Number of added lines.
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Number of removed lines.
    pub fn removed(&self) -> u64 {
        self.removed
    }

    /// Whether a version is a binary file.
    pub fn is_binary(&self) -> bool {
        self.content == ContentChange::Binary
    }

    /// Why the lines were not compared. `None` if they were.
    pub fn not_compared(&self) -> Option<&str> {
        match &self.content {
            ContentChange::Hunks(_) => None,
            ContentChange::Binary => Some("it is a binary file"),
            ContentChange::TooLarge => Some("it is larger than 1 MiB"),
            ContentChange::Unavailable(reason) => Some(reason),
        }
    }

    /// Replaces the path.
    pub(crate) fn set_path(&mut self, path: PathText) {
        self.path = path;
    }

    /// Replaces the text of lines. The function returns `None` to keep a text.
    pub(crate) fn replace_lines(&mut self, mut replace: impl FnMut(LineSide, &[u8]) -> Option<Vec<u8>>) {
        let ContentChange::Hunks(hunks) = &mut self.content else { return };
        for line in hunks.iter_mut().flat_map(|hunk| &mut hunk.lines) {
            if let Some(new) = replace(line.side, &line.text) {
                line.text = new;
            }
        }
    }
}

/// Compares two versions of a file. After the deadline, hunks are still correct, but larger than necessary.
pub(crate) fn compare(
    path: &[u8],
    old: &FileVersion,
    new: &FileVersion,
    deadline: Option<Instant>,
) -> Vec<FilePatch> {
    let (old_mode, new_mode) = (old.mode(), new.mode());
    let patch = |status, content| FilePatch {
        path: PathText::of(path),
        status,
        old_mode,
        new_mode,
        added: count(&content, LineSide::Added),
        removed: count(&content, LineSide::Removed),
        content,
    };
    let reason = [old, new].into_iter().find_map(|version| match version {
        FileVersion::Unavailable { reason } => Some(reason.clone()),
        _ => None,
    });
    if let Some(reason) = reason {
        return vec![patch(PatchStatus::Unavailable, ContentChange::Unavailable(reason))];
    }
    let status = match (old_mode, new_mode) {
        (None, None) => return Vec::new(),
        (None, Some(_)) => PatchStatus::Added,
        (Some(_), None) => PatchStatus::Deleted,
        // A patch cannot turn a file into a symbolic link.
        (Some(old_mode), Some(new_mode)) if old_mode[..3] != new_mode[..3] => {
            let mut both = compare(path, old, &FileVersion::Absent, deadline);
            both.extend(compare(path, &FileVersion::Absent, new, deadline));
            return both;
        }
        (Some(_), Some(_)) if !old.has_same_bytes(new) => PatchStatus::Modified,
        (Some(old_mode), Some(new_mode)) if old_mode != new_mode => {
            return vec![patch(PatchStatus::ModeChanged, ContentChange::Hunks(Vec::new()))];
        }
        (Some(_), Some(_)) => return Vec::new(),
    };
    let content = match (old.text(), new.text()) {
        _ if old.is_too_large() || new.is_too_large() => ContentChange::TooLarge,
        (Some(old), Some(new)) if !is_binary(&old) && !is_binary(&new) => {
            ContentChange::Hunks(hunks(&old, &new, deadline))
        }
        _ => ContentChange::Binary,
    };
    vec![patch(status, content)]
}

/// Compares two contents of a regular file, for tests of the presentation.
pub fn compare_contents(path: &str, old: Option<Vec<u8>>, new: Option<Vec<u8>>) -> Vec<FilePatch> {
    let version = |content: Option<Vec<u8>>| match content {
        Some(bytes) => FileVersion::File { bytes, executable: false },
        None => FileVersion::Absent,
    };
    compare(path.as_bytes(), &version(old), &version(new), None)
}

fn count(content: &ContentChange, side: LineSide) -> u64 {
    let ContentChange::Hunks(hunks) = content else { return 0 };
    hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.side == side).count() as u64
}

/// Whether a content is not text: it has a NUL byte, or many bytes that are not UTF-8. Text in an older
/// encoding has only a few of these.
pub fn is_binary(bytes: &[u8]) -> bool {
    /// Number of bytes to examine, as in git.
    const EXAMINED: usize = 8000;
    let start = &bytes[..bytes.len().min(EXAMINED)];
    let not_utf8: usize = start.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    // A character may be cut at the end.
    start.contains(&0) || not_utf8.saturating_sub(3) > start.len() / 10
}

fn hunks(old: &[u8], new: &[u8], deadline: Option<Instant>) -> Vec<Hunk> {
    let split = |text| <[u8]>::split_inclusive(text, |byte| *byte == b'\n').collect::<Vec<_>>();
    let (old, new) = (split(old), split(new));
    let operations = capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline);
    group_diff_ops(operations, CONTEXT_LINES).iter().filter_map(|group| hunk(group, &old, &new)).collect()
}

fn hunk(group: &[DiffOp], old: &[&[u8]], new: &[&[u8]]) -> Option<Hunk> {
    let (first, last) = (group.first()?, group.last()?);
    let changes = group.iter().flat_map(|operation| operation.iter_changes(old, new));
    let lines = changes.map(|change| {
        let whole = change.value();
        let text = whole.strip_suffix(b"\n");
        Line {
            side: match change.tag() {
                ChangeTag::Equal => LineSide::Both,
                ChangeTag::Delete => LineSide::Removed,
                ChangeTag::Insert => LineSide::Added,
            },
            text: text.unwrap_or(whole).to_owned(),
            has_newline: text.is_some(),
        }
    });
    Some(Hunk {
        old: first.old_range().start..last.old_range().end,
        new: first.new_range().start..last.new_range().end,
        lines: lines.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> FileVersion {
        FileVersion::File { bytes: text.as_bytes().to_vec(), executable: false }
    }

    fn only(old: &FileVersion, new: &FileVersion) -> FilePatch {
        let mut all = compare(b"x", old, new, None);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn a_change_has_a_status_modes_and_counts() {
        let absent = FileVersion::Absent;
        let program = FileVersion::File { bytes: b"a\n".to_vec(), executable: true };
        let described = |old: &FileVersion, new: &FileVersion| {
            let patch = only(old, new);
            (patch.status(), patch.old_mode(), patch.new_mode(), patch.added(), patch.removed())
        };
        let (plain, run) = (Some("100644"), Some("100755"));
        assert_eq!(described(&absent, &file("a\nb\n")), (PatchStatus::Added, None, plain, 2, 0));
        assert_eq!(described(&program, &absent), (PatchStatus::Deleted, run, None, 0, 1));
        assert_eq!(described(&file("a\n"), &program), (PatchStatus::ModeChanged, plain, run, 0, 0));
        assert_eq!(described(&file("a"), &file("a\n")), (PatchStatus::Modified, plain, plain, 1, 1));
        assert_eq!(described(&absent, &file("")), (PatchStatus::Added, None, plain, 0, 0));
        for same in [&absent, &program, &file("a\n")] {
            assert_eq!(compare(b"x", same, same, None), []);
        }
    }

    #[test]
    fn a_file_that_becomes_a_link_is_deleted_and_added() {
        let link = FileVersion::Symlink { target: b"y".to_vec() };
        let both = compare(b"x", &file("a\n"), &link, None);
        assert_eq!(
            both.iter().map(FilePatch::status).collect::<Vec<_>>(),
            [PatchStatus::Deleted, PatchStatus::Added]
        );
        assert_eq!(both[1].new_mode(), Some("120000"));
    }

    #[test]
    fn some_files_are_not_compared_line_by_line() {
        let why = |old: &FileVersion, new: &FileVersion| only(old, new).not_compared().map(str::to_owned);
        let bytes = |bytes: &[u8]| FileVersion::File { bytes: bytes.to_vec(), executable: false };
        let large =
            |text: &str, executable| FileVersion::Large { blob: BlobId::of(text.as_bytes()), executable };
        let gone = FileVersion::Unavailable { reason: "too large".into() };
        assert_eq!(why(&file("a"), &bytes(b"a\0b")).unwrap(), "it is a binary file");
        assert_eq!(why(&FileVersion::Absent, &bytes(&[0xff; 100])).unwrap(), "it is a binary file");
        assert_eq!(why(&file("a"), &bytes("gr\u{fc}n\n".as_bytes())), None);
        assert_eq!(why(&file("a"), &bytes(b"this line is in Latin-1: gr\xfcn\n")), None);
        assert_eq!(why(&file("a"), &large("b", false)).unwrap(), "it is larger than 1 MiB");
        assert_eq!(why(&file("a"), &bytes(&[b'x'; (1 << 20) + 1])).unwrap(), "it is larger than 1 MiB");
        assert_eq!(why(&gone, &file("a")).unwrap(), "too large");
        assert_eq!(only(&gone, &gone).status(), PatchStatus::Unavailable);
        assert_eq!(only(&large("b", false), &large("b", true)).status(), PatchStatus::ModeChanged);
        assert_eq!(compare(b"x", &large("b", true), &large("b", true), None), []);
        let cut = "ü".repeat(5000);
        assert!(!is_binary(&cut.as_bytes()[1..]) && !is_binary(b""));
    }

    #[test]
    fn a_passed_deadline_gives_a_correct_patch() {
        let lines = |step: usize| (0..2000).map(|n| format!("{}\n", n * step % 977)).collect::<String>();
        let (old, new) = (lines(3), lines(7));
        let patch = compare(b"x", &file(&old), &file(&new), Some(Instant::now()));
        let ContentChange::Hunks(hunks) = &patch[0].content else { panic!("{patch:?}") };
        let joined = |skipped| -> String {
            let lines = hunks.iter().flat_map(|hunk| &hunk.lines).filter(|line| line.side != skipped);
            lines.map(|line| format!("{}\n", String::from_utf8_lossy(&line.text))).collect()
        };
        assert!(old.ends_with(&joined(LineSide::Added)) || old.contains(&joined(LineSide::Added)));
        assert!(new.contains(&joined(LineSide::Removed)));
    }
}
