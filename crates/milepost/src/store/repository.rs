//! Finds the git repository of a worktree without running git. Takes a folder and returns its repository, or
//! that it has none, or that its `.git` must not be used. Repository files are untrusted. They are read with
//! a size limit and without following symbolic links, and a pointer to another git directory counts only if
//! that directory points back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::fs::bounded;

/// Maximum size of a file that is read from a git directory.
const LIMIT: u64 = 64 << 10;

/// A repository as seen from one worktree. Only [`super::project_paths::ProjectPaths`] creates values of
/// this type, so that the paths in them belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    worktree: PathBuf,
    git_dir: PathBuf,
    common_dir: PathBuf,
}

impl Repository {
    /// The repository whose worktree has this root, such as a submodule.
    pub(crate) fn at(folder: &Path) -> Option<Self> {
        match dot_git(&crate::fs::canonicalize(folder).ok()?) {
            DotGit::Repository(repository) => Some(repository),
            DotGit::Absent | DotGit::Refused => None,
        }
    }

    /// The worktree's root, as an absolute path with symbolic links resolved.
    pub fn worktree(&self) -> &Path {
        &self.worktree
    }

    /// The worktree's own git directory, which contains its `HEAD` and index.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The git directory that all worktrees share; the same as [`Self::git_dir`] for the main worktree.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Whether the git directory in this folder is configured as bare, so that the folder is not a worktree.
    /// A linked worktree of a bare repository is a worktree.
    pub fn is_bare(&self) -> bool {
        let config = || setting(&text(&self.common_dir.join("config"))?, "core", "bare");
        let is_true = |value: String| matches!(value.to_lowercase().as_str(), "true" | "yes" | "on" | "1");
        self.git_dir == self.common_dir && config().is_some_and(is_true)
    }

    /// Whether `folder` is the root of this worktree, or contains the git directory that its worktrees share.
    pub fn is_rooted_at(&self, folder: &Path) -> bool {
        self.worktree == folder || self.common_dir.parent() == Some(folder)
    }

    /// The commit that is checked out, if it can be read from a small file. Git packs old references into one
    /// large file, which is not read.
    pub fn head_commit(&self) -> Option<String> {
        let head = text(&self.git_dir.join("HEAD"))?;
        let commit = match head.trim().strip_prefix("ref: ") {
            Some(name) if name.split('/').any(|part| part == "..") => return None,
            Some(name) => text(&self.common_dir.join(name))?,
            None => head,
        };
        let commit = commit.trim();
        let is_name = commit.len() >= 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
        is_name.then(|| commit.to_owned())
    }

    /// The address of the remote `origin`, as the repository's own configuration file has it.
    pub fn origin_url(&self) -> Option<String> {
        setting(&text(&self.common_dir.join("config"))?, "remote \"origin\"", "url")
    }

    /// The branch: its name, or the first digits of the commit when detached.
    pub(super) fn branch(&self) -> Option<String> {
        let head = text(&self.git_dir.join("HEAD"))?;
        let head = head.trim();
        match head.strip_prefix("ref: ") {
            // The placeholder in repositories that use reftables.
            Some("refs/heads/.invalid") => None,
            Some(name) => Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()),
            None => Some(head.chars().take(12).collect()),
        }
    }
}

/// The meaning of `.git` in a folder.
pub(super) enum DotGit {
    /// It does not exist, or is a folder without `HEAD`.
    Absent,
    /// The folder is the root of this repository's worktree.
    Repository(Repository),
    /// It exists and must not be used: it is a symbolic link, a special file, or a pointer to a git directory
    /// that does not point back.
    Refused,
}

