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
fn completions_and_manual_pages_are_printed() {
    let env = TestEnvironment::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = env.run(&["completions", shell]).exits(0).stdout;
        assert!(script.contains("milepost") && script.contains("verify"), "{shell}");
    }
    env.run(&["completions", "teapot"]).exits(2);
    assert!(env.run(&["man"]).exits(0).stdout.starts_with(".ie"));
    assert!(env.run(&["man", "save"]).exits(0).stdout.contains("phase"));
}

#[test]
fn help_lists_common_commands_and_help_all_lists_every_command() {
    let env = TestEnvironment::new();
    let names = |text: &str| {
        let listed = text.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
        listed.filter_map(|l| l.split_whitespace().next().map(str::to_owned)).collect::<Vec<_>>()
    };
    for args in [&["--help"][..], &["help"], &["-h"]] {
        let ran = env.run(args).exits(0);
        assert_eq!(
            names(&ran.stdout),
            ["init", "status", "run", "save", "resume", "show", "diff", "prune", "doctor", "agents", "trust"],
            "{args:?}"
        );
        assert!(ran.stdout.contains("milepost help --all"));
    }
    let all = names(&env.run(&["help", "--all"]).exits(0).stdout);
    for name in
        "start finish step task criterion record note decide context runs list mark complete state delete verify events hook config schema completions man"
            .split(' ')
    {
        assert!(all.iter().any(|n| n == name), "{name}");
    }
    for name in &all {
        let ran = env.run(&["help", name]).exits(0);
        assert!(ran.stdout.contains("Examples:"), "{name}");
        assert!(env.run(&[name, "--help"]).exits(0).stdout.contains("Examples:"), "{name}");
    }
    env.run(&["help", "teapot"]).exits(2);
}

#[test]
fn help_accepts_subcommands() {
    let env = TestEnvironment::new();
    let help = env.run(&["help", "task", "set"]).exits(0).stdout;
    assert!(help.contains("milepost task set parse in_progress"), "{help}");
    assert!(env.run(&["man", "task", "run"]).exits(0).stdout.contains("in_progress"));
    assert!(env.run(&["help", "task", "nope"]).exits(2).stderr.contains("task nope"));
}
