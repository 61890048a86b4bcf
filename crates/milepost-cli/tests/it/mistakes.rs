//! Common mistakes, as one table: the command line, its exit code, its reason code and its output. Every
//! message names the problem, and every hint names a next step.

use std::process::Command;

use crate::TestEnvironment;
use crate::environment::{Ran, finished};
use crate::permissions::{bound_user, set_mode};

/// Prints the table for review: `cargo test mistakes -- --nocapture`.
#[derive(Default)]
struct Mistakes {
    rows: usize,
}

impl Mistakes {
    /// Runs a wrong command line, with and without `--json`, and returns the output for people.
    #[track_caller]
    fn row(&mut self, what: &str, env: &TestEnvironment, args: &[&str], exit: i32, reason: &str) -> String {
        let line = args
            .iter()
            .map(|word| if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() });
        let line = format!("milepost {}", line.collect::<Vec<_>>().join(" "));
        // Insert `--json` before the command to run, which comes last.
        let end = args.iter().position(|word| *word == "--").unwrap_or(args.len());
        let json: Vec<_> = [&args[..end], &["--json"], &args[end..]].concat();
        self.check(what, &line, env, [env.run(args), env.run(&json)], exit, reason)
    }

    #[track_caller]
    #[allow(clippy::print_stdout, reason = "the table is printed for review")]
    fn check(
        &mut self,
        what: &str,
        line: &str,
        env: &TestEnvironment,
        [plain, json]: [Ran; 2],
        exit: i32,
        reason: &str,
    ) -> String {
        let plain = plain.exits(exit);
        assert_eq!(json.exits(exit).reason(), reason, "{what}");
        let shown = env.plain(&plain.stderr);
        self.rows += 1;
        println!("{:2}. {what}\n$ {line}\n{shown}\n[{exit}, {reason}]\n", self.rows);
        assert!(shown.contains(&format!("({reason})")) && shown.contains("Hint: "), "{what}: {shown}");
        shown
    }
}

/// A project with a store that has one run, `r`.
fn saved() -> TestEnvironment {
    let env = TestEnvironment::new();
    env.save(&["one", "--run", "r"]);
    env.save(&["two", "--run", "r"]);
    env
}

