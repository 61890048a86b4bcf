//! Checks the files of a repository before git reads or writes them, and returns an error if git must not
//! run. Reads only names, types and sizes, and the content of `HEAD`.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::GitError;
use crate::fs::bounded;
use crate::store::Repository;

/// Maximum sizes of the files that git reads completely, in the git directory that worktrees share.
const SHARED_FILES: [(&str, u64); 7] = [
    ("config", 1 << 20),
    // Enough for several hundred thousand refs.
    ("packed-refs", 128 << 20),
    ("shallow", 16 << 20),
    ("info/exclude", 16 << 20),
    ("info/attributes", 16 << 20),
    ("info/grafts", 16 << 20),
    ("objects/info/alternates", 1 << 20),
];
/// Maximum sizes of such files in the git directory of a worktree.
const WORKTREE_FILES: [(&str, u64); 4] =
    [("HEAD", 4096), ("config.worktree", 1 << 20), ("index", 512 << 20), ("info/sparse-checkout", 16 << 20)];
/// Maximum sizes of such files in the root of a worktree.
const ROOT_FILES: [(&str, u64); 2] = [(".gitignore", 16 << 20), (".gitattributes", 16 << 20)];

/// Maximum number of entries in the objects folder. Git creates 256 plus a few more.
const MAX_OBJECT_FOLDERS: usize = 1024;

/// Refuses a repository that would make git wait or read forever.
pub(super) fn check_readable(repository: &Repository) -> Result<(), GitError> {
    let checked_files: [(&Path, &[(&str, u64)]); 3] = [
        (repository.common_dir(), &SHARED_FILES),
        (repository.git_dir(), &WORKTREE_FILES),
        (repository.worktree(), &ROOT_FILES),
    ];
    for (folder, files) in checked_files {
        for (name, limit) in files {
            let path = folder.join(name);
            let refused = |why: String| Err(GitError::Refused(format!("{} {why}", path.display())));
            match fs::metadata(&path) {
                // Git ignores a folder with the name of such a file.
                Ok(about) if !about.is_file() && !about.is_dir() => {
                    return refused("is not a regular file".into());
                }
                Ok(about) if about.len() > *limit && about.is_file() => {
                    return refused(format!("is larger than {}", bounded::format_limit(*limit)));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Refuses a git directory with symbolic links that would redirect the writes of a commit.
pub(super) fn check_writable(repository: &Repository) -> Result<(), GitError> {
    let (git_dir, common) = (repository.git_dir(), repository.common_dir());
    let branch = branch(repository).unwrap_or_default();
    let refs = Path::new(&branch).ancestors().filter(|name| !name.as_os_str().is_empty());
    let below_refs = refs.flat_map(|name| [common.join(name), common.join("logs").join(name)]);
    let others = ["objects", "refs", "logs", "packed-refs"].map(|name| common.join(name));
    let of_worktree = ["HEAD", "index", "logs", "logs/HEAD", "COMMIT_EDITMSG"].map(|name| git_dir.join(name));
    let is_link = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink());
    if let Some(link) = below_refs.chain(others).chain(of_worktree).find(is_link) {
        return Err(GitError::Refused(format!("{} is a symbolic link", link.display())));
    }
    let objects = common.join("objects");
    let refused = |why: &str| Err(GitError::Refused(format!("{} {why}", objects.display())));
    let Ok(entries) = fs::read_dir(&objects) else { return refused("cannot be read") };
    for (n, entry) in entries.enumerate() {
        match entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) {
            Ok((kind, path)) if kind.is_symlink() => {
                return Err(GitError::Refused(format!("{} is a symbolic link", path.display())));
            }
            Ok(_) if n < MAX_OBJECT_FOLDERS => {}
            Ok(_) => return refused("contains too many folders"),
            Err(_) => return refused("cannot be read"),
        }
    }
    Ok(())
}

/// The name of the ref that `HEAD` points to.
fn branch(repository: &Repository) -> Option<String> {
    let head = bounded::read(&repository.git_dir().join("HEAD"), 4096).ok()?;
    let name = String::from_utf8(head.strip_prefix(b"ref:")?.trim_ascii().to_vec()).ok()?;
    let is_plain = Path::new(&name).components().all(|part| matches!(part, Component::Normal(_)));
    is_plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn refusal(result: Result<(), GitError>) -> String {
        result.map_or_else(|e| e.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn pipes_and_huge_files_are_refused_before_git_reads_them() {
        let dir = tempfile::tempdir().unwrap();
        let repository = crate::git::tests::repository(dir.path());
        assert_eq!(refusal(check_readable(&repository)), "fine");
        let (git, root) = (repository.git_dir(), repository.worktree());
        let names = ["config", "HEAD", "index", "info/exclude", "packed-refs", "objects/info/alternates"];
        for path in names.map(|name| git.join(name)).into_iter().chain([root.join(".gitignore")]) {
            let kept = path.with_extension("kept");
            let existed = fs::rename(&path, &kept).is_ok();
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
            assert_eq!(
                refusal(check_readable(&repository)),
                format!("{} is not a regular file", path.display())
            );
            fs::remove_file(&path).unwrap();
            if existed {
                fs::rename(&kept, &path).unwrap();
            }
        }
        fs::File::create(git.join("packed-refs")).unwrap().set_len(3 << 30).unwrap();
        assert!(refusal(check_readable(&repository)).ends_with("packed-refs is larger than 128 MiB"));
        // Symbolic links are allowed: git's own script for a second worktree creates them.
        fs::rename(git.join("packed-refs"), git.join("refs-kept")).unwrap();
        fs::rename(git.join("config"), dir.path().join("config")).unwrap();
        symlink(dir.path().join("config"), git.join("config")).unwrap();
        assert_eq!(refusal(check_readable(&repository)), "fine");
    }

    #[test]
    fn links_among_the_objects_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let repository = crate::git::tests::repository(dir.path());
        assert_eq!(refusal(check_writable(&repository)), "fine");
        for name in ["objects/4b", "objects/pack", "objects/info"] {
            let path = repository.common_dir().join(name);
            let _ = fs::remove_dir(&path);
            symlink("/tmp", &path).unwrap();
            assert_eq!(
                refusal(check_writable(&repository)),
                format!("{} is a symbolic link", path.display())
            );
            fs::remove_file(&path).unwrap();
        }
    }
}
