//! Where hooks record: the setting `agents.record`, how `agents install` sets it, and the stores that hooks
//! create or must not create.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::TestEnvironment;
use crate::hook::{FakeAgent, begins};
use crate::terminal::Terminal;

impl TestEnvironment {
    fn user_file(&self) -> PathBuf {
        self.path("home/.config/milepost/config.toml")
    }

    fn write_user_file(&self, text: &str) {
        std::fs::create_dir_all(self.user_file().parent().unwrap()).unwrap();
        self.write("../home/.config/milepost/config.toml", text);
    }

    fn user_text(&self) -> String {
        std::fs::read_to_string(self.user_file()).unwrap()
    }

    /// Runs git in a folder next to the project.
    fn git_in(&self, folder: &str, args: &[&str]) {
        let path = self.path(folder);
        self.git(&[&["-C", path.to_str().unwrap()], args].concat());
    }

    /// Sends the start of a session in a folder, and returns the line for the user.
    fn session_starts(&self, folder: &Path) -> Option<String> {
        let event = json!({ "session_id": "s", "cwd": folder, "hook_event_name": "SessionStart", "source": "startup" });
        let ran = self.run_on(event.to_string().as_bytes(), &["hook", "claude-code"]).exits(0);
        assert_eq!(ran.stderr, "");
        (!ran.stdout.is_empty()).then(|| ran.json()["systemMessage"].as_str().unwrap().to_owned())
    }
}

const ALL: &str = "[agents]\nrecord = \"all\"\n";

#[test]
fn without_a_terminal_hooks_record_only_in_initialised_projects() {
    let env = TestEnvironment::repository();
    let installed = env.run(&["agents", "install", "claude-code"]).exits(0).stdout;
    assert!(installed.contains("in a project with a store (`milepost init` creates one)"), "{installed}");
    assert!(!env.user_file().exists(), "nothing was decided");
    let status = env.json(&["agents", "status"]);
    assert_eq!(status["record"], json!({ "value": "initialised", "origin": "default" }));
    let page = env.run(&["agents", "status"]).exits(0).stdout;
    assert!(page.contains("Hooks record only in projects where `milepost init` was run (default)"), "{page}");
    let told = env.session_starts(&env.project()).unwrap();
    assert!(told.contains("`milepost init`") && told.contains("agents install --record all"), "{told}");
    assert!(!env.project().join(".git/milepost").exists());
}

#[test]
fn the_flag_sets_the_users_file_and_keeps_the_rest_of_it() {
    let env = TestEnvironment::repository();
    let shown = env.run(&["agents", "install", "--record", "all", "--dry-run"]).exits(0).stdout;
    assert!(shown.contains("Hooks would record in every git repository"), "{shown}");
    assert!(!env.user_file().exists());
    // The setting needs no agent.
    let set = env.run(&["agents", "install", "--record", "all"]).exits(0).stdout;
    assert!(set.contains("Hooks record in every git repository (agents.record in "), "{set}");
    assert_eq!(env.user_text(), ALL);
    assert!(!env.path("home/.claude").exists());
    let again = env.run(&["agents", "install", "--record", "all"]).exits(0).stdout;
    assert_eq!(again, "Hooks already record in every git repository\n");
    env.write_user_file("# mine\nwait = 5 # seconds\n\n[agents] # hooks\nrecord = \"all\" # everywhere\n");
    let json = env.json(&["agents", "install", "gemini", "--record", "initialised"]);
    let file = env.user_file();
    assert_eq!(json["record"], json!({ "value": "initialised", "file": file.to_str().unwrap() }));
    assert_eq!(
        env.user_text(),
        "# mine\nwait = 5 # seconds\n\n[agents] # hooks\nrecord = \"initialised\" # everywhere\n"
    );
    assert_eq!(env.json(&["agents", "status"])["record"]["origin"], file.to_str().unwrap());
    env.run(&["agents", "uninstall", "gemini"]).exits(0);
    assert!(env.user_text().contains("record = \"initialised\""), "uninstall keeps the user's settings");
    env.run(&["agents", "install", "--record", "some"]).exits(2);
    env.write_user_file("[agents]\nrecord = \"some\"\n");
    let ran = env.run(&["status"]).exits(2);
    assert!(ran.stderr.contains("agents.record") && ran.stderr.contains("all or initialised"), "{ran:#?}");
}

