//! Tests of the runner itself, on small pages.

use super::compare::compare;
use super::values::Ids;
use super::{Report, check_page, update_page, with_replacements};

fn same(expected: &str, output: &str) -> bool {
    let expected: Vec<_> = expected.lines().map(str::to_owned).collect();
    compare(&expected, output, &Ids::default()).is_some()
}

/// The failures of a page, each with its line.
fn failures(page: &str) -> String {
    let failures = check_page("page.md", page).failures;
    failures.iter().map(|(line, message)| format!("{}: {message}", line + 1)).collect()
}

#[track_caller]
fn passes(page: &str) -> Report {
    let report = check_page("page.md", page);
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    report
}

#[test]
fn values_of_one_kind_are_equal() {
    for (expected, output) in [
        ("cp_20261115T205418497Z_9kwbmvpj1sm8", "cp_20270101T000000000Z_000000000000"),
        ("run_20261115T205418Z_c1r64az8@2", "run_20270101T000000Z_zzzzzzzz@2"),
        ("9kwbmvpj  c1r64az8@2  a", "0a0a0a0a  zzzzzzzz@2  a"),
        ("from 9kwbmvpj1sm8 to", "from zzzzzzzzzzzz to"),
        ("id st_0123456789abcdef", "id st_zzzzzzzzzzzzzzzz"),
        (
            "\"session_id\":\"79e631f5-30a2-4c8b-9d5e-0a1b2c3d4e5f\"",
            "\"session_id\":\"00000000-0000-0000-0000-000000000000\"",
        ),
        ("\"at\":\"2026-11-15T20:54:18.497Z\"", "\"at\":\"2027-01-01T00:00:00Z\""),
        ("2026-11-15 20:54:18 UTC (just now)", "2027-01-01 00:00:00 UTC (3 min ago)"),
        ("1  11-15 20:54:18  0s", "1  01-01 00:00:00  1m 2s"),
        ("in.json.before-20261115T205418802Z", "in.json.before-20270101T000000000Z"),
        ("just now", "59 s ago"),
        ("2 h ago", "just now"),
        ("exit 7 after 3s, done", "exit 7 after 1h 2m, done"),
        ("unknown, 0 s in", "unknown, 12 min in"),
        ("make (12 ms)", "make (1.5 s)"),
        ("store, 209.2 KiB", "store, 7 B"),
        ("1 file, 3156 bytes", "1 file, 12,345 bytes"),
        ("intact (sha256 18767ac65f88…)", "intact (sha256 000000000000…)"),
        (&"0123456789abcdef".repeat(4), &"f".repeat(64)),
        ("on commit 3f2a9c41d0b7;", "on commit 000000000000;"),
        ("alive (31630)", "alive (7)"),
        ("dead (31630)", "dead (7)"),
        ("held by process 31630", "held by process 7"),
        ("held by pid 31630", "held by pid 7"),
        ("about 812 tokens", "about 1,024 tokens"),
        (
            "{\"bytes\":12,\"owner_pid\":1,\"duration_ms\":3}",
            "{\"bytes\":99,\"owner_pid\":99,\"duration_ms\":99}",
        ),
        ("{\"peak_rss\":12}", "{\"peak_rss\":null}"),
        ("Memory  ▇▇█ 3.5 MiB", "Memory  ▁ 4.0 MiB"),
        ("A      B", "A B"),
        (" A  B", "   A  B   "),
    ] {
        assert!(same(expected, output), "{expected:?} and {output:?}");
    }
}

#[test]
fn values_of_different_kinds_differ() {
    for (expected, output) in [
        ("cp_20261115T205418497Z_9kwbmvpj1sm8", "run_20261115T205418Z_c1r64az8"),
        ("cp_20261115T205418497Z_9kwbmvpj1sm8", "cp_20261115T205418497Z_9kwbmvpj1sm"),
        ("9kwbmvpj", "9kwbmvpj1sm8"),
        ("2026-11-15 20:54:18 UTC", "just now"),
        ("just now", "3 min"),
        ("3 s", "3 B"),
        ("12 tokens", "12 bytes"),
        ("alive (31630)", "dead (31630)"),
        ("accepted", "rejected"),
        ("30d", "31d"),
        ("12345678", "12345679"),
        ("256KiB", "1MiB"),
        ("3 checkpoints", "4 checkpoints"),
        ("A  B", "AB"),
        ("A", " A"),
        ("a", "a\nb"),
        ("a\nb", "a"),
        ("", "a"),
    ] {
        assert!(!same(expected, output), "{expected:?} and {output:?}");
    }
}