/// Inspects `.git` in a folder whose path is absolute and has no symbolic links.
pub(super) fn dot_git(folder: &Path) -> DotGit {
    let dot_git = folder.join(".git");
    let Ok(about) = fs::symlink_metadata(&dot_git) else { return DotGit::Absent };
    if about.is_file() {
        return pointed_to(folder, &dot_git).map_or(DotGit::Refused, DotGit::Repository);
    }
    if !about.is_dir() {
        return DotGit::Refused;
    }
    if !is_there(&dot_git.join("HEAD")) {
        return DotGit::Absent;
    }
    // Only the git directories of linked worktrees contain this file, and those are never called `.git`.
    if is_there(&dot_git.join("commondir")) {
        return DotGit::Refused;
    }
    DotGit::Repository(Repository {
        worktree: folder.to_owned(),
        common_dir: dot_git.clone(),
        git_dir: dot_git,
    })
}

/// The repository that the file `.git` points to, if that repository points back to this folder.
fn pointed_to(folder: &Path, dot_git: &Path) -> Option<Repository> {
    let pointer = path_in(dot_git, "gitdir:")?;
    let git_dir = crate::fs::canonicalize(folder.join(pointer)).ok()?;
    if !is_there(&git_dir.join("HEAD")) {
        return None;
    }
    let commondir = git_dir.join("commondir");
    let common_dir = if is_there(&commondir) {
        // A linked worktree: `COMMON/worktrees/NAME/gitdir` contains the path of this `.git`.
        let common_dir = crate::fs::canonicalize(git_dir.join(path_in(&commondir, "")?)).ok()?;
        let back = git_dir.join(path_in(&git_dir.join("gitdir"), "")?);
        let answers = back.file_name() == dot_git.file_name() && leads_to(back.parent()?, folder);
        (answers && git_dir.parent()? == common_dir.join("worktrees")).then_some(common_dir)?
    } else {
        // A submodule: `core.worktree` of its git directory is this folder.
        let configs = ["config", "config.worktree"].map(|name| git_dir.join(name));
        // `config.worktree` takes precedence.
        let worktree = configs.iter().rev().find_map(|config| setting(&text(config)?, "core", "worktree"))?;
        leads_to(&git_dir.join(worktree), folder).then(|| git_dir.clone())?
    };
    Some(Repository { worktree: folder.to_owned(), git_dir, common_dir })
}

fn leads_to(path: &Path, folder: &Path) -> bool {
    crate::fs::canonicalize(path).is_ok_and(|real| real == folder)
}