#[test]
fn a_linked_users_file_stays_a_link() {
    let env = TestEnvironment::repository();
    let real = env.write("../dotfiles.toml", "wait = 5\n");
    std::fs::create_dir_all(env.user_file().parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&real, env.user_file()).unwrap();
    env.run(&["agents", "install", "--record", "all"]).exits(0);
    assert!(env.user_file().is_symlink());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), format!("wait = 5\n\n{ALL}"));
    // A file that the configuration ignores is not changed.
    std::fs::remove_file(&real).unwrap();
    let ran = env.run(&["agents", "install", "--record", "all"]).exits(2);
    assert!(ran.stderr.contains("was not changed") && !real.exists(), "{ran:#?}");
}

#[test]
fn on_a_terminal_install_asks_once() {
    let env = TestEnvironment::repository();
    let Some(mut terminal) = Terminal::start(&env, "bash --norc --noprofile -i") else { return };
    let question = "Record sessions in every git repository?";
    terminal.send("milepost agents install claude-code\r");
    terminal.expect("Continue? [y/N]");
    terminal.send("y\r");
    terminal.expect(question);
    terminal.send("y\r");
    terminal.expect("Next: start the agent in a git repository.");
    assert_eq!(env.user_text(), ALL);
    terminal.send("milepost agents install claude-code; echo installed=$?\r");
    terminal.expect("installed=0");
    assert!(!terminal.shows(question), "it is already decided");
    env.write_user_file("");
    // Neither a dry run, nor --yes, nor an install for a project asks.
    for args in ["claude-code --dry-run", "claude-code --yes", "claude-code --project --yes"] {
        terminal.send(&format!("milepost agents install {args}; echo installed=$?\r"));
        terminal.expect("installed=0");
        assert!(!terminal.shows(question), "{args}");
    }
    assert_eq!(env.user_text(), "");
    terminal.send("milepost agents install claude-code\r");
    terminal.expect(question);
    terminal.send("\r");
    terminal.expect("Hooks record only in projects");
    assert_eq!(env.user_text(), "[agents]\nrecord = \"initialised\"\n");
}

#[test]
fn the_first_event_creates_the_store_and_the_next_session_gets_the_brief() {
    let env = TestEnvironment::repository();
    env.run(&["agents", "install", "claude-code", "--record", "all"]).exits(0);
    let mut first = FakeAgent::new(&env, "claude-code");
    assert_eq!(begins(&mut first, "s1"), None);
    first.works("s1");
    first.dies();
    let mut second = FakeAgent::new(&env, "gemini");
    let brief = begins(&mut second, "g1").unwrap();
    for word in ["parser.rs", "make the tests pass", "cargo test parser", "claude-code-s1"] {
        assert!(brief.contains(word), "{word} in {brief}");
    }
    // Only the git directory changed, and the store is the user's own.
    let left: Vec<_> =
        std::fs::read_dir(env.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".git"]);
    assert!(env.run(&["status"]).exits(0).stderr.is_empty());
    let status = env.program("git").args(["status", "--porcelain"]).output().unwrap();
    assert!(status.stdout.is_empty() && status.status.success());
    // Any event may be the first one, and worktrees share the store.
    std::fs::create_dir(env.path("other")).unwrap();
    env.git_in("other", &["init", "-q"]);
    let mut prompted = FakeAgent::within(&env, "claude-code", &env.path("other"));
    prompted.hears("s2", "UserPromptSubmit", json!({ "prompt": "write the printer" }));
    let runs = env.run_in(&env.path("other"), &["runs", "--json"]).exits(0).json();
    assert_eq!(runs["runs"][0]["run_id"], "claude-code-s2");
    env.git(&["worktree", "add", "-q", "-b", "side", "../side"]);
    let mut linked = FakeAgent::within(&env, "claude-code", &env.path("side"));
    linked.hears("s3", "UserPromptSubmit", json!({ "prompt": "write the printer" }));
    assert!(env.json(&["runs"]).to_string().contains("claude-code-s3"));
}

#[test]
fn concurrent_first_events_are_all_recorded() {
    for _ in 0..5 {
        let env = TestEnvironment::repository();
        env.write_user_file(ALL);
        std::thread::scope(|scope| {
            for n in 0..4 {
                let env = &env;
                scope.spawn(move || {
                    let event = json!({ "session_id": format!("s{n}"), "cwd": env.project(),
                        "hook_event_name": "UserPromptSubmit", "prompt": "go" });
                    let ran = env
                        .run_on(event.to_string().as_bytes(), &["hook", "claude-code", "--strict"])
                        .exits(0);
                    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
                });
            }
        });
        assert_eq!(env.json(&["runs"])["runs"].as_array().unwrap().len(), 4);
        assert_eq!(env.json(&["status"])["hook_failures"], json!([]));
        assert_eq!(env.state().records().unwrap().len(), 1);
    }
}

