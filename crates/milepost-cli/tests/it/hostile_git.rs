//! Hostile repositories: none of their programs run, and nothing outside the project is read or written.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use milepost::internal::capture::commit_distance::{CommitDistance, commit_distance};
use serde_json::{Value, json};

use crate::TestEnvironment;

const HOOKS: [&str; 14] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-rewrite",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "reference-transaction",
    "update",
    "sendemail-validate",
];

fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(path, content).unwrap();
}

fn program(path: &Path, script: &str) {
    write(path, script);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A repository in which every setting that can name a program names the attacker's program.
pub(crate) struct Hostile {
    pub(crate) env: TestEnvironment,
    /// The file to which the attacker's program appends each call.
    marker: PathBuf,
}

impl Hostile {
    pub(crate) fn new() -> Self {
        let env = TestEnvironment::repository();
        let (root, marker, evil) = (env.project(), env.path("marker"), env.path("evil"));
        program(
            &evil,
            &format!("#!/bin/sh\necho \"$*\" >> '{}'\ncase $1 in clean|sub) cat;; esac\n", marker.display()),
        );
        write(
            &env.path("home/.gitconfig"),
            "[user]\nname = t\nemail = t@t\n[protocol \"file\"]\nallow = always\n",
        );
        let other = TestEnvironment::repository();
        env.git(&["submodule", "--quiet", "add", other.project().to_str().unwrap(), "sub"]);
        write(
            &root.join(".gitattributes"),
            "*.txt filter=f diff=d merge=m\n*.inc filter=inc\n*.odd filter=a=b.c\n*.tree filter=tree\n",
        );
        for name in ["a.txt", "a.inc", "a.odd", "a.tree", "sub/a.txt"] {
            write(&root.join(name), "one\n");
        }
        write(&root.join("sub/.gitattributes"), "*.txt filter=f\n");
        // The pointer's folder, laid out as a bare repository.
        let seed = root.join("seed");
        write(&seed.join("seed.json"), "{}\n");
        write(&seed.join("HEAD"), "ref: refs/heads/main\n");
        for folder in ["objects", "refs/heads", "hooks"] {
            write(&seed.join(folder).join(".keep"), "");
        }
        write(
            &root.join("milepost.toml"),
            "[pointer]\nfile = \"seed/seed.json\"\nkey = \"ref\"\ncommit = true\n",
        );
        env.git(&["add", "."]);
        env.git(&["commit", "-q", "-m", "two"]);
        let said = |what: &str| format!("\"{} {what}\"", evil.display());
        let config = format!(
            "[core]\nfsmonitor = {fsmonitor}\nhooksPath = {hooks}\nsshCommand = {ssh}\neditor = {editor}\npager = {pager}\n\
             askPass = {askpass}\ngitProxy = {proxy}\nalternateRefsCommand = {refs}\nworktree = {elsewhere}\n\
             [diff]\nexternal = {external}\nsubmodule = diff\n[diff \"d\"]\ntextconv = {textconv}\ncommand = {command}\n\
             [FILTER \"f\"]\nclean = {clean}\nsmudge = {smudge}\nrequired = true\n\
             [filter \"a=b.c\"]\nprocess = {process}\nrequired\n\
             [commit]\ngpgSign = true\n[gpg]\nprogram = {gpg}\n[log]\nshowSignature = true\n[credential]\nhelper = {helper}\n\
             [sequence]\neditor = {editor}\n[pager]\nstatus = {pager}\ndiff = {pager}\n\
             [alias]\nstatus = !{alias}\nconfig = !{alias}\ncommit = !{alias}\n\
             [gc]\nauto = 1\nrecentObjectsHook = {gc}\n[hook \"h\"]\nevent = pre-commit\nevent = post-index-change\n\
             command = {hook}\n[trailer \"x\"]\ncommand = {trailer}\nifmissing = add\n[status]\nsubmoduleSummary = true\n\
             [protocol]\nallow = always\n[protocol \"ext\"]\nallow = always\n\
             [extensions]\npartialClone = origin\nworktreeConfig = true\n\
             [remote \"origin\"]\nurl = ssh://nobody@localhost/nowhere\npromisor = true\npartialclonefilter = blob:none\n\
             uploadpack = {upload}\n[include]\npath = more\n",
            fsmonitor = said("fsmonitor"),
            hooks = env.path("hooks").display(),
            ssh = said("ssh"),
            editor = said("editor"),
            pager = said("pager"),
            askpass = said("askpass"),
            proxy = said("proxy"),
            refs = said("refs"),
            elsewhere = env.path("home").display(),
            external = said("external"),
            textconv = said("textconv"),
            command = said("command"),
            clean = said("clean"),
            smudge = said("smudge"),
            process = said("process"),
            gpg = evil.display(),
            helper = said("helper"),
            alias = evil.display(),
            gc = said("gc"),
            hook = said("config-hook"),
            trailer = said("trailer"),
            upload = said("upload"),
        );
        let git = root.join(".git");
        let append = |file: &Path, text: &str| {
            let before = std::fs::read_to_string(file).unwrap_or_default();
            write(file, &format!("{before}{text}"));
        };
        append(&git.join("config"), &config);
        write(&git.join("more"), &format!("[filter \"inc\"]\nclean = {}\n", said("included")));
        write(&git.join("config.worktree"), &format!("[filter \"tree\"]\nclean = {}\n", said("worktree")));
        let submodule =
            format!("[filter \"f\"]\nclean = {}\n[core]\nfsmonitor = {}\n", said("sub"), said("sub"));
        append(&git.join("modules/sub/config"), &submodule);
        append(&seed.join("config"), &format!("[core]\nbare = true\n{}", config.replacen("[core]\n", "", 1)));
        for hook in HOOKS {
            for folder in [env.path("hooks"), git.join("hooks"), seed.join("hooks")] {
                program(&folder.join(hook), &format!("#!/bin/sh\n'{}' hook {hook}\n", evil.display()));
            }
        }
        for name in ["a.txt", "a.inc", "a.odd", "a.tree", "sub/a.txt"] {
            write(&root.join(name), "two, and longer\n");
        }
        Self { env, marker }
    }

    /// The same repository with settings that the user has trusted.
    fn trusted() -> Self {
        let mut hostile = Self::new();
        hostile.env.trust_project();
        hostile
    }

    #[track_caller]
    pub(crate) fn nothing_ran(&self) {
        let ran = std::fs::read_to_string(&self.marker).unwrap_or_default();
        assert_eq!(ran, "", "the repository's programs were run");
    }

    /// The commit of `main`, read without running git.
    fn head(&self) -> String {
        let head = std::fs::read_to_string(self.env.project().join(".git/refs/heads/main")).unwrap();
        head.trim().to_owned()
    }
}

#[test]
fn no_program_of_a_repository_runs() {
    let hostile = Hostile::trusted();
    let env = &hostile.env;
    let (root, first) = (env.project(), hostile.head());
    let saved = env.json(&["save", "--run", "r", "--summary", "x"]);
    hostile.nothing_ran();
    assert_eq!(saved["pointer_error"], Value::Null, "{saved}");
    let seen = env.json(&["show"])["checkpoint"]["workspace"].clone();
    assert_eq!((&seen["git"]["error"], &seen["git"]["head"]), (&Value::Null, &json!(first)));
    // Changes inside the submodule are not listed, and the bare repository is an ordinary folder.
    let modified = json!(["a.inc", "a.odd", "a.tree", "a.txt"]);
    assert_eq!(seen["git"]["modified"], modified);
    let untracked = seen["git"]["untracked"].to_string();
    assert!(untracked.contains("seed/config") && untracked.contains("seed/hooks/pre-commit"), "{untracked}");
    // Only the pointer was committed to the project's repository.
    let second = hostile.head();
    assert_ne!(first, second);
    let pointer = std::fs::read_to_string(root.join("seed/seed.json")).unwrap();
    assert!(pointer.contains(saved["snapshot_id"].as_str().unwrap()), "{pointer}");
    env.save(&["--run", "r", "--summary", "y"]);
    let seen = env.json(&["show"])["checkpoint"]["workspace"].clone();
    assert_eq!((&seen["git"]["head"], &seen["git"]["modified"]), (&json!(second), &modified));
    assert!(seen["files_modified"].to_string().contains("seed/seed.json"), "{seen}");
    hostile.nothing_ran();
    env.run(&["export", "bundle", "r", "../r.bundle", "--with-patch"]).exits(0);
    env.run(&["resume"]).exits(0);
    assert_eq!(commit_distance(&root, &first), CommitDistance::Ahead(2));
    assert_eq!(commit_distance(&root, "0123456789012345678901234567890123456789"), CommitDistance::Missing);
    assert_eq!(
        commit_distance(&env.path("home"), &first),
        CommitDistance::Unknown("not in a git repository".into())
    );
    hostile.nothing_ran();
    // Git, called in the usual way, does run these programs.
    let plain = |folder: &Path, args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(folder).env("HOME", env.path("home")).env("GIT_WORK_TREE", &root).args(args);
        let _ = git.output().unwrap();
    };
    for args in [
        &["status"][..],
        &["diff-index", "-p", "--ext-diff", "HEAD", "--", "a.txt"],
        &["diff-index", "-p", "--textconv", "HEAD", "--", "a.txt"],
        &["hash-object", "a.txt"],
        &["add", "a.inc"],
        &["add", "a.odd"],
        &["add", "a.tree"],
        &["commit", "--no-verify", "-m", "x", "--allow-empty"],
        &["cat-file", "-e", "0123456789012345678901234567890123456789"],
    ] {
        plain(&root, args);
    }
    let ran = std::fs::read_to_string(&hostile.marker).unwrap();
    let dangers = [
        "fsmonitor",
        "hook post-index-change",
        "hook prepare-commit-msg",
        "command",
        "textconv",
        "clean",
        "process",
        "included",
        "worktree",
        "sub",
        "--status-fd=2",
        "ssh",
    ];
    for what in dangers {
        assert!(ran.contains(what), "plain git did not run {what}: {ran}");
    }
}