/// Whether the path exists, dangling symbolic links included. Errors other than "not found" count as
/// existing.
fn is_there(path: &Path) -> bool {
    match fs::symlink_metadata(path) {
        Ok(_) => true,
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

fn text(path: &Path) -> Option<String> {
    String::from_utf8(bounded::read(path, LIMIT).ok()?).ok()
}

/// Reads the path that follows `prefix` in a one-line file.
fn path_in(file: &Path, prefix: &str) -> Option<PathBuf> {
    let bytes = bounded::read(file, LIMIT).ok()?;
    let path = bytes.strip_prefix(prefix.as_bytes())?.trim_ascii();
    (!path.is_empty() && !path.contains(&0)).then(|| path_of(path))?
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> Option<PathBuf> {
    Some(PathBuf::from(std::str::from_utf8(bytes).ok()?))
}

/// The last value of a key of a section in a configuration file. Parses only the syntax that git itself writes.
fn setting(config: &str, section: &str, name: &str) -> Option<String> {
    let (mut in_section, mut found) = (false, None);
    for line in config.lines().map(str::trim) {
        let setting = match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((begun, rest)) => {
                in_section = begun.eq_ignore_ascii_case(section);
                rest
            }
            None => line,
        };
        let Some((key, value)) = setting.split_once('=') else { continue };
        if in_section && key.trim().eq_ignore_ascii_case(name) {
            found = Some(unquoted(value.trim()));
        }
    }
    found
}

/// Removes quotes, escapes and a trailing comment from a value.
fn unquoted(value: &str) -> String {
    let (mut plain, mut quoted) = (String::new(), false);
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => quoted = !quoted,
            '\\' => plain.extend(letters.next()),
            '#' | ';' if !quoted => break,
            _ => plain.push(letter),
        }
    }
    plain.truncate(if quoted { plain.len() } else { plain.trim_end().len() });
    plain
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::super::project_paths::ProjectPaths;
    use super::*;

    struct Folders(tempfile::TempDir);

    impl Folders {
        /// A folder that contains a repository `main` with one commit.
        fn new() -> Self {
            let folders = Self(tempfile::tempdir().unwrap());
            fs::create_dir(folders.at("main")).unwrap();
            folders.git("main", &["init", "--quiet", "-b", "trunk"]);
            folders.git("main", &["commit", "--quiet", "--allow-empty", "-m", "one"]);
            folders
        }

        fn at(&self, name: &str) -> PathBuf {
            crate::fs::canonicalize(self.0.path()).unwrap().join(name)
        }

        fn git(&self, folder: &str, args: &[&str]) {
            let mut git = Command::new("git");
            git.current_dir(self.at(folder)).env("GIT_CONFIG_GLOBAL", "/dev/null");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]);
            let done = git.args(args).output().unwrap();
            assert!(done.status.success(), "{args:?} {}", String::from_utf8_lossy(&done.stderr));
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
        }

        fn project_paths(&self, name: &str) -> ProjectPaths {
            ProjectPaths::find(&self.at(name)).unwrap()
        }

        /// Asserts that the folder is a project outside git, for its subfolders too.
        fn refuses(&self, name: &str) {
            fs::create_dir_all(self.at(name).join("below")).unwrap();
            for from in [name.to_owned(), format!("{name}/below")] {
                let paths = self.project_paths(&from);
                assert_eq!((paths.worktree, paths.repository, paths.branch), (None, None, None), "{from}");
                assert_eq!(paths.root, self.at(name), "{from}");
                assert_eq!(paths.database, self.at(name).join(".milepost/milepost.db"), "{from}");
            }
        }
    }

    #[test]
    fn worktrees_and_submodules_belong_to_their_repository() {
        let folders = Folders::new();
        let main = folders.project_paths("main");
        let repository = main.repository.unwrap();
        assert_eq!(
            (repository.git_dir(), repository.common_dir()),
            (&*folders.at("main/.git"), &*folders.at("main/.git"))
        );
        assert_eq!(main.branch.as_deref(), Some("trunk"));

        folders.git("main", &["worktree", "add", "--quiet", "-b", "side", "../linked"]);
        folders.write("linked/sub/file", "");
        let linked = folders.project_paths("linked/sub");
        assert_eq!((&linked.root, linked.branch.as_deref()), (&folders.at("linked"), Some("side")));
        assert_eq!(linked.database, main.database);
        let repository = linked.repository.unwrap();
        assert_eq!(repository.git_dir(), folders.at("main/.git/worktrees/linked"));
        assert_eq!(repository.common_dir(), folders.at("main/.git"));
        // Since git 2.48 both paths can be relative.
        folders.write("linked/.git", "gitdir: ../main/.git/worktrees/linked\n");
        folders.write("main/.git/worktrees/linked/gitdir", "../../../../linked/.git\n");
        assert_eq!(folders.project_paths("linked").repository, Some(repository));

        folders.git(".", &["init", "--quiet", "over"]);
        folders.git("over", &["submodule", "--quiet", "add", "../main", "parts/sub"]);
        for _ in 0..2 {
            let sub = folders.project_paths("over/parts/sub");
            assert_eq!(sub.worktree, Some(folders.at("over/parts/sub")));
            assert_eq!(sub.database, folders.at("over/.git/modules/parts/sub/milepost/milepost.db"));
            // This moves core.worktree into config.worktree.
            folders.git("over/parts/sub", &["sparse-checkout", "init"]);
        }
        folders.git("over/parts/sub", &["worktree", "add", "--quiet", "--detach", "../../../deep"]);
        let deep = folders.project_paths("deep").repository.unwrap();
        assert_eq!(deep.common_dir(), folders.at("over/.git/modules/parts/sub"));
    }

    #[test]
    fn a_bare_repository_is_not_a_worktree_but_its_linked_worktrees_are() {
        let folders = Folders::new();
        assert!(!folders.project_paths("main").repository.unwrap().is_bare());
        folders.git(".", &["clone", "--quiet", "--bare", "main", "bare/.git"]);
        let bare = folders.project_paths("bare").repository.unwrap();
        assert!(bare.is_bare() && bare.is_rooted_at(&folders.at("bare")));
        folders.git("bare", &["--git-dir=.git", "worktree", "add", "--quiet", "--detach", "../linked"]);
        let linked = folders.project_paths("linked").repository.unwrap();
        assert!(!linked.is_bare());
        for folder in ["bare", "linked"] {
            assert!(linked.is_rooted_at(&folders.at(folder)), "{folder}");
        }
        assert!(!linked.is_rooted_at(&folders.at("")));
    }

    #[test]
    fn a_pointer_that_is_not_answered_is_refused() {
        let folders = Folders::new();
        folders.git("main", &["worktree", "add", "--quiet", "-b", "side", "../linked"]);
        // The folders are inside a repository, so a search that continued upwards would find it.
        let hostile = [
            ("main/a", "gitdir: ../../main/.git\n"),
            ("main/b", "gitdir: ../../main/.git/worktrees/linked\n"),
            ("main/c", "gitdir: nowhere\n"),
            ("main/d", "no pointer\n"),
            ("main/e", ""),
        ];
        for (name, text) in hostile {
            folders.write(&format!("{name}/.git"), text);
            folders.refuses(name);
        }
        // A forged git directory that names another repository as its common directory.
        let absolute = folders.at("main/.git");
        for name in ["fake", "fake/worktrees/x"] {
            folders.write(&format!("{name}/HEAD"), "ref: refs/heads/trunk\n");
            folders.write(&format!("{name}/commondir"), &format!("{}\n", absolute.display()));
            folders.write(&format!("{name}/gitdir"), &format!("{}\n", folders.at("victim/.git").display()));
            folders.write(&format!("{name}/config"), "[core]\n\tworktree = ../victim\n");
            folders.write("victim/.git", &format!("gitdir: ../{name}\n"));
            folders.refuses("victim");
        }
        // The same without a pointer file.
        folders.write("direct/.git/HEAD", "ref: refs/heads/trunk\n");
        folders.write("direct/.git/commondir", &format!("{}\n", absolute.display()));
        folders.refuses("direct");
        // core.worktree in another section, naming another folder, or missing.
        for config in ["[core \"x\"]\nworktree = ../own\n", "[core]\nworktree = ../main\n", "[core]\n"] {
            folders.write("bare/HEAD", "ref: refs/heads/trunk\n");
            folders.write("bare/config", config);
            folders.write("own/.git", "gitdir: ../bare\n");
            folders.refuses("own");
        }
        folders.write("bare/config", "[Core] WorkTree = \"../own\" ; here\n");
        assert!(folders.project_paths("own").repository.is_some());
    }

    #[test]
    fn only_files_and_folders_count() {
        let folders = Folders::new();
        for (name, target) in [("main/a", "../.git"), ("main/b", "nowhere")] {
            fs::create_dir(folders.at(name)).unwrap();
            symlink(target, folders.at(name).join(".git")).unwrap();
            folders.refuses(name);
        }
        let pipe = |name: &str| {
            let mode = rustix::fs::Mode::RUSR;
            let at = folders.at(name);
            rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        };
        fs::create_dir(folders.at("main/c")).unwrap();
        pipe("main/c/.git");
        folders.refuses("main/c");
        fs::create_dir(folders.at("main/d")).unwrap();
        fs::File::create(folders.at("main/d/.git")).unwrap().set_len(LIMIT + 1).unwrap();
        folders.refuses("main/d");
        // An empty `.git` folder is not a repository.
        fs::create_dir_all(folders.at("main/e/.git")).unwrap();
        assert_eq!(folders.project_paths("main/e").root, folders.at("main"));
        // A pipe inside a git directory does not block the reader.
        fs::create_dir_all(folders.at("f/.git")).unwrap();
        pipe("f/.git/HEAD");
        assert_eq!(folders.project_paths("f").branch, None);
    }
}
