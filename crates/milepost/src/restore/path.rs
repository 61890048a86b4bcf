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
    if cfg!(windows)
        && let Some(why) = path.split(|b| *b == b'/').find_map(problem_on_windows)
    {
        return Some(why);
    }
    path.split(|b| *b == b'/').find_map(|component| match component {
        b"" => Some("it has an empty component"),
        b"." | b".." => Some("it has the component . or .."),
        _ if component.starts_with(TEMP_PREFIX.as_bytes()) => Some("it is a temporary file of a restore"),
        _ if is_reserved(component) => Some("it is in a folder of git or Milepost"),
        _ => None,
    })
}

/// Why a component cannot be the name of a file on Windows, or would refer to something else.
fn problem_on_windows(component: &[u8]) -> Option<&'static str> {
    const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
    const NUMBERED: [&str; 2] = ["com", "lpt"];
    let Ok(text) = std::str::from_utf8(component) else { return Some("it is not valid UTF-8") };
    if text.contains(|c: char| c < ' ' || matches!(c, '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|')) {
        return Some("it contains a character that Windows does not allow");
    }
    if text.ends_with(['.', ' ']) {
        return Some("it ends with a dot or a space, which Windows ignores");
    }
    // The name of a device counts with any extension, and with spaces before it.
    let stem = text.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let is_number = |rest: &str| {
        let mut chars = rest.chars();
        matches!((chars.next(), chars.next()), (Some('0'..='9' | '¹' | '²' | '³'), None))
    };
    let is_numbered = |device: &str| stem.strip_prefix(device).is_some_and(is_number);
    (DEVICES.contains(&stem.as_str()) || NUMBERED.into_iter().any(is_numbered))
        .then_some("Windows reserves this name for a device")
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
    fn names_that_windows_takes_for_something_else_are_recognised() {
        for bad in [
            "NUL",
            "nul.txt",
            "con",
            "Aux.tar.gz",
            "com1",
            "LPT9.log",
            "com²",
            "conin$",
            "nul .txt",
            "a.",
            "a ",
            "a:b",
            "a\\b",
            "a?",
            "a*",
            "a|b",
            "a\"b",
            "a<b",
            "a\nb",
        ] {
            assert!(problem_on_windows(bad.as_bytes()).is_some(), "{bad}");
        }
        assert!(problem_on_windows(b"a\xff").is_some());
        for good in ["null", "console", "com", "com10", "lpt", "a.nul", ".con", "auxiliary", "a b", "ü"] {
            assert_eq!(problem_on_windows(good.as_bytes()), None, "{good}");
        }
    }

    #[test]
    fn a_path_is_split_into_its_folders_and_its_name() {
        assert_eq!(split(b"a/b/c"), (&b"a/b"[..], &b"c"[..]));
        assert_eq!(split(b"c"), (&b""[..], &b"c"[..]));
        assert_eq!(ancestors(b"a/b/c").collect::<Vec<_>>(), [&b"a"[..], b"a/b"]);
        assert_eq!(join(b"", b"c"), b"c");
    }
}
