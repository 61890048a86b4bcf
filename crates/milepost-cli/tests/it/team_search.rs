//! `search` with a store on a PostgreSQL server: runs of the server, runs that wait on this machine, and what of them
//! remains in the index.

use std::path::PathBuf;

use serde_json::json;

use crate::TestEnvironment;
use crate::team::Team;

/// The files of all indexes on a machine.
fn indexes(env: &TestEnvironment) -> Vec<PathBuf> {
    let found =
        env.program("find").arg(env.path("")).args(["-name", "*-search*", "-type", "f"]).output().unwrap();
    String::from_utf8(found.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// Whether any index of a machine contains a text.
fn remains(env: &TestEnvironment, text: &str) -> bool {
    let contains = |file: &PathBuf| {
        let bytes = std::fs::read(file).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    indexes(env).iter().any(contains)
}

fn references(env: &TestEnvironment, args: &[&str]) -> Vec<String> {
    env.hits(args).iter().map(|hit| hit["reference"].as_str().unwrap().to_owned()).collect()
}

/// Lets a machine save one run while the server cannot be reached, which creates its copy of the store.
fn save_offline(team: &Team, env: &TestEnvironment, run: &str, text: &str) {
    team.proxy.refuse_connections(true);
    team.proxy.cut();
    let saved = env.run(&["--wait", "1", "save", "--run", run, "--no-capture", text]).exits(0);
    assert!(saved.stderr.contains("on this machine only"), "{saved:#?}");
}

fn reconnect(team: &Team, env: &TestEnvironment) {
    team.proxy.refuse_connections(false);
    env.run(&["sync"]).exits(0);
}

#[test]
fn runs_of_a_server_and_runs_that_wait_are_found() {
    let Some(team) = Team::start() else { return };
    let laptop = team.machine("alice", "acme/app");
    laptop.save(&["--run", "shared", "--no-capture", "the walrus parser"]);
    laptop.run(&["decide", "--run", "shared", "Quokkas are cached"]).exits(0);
    let desktop = team.machine("alice", "acme/app");
    let hit = &desktop.hits(&["walruses"])[0];
    assert_eq!(
        (&hit["reference"], &hit["run"], &hit["kind"], &hit["next"]),
        (&json!("shared@1"), &json!("shared"), &json!("summary"), &json!("milepost show shared@1"))
    );
    assert_eq!(references(&desktop, &["quokka", "--kind", "decision"]), ["shared"]);
    assert!(desktop.run(&["show", "shared@1"]).exits(0).stdout.contains("the walrus parser"));
    // A save of another machine is found at once.
    laptop.save(&["--run", "shared", "--no-capture", "a second walrus"]);
    assert_eq!(references(&desktop, &["second walrus", "--limit", "1"]), ["shared@2"]);
    // Another project finds only its own runs, unless it asks for all.
    let other = team.machine("alice", "acme/other");
    other.save(&["--run", "elsewhere", "--no-capture", "a walrus of another project"]);
    assert_eq!(references(&other, &["walrus"]), ["elsewhere@1"]);
    assert_eq!(references(&other, &["walrus", "--project", "all"]).len(), 3);
    assert_eq!(references(&other, &["walrus"]), ["elsewhere@1"]);
    // While the server cannot be reached, what waits is found, and the output says that it is incomplete.
    save_offline(&team, &desktop, "offline", "a waiting walrus");
    let offline = desktop.run(&["--wait", "1", "search", "waiting walrus", "--json"]);
    let hits = offline.json()["hits"].clone();
    assert_eq!((offline.code, &hits[0]["reference"]), (3, &json!("offline@1")), "{offline:#?}");
    assert!(offline.stderr.contains("cannot be reached"), "{offline:#?}");
    reconnect(&team, &desktop);
    assert_eq!(references(&desktop, &["waiting walrus", "--limit", "1"]), ["offline@1"]);
    assert_eq!(references(&desktop, &["walrus"]).len(), 3, "a run that was sent is found once");
    assert_eq!(references(&laptop, &["waiting walrus", "--limit", "1"]), ["offline@1"]);
    // All projects of this machine.
    let all = desktop.json(&["search", "--all", "walrus parser"]);
    let first = &all["hits"][0];
    assert_eq!((&first["reference"], &first["project"]), (&json!("shared@1"), &json!(desktop.project())));
    assert!(first["next"].as_str().unwrap().ends_with(" show shared@1"), "{first}");
    team.proxy.refuse_connections(true);
    team.proxy.cut();
    let partly = desktop.run(&["search", "--all", "walrus", "--json"]);
    assert_eq!(
        (partly.code, &partly.json()["unreadable"][0]["root"]),
        (3, &json!(desktop.project())),
        "{partly:#?}"
    );
}

#[test]
fn what_is_removed_from_a_server_leaves_the_index() {
    let Some(team) = Team::start() else { return };
    let laptop = team.machine("alice", "acme/app");
    let desktop = team.machine("alice", "acme/app");
    laptop.save(&["--run", "gone", "--no-capture", "the xylophonist plays"]);
    for n in 0..5 {
        laptop.save(&["--run", "kept", "--no-capture", &format!("vuvuzela{n} sounds")]);
    }
    assert_eq!(references(&desktop, &["xylophonist"]), ["gone@1"]);
    assert_eq!(
        indexes(&desktop),
        Vec::<PathBuf>::new(),
        "without a copy of the store, the index is in memory"
    );
    save_offline(&team, &desktop, "own", "something else");
    reconnect(&team, &desktop);
    assert_eq!(references(&desktop, &["xylophonist"]), ["gone@1"]);
    let files = indexes(&desktop);
    let is_index = |file: &&PathBuf| file.to_string_lossy().ends_with(".db-search");
    let index = files.iter().find(is_index).unwrap_or_else(|| panic!("{files:?}"));
    assert!(index.with_extension("db").exists(), "it is beside the copy of the store: {files:?}");
    assert!(remains(&desktop, "xylophonist") && remains(&desktop, "vuvuzela0"));
    // Removed on this machine: the text leaves the index with the command.
    let pruned = desktop.run(&["prune", "--run", "kept", "--keep-last", "2", "--yes"]).exits(0);
    assert!(!remains(&desktop, "vuvuzela0"), "{pruned:#?}");
    assert_eq!(references(&desktop, &["vuvuzela0"]), [""; 0]);
    assert_eq!(references(&desktop, &["vuvuzela4"]), ["kept@5"]);
    // So does the path of a purged file.
    laptop.write("hippogriff.txt", "text");
    laptop.save(&["--run", "files", "with files"]);
    assert_eq!(references(&desktop, &["hippogriff"]), ["files@1"]);
    assert!(remains(&desktop, "hippogriff"));
    desktop.run(&["purge", "hippogriff.txt", "--yes"]).exits(0);
    assert!(!remains(&desktop, "hippogriff"));
    // Removed on another machine: it leaves the index with the next search.
    laptop.run(&["delete", "gone", "--yes"]).exits(0);
    assert_eq!(references(&desktop, &["something"]), ["own@1"]);
    assert!(!remains(&desktop, "xylophonist"));
    assert_eq!(references(&desktop, &["xylophonist"]), [""; 0]);
    desktop.run(&["delete", "kept", "--yes"]).exits(0);
    assert!(!remains(&desktop, "vuvuzela4"));
    assert_eq!(references(&desktop, &["vuvuzela4"]), [""; 0]);
}

/// Runs of other users are foreign until they are trusted. People find them, agents do not.
#[test]
fn an_agent_does_not_find_runs_of_other_users() {
    let Some(team) = Team::start() else { return };
    let alice = team.machine("alice", "acme/app");
    alice.save(&["--run", "hers", "--no-capture", "a foreign walrus"]);
    let bob = team.machine("bob", "acme/app");
    bob.save(&["--run", "his", "--no-capture", "an ordinary walrus"]);
    assert_eq!(bob.hits(&["walrus"]).len(), 2);
    let found = bob.run_with(&[("CLAUDECODE", "1")], &["search", "walrus", "--json"]).exits(0);
    assert!(found.stdout.contains("ordinary") && !found.stdout.contains("foreign walrus"), "{found:#?}");
}