#[test]
fn mistakes_on_the_command_line() {
    let mut table = Mistakes::default();
    let (empty, saved, two, files) = (TestEnvironment::new(), saved(), saved(), saved());
    empty.write("bad.json", "{\"state\": 3,");
    empty.write("type.json", "{\"tasks\": \"all\"}");
    two.save(&["three", "--run", "other"]);
    files.write("taken.json", "something else");
    files.write("brief.md", "## Problem\nIt leaks, and nobody knows where, or since when, or why.\n");
    files.run_on(b"{\"state\": [1]}", &["save", "--run", "r", "--input", "-"]).exits(0);
    insta::assert_snapshot!(table.row("a typo in a command", &empty, &["sav"], 2, "usage"), @"
    Error: unknown command `sav` (usage)
    Hint: did you mean `save`? `milepost help` lists the commands
    ");
    insta::assert_snapshot!(table.row("a command of another tool", &empty, &["checkpoint"], 2, "usage"), @"
    Error: unknown command `checkpoint` (usage)
    Hint: did you mean `save`? `milepost help` lists the commands
    ");
    insta::assert_snapshot!(table.row("a typo in a flag", &empty, &["save", "--sumary", "x"], 2, "usage"), @"
    Error: unknown flag `--sumary` (usage)
    Hint: did you mean `--summary`? `milepost help save` lists the flags
    ");
    insta::assert_snapshot!(table.row("a flag of another command", &empty, &["show", "--limit", "3"], 2, "usage"), @"
    Error: unknown flag `--limit` (usage)
    Hint: `milepost help show` lists the flags
    ");
    insta::assert_snapshot!(table.row("a short flag that does not exist", &empty, &["list", "-n", "3"], 2, "usage"), @"
    Error: unknown flag `-n` (usage)
    Hint: `milepost help list` lists the flags
    ");
    insta::assert_snapshot!(table.row("a typo in a subcommand", &empty, &["task", "sett", "parse", "done"], 2, "usage"), @"
    Error: unknown command `task sett` (usage)
    Hint: did you mean `set`? `milepost help task` lists the commands
    ");
    insta::assert_snapshot!(table.row("help for a command that does not exist", &empty, &["help", "chekpoint"], 2, "usage"), @"
    Error: unknown command `chekpoint` (usage)
    Hint: did you mean `save`? `milepost help` lists the commands
    ");
    insta::assert_snapshot!(table.row("a subcommand is missing", &empty, &["task"], 2, "usage"), @"
    Error: `milepost task` needs a command: set, run, is (usage)
    Hint: usage: milepost task [OPTIONS] <COMMAND>
    ");
    insta::assert_snapshot!(table.row("an argument is missing", &empty, &["task", "set", "parse"], 2, "usage"), @"
    Error: missing argument `<STATUS>` (usage)
    Hint: usage: milepost task set <ID> <STATUS>
    ");
    insta::assert_snapshot!(table.row("all arguments of an outcome are missing", &empty, &["record"], 2, "usage"), @"
    Error: missing arguments `--kind <KIND>`, `--name <NAME>`, `--result <RESULT>`, `--duration-ms <N>` (usage)
    Hint: usage: milepost record --kind <KIND> --name <NAME> --result <RESULT> --duration-ms <N> [-- <CMD>...]
    ");
    insta::assert_snapshot!(table.row("the command to run is missing", &empty, &["run"], 2, "usage"), @"
    Error: missing argument `<CMD>...` (usage)
    Hint: usage: milepost run -- <CMD>...
    ");
    insta::assert_snapshot!(table.row("the dashes before the command are missing", &empty, &["run", "make"], 2, "usage"), @"
    Error: unexpected argument `make` (usage)
    Hint: usage: milepost run [OPTIONS] -- <CMD>...
    ");
    insta::assert_snapshot!(table.row("the quotes around a message are missing", &empty, &["save", "parser", "done"], 2, "usage"), @"
    Error: unexpected argument `done` (usage)
    Hint: put text with spaces in quotes; usage: milepost save [OPTIONS] [MESSAGE]
    ");
    insta::assert_snapshot!(table.row("a message is given twice", &empty, &["save", "one", "-m", "two"], 2, "usage"), @"
    Error: `[MESSAGE]` cannot be used together with `--message <MESSAGE>` (usage)
    Hint: use one of them; `milepost help save` explains them
    ");
    insta::assert_snapshot!(table.row("a flag without its value", &empty, &["list", "--limit"], 2, "usage"), @"
    Error: `--limit <N>` needs a value (usage)
    Hint: `milepost help list` explains it
    ");
    insta::assert_snapshot!(table.row("flags that exclude each other", &empty, &["list", "--quiet", "--verbose"], 2, "usage"), @"
    Error: `--quiet` cannot be used together with `--verbose` (usage)
    Hint: use one of them; `milepost help list` explains them
    ");
    insta::assert_snapshot!(table.row("nothing to change", &saved, &["mark", "latest"], 2, "usage"), @"
    Error: nothing to change: --pin, --unpin, --tag or --untag is needed (usage)
    Hint: `milepost help mark` has examples
    ");
    insta::assert_snapshot!(table.row("no agent is named", &empty, &["agents", "install"], 2, "usage"), @"
    Error: no agent specified (usage)
    Hint: name one or more of claude-code, gemini, codex, opencode, or use --all; found here: none
    ");
    insta::assert_snapshot!(table.row("a word instead of a number", &empty, &["list", "--limit", "many"], 2, "usage"), @"
    Error: invalid value `many` for `--limit <N>`: not a whole number of 0 or more (usage)
    Hint: `milepost help list` explains it
    ");
    insta::assert_snapshot!(table.row("a colour that does not exist", &empty, &["list", "--color", "blue"], 2, "usage"), @"
    Error: invalid value `blue` for `--color <WHEN>` (usage)
    Hint: allowed values: auto, always, never
    ");
    insta::assert_snapshot!(table.row("a shell without completions", &empty, &["completions", "tcsh"], 2, "usage"), @"
    Error: invalid value `tcsh` for `<SHELL>` (usage)
    Hint: did you mean `zsh`? allowed values: bash, elvish, fish, powershell, zsh
    ");
    insta::assert_snapshot!(table.row("a status that does not exist", &empty, &["save", "x", "--status", "finished"], 2, "checkpoint_schema_invalid"), @r#"
    Error: --status is not valid (checkpoint_schema_invalid)
    Caused by: /status: "finished" is not one of in_progress, failed, completed, paused
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    insta::assert_snapshot!(table.row("a source that does not exist", &empty, &["save", "x", "--source", "cron"], 2, "checkpoint_schema_invalid"), @r#"
    Error: --source is not valid (checkpoint_schema_invalid)
    Caused by: /source: "cron" is not one of step_boundary, error_boundary, timer, manual
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    insta::assert_snapshot!(table.row("a profile that does not exist", &empty, &["save", "x", "--profile", "nightly"], 2, "checkpoint_schema_invalid"), @r#"
    Error: --profile is not valid (checkpoint_schema_invalid)
    Caused by: /profile: "nightly" is not one of run, build, session, pai, brief, thread
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    insta::assert_snapshot!(table.row("a task status that does not exist", &empty, &["task", "set", "parse", "finished"], 2, "checkpoint_schema_invalid"), @r#"
    Error: the task's status is not valid (checkpoint_schema_invalid)
    Caused by: /tasks/status: "finished" is not one of pending, in_progress, done, completed, failed, skipped, interrupted
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    insta::assert_snapshot!(table.row("a format that does not exist", &saved, &["export", "csv", "r"], 2, "checkpoint_schema_invalid"), @r#"
    Error: FORMAT is not valid (checkpoint_schema_invalid)
    Caused by: /format: "csv" is not one of pai, nova26, snapshot, aiwg, markdown, jsonl, bundle
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    insta::assert_snapshot!(table.row("a format that cannot be imported", &empty, &["import", "yaml", "."], 2, "checkpoint_schema_invalid"), @r#"
    Error: FORMAT is not valid (checkpoint_schema_invalid)
    Caused by: /format: "yaml" is not one of pai, nova26, snapshot, aiwg, markdown, jsonl, bundle
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    insta::assert_snapshot!(table.row("a duration in words", &saved, &["runs", "--since", "yesterday"], 2, "usage"), @r#"
    Error: --since: "yesterday" is not a duration such as 30s, 5m, 12h, 14d or 2w (usage)
    Hint: use a number and a unit: s, m, h, d or w
    "#);
    insta::assert_snapshot!(table.row("an interval without a unit", &empty, &["run", "--every", "10", "--", "true"], 125, "usage"), @r#"
    Error: --every: "10" is not a duration such as 30s, 5m, 12h, 14d or 2w (usage)
    Hint: use an interval such as 30s, 10m or 2h
    "#);
    insta::assert_snapshot!(table.row("an invalid time to wait", &saved, &["list", "--wait", "soon"], 2, "usage"), @r#"
    Error: --wait: "soon" is not a number of seconds (0 or more) or a duration such as 5m (usage)
    Hint: `milepost help` lists what each flag accepts
    "#);
    insta::assert_snapshot!(table.row("a wrong name of an agent", &empty, &["agents", "install", "claude"], 2, "usage"), @r#"
    Error: unknown agent "claude" (usage)
    Hint: did you mean claude-code? known agents: claude-code, gemini, codex, opencode
    "#);
    insta::assert_snapshot!(table.row("an agent that does not exist", &saved, &["resume", "r", "--with", "teapot"], 2, "usage"), @r#"
    Error: unknown agent "teapot" (usage)
    Hint: known agents: claude-code, gemini, codex, opencode
    "#);
    insta::assert_snapshot!(table.row("a tag with a space", &saved, &["mark", "latest", "--tag", "a b"], 2, "checkpoint_schema_invalid"), @r#"
    Error: tag is not valid (checkpoint_schema_invalid)
    Caused by: /tags: "a b" contains spaces or control characters
    Hint: `milepost help COMMAND` lists what each argument accepts
    "#);
    insta::assert_snapshot!(table.row("a run id with a space", &empty, &["save", "x", "--run", "my run"], 2, "checkpoint_id_invalid"), @r#"
    Error: run id "my run" is not valid: only letters, digits, '.', '_' and '-' are allowed (checkpoint_id_invalid)
    Hint: use 1 to 128 letters, digits, '.', '_' or '-'; start with a letter or digit and do not end with '.'
    "#);
    insta::assert_snapshot!(table.row("a checkpoint that does not exist", &saved, &["show", "nope"], 14, "checkpoint_not_found"), @r#"
    Error: no checkpoint "nope" (checkpoint_not_found)
    Hint: run `milepost list` to see the checkpoints
    "#);
    insta::assert_snapshot!(table.row("an id that is too short", &saved, &["show", "cp_"], 14, "checkpoint_ref_ambiguous"), @r#"
    Error: "cp_" matches 2 checkpoints: CP, CP (checkpoint_ref_ambiguous)
    Hint: use a longer prefix of the id, or select the run with --run
    "#);
    insta::assert_snapshot!(table.row("a run that does not exist", &saved, &["runs", "nope"], 14, "run_not_found"), @r#"
    Error: no run "nope" (run_not_found)
    Hint: run `milepost runs` to list the runs
    "#);
    insta::assert_snapshot!(table.row("a position that a run does not have", &saved, &["show", "r@99"], 14, "checkpoint_not_found"), @r#"
    Error: no checkpoint "r@99" (checkpoint_not_found)
    Hint: run `milepost list` to see the checkpoints
    "#);
    insta::assert_snapshot!(table.row("further back than there are checkpoints", &saved, &["show", "latest~9"], 14, "checkpoint_not_found"), @r#"
    Error: no checkpoint "latest~9" (checkpoint_not_found)
    Hint: run `milepost list` to see the checkpoints
    "#);
    insta::assert_snapshot!(table.row("several open runs, and none is named", &two, &["finish"], 14, "run_not_found"), @"
    Error: 2 runs are open: other, r (run_not_found)
    Hint: select a run with --run ID or MILEPOST_RUN; `milepost runs` lists them
    ");
    insta::assert_snapshot!(table.row("a step that has not begun", &saved, &["step", "done", "print"], 2, "checkpoint_schema_invalid"), @r#"
    Error: step "print" has not begun: no step is in progress (checkpoint_schema_invalid)
    Hint: run `milepost step begin ID` to begin it, or `milepost step skip ID` to skip it
    "#);
    insta::assert_snapshot!(table.row("a checkpoint without a state", &saved, &["state"], 4, "checkpoint_not_found"), @"
    Error: no state in latest or any earlier checkpoint (checkpoint_not_found)
    Hint: save one with `milepost save --input FILE`, where FILE is JSON with a `state` member
    ");
    insta::assert_snapshot!(table.row("an input file that does not exist", &empty, &["save", "--input", "missing.json"], 2, "usage"), @"
    Error: missing.json could not be read (usage)
    Caused by: No such file or directory (os error 2)
    Hint: check the path and its permissions
    ");
    insta::assert_snapshot!(table.row("input that is not JSON", &empty, &["save", "--input", "bad.json"], 1, "checkpoint_schema_invalid"), @"
    Error: the checkpoint is not valid (checkpoint_schema_invalid)
    Caused by: document: the document ends too early (line 1, byte 12)
    Hint: `milepost schema` prints the JSON Schema of a checkpoint
    ");
    insta::assert_snapshot!(table.row("input with a wrong type", &empty, &["save", "--input", "type.json"], 1, "checkpoint_schema_invalid"), @"
    Error: the checkpoint is not valid (checkpoint_schema_invalid)
    Caused by: /tasks: expected an array, found a string
    Hint: `milepost schema` prints the JSON Schema of a checkpoint
    ");
    insta::assert_snapshot!(table.row("a file that exists would be overwritten", &files, &["state", "--to", "taken.json"], 15, "restore_refused"), @"
    Error: taken.json was not written: it has different content (restore_refused)
    Hint: add --force to write it anyway
    ");
    insta::assert_snapshot!(table.row("nothing to import there", &empty, &["import", "jsonl", "missing.jsonl"], 2, "usage"), @"
    Error: missing.jsonl could not be read (usage)
    Caused by: No such file or directory (os error 2)
    Hint: check the path and its permissions
    ");
    insta::assert_snapshot!(table.row("a brief that does not exist", &empty, &["resume", "--from", "missing.md"], 2, "usage"), @"
    Error: missing.md could not be read (usage)
    Caused by: No such file or directory (os error 2)
    Hint: check the path and its permissions
    ");
    insta::assert_snapshot!(table.row("a budget that is too small", &files, &["brief", "fit", "brief.md", "--budget", "5"], 1, "brief_over_budget"), @"
    Error: sections that must be kept need 19 tokens, but the budget is 5: Problem 19, everything else 0 (brief_over_budget)
    Hint: raise the budget to 19 tokens, or add --overflow shrink or --overflow exceed
    ");
    insta::assert_snapshot!(table.row("there is no store", &empty, &["list"], 10, "store_missing"), @"
    Error: no store at [ROOT]/project/.milepost/milepost.db (store_missing)
    Hint: run `milepost init` to create one; the first `milepost save` also creates it
    ");
    insta::assert_snapshot!(table.row("a folder that does not exist", &empty, &["-C", "/no/such/folder", "status"], 2, "usage"), @"
    Error: /no/such/folder could not be read (usage)
    Caused by: No such file or directory (os error 2)
    Hint: check the path and its permissions
    ");
    insta::assert_snapshot!(table.row("a store of a kind that does not exist", &empty, &["list", "--store", "mysql:x"], 2, "usage"), @r#"
    Error: --store: "mysql:x" is not a store address (expected sqlite:PATH, files:DIR or postgres://HOST/DATABASE) (usage)
    Hint: `milepost help` lists what each flag accepts
    "#);
    insta::assert_snapshot!(table.row("a store that does not exist", &empty, &["list", "--store", "sqlite:typo.db"], 10, "store_missing"), @"
    Error: no store at typo.db (store_missing)
    Hint: run `milepost init` to create one; the first `milepost save` also creates it
    ");
    insta::assert_snapshot!(table.row("a program that does not exist", &empty, &["run", "--", "no-such-program"], 127, "usage"), @"
    Error: no-such-program was not found: No such file or directory (os error 2) (usage)
    Hint: check its name, and that its folder is in PATH
    ");
    insta::assert_snapshot!(table.row("a deletion without --yes", &saved, &["delete", "r"], 15, "confirmation_needed"), @"
    Error: deleting run r with 2 checkpoints was not confirmed (confirmation_needed)
    Hint: add --yes to confirm, or --dry-run to see what would be removed
    ");
    insta::assert_snapshot!(table.row("a copy of a store to itself", &saved, &["copy", "--from", "sqlite:a.db", "--to", "sqlite:a.db"], 2, "usage"), @"
    Error: --from and --to name the same store (usage)
    Hint: name two stores
    ");
    println!("{} mistakes", table.rows);
}

/// A store that cannot be used.
#[test]
fn mistakes_with_stores_and_settings() {
    let mut table = Mistakes::default();

    let env = TestEnvironment::new();
    env.write("milepost.toml", "profile = build\n");
    insta::assert_snapshot!(table.row("settings that are not TOML", &env, &["status"], 2, "usage"), @"
    Error: [ROOT]/project/milepost.toml, line 1: string values must be quoted, expected literal string (usage)
    Hint: correct the file, or remove it and let `milepost init` write a new one
    ");
    env.write("milepost.toml", "wait = \"soon\"\n");
    insta::assert_snapshot!(table.row("a setting with a wrong value", &env, &["status"], 2, "usage"), @r#"
    Error: wait in [ROOT]/project/milepost.toml: "soon" is not a number of seconds (0 or more) or a duration such as 5m (usage)
    Hint: correct wait in that file, or remove it
    "#);
    env.write("milepost.toml", "[retain]\nkeep_lst = 5\n");
    insta::assert_snapshot!(table.row("a setting that does not exist", &env, &["list"], 10, "store_missing"), @"
    Warning: unknown key retain.keep_lst in [ROOT]/project/milepost.toml; did you mean retain.keep_last?
    Error: no store at [ROOT]/project/.milepost/milepost.db (store_missing)
    Hint: run `milepost init` to create one; the first `milepost save` also creates it
    ");
    env.write("milepost.toml", "store = \"sqlite:elsewhere.db\"\n");
    insta::assert_snapshot!(table.row("a store that the project's file names", &env, &["save", "x"], 12, "config_untrusted"), @"
    Error: [ROOT]/project/milepost.toml is not trusted: it sets `store`, which you have not trusted (config_untrusted)
    Hint: run `milepost trust` to review it, or select a store with --store for this command
    ");

    let env = saved();
    std::fs::remove_dir_all(env.path("home/.local")).unwrap();
    insta::assert_snapshot!(table.row("a store that came from elsewhere", &env, &["save", "x"], 12, "store_untrusted"), @"
    Error: sqlite:[ROOT]/project/.milepost/milepost.db is not trusted: you have neither created nor trusted it on this machine (store_untrusted)
    Hint: run `milepost trust` to review and trust it, or set MILEPOST_TRUST to a parent folder
    ");

    let env = saved();
    let database = env.project().join(".milepost/milepost.db");
    let connection = rusqlite::Connection::open(&database).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    insta::assert_snapshot!(table.row("another process writes for too long", &env, &["mark", "latest", "--pin", "--wait", "0"], 11, "store_busy"), @"
    Error: [ROOT]/project/.milepost/milepost.db was busy for 0.0 s (store_busy)
    Hint: try again; if it stays busy, a suspended process may hold the lock
    ");
    connection.execute_batch("ROLLBACK").unwrap();
    connection.pragma_update(None, "user_version", 9999).unwrap();
    drop(connection);
    insta::assert_snapshot!(table.row("a store of a newer version", &env, &["list"], 13, "store_newer"), @"
    Error: [ROOT]/project/.milepost/milepost.db has store format 9999; this program supports formats up to 1 (store_newer)
    Hint: update milepost; nothing was changed
    ");

    let env = saved();
    for end in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(env.project().join(format!(".milepost/milepost.db{end}")));
    }
    env.write(".milepost/milepost.db", vec![b'x'; 8192]);
    insta::assert_snapshot!(table.row("a file that is no store", &env, &["list"], 5, "checkpoint_integrity_mismatch"), @"
    Error: pages is damaged: expected an intact database, found file is not a database in [ROOT]/project/.milepost/milepost.db (checkpoint_integrity_mismatch)
    Hint: run `milepost doctor` to see what can be recovered
    ");

    let mut env = saved();
    env.set("MILEPOST_RUN", "my run");
    insta::assert_snapshot!(table.row("a wrong id in the environment", &env, &["status"], 2, "checkpoint_id_invalid"), @r#"
    Error: MILEPOST_RUN: run id "my run" is not valid: only letters, digits, '.', '_' and '-' are allowed (checkpoint_id_invalid)
    Hint: correct or unset MILEPOST_RUN
    "#);

    println!("{} mistakes", table.rows);
}

/// Permissions bind only users other than root.
#[test]
fn a_store_without_permission() {
    let env = saved();
    let Some(bound) = bound_user(&env) else { return };
    set_mode(&env.project().join(".milepost"), 0o000);
    let store = "sqlite:.milepost/milepost.db";
    let [ran, json] = [&["list", "--store", store][..], &["list", "--store", store, "--json"]]
        .map(|args| finished(&mut bound(args), None));
    set_mode(&env.project().join(".milepost"), 0o755);
    let mut table = Mistakes::default();
    let shown = table.check(
        "a store without permission",
        "milepost list --store …",
        &env,
        [ran, json],
        1,
        "store_unreadable",
    );
    insta::assert_snapshot!(shown, @"
    Error: cannot open the store at .milepost/milepost.db: permission denied on [ROOT]/project/.milepost (store_unreadable)
    Hint: check the owner and permissions of [ROOT]/project/.milepost, or select another store with --store
    ");
}

/// The disk is full. Needs a small separate file system, which only root can mount.
#[test]
fn a_full_disk() {
    let env = TestEnvironment::new();
    let full = |args: &str| {
        // The filler has a limited size and is written only after checking that the folder is on the small
        // file system, never to a real disk.
        let script = format!(
            "mount -t tmpfs -o size=512k none '{1}' && cd '{1}' && [ \"$(stat -f -c %T .)\" = tmpfs ] || exit 99; \
             '{0}' save one --run r > /dev/null || exit 99; \
             dd if=/dev/zero of=filler bs=4k count=256 2> /dev/null; '{0}' {args}",
            env!("CARGO_BIN_EXE_milepost"),
            env.project().display()
        );
        let mut command: Command = env.program("unshare");
        command.args(["-rm", "sh", "-c", &script]).current_dir("/");
        finished(&mut command, None)
    };
    // More than the space that the store has reserved.
    let digits = (0..100_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32));
    let state = format!("{{\"state\": \"{}\"}}", digits.collect::<String>());
    let input = env.path("home/state.json");
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&input, format!("{}\"}}", &state[..255_000])).unwrap();
    let save = format!("save two --run r --no-capture --no-redact --input {}", input.display());
    let ran = full(&save);
    if ran.code == 99 || ran.code == 1 && ran.stderr.contains("unshare") {
        println!("skipped: cannot mount a separate file system here");
        return;
    }
    let mut table = Mistakes::default();
    let json = full(&format!("{save} --json"));
    let shown = table.check(
        "the disk is full",
        "milepost save two --input state.json",
        &env,
        [ran, json],
        1,
        "checkpoint_atomic_write_failed",
    );
    insta::assert_snapshot!(shown, @"
    Error: writing [ROOT]/project/.milepost/milepost.db failed (checkpoint_atomic_write_failed)
    Caused by: database or disk is full
    Caused by: Error code 13: database or disk is full
    Hint: earlier checkpoints are intact; free some space and try again
    ");
}
