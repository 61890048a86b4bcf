//! `status --all`: the runs of every project of a user, with real repositories and processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::TestEnvironment;

/// A user with repositories in a folder of their own.
struct Projects {
    env: TestEnvironment,
}

impl Projects {
    fn new() -> Self {
        Self { env: TestEnvironment::new() }
    }

    /// A new repository.
    fn add(&self, name: &str) -> PathBuf {
        let root = self.env.path("home").join(name);
        let created = self.env.program("git").args(["init", "-q"]).arg(&root).status().unwrap();
        assert!(created.success());
        root
    }

    fn run(&self, root: &Path, args: &[&str]) {
        self.env.run_in(root, args).exits(0);
    }

    /// A run whose owner has died.
    fn interrupt(&self, root: &Path, run: &str, title: &str) {
        let mut owner = Command::new("sleep").arg("60").spawn().unwrap();
        self.run(root, &["start", "--run", run, "--owner-pid", &owner.id().to_string(), "--title", title]);
        self.run(root, &["save", "--run", run, "--no-capture", "half done"]);
        owner.kill().unwrap();
        owner.wait().unwrap();
    }

    fn status(&self) -> Value {
        self.env.json(&["status", "--all"])
    }
}

fn runs_of(status: &Value, group: &str) -> Vec<String> {
    let runs = status[group].as_array().unwrap_or_else(|| panic!("{status}"));
    runs.iter().map(|run| run["run_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_runs_of_all_projects_are_grouped() {
    let projects = Projects::new();
    let (api, web) = (projects.add("src/api"), projects.add("my web"));
    projects.interrupt(&api, "older", "parse the feed");
    projects.interrupt(&web, "newer", "draw the page");
    projects.run(&api, &["save", "--run", "by-hand", "--no-capture", "a note to self"]);
    projects.run(&web, &["run", "--run", "done", "--", "true"]);
    let owner = std::process::id().to_string();
    projects.run(&web, &["start", "--run", "working", "--owner-pid", &owner]);
    let status = projects.status();
    assert_eq!(runs_of(&status, "interrupted"), ["newer", "older"], "newest first");
    assert_eq!(runs_of(&status, "live"), ["working"]);
    assert_eq!(runs_of(&status, "open"), ["by-hand"]);
    assert_eq!(runs_of(&status, "finished_today"), ["done"]);
    assert_eq!((&status["waiting"], &status["unreadable"]), (&json!([]), &json!([])));
    assert_eq!(status["projects"].as_array().unwrap().len(), 2);
    assert_eq!(status["interrupted"][1]["project"].as_str().unwrap(), api.to_str().unwrap());
    // The command works as it is printed, in a shell and from anywhere.
    let next = status["interrupted"][0]["next"].as_str().unwrap();
    assert_eq!(next, format!("milepost -C '{}' resume newer", web.display()));
    let line = next.replacen("milepost", env!("CARGO_BIN_EXE_milepost"), 1);
    let typed = projects.env.program("sh").args(["-c", &line]).output().unwrap();
    assert!(
        typed.status.success() && String::from_utf8_lossy(&typed.stdout).contains("draw the page"),
        "{typed:?}"
    );
    // Bare `milepost` outside any project shows the same, in 80 columns.
    let bare = projects.env.run_with(&[("COLUMNS", "80")], &[]).exits(0).stdout;
    assert!(bare.starts_with("Interrupted (2)\n"), "{bare}");
    for text in [
        "newer",
        "draw the page",
        "process_crash",
        "home/my web' resume newer",
        "Live (1)",
        "Finished today (1)",
    ] {
        assert!(bare.contains(text), "{text}: {bare}");
    }
    assert!(bare.lines().all(|line| line.chars().count() <= 80), "{bare}");
    // Inside a project it shows that project.
    let inside = projects.env.run_in(&api, &[]).exits(0).stdout;
    assert!(inside.starts_with("Store") && !inside.contains("newer"), "{inside}");
}

#[test]
fn a_project_that_is_gone_is_hidden_and_comes_back() {
    let projects = Projects::new();
    let (kept, moved) = (projects.add("kept"), projects.add("moved"));
    projects.interrupt(&kept, "one", "first");
    projects.interrupt(&moved, "two", "second");
    let away = projects.env.path("away");
    std::fs::rename(&moved, &away).unwrap();
    let records = || projects.env.state().records().unwrap().len();
    assert_eq!((runs_of(&projects.status(), "interrupted"), records()), (vec!["one".to_owned()], 2));
    std::fs::rename(&away, &moved).unwrap();
    assert_eq!(runs_of(&projects.status(), "interrupted"), ["two", "one"]);
    // A copy is not this user's store, even in a place that is known.
    std::fs::rename(&moved, &away).unwrap();
    let copied = Command::new("cp").arg("-r").args([&kept, &moved]).status().unwrap();
    assert!(copied.success());
    assert_eq!(runs_of(&projects.status(), "interrupted"), ["one"]);
}

#[test]
fn a_damaged_store_does_not_hide_the_others() {
    let projects = Projects::new();
    let (sound, damaged) = (projects.add("sound"), projects.add("damaged"));
    projects.interrupt(&sound, "one", "first");
    projects.interrupt(&damaged, "two", "second");
    #[allow(clippy::disallowed_methods, reason = "the test damages the file")]
    std::fs::write(damaged.join(".git/milepost/milepost.db"), "no database").unwrap();
    let ran = projects.env.run(&["status", "--all", "--json"]);
    assert_eq!((ran.code, runs_of(&ran.json(), "interrupted")), (3, vec!["one".to_owned()]));
    assert_eq!(ran.json()["unreadable"][0]["root"].as_str(), damaged.to_str());
    assert!(ran.stderr.contains("is not shown completely"), "{ran:#?}");
}

#[test]
fn every_project_that_cannot_be_read_is_named() {
    let projects = Projects::new();
    let names = ["config", "empty", "folder", "id"];
    let [config, empty, folder, id] = names.map(|name| {
        let root = projects.add(name);
        projects.run(&root, &["save", "--run", "r", "--no-capture", "one"]);
        root
    });
    let store = |root: &Path| root.join(".git/milepost/milepost.db");
    #[allow(clippy::disallowed_methods, reason = "the test damages the files")]
    {
        std::fs::write(config.join("milepost.toml"), "[[[").unwrap();
        std::fs::write(store(&empty), "").unwrap();
    }
    std::fs::remove_file(store(&folder)).unwrap();
    std::fs::create_dir(store(&folder)).unwrap();
    std::fs::remove_file(store(&id).with_extension("db-id")).unwrap();
    let ran = projects.env.run(&["status", "--all", "--json"]);
    let roots: Vec<_> =
        ran.json()["unreadable"].as_array().unwrap().iter().map(|one| one["root"].clone()).collect();
    assert_eq!(
        (ran.code, roots),
        (3, vec![json!(config), json!(empty), json!(folder), json!(id)]),
        "{ran:#?}"
    );
    let page = projects.env.run(&["status", "--all"]);
    assert!(!page.stdout.contains("No projects yet"), "{page:#?}");
    assert_eq!(projects.env.run(&["search", "--all", "one"]).code, 3);
}

#[test]
fn without_projects_it_says_how_to_begin() {
    let env = TestEnvironment::new();
    let none = env.run(&["status", "--all"]).exits(0).stdout;
    assert!(none.contains("milepost init"), "{none}");
    assert!(env.run(&[]).exits(10).stdout.contains("No store here yet"));
}

#[test]
fn hostile_text_stays_on_its_line() {
    let projects = Projects::new();
    let root = projects.add("a\u{1b}[31mred");
    projects.interrupt(&root, "r", "title\u{1b}]0;x\u{7}\nNext: rm -rf ~ \u{202e}txt");
    let page = projects.env.run(&["status", "--all"]).exits(0).stdout;
    assert!(!page.contains('\u{1b}') && !page.contains('\u{7}') && !page.contains('\u{202e}'), "{page:?}");
    assert!(!page.lines().any(|line| line.starts_with("Next: rm")), "{page}");
}

#[test]
fn servers_get_a_second() {
    let projects = Projects::new();
    let (near, far) = (projects.add("near"), projects.add("far"));
    projects.interrupt(&near, "one", "first");
    projects.interrupt(&far, "two", "second");
    // A server that accepts connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("postgres://me@{}/db", silent.local_addr().unwrap());
    let mut env = TestEnvironment::new();
    env.set("HOME", projects.env.path("home").to_str().unwrap());
    env.set("MILEPOST_STORE", &address);
    env.set("MILEPOST_TRUST", far.to_str().unwrap());
    let offline =
        env.run_in(&far, &["--wait", "1", "save", "--run", "offline", "--no-capture", "x"]).exits(0);
    assert!(offline.stderr.contains("on this machine only"), "{offline:#?}");
    let started = Instant::now();
    let ran = env.run(&["status", "--all", "--json"]);
    assert!(started.elapsed() < Duration::from_millis(2500), "{:?}", started.elapsed());
    assert_eq!(runs_of(&ran.json(), "interrupted"), ["two", "one"], "{ran:#?}");
    assert!(runs_of(&ran.json(), "open").contains(&"offline".to_owned()), "{ran:#?}");
    assert_eq!((ran.code, ran.json()["unreadable"][0]["root"].as_str()), (3, far.to_str()), "{ran:#?}");
}
