//! Settings: the precedence of their sources, and messages about wrong ones.

use serde_json::Value;

use crate::TestEnvironment;

fn setting(env: &TestEnvironment, key: &str, args: &[&str]) -> (String, String) {
    let args: Vec<_> = ["config", "show"].into_iter().chain(args.iter().copied()).collect();
    let document = env.json(&args);
    let found = document["settings"].as_array().unwrap().iter().find(|s| s["key"] == key).unwrap().clone();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("value"), text("origin"))
}

fn user_file(env: &TestEnvironment, text: &str) {
    let folder = env.path("home/.config/milepost");
    std::fs::create_dir_all(&folder).unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(folder.join("config.toml"), text).unwrap();
}

#[test]
fn flags_override_environment_then_project_then_user_then_default() {
    let mut env = TestEnvironment::new();
    assert_eq!(setting(&env, "wait", &[]), ("10".into(), "default".into()));
    user_file(&env, "wait = 7\nstore = \"sqlite:user.db\"\n");
    let (value, origin) = setting(&env, "wait", &[]);
    assert!(value == "7" && origin.ends_with("home/.config/milepost/config.toml"), "{origin}");
    env.trust_project();
    env.write("milepost.toml", "wait = \"5s\"\nstore = \"sqlite:project.db\"\n");
    let (value, origin) = setting(&env, "wait", &[]);
    assert!(value == "5" && origin.ends_with("project/milepost.toml"), "{origin}");
    assert_eq!(setting(&env, "wait", &["--wait", "0.5"]), ("0.5".into(), "flag --wait".into()));
    env.save(&[]);
    assert!(env.project().join("project.db").exists());
    env.set("MILEPOST_STORE", "sqlite:environment.db");
    assert_eq!(setting(&env, "store", &[]).1, "environment MILEPOST_STORE");
    env.save(&[]);
    assert!(env.project().join("environment.db").exists());
    env.save(&["--store", "flag.db"]);
    assert!(env.project().join("flag.db").exists());
}

#[test]
fn the_profile_provides_values_that_are_not_set() {
    let env = TestEnvironment::new();
    assert_eq!(setting(&env, "retain.max_age", &["--profile", "pai"]), ("30d".into(), "profile pai".into()));
    assert_eq!(setting(&env, "retain.keep_last", &["--profile", "brief"]).0, "all");
    env.write("milepost.toml", "profile = \"pai\"\n[retain]\nmax_age = \"none\"\n");
    assert_eq!(setting(&env, "retain.max_age", &[]).0, "none");
    env.save(&["--run", "r"]);
    assert_eq!(env.json(&["runs"])["runs"][0]["profile"], "pai");
}

#[test]
fn retention_and_limits_are_applied() {
    let mut env = TestEnvironment::new();
    env.trust_project();
    env.write("milepost.toml", "[retain]\nkeep_last = 2\n[limits]\nfield = \"1KiB\"\n");
    let mut pruned = 0;
    for n in 0..5 {
        let saved = env.json(&["save", "--run", "r", "--summary", &n.to_string()]);
        pruned += saved["pruned"].as_array().unwrap().len();
    }
    assert_eq!(pruned, 3);
    assert_eq!(env.json(&["list"])["checkpoints"].as_array().unwrap().len(), 2);
    let ran = env.run(&["save", "--summary", &"x".repeat(2000), "--json"]).exits(1);
    assert_eq!(ran.reason(), "checkpoint_schema_invalid");
    assert!(ran.stderr.contains("/task_summary") && ran.stderr.contains("1024"), "{ran:#?}");
    env.write("milepost.toml", "[limits]\nfield = 0\ncheckpoint = 0\n");
    env.save(&["--summary", &"x".repeat(100_000)]);
}

