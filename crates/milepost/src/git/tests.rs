//! Tests of the limits of time and size, of the repository that git uses, and of the overridden settings.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::*;
use crate::store::project_paths::ProjectPaths;

pub(super) fn repository(dir: &Path) -> Repository {
    let done = Command::new("git").args(["init", "--quiet", "-b", "trunk"]).arg(dir).status().unwrap();
    assert!(done.success());
    ProjectPaths::find(dir).unwrap().repository.unwrap()
}

fn append(path: PathBuf, text: &str) {
    fs::File::options().append(true).create(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn soon() -> Instant {
    deadline_in(Duration::from_secs(20))
}

fn text(git: &Git, args: &[&str]) -> String {
    let done = git.output(args, soon(), 4096).unwrap();
    assert!(done.status.success(), "{args:?} {:?}", done.stderr);
    String::from_utf8(done.output).unwrap().trim().to_owned()
}

#[test]
fn git_works_on_the_repository_that_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let root = crate::fs::canonicalize(dir.path()).unwrap();
    let repository = repository(&root);
    append(repository.git_dir().join("config"), "[core]\nworktree = /\nbare = false\n");
    let git = Git::new(&repository, soon()).unwrap();
    assert_eq!(Path::new(&text(&git, &["rev-parse", "--show-toplevel"])), root);
    assert_eq!(Path::new(&text(&git, &["rev-parse", "--absolute-git-dir"])), root.join(".git"));
    // Git does not search the parent folders for a repository that no longer exists.
    fs::create_dir(root.join("below")).unwrap();
    let below = self::repository(&root.join("below"));
    let git = Git::new(&below, soon()).unwrap();
    fs::remove_dir_all(root.join("below/.git")).unwrap();
    assert!(!git.output(["status"], soon(), 4096).unwrap().status.success());
}

#[test]
fn output_and_time_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let repository = repository(dir.path());
    let git = Git::new(&repository, soon()).unwrap();
    assert!(matches!(git.output(["--version"], soon(), 3), Err(GitError::TooLarge(3))));
    assert!(matches!(git.output(["--version"], Instant::now(), 4096), Err(GitError::TooSlow)));
    // Git waits for a pipe without a writer and is terminated.
    fs::create_dir(dir.path().join("below")).unwrap();
    let pipe = dir.path().join("below/.gitignore");
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let begun = Instant::now();
    let waits = git.output(["status", "-uall"], deadline_in(Duration::from_millis(200)), 4096);
    assert!(matches!(waits, Err(GitError::TooSlow)));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn only_definitions_of_the_repository_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let repository = repository(dir.path());
    let drivers = || -> Vec<(String, String)> {
        let git = Git::new(&repository, soon()).unwrap();
        let shown = |text: &OsString| text.to_string_lossy().into_owned();
        git.overrides.iter().map(|(key, value)| (shown(key), shown(value))).collect()
    };
    assert!(!drivers::may_be_defined(&repository) && drivers().is_empty());
    let common = repository.common_dir();
    append(common.join("config"), "[Filter \"a=b. c\"]\nclean = x\nprocess\n[hook \"h\"]\ncommand = y\n");
    append(common.join("config"), "[includeIf \"gitdir:**\"]\npath = more\n");
    append(common.join("more"), "[filter.Old]\nrequired = true\nsmudge = z\n");
    let expected = [
        ("filter.a=b. c.clean", ""),
        ("filter.a=b. c.process", ""),
        ("filter.a=b. c.required", "false"),
        ("filter.old.required", "false"),
        ("filter.old.smudge", ""),
        ("hook.h.enabled", "false"),
    ];
    assert_eq!(drivers(), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    let git = Git::new(&repository, soon()).unwrap();
    assert_eq!(text(&git, &["config", "filter.a=b. c.clean"]), "");
    // Git does not run if there are too many definitions to override.
    append(common.join("more"), &"[filter \"n\"]\nclean = z\n".repeat(5000));
    assert!(matches!(Git::new(&repository, soon()), Err(GitError::Refused(_))));
}
