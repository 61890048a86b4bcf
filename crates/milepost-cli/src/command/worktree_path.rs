//! Paths of the worktree in arguments. A path is relative to the current folder, or else to the root of the
//! worktree, because output shows paths relative to the root.

use std::path::{Component, Path, PathBuf};

/// The absolute paths that an argument may name, most likely first.
pub(super) fn candidates(root: &Path, path: &Path) -> Vec<PathBuf> {
    let current = std::env::current_dir().unwrap_or_else(|_| root.to_owned());
    candidates_in(root, &current, path)
}

fn candidates_in(root: &Path, current: &Path, path: &Path) -> Vec<PathBuf> {
    let mut all = vec![normalized(&current.join(path)), normalized(&root.join(path))];
    all.dedup();
    all
}

/// The absolute path that an agent names, relative to the root. `None` if it is outside of the root.
#[cfg(feature = "mcp")]
pub(super) fn inside(root: &Path, path: &Path) -> Option<PathBuf> {
    let path = normalized(&root.join(path));
    path.starts_with(root).then_some(path)
}

/// Removes `.` and `..` without reading links.
fn normalized(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_relative_to_the_current_folder_or_the_root() {
        let found = |current: &str, path: &str| -> Vec<String> {
            let all = candidates_in(Path::new("/p"), Path::new(current), Path::new(path));
            all.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(found("/p", "src/x"), ["/p/src/x"]);
        assert_eq!(found("/p/src", "x"), ["/p/src/x", "/p/x"]);
        assert_eq!(found("/p/src", "../x/./y"), ["/p/x/y", "/x/y"]);
        assert_eq!(found("/p/src", "/p/a"), ["/p/a"]);
        assert_eq!(found("/p", "."), ["/p"]);
    }

    #[cfg(feature = "mcp")]
    #[test]
    fn an_agents_path_is_inside_of_the_root() {
        let inside =
            |path: &str| inside(Path::new("/p"), Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(inside("src/../x").as_deref(), Some("/p/x"));
        assert_eq!(inside("/p/x").as_deref(), Some("/p/x"));
        assert_eq!(inside(".").as_deref(), Some("/p"));
        for outside in ["..", "../p2", "/etc/passwd", "src/../../x", "/p2/x"] {
            assert_eq!(inside(outside), None, "{outside}");
        }
    }
}
