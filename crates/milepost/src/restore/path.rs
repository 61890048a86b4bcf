//! Checks the paths of a plan: relative, without components that lead elsewhere, and not in the folders of
//! git or Milepost. Takes bytes and returns components. Pure.

use super::types::{RestoreError, display_bytes};
use crate::model::PathText;

/// Prefix of the names of temporary files in the worktree.
pub(super) const TEMP_PREFIX: &str = ".milepost-restore-";

/// Names that no component may have, in any case: the folders of git and Milepost, and git's short name on
/// Windows.
const RESERVED: [&str; 3] = [".git", ".milepost", "git~1"];

/// Checks whether a path may be restored. The engine lists paths that fail as skipped.
pub fn check_path(path: &PathText) -> Result<Vec<u8>, RestoreError> {
    let Some(bytes) = path.to_bytes() else {
        return Err(RestoreError::InvalidPath { path: path.key(), why: "its base64 is invalid" });
    };
    match problem(&bytes) {
        Some(why) => Err(RestoreError::InvalidPath { path: display_bytes(&bytes), why }),
        None => Ok(bytes),
    }
}

fn problem(path: &[u8]) -> Option<&'static str> {
    if path.is_empty() {
        return Some("it is empty");
    }
    if path.contains(&0) {
        return Some("it contains a NUL byte");
    }
    if path.starts_with(b"/") {
        return Some("it is absolute");
    }
    if cfg!(windows) && path.iter().any(|b| matches!(b, b'\\' | b':')) {
        return Some("it contains a separator of this platform");
    }
    path.split(|b| *b == b'/').find_map(|component| match component {
        b"" => Some("it has an empty component"),
        b"." | b".." => Some("it has the component . or .."),
        _ if component.starts_with(TEMP_PREFIX.as_bytes()) => Some("it is a temporary file of a restore"),
        _ if is_reserved(component) => Some("it is in a folder of git or Milepost"),
        _ => None,
    })
}

/// Whether a file system could take the component for a reserved name: Windows ignores case, final dots and
/// spaces, and the part after a colon; macOS also ignores some invisible characters.
fn is_reserved(component: &[u8]) -> bool {
    let text = String::from_utf8_lossy(component);
    let visible: String = text.chars().filter(|c| !is_ignorable(*c)).collect();
    let name = visible.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// The folder and the name of a path. The folder of a path with one component is empty.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The folders above a path, from the outermost to the direct parent, without the root.
pub(super) fn ancestors(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let ends: Vec<usize> = path.iter().enumerate().filter(|(_, b)| **b == b'/').map(|(at, _)| at).collect();
    ends.into_iter().map(|end| &path[..end])
}

/// Joins a folder, which may be empty, and a name.
pub(super) fn join(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        for bad in [
            "",
            "/etc/x",
            "../x",
            "a/../../x",
            "a/./b",
            "a//b",
            "a/",
            ".",
            "a\0b",
            ".git/config",
            ".GIT/hooks/x",
            "a/.git",
            "sub/.Git/x",
            ".milepost/store",
            "GIT~1/config",
            ".git./x",
            ".git /x",
            ".git::$DATA",
            ".g\u{200c}it/config",
            ".milepost-restore-1-2",
        ] {
            assert!(check_path(&PathText::Text(bad.to_owned())).is_err(), "{bad}");
        }
        assert!(check_path(&PathText::Bytes { b64: "!".to_owned() }).is_err());
        for good in [".gitignore", ".github/x", "a/.gitmodules", "..a", "a..", "-x", "a\nb", "💥", "milepost"]
        {
            assert_eq!(check_path(&PathText::Text(good.to_owned())).unwrap(), good.as_bytes());
        }
        assert_eq!(check_path(&PathText::of(b"a\xff")).unwrap(), b"a\xff");
    }

    #[test]
    fn a_path_is_split_into_its_folders_and_its_name() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!(ancestors(b"a/b/c").collect::<Vec<_>>(), [&b"a"[..], b"a/b"]);
        assert_eq!(join(b"", b"c"), b"c");
    }
}