#[test]
fn an_unknown_key_is_a_warning_with_a_suggestion() {
    let env = TestEnvironment::new();
    env.write("milepost.toml", "profle = \"pai\"\n[retain]\nkeep_lst = 3\n");
    let ran = env.run(&["save"]).exits(0);
    insta::assert_snapshot!(env.plain(&ran.stderr), @"
    Warning: unknown key profle in [ROOT]/project/milepost.toml; did you mean profile?
    Warning: unknown key retain.keep_lst in [ROOT]/project/milepost.toml; did you mean retain.keep_last?
    ");
    assert_eq!(env.run(&["save", "-q"]).exits(0).stderr, "");
    let doctor = env.json(&["doctor"]);
    assert_eq!(doctor["warnings"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_wrong_value_is_reported_with_its_file_key_and_allowed_values() {
    for (text, key, allowed) in [
        ("profile = \"x\"", "profile", "pai"),
        ("profile = 3", "profile", "text"),
        ("wait = \"soon\"", "wait", "seconds"),
        ("wait = true", "wait", "seconds"),
        ("[limits]\nfield = \"big\"", "limits.field", "KiB"),
        ("[limits]\nfield = -1", "limits.field", "KiB"),
        ("[retain]\nkeep_last = 0", "retain.keep_last", "all"),
        ("[retain]\nmax_age = \"14\"", "retain.max_age", "14d"),
        ("[pointer]\ncommit = 1", "pointer.commit", "true or false"),
        ("[pointer]\nfile = \"seed.json\"", "pointer.key", "together"),
        ("store = \"gopher://x\"", "store", "sqlite:PATH"),
        ("= nonsense", "line 1", ""),
    ] {
        let mut env = TestEnvironment::new();
        env.trust_project();
        env.write("milepost.toml", text);
        let ran = env.run(&["save", "--json"]).exits(2);
        assert_eq!(ran.reason(), "usage", "{text}");
        assert!(ran.stderr.contains(key) && ran.stderr.contains(allowed), "{text}: {ran:#?}");
        assert!(key == "pointer.key" || ran.stderr.contains("milepost.toml"), "{text}: {ran:#?}");
    }
}

#[test]
fn config_show_lists_every_key() {
    let env = TestEnvironment::new();
    let keys: Vec<Value> = env.json(&["config", "show"])["settings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["key"].clone())
        .collect();
    assert_eq!(keys.len(), 32);
    let shown = env.plain(&env.run(&["config", "show"]).exits(0).stdout);
    insta::assert_snapshot!(shown, @"
     KEY VALUE FROM
     store sqlite:[ROOT]/project/.milepost/milepost.db default
     project none default
     profile run default
     wait 10 default
     limits.field 256KiB default
     limits.checkpoint 1MiB default
     retain.keep_last 50 profile run
     retain.max_age 14d profile run
     retain.keep_hourly 0 default
     retain.keep_daily 0 default
     retain.keep_weekly 0 default
     retain.keep_within none default
     retain.ended_runs none default
     retain.compress_after none default
     retain.max_store 1GB default
     retain.max_files 2GB default
     capture.enabled true default
     capture.watch .aiwg default
     capture.allow_home false default
     capture.files true default
     capture.max_file 10MiB default
     capture.max_snapshot 200MiB default
     session.enabled true default
     session.interval 30m default
     resume.attempts 3 default
     resume.cooldown 0 default
     hooks.prompts full default
     agents.record initialised default
     redact.allow none default
     pointer.file none default
     pointer.key none default
     pointer.commit false default
    ");
}

#[test]
fn the_nearest_configuration_file_in_a_repository_applies() {
    let mut env = TestEnvironment::repository();
    for folder in ["pkg", "pkg/src", "other"] {
        std::fs::create_dir(env.project().join(folder)).unwrap();
    }
    env.write("milepost.toml", "[retain]\nkeep_weekly = 4\n");
    env.write("pkg/milepost.toml", "[retain]\nkeep_weekly = 3\n[capture]\nwatch = [\"logs\"]\n");
    let within = |env: &TestEnvironment, folder: &str, key: &str| {
        let folder = env.project().join(folder);
        setting(env, key, &["-C", &folder.to_string_lossy()])
    };
    for (folder, value, file) in [
        ("pkg/src", "3", "project/pkg/milepost.toml"),
        ("pkg", "3", "project/pkg/milepost.toml"),
        ("other", "4", "project/milepost.toml"),
        ("", "4", "project/milepost.toml"),
    ] {
        let (found, origin) = within(&env, folder, "retain.keep_weekly");
        assert!(found == value && origin.ends_with(file), "{folder}: {found} {origin}");
    }
    assert_eq!(within(&env, "pkg/src", "capture.watch").0, "pkg/logs", "relative to its file");
    // The location of the store does not change.
    env.run_in(&env.project().join("pkg/src"), &["save", "--run", "r"]).exits(0);
    assert_eq!(env.json(&["list"])["checkpoints"].as_array().unwrap().len(), 1);
    // Guarded keys in a subfolder need trust as well, and their paths are relative to that subfolder.
    let guarded = "store = \"files:cp\"\n[pointer]\nfile = \"seed.json\"\nkey = \"ref\"\n";
    env.write("pkg/milepost.toml", guarded);
    let refused = env.run_in(&env.project().join("pkg/src"), &["save", "--json"]).exits(12);
    assert_eq!(refused.reason(), "config_untrusted");
    assert!(refused.stderr.contains("pkg/milepost.toml"), "{refused:#?}");
    let trusted = env.project().join("pkg").to_string_lossy().into_owned();
    env.set("MILEPOST_TRUST", &trusted);
    env.run_in(&env.project().join("pkg/src"), &["save", "--run", "r"]).exits(0);
    assert!(env.project().join("pkg/cp/r/latest.json").exists());
    assert!(env.project().join("pkg/seed.json").exists());
}

#[test]
fn trust_in_the_root_does_not_cover_settings_in_a_subfolder() {
    let env = TestEnvironment::repository();
    env.run(&["init", "--store", "files:cp"]).exits(0);
    env.save(&["--run", "r"]);
    std::fs::create_dir(env.project().join("pkg")).unwrap();
    // Another path to the same store, then the same path that now names another store.
    env.write("pkg/milepost.toml", "store = \"files:../cp\"\n");
    assert_eq!(
        env.run_in(&env.project().join("pkg"), &["save", "--json"]).exits(12).reason(),
        "config_untrusted"
    );
    env.write("pkg/milepost.toml", "store = \"files:cp\"\n");
    assert_eq!(
        env.run_in(&env.project().join("pkg"), &["save", "--json"]).exits(12).reason(),
        "config_untrusted"
    );
    env.save(&["--run", "r"]);
    // Once trusted, the subfolder's file applies, and the root's file still applies at the root.
    let pkg = env.project().join("pkg");
    let line = format!("cd '{}' && '{}' trust --yes", pkg.display(), env!("CARGO_BIN_EXE_milepost"));
    let output = env.program("script").args(["-qec", &line, "/dev/null"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    env.run_in(&pkg, &["save", "--run", "below"]).exits(0);
    assert!(pkg.join("cp/below/latest.json").exists());
    env.save(&["--run", "r"]);
}