#[test]
fn no_store_is_created_where_it_must_not_be() {
    let env = TestEnvironment::repository();
    env.write_user_file(ALL);
    let refused = |folder: &str, why: &str| {
        let told = env.session_starts(&env.path(folder)).unwrap();
        assert!(told.contains(why) && told.contains("`milepost init`"), "{folder}: {told}");
        assert!(env.state().records().unwrap().is_empty(), "{folder}");
        // Worktrees of one repository share the notice.
        std::fs::remove_file(env.path("home/.local/state/milepost/no-store-notices.jsonl")).unwrap();
        for store in [".milepost", ".git/milepost", "milepost"] {
            assert!(!env.path(folder).join(store).exists(), "{folder}: {store}");
        }
    };
    for folder in ["plain", "bare.git", "with-bare", "linked"] {
        std::fs::create_dir(env.path(folder)).unwrap();
    }
    refused("plain", "not in a git repository");
    env.git_in("bare.git", &["init", "-q", "--bare"]);
    refused("bare.git", "not in a git repository");
    env.git_in("with-bare", &["init", "-q", "--bare", ".git"]);
    refused("with-bare", "this repository is bare");
    std::os::unix::fs::symlink(env.project().join(".git"), env.path("linked/.git")).unwrap();
    refused("linked", "not in a git repository");
    // The home folder, and a worktree that is linked to its repository.
    env.git_in("home", &["init", "-q"]);
    refused("home", "your home folder");
    let commit = ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "--allow-empty", "-m", "one"];
    env.git_in("home", &commit);
    env.git_in("home", &["worktree", "add", "-q", "--detach", "../beside"]);
    refused("beside", "your home folder");
    assert!(!env.path("home/.git/milepost").exists());
    // A folder that no longer exists.
    let gone = env.path("gone");
    assert!(env.session_starts(&gone).unwrap().contains("nothing is recorded"));
    assert!(!env.project().join(".git/milepost").exists());
}

#[test]
fn a_project_cannot_turn_recording_on() {
    let env = TestEnvironment::repository();
    env.write("milepost.toml", ALL);
    assert!(
        env.session_starts(&env.project()).unwrap().contains("nothing is recorded in this repository yet")
    );
    assert!(!env.project().join(".git/milepost").exists());
    assert_eq!(env.json(&["agents", "status"])["record"]["value"], "initialised");
    let ran = env.run(&["config", "show"]).exits(0);
    assert!(ran.stderr.contains("agents.record in ") && ran.stderr.contains("is ignored"), "{ran:#?}");
    // Trust does not change that, and a project cannot turn recording off either.
    let trusted = [("MILEPOST_TRUST", env.path("project"))];
    let trusted = trusted.each_ref().map(|(name, path)| (*name, path.to_str().unwrap()));
    let shown = env.run_with(&trusted, &["agents", "status", "--json"]).exits(0).json();
    assert_eq!(shown["record"]["value"], "initialised");
    env.write_user_file(ALL);
    env.write("milepost.toml", "[agents]\nrecord = \"initialised\"\n");
    assert_eq!(env.session_starts(&env.project()), None);
    assert!(env.project().join(".git/milepost/milepost.db").exists());
}

#[test]
fn untrusted_settings_prevent_the_creation_of_a_store() {
    let env = TestEnvironment::repository();
    env.write_user_file(ALL);
    env.write("milepost.toml", "[pointer]\nfile = \"seed.json\"\nkey = \"a\"\n");
    let told = env.session_starts(&env.project()).unwrap();
    assert!(told.contains("settings that you have not trusted"), "{told}");
    env.write("milepost.toml", "store = \"files:st\"\n");
    assert!(env.session_starts(&env.project()).unwrap().contains("milepost trust"));
    env.write("milepost.toml", "wait = []\n");
    assert!(env.session_starts(&env.project()).unwrap().contains("not valid"));
    assert!(!env.project().join(".git/milepost").exists() && !env.project().join("st").exists());
    // A store that the user has configured is not created by a hook either.
    std::fs::remove_file(env.project().join("milepost.toml")).unwrap();
    std::fs::remove_file(env.path("home/.local/state/milepost/no-store-notices.jsonl")).unwrap();
    env.write_user_file(&format!("store = \"files:st\"\n{ALL}"));
    let told = env.session_starts(&env.project()).unwrap();
    assert!(told.contains("the store that is configured"), "{told}");
    assert!(!env.project().join("st").exists() && !env.project().join(".git/milepost").exists());
    let value: Value = env.json(&["agents", "status"])["record"]["value"].clone();
    assert_eq!(value, "all");
}