/// Reports whether strace works on this machine; `cargo xtask setup` installs it.
pub(crate) fn can_trace() -> bool {
    let traced =
        Command::new("strace").args(["-f", "-qq", "-e", "trace=execve", "-o", "/dev/null", "true"]).status();
    traced.is_ok_and(|status| status.success())
}

/// Runs the binary under strace. Returns its output and the names of the executed programs, and asserts
/// that only milepost and git are among them.
#[track_caller]
pub(crate) fn traced(env: &TestEnvironment, args: &[&str], stdin: &[u8]) -> (Output, Vec<String>) {
    let log = env.path("executed");
    let plain = env.command(args);
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qq", "-e", "trace=execve", "-o"]).arg(&log).arg(plain.get_program()).args(args);
    traced.current_dir(env.project()).env_clear();
    traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    traced.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = traced.spawn().unwrap();
    // A write error is ignored, because a command may stop reading early.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let done = child.wait_with_output().unwrap();
    let calls = std::fs::read_to_string(&log).unwrap();
    // strace splits a call over two lines if another thread's call interrupts it. Every line without an
    // error counts as executed.
    let executed: Vec<_> = calls
        .lines()
        .filter(|line| !line.contains("= -1 "))
        .filter_map(|line| line.split("execve(\"").nth(1)?.split('"').next())
        .filter(|path| {
            *path == env!("CARGO_BIN_EXE_milepost") || path.starts_with("/usr/") || !path.ends_with("/git")
        })
        .map(|path| path.rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    assert!(executed.iter().any(|name| name == "milepost"), "{calls}");
    let others: Vec<_> =
        executed.iter().filter(|name| !["milepost", "git"].contains(&name.as_str())).collect();
    assert_eq!(others, Vec::<&String>::new(), "{args:?}");
    (done, executed)
}

#[test]
fn no_program_but_git_is_executed() {
    if !can_trace() {
        return;
    }
    let hostile = Hostile::trusted();
    let env = &hostile.env;
    for args in [
        &["save", "--run", "r", "--summary", "x"][..],
        &["save", "--run", "r", "--summary", "y"],
        &["export", "bundle", "r", "../r.bundle", "--with-patch"],
        &["resume"],
    ] {
        let (done, executed) = traced(env, args, b"");
        assert!(done.status.success(), "{args:?} {}", String::from_utf8_lossy(&done.stderr));
        assert!(args[0] == "resume" || executed.iter().any(|name| name == "git"), "{executed:?}");
    }
    hostile.nothing_ran();
}

#[test]
fn the_users_own_filters_still_run() {
    let env = TestEnvironment::repository();
    let user =
        "[user]\nname = t\nemail = t@t\n[filter \"up\"]\nclean = tr a-z A-Z\nsmudge = cat\nrequired = true\n";
    write(&env.path("home/.gitconfig"), user);
    env.write(".gitattributes", "*.up filter=up\n");
    env.write("a.up", "hello\n");
    env.git(&["add", "."]);
    env.git(&["commit", "-q", "-m", "two"]);
    let marker = env.path("marker");
    let evil =
        format!("[filter \"up\"]\nclean = \"touch {0}; cat\"\nsmudge = \"touch {0}\"\n", marker.display());
    let config = env.project().join(".git/config");
    write(&config, &format!("{}{evil}", std::fs::read_to_string(&config).unwrap()));
    // The same content with another modification time, so that git has to read the file.
    env.write("a.up", "hello\n");
    std::fs::File::open(env.project().join("a.up"))
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30))
        .unwrap();
    env.save(&["--run", "r", "--summary", "x"]);
    let git = env.json(&["show"])["checkpoint"]["workspace"]["git"].clone();
    assert_eq!((&git["error"], &git["modified"]), (&Value::Null, &json!([])));
    assert!(!marker.exists());
}