#[test]
fn an_ellipsis_stands_for_text_and_for_lines() {
    for (expected, output, equal) in [
        ("sqlite:…/milepost.db", "sqlite:~/app/.milepost/milepost.db", true),
        ("sqlite:…/milepost.db", "sqlite:~/app/.milepost/milepost.sql", false),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n…\nd", "a\nd", true),
        ("a\n  …\nd", "a\nb", false),
        ("…", "", true),
        ("…\nb\n…\nd", "a\nb\nb\nc\nd", true),
        ("…\nb\n…\nd", "a\nc\nd", false),
    ] {
        assert_eq!(same(expected, output), equal, "{expected:?} and {output:?}");
    }
}

#[test]
fn an_id_of_the_page_stands_for_one_id() {
    let (a, b) = ("cp_20261115T205418497Z_9kwbmvpj1sm8", "cp_20261115T205418497Z_zzzbmvpj1sm8");
    let (x, y) = ("cp_20270101T000000000Z_00000000000x", "cp_20270101T000000000Z_1y000000000y");
    assert!(same(&format!("{a}\n{b}\n{a}"), &format!("{x}\n{y}\n{x}")));
    assert!(!same(&format!("{a}\n{b}\n{a}"), &format!("{x}\n{y}\n{y}")), "one id of the page for two");
    assert!(!same(&format!("{a}\n{b}"), &format!("{x}\n{x}")), "two ids of the page for one");
    assert!(same(&format!("{a}\n9kwbmvpj"), &format!("{x}\n00000000")), "short ids belong to ids");
    assert!(!same(&format!("{a}\n9kwbmvpj"), &format!("{x}\n1y000000")));
    assert!(same(&format!("…\n{a}\n…\n{a}"), &format!("{y}\n{x}\n{x}")), "the right line is found");
}

#[test]
fn a_page_is_run_in_one_shell() {
    let page = r#"
```console
$ milepost save --run nightly --summary "first"
cp_20261115T205418497Z_9kwbmvpj1sm8
$ cd / && export WHO=me
```

```console
$ pwd; echo $WHO; echo to stderr >&2; (exit 3)
/
me
to stderr
$ echo $?
3
$ cat <<END
> one
>   two
> END
one
  two
$ echo a \
> b \
  c
a b c
$ cd ~/app; pwd
~/app
$ milepost show 9kwbmvp | head -1
cp_20261115T205418497Z_9kwbmvpj1sm8  nightly@1
$ milepost show cp_20261115T205418497Z | head -1
cp_20261115T205418497Z_9kwbmvpj1sm8  nightly@1
$ env | grep -c 'MILEPOST\|CLAUDE'
0
$ echo $COLUMNS $NO_COLOR $HOME $XDG_STATE_HOME
80 1 ~ ~/.local/state
$ command -v milepost
~/.local/bin/milepost
$ frobnicate
sh: frobnicate: not found
$ ls $REPOSITORY/README.md
…/README.md
```
"#;
    assert_eq!(passes(page).compared, 14);
}

#[test]
fn columns_stay_aligned_behind_a_path() {
    let page = "```console\n$ echo \"$HOME/a  b\"; echo \"$HOME/a b\"\n```\n";
    let (page, _) = update_page("page.md", page.to_owned());
    assert!(page.ends_with("\n~/a               b\n~/a b\n```\n"), "{page}");
}

#[test]
fn directives_prepare_a_project() {
    let page = "
<!-- example: setup
echo hidden > a
sleep 1000 & PID=$!
-->
```console
$ cat a
hidden
```

Text between blocks.

1. In a list:

   <!-- example: file folder/b.txt -->
   ```text
   b
     c
   ```

   <!-- example: setup kill $PID -->
   ```console
   $ cat a folder/b.txt
   hidden
   b
     c
   ```

<!-- example: new project -->
```console
$ ls; git log
fatal: not a git repository (or any of the parent directories): .git
```

<!-- example: new project git -->
<!-- example: setup touch a -->
```console
$ ls; git log --format='%an %s'
a
Ada Start the project
$ git status --short
?? a
```

<!-- example: skip needs a network -->
```console
$ milepost frobnicate
```
";
    let report = passes(page);
    assert_eq!((report.compared, report.skipped), (5, vec![(46, "needs a network".to_owned())]));
}

