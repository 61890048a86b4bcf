//! Completion of values: the candidates that the program offers, and their use by real shells on a terminal.

use std::path::Path;

use crate::TestEnvironment;
use crate::terminal::Terminal;

/// The candidates for a command line, without flags, each with its description after a tab.
fn candidates(env: &TestEnvironment, words: &[&str]) -> Vec<String> {
    let args: Vec<_> = ["--", "milepost"].iter().chain(words).copied().collect();
    let ran = env.run_with(&[("MILEPOST_COMPLETE", "fish")], &args).exits(0);
    assert_eq!(ran.stderr, "", "completion is quiet");
    ran.stdout.lines().filter(|line| !line.starts_with('-')).map(str::to_owned).collect()
}

/// The candidates without their descriptions.
fn values(env: &TestEnvironment, words: &[&str]) -> Vec<String> {
    candidates(env, words).iter().map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

fn short(id: &str) -> &str {
    id.rsplit('_').next().unwrap()
}

#[test]
fn values_come_from_the_store() {
    let env = TestEnvironment::new();
    let one = env.save(&["one", "--run", "nightly", "--tag", "before"]);
    let two = env.save(&["two\u{1b}[31m\nlines", "--run", "nightly"]);
    env.run(&["start", "--run", "other", "--title", "Second run"]).exits(0);
    assert_eq!(values(&env, &["runs", ""]), ["other", "nightly"]);
    assert_eq!(values(&env, &["list", "--run", "ni"]), ["nightly"]);
    assert_eq!(candidates(&env, &["delete", "o"]), ["other\tin_progress Second run"]);
    assert_eq!(
        values(&env, &["show", ""]),
        ["latest", "before", short(&two), short(&one), "nightly@2", "nightly@1"]
    );
    assert_eq!(candidates(&env, &["show", short(&one)]), [format!("{}\tnightly@1 one", short(&one))]);
    assert_eq!(
        candidates(&env, &["show", short(&two)]),
        [format!("{}\tnightly@2 two·[31m lines", short(&two))]
    );
    assert_eq!(values(&env, &["show", "nightly@"]), ["nightly@2", "nightly@1"]);
    assert_eq!(values(&env, &["diff", "latest", "cp_"]), [two.as_str(), &one]);
    assert_eq!(values(&env, &["list", "--tag", ""]), ["before"]);
    assert_eq!(values(&env, &["mark", "latest", "--untag", "b"]), ["before"]);
    assert_eq!(values(&env, &["export", "jsonl", "o"]), ["other"]);
    env.run(&["delete", "other", "--yes"]).exits(0);
    // Global flags before the word count: another folder, another store, another run.
    let elsewhere = env.path("home");
    assert!(values(&env, &["-C", elsewhere.to_str().unwrap(), "runs", ""]).is_empty());
    assert!(values(&env, &["--store", "files:none", "runs", ""]).is_empty());
    env.save(&["three", "--run", "third"]);
    assert_eq!(values(&env, &["show", "--run", "third", ""]).last().unwrap(), "third@1");
}

#[test]
fn fixed_values_are_known() {
    let env = TestEnvironment::new();
    for (words, expected) in [
        (&["save", "--status", ""][..], &["in_progress", "failed", "completed", "paused"][..]),
        (&["list", "--source", "t"], &["timer"]),
        (&["--profile", "b"], &["build", "brief"]),
        (&["resume", "--with", "c"], &["claude-code", "codex"]),
        (&["init", "--agents", "claude-code,n"], &["claude-code,none"]),
        (&["import", "a"], &["auto", "aiwg"]),
        (&["export", "m"], &["markdown"]),
        (&["--color", "a"], &["auto", "always"]),
        (&["completions", "z"], &["zsh"]),
        (&["task", "set", "id", "in"], &["in_progress", "interrupted"]),
        (&["help", "sa"], &["save"]),
        (&["lo"], &["log"]),
        (&["brief", "fit", "x", "--overflow", ""], &["error", "shrink", "exceed"]),
    ] {
        assert_eq!(values(&env, words), expected, "{words:?}");
    }
}

#[test]
fn stores_of_the_user_are_offered() {
    let env = TestEnvironment::new();
    env.run(&["init", "--store", "files:my checkpoints"]).exits(0);
    let known = format!("files:{}", env.project().join("my checkpoints").display());
    assert_eq!(values(&env, &["--store", "files:"]), ["files:", known.as_str()]);
    assert_eq!(values(&env, &["copy", "--from", "sq"]), ["sqlite:"]);
}

/// Every file under a folder, with its content.
fn tree(folder: &Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(tree(&path)),
            false => all.push((path.clone(), std::fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

#[test]
fn completion_changes_nothing() {
    for store in [None, Some("files:checkpoints")] {
        let mut env = TestEnvironment::new();
        let line = [
            &["show", ""][..],
            &["--store", ""],
            &["runs", ""],
            &["list", "--tag", ""],
            &["save", "--input", ""],
        ];
        if let Some(store) = store {
            env.set("MILEPOST_STORE", store);
        }
        line.iter().for_each(|words| drop(candidates(&env, words)));
        assert!(tree(&env.path("")).is_empty(), "without a store nothing is made");
        env.save(&["one", "--run", "r", "--tag", "t"]);
        // Readers may change only the WAL index (`-shm`).
        let is_kept = |(path, _): &(std::path::PathBuf, Vec<u8>)| !path.to_string_lossy().ends_with("-shm");
        let files =
            |env: &TestEnvironment| tree(&env.path("")).into_iter().filter(is_kept).collect::<Vec<_>>();
        let before = files(&env);
        line.iter().for_each(|words| drop(candidates(&env, words)));
        assert_eq!(values(&env, &["runs", ""]), ["r"]);
        assert!(files(&env) == before, "{store:?}");
    }
}

#[test]
fn a_foreign_store_offers_nothing() {
    let env = TestEnvironment::new();
    env.save(&["one", "--run", "secret", "--tag", "hidden"]);
    assert_eq!(values(&env, &["runs", ""]), ["secret"]);
    std::fs::remove_dir_all(env.path("home/.local")).unwrap();
    let url = format!("sqlite:{}", env.project().join(".milepost/milepost.db").display());
    for words in [&["runs", ""][..], &["show", ""], &["list", "--tag", ""], &["--store", &url, "runs", ""]] {
        assert!(values(&env, words).is_empty(), "{words:?}");
    }
    // A store that the project's own settings name offers nothing either.
    env.write("milepost.toml", "store = \"sqlite:elsewhere.db\"\n");
    assert!(values(&env, &["runs", ""]).is_empty());
}

#[test]
fn another_programs_variable_changes_nothing() {
    let env = TestEnvironment::new();
    env.run_with(&[("COMPLETE", "bash")], &["status"]).exits(10);
    env.run_with(&[("MILEPOST_COMPLETE", "")], &["status"]).exits(10);
    for shell in ["bash", "teapot"] {
        let ran = env.run_with(&[("MILEPOST_COMPLETE", shell)], &["save", "x"]).exits(0);
        assert!(ran.stdout.is_empty() && ran.stderr.is_empty(), "{ran:#?}");
    }
    assert!(!env.project().join(".milepost").exists());
}

/// Types the start of a word and a tab, and expects the shell to complete the word.
fn completes(env: &TestEnvironment, shell: &str, setup: &str) {
    let Some(mut terminal) = Terminal::start(env, shell) else { return };
    terminal.send(&format!("{setup}; printf '<%s>' ready now\r"));
    terminal.expect("<ready><now>");
    let store = format!("<copy><--from><sqlite:{}>", env.project().join(".milepost/milepost.db").display());
    for (typed, finished) in [
        ("copy --from sqlite:/", store.as_str()),
        ("show bef", "<show><before-x>"),
        ("runs nigh", "<runs><nightly-build>"),
        ("show nightly-build@", "<show><nightly-build@1>"),
        ("save --status comp", "<save><--status><completed>"),
        ("resume --with gem", "<resume><--with><gemini>"),
        ("export mark", "<export><markdown>"),
        ("--store fil", "<--store><files:>"),
        ("sche", "<schema>"),
    ] {
        // Ctrl-A goes to the start of the line, so that its words are printed instead of run.
        terminal.send(&format!("milepost {typed}\t\u{1}printf '<%s>' \r"));
        terminal.expect(&format!("<milepost>{finished}"));
    }
}

/// A project with one checkpoint.
fn project() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.save(&["one", "--run", "nightly-build", "--tag", "before-x"]);
    env
}

#[test]
fn bash_completes_values() {
    completes(
        &project(),
        "bash --norc --noprofile -i",
        "bind 'set enable-bracketed-paste off'; . <(milepost completions bash)",
    );
}

#[test]
fn zsh_completes_values() {
    let setup = "PS1='> '; autoload -U compinit; compinit -u -D; source <(milepost completions zsh)";
    completes(&project(), "zsh -f -i", setup);
}

#[test]
fn zsh_completes_values_from_a_function_file() {
    let env = project();
    let script = env.run(&["completions", "zsh"]).exits(0).stdout;
    std::fs::create_dir(env.path("home/functions")).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(env.path("home/functions/_milepost"), script).unwrap();
    completes(
        &env,
        "zsh -f -i",
        "PS1='> '; fpath=(~/functions $fpath); autoload -U compinit; compinit -u -D",
    );
}

#[test]
fn fish_completes_values() {
    completes(&project(), "fish --no-config -i", "milepost completions fish | source");
}

#[test]
fn every_command_has_a_manual_page() {
    let env = TestEnvironment::new();
    let folder = env.path("home/man/man1");
    let installed = env.json(&["man", "--install", folder.to_str().unwrap()]);
    let mut pages: Vec<_> =
        installed["pages"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
    pages.sort_unstable();
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(pages, files);
    for command in crate::tools::command_names(&env) {
        assert!(pages.contains(&format!("milepost-{command}.1").as_str()), "{command}");
    }
    assert!(pages.contains(&"milepost.1") && pages.contains(&"milepost-task-set.1"));
    let printed = env.run(&["man", "task", "set"]).exits(0).stdout;
    assert_eq!(printed, std::fs::read_to_string(folder.join("milepost-task-set.1")).unwrap());
    env.run(&["man", "teapot"]).exits(2);
    env.run(&["man", "save", "--install", "x"]).exits(2);
    let Ok(rendered) =
        env.program("man").args(["--warnings", "-l", "milepost-save.1"]).current_dir(&folder).output()
    else {
        println!("skipped: man is not installed (`cargo xtask setup` installs it)");
        return;
    };
    let (page, warnings) =
        (String::from_utf8_lossy(&rendered.stdout), String::from_utf8_lossy(&rendered.stderr));
    assert!(rendered.status.success() && warnings.is_empty(), "{warnings}");
    assert!(
        page.contains("EXAMPLES") && page.contains("milepost save \"parser done, printer next\""),
        "{page}"
    );
}