#[test]
fn a_git_directory_of_another_repository_is_not_used() {
    let env = TestEnvironment::repository();
    for (name, dot_git) in [("file", Some("gitdir: ../../project/.git\n")), ("link", None)] {
        let hostile = env.path("stranger").join(name);
        match dot_git {
            Some(text) => write(&hostile.join(".git"), text),
            None => {
                std::fs::create_dir_all(&hostile).unwrap();
                symlink(env.project().join(".git"), hostile.join(".git")).unwrap();
            }
        }
        env.run_in(&hostile, &["save", "--run", "r", "--summary", "x"]).exits(0);
        assert!(hostile.join(".milepost/milepost.db").exists(), "{name}");
        let shown = env.run_in(&hostile, &["show", "--json"]).exits(0).json();
        assert_eq!(shown["checkpoint"]["workspace"]["git"]["error"], "not a git repository", "{name}");
    }
    assert!(!env.project().join(".git/milepost").exists());
}

#[test]
fn a_pointer_is_committed_only_to_the_projects_repository() {
    let pointer = |file: &str| format!("[pointer]\nfile = \"{file}\"\nkey = \"ref\"\ncommit = true\n");
    let mut n = 0;
    let mut save = |env: &TestEnvironment| {
        n += 1;
        let saved = env.json(&["save", "--run", "r", "--summary", &n.to_string(), "--no-capture"]);
        saved["pointer_error"].as_str().unwrap_or_default().to_owned()
    };
    let mut env = TestEnvironment::new();
    env.trust_project();
    env.write("milepost.toml", pointer("seed.json"));
    assert!(save(&env).contains("not committed: the project is not in a git repository"));
    assert!(env.project().join("seed.json").exists());

    let mut env = TestEnvironment::repository();
    env.trust_project();
    write(&env.path("home/.gitconfig"), "[user]\nname = t\nemail = t@t\n");
    env.write("milepost.toml", pointer("../outside.json"));
    assert!(save(&env).contains("not committed: the file is not in the worktree"));
    // A folder linked out of the project, a linked file, and a file that is too large.
    env.write("milepost.toml", pointer("away/seed.json"));
    symlink(env.path("home"), env.project().join("away")).unwrap();
    assert!(save(&env).contains("a symbolic link leads out of the project"));
    assert!(!env.path("home/seed.json").exists());
    env.write("milepost.toml", pointer("link.json"));
    symlink("../outside.json", env.project().join("link.json")).unwrap();
    assert!(save(&env).contains("a symbolic link"));
    env.write("milepost.toml", pointer("large.json"));
    std::fs::File::create(env.project().join("large.json")).unwrap().set_len((1 << 20) + 1).unwrap();
    assert!(save(&env).contains("larger than 1 MiB"));
    // A link inside the git directory would make git write the commit elsewhere.
    env.write("milepost.toml", pointer("seed.json"));
    assert_eq!(save(&env), "");
    let index = env.project().join(".git/index");
    std::fs::rename(&index, env.path("index")).unwrap();
    symlink(env.path("index"), &index).unwrap();
    let why = save(&env);
    assert!(why.contains(".git/index is a symbolic link"), "{why}");
}

#[test]
fn gits_ownership_check_applies_to_a_repository_of_another_user() {
    let mut env = TestEnvironment::repository();
    env.trust_project();
    // Only root can change the owner of a file.
    if std::os::unix::fs::chown(env.project().join(".git"), Some(12345), None).is_err() {
        return;
    }
    let error = |n: &str| {
        env.save(&["--run", "r", "--summary", n]);
        env.json(&["show"])["checkpoint"]["workspace"]["git"]["error"].clone()
    };
    assert!(error("one").as_str().is_some_and(|why| why.contains("dubious ownership")));
    write(&env.path("home/.gitconfig"), &format!("[safe]\ndirectory = {}\n", env.project().display()));
    assert_eq!(error("two"), Value::Null);
}