#[test]
fn wrong_directives_and_pages_are_reported() {
    for (page, problem) in [
        ("<!-- example: frobnicate -->\n```sh\n```\n", "line 1: unknown directive `frobnicate`"),
        ("<!-- example: skip -->\n```sh\n```\n", "line 1: the directive `skip` needs a value"),
        ("<!-- example: skip it is late -->\n```sh\n```\n", "line 1: `it is late` is not a reason to skip"),
        ("<!-- example: new project -->\ntext\n", "line 2: text between a directive and its code block"),
        ("<!-- example: new project -->\n", "a directive after the last code block"),
        ("<!-- example: setup\n", "line 1: a comment without an end"),
        ("```console\n$ a\n", "line 1: a fence without an end"),
        ("```console\noutput\n```\n", "line 2: output before the first `$ `"),
        ("<!-- example: setup false -->\n```console\n```\n", "3: the setup exited with 1"),
        ("```ruby\nputs 1\n```\n", "2: a \"ruby\" code block needs a `file` or `skip` directive"),
        ("```console\n$ exit 1\n```\n", "2: `exit 1` failed: it ended the shell"),
        ("```sh\nmilepost save --sumary x\n```\n", "2: `milepost save --sumary x` is not valid"),
        ("```toml\n[retain]\nkeep_lst = 1\n```\n", "2: invalid settings"),
        ("```json\n{\n```\n", "2: invalid JSON"),
        ("```rust\nfn main() {}\n```\n", "does not include page.md as a doc test"),
    ] {
        let failures = failures(page);
        assert!(failures.contains(problem), "{page}\n{failures}");
    }
}

#[test]
fn a_wrong_example_fails_with_a_diff() {
    let page = "# Title\n\n```console\n$ printf 'a\\nb\\nc\\n'\na\nx\nc\n$ echo fine\nfine\n```\n";
    let expected = "4: the output of `printf 'a\\nb\\nc\\n'` differs (- page, + output):\n      a\n    - x\n    + b\n      c\n";
    assert_eq!(failures(page), expected);
    // Output that the page does not show is also a difference.
    assert!(failures("```console\n$ echo a\n```\n").contains("+ a"));
    assert!(failures("```console\n$ true\na\n```\n").contains("- a"));
}

#[test]
fn expected_output_is_rewritten() {
    let page = r#"Text.

```console
$ milepost save --run nightly --summary "first"
Warning: gone
cp_20261115T205418497Z_9kwbmvpj1sm8
$ printf 'a\nb\nc\nd\n'
a
…
$ printf 'one 1\ntwo 2\nthree 3\nfour 4\n'
…
two B
…
four D
$ milepost list | cut -c 1-8
```

- In a list:

  ```console
  $ printf 'a\n\nb\n'
  ```
"#;
    let (new, report) = update_page("page.md", page.to_owned());
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    let expected = r#"Text.

```console
$ milepost save --run nightly --summary "first"
cp_20261115T205418497Z_9kwbmvpj1sm8
$ printf 'a\nb\nc\nd\n'
a
…
$ printf 'one 1\ntwo 2\nthree 3\nfour 4\n'
…
two 2
…
four 4
$ milepost list | cut -c 1-8
ID
9kwbmvpj
```

- In a list:

  ```console
  $ printf 'a\n\nb\n'
  a

  b
  ```
"#;
    assert_eq!(new, expected, "the id of the page stays");
    assert_eq!(with_replacements("a\nb\nc\n", &[(0..1, vec![]), (2..2, vec!["x".into()])]), "b\nx\nc\n");
}

#[test]
fn a_code_fence_in_the_output_needs_a_longer_fence() {
    let page = "```console\n$ printf '\\140\\140\\140\\n'\n```\n";
    assert!(failures(page).contains("use a longer fence"));
    let longer = "````console\n$ printf '\\140\\140\\140\\n'\n```\n````\n";
    assert_eq!(passes(longer).compared, 1);
}
