//! Paths in a form that does not depend on the platform: components separated by `/` in what is stored, no prefix `\\?\`,
//! and no difference of case where the file system makes none.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};

/// The absolute path without symbolic links. On Windows, without the prefix `\\?\` where the path is valid without it:
/// git and many other programs do not accept the prefix.
pub fn canonicalize(path: impl AsRef<Path>) -> io::Result<PathBuf> {
    #[cfg(windows)]
    return dunce::canonicalize(path);
    #[cfg(not(windows))]
    return std::fs::canonicalize(path);
}

/// A path as checkpoints contain it: its bytes, with `/` between components.
pub(crate) fn stored_bytes(path: &Path) -> Cow<'_, [u8]> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        Cow::Borrowed(path.as_os_str().as_bytes())
    }
    #[cfg(not(unix))]
    Cow::Owned(path.to_string_lossy().replace('\\', "/").into_bytes())
}

/// The rest of a path below a folder; `None` if it is not below it. On Windows, agents and shells write the same folder in
/// different case.
pub fn below(path: &Path, folder: &Path) -> Option<PathBuf> {
    if cfg!(windows) {
        below_in_any_case(path, folder)
    } else {
        path.strip_prefix(folder).ok().map(Path::to_owned)
    }
}

fn below_in_any_case(path: &Path, folder: &Path) -> Option<PathBuf> {
    let mut rest = path.components();
    for wanted in folder.components() {
        let found = rest.next()?;
        let lower = |part: std::path::Component<'_>| part.as_os_str().to_string_lossy().to_lowercase();
        if found != wanted && lower(found) != lower(wanted) {
            return None;
        }
    }
    Some(rest.as_path().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_a_folder_is_found_in_any_case() {
        let below = |path: &str, folder: &str| below_in_any_case(Path::new(path), Path::new(folder));
        assert_eq!(below("/Home/Me/a/B.rs", "/home/me"), Some(PathBuf::from("a/B.rs")));
        assert_eq!(below("/home/me", "/home/ME/"), Some(PathBuf::new()));
        assert_eq!(below("/home/meadow/a", "/home/me"), None);
        assert_eq!(below("/home", "/home/me"), None);
    }

    #[test]
    fn a_path_below_a_folder_is_found() {
        assert_eq!(super::below(Path::new("/a/b/c"), Path::new("/a")), Some(PathBuf::from("b/c")));
        assert_eq!(super::below(Path::new("/a/b"), Path::new("/c")), None);
        assert_eq!(stored_bytes(Path::new("a/b")).as_ref(), b"a/b");
    }
}
