//! Commands about the program itself: `schema`, `completions`, `man` and `help`.

use crate::TestEnvironment;

#[test]
fn the_schema_describes_every_member_of_a_checkpoint() {
    let env = TestEnvironment::new();
    let ran = env.run(&["schema"]).exits(0);
    let schema: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    env.save(&[]);
    for (name, _) in env.json(&["show"])["checkpoint"].as_object().unwrap() {
        assert!(schema["properties"][name].is_object() || schema["properties"][name] == true, "{name}");
    }
    assert_eq!(env.json(&["schema"])["document"], schema);
}

#[test]
fn help_shows_every_command_in_its_group() {
    let env = TestEnvironment::new();
    let page = env.run(&["help"]).exits(0).stdout;
    for args in [&["--help"][..], &["-h"], &["help", "--all"]] {
        assert_eq!(env.run(args).exits(0).stdout, page, "{args:?}");
    }
    let groups: Vec<_> = page.lines().filter_map(|line| line.strip_suffix(':')).collect();
    assert_eq!(
        groups,
        [
            "Everyday",
            "Setup",
            "Reporting progress",
            "Housekeeping",
            "Moving data",
            "Serving agents",
            "Global options"
        ]
    );
    assert!(page.contains("  list         List checkpoints, newest first [aliases: log, ls]\n"), "{page}");
    for name in command_names(&env) {
        let ran = env.run(&["help", &name]).exits(0);
        assert!(ran.stdout.contains("Examples:"), "{name}");
        assert_eq!(env.run(&[&name, "--help"]).exits(0).stdout, ran.stdout, "{name}");
    }
    let ran = env.run(&["help", "sav"]).exits(2);
    assert_eq!(ran.stderr, env.run(&["sav"]).exits(2).stderr);
}

/// Every command, as the help page lists them.
pub(crate) fn command_names(env: &TestEnvironment) -> Vec<String> {
    let page = env.run(&["help"]).exits(0).stdout;
    let listed =
        page.lines().take_while(|line| *line != "Global options:").filter(|line| line.starts_with("  "));
    let names: Vec<_> = listed.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
    assert!(names.len() > 30, "{page}");
    names
}

#[test]
fn list_has_two_aliases() {
    let env = TestEnvironment::new();
    env.save(&["one"]);
    let listed = env.json(&["list"]);
    for alias in ["log", "ls"] {
        assert_eq!(env.json(&[alias])["checkpoints"], listed["checkpoints"]);
        assert!(env.run(&["help", alias]).exits(0).stdout.contains("milepost list"));
    }
}

#[test]
fn help_accepts_subcommands() {
    let env = TestEnvironment::new();
    let help = env.run(&["help", "task", "set"]).exits(0).stdout;
    assert!(help.contains("milepost task set parse in_progress"), "{help}");
    assert!(env.run(&["man", "task", "run"]).exits(0).stdout.contains("in_progress"));
    assert!(env.run(&["help", "task", "nope"]).exits(2).stderr.contains("task nope"));
}
