//! Decides which failed commands are still unfixed: those that have not been seen to succeed since. Takes
//! outcomes in order and keeps a list of the unfixed ones. Pure.

use crate::model::{Outcome, OutcomeKind, OutcomeResult};

/// Maximum number of unfixed failures to keep. The oldest are dropped first.
const MAX_FAILURES: usize = 50;
/// Maximum bytes of output to keep with a failure.
const MAX_OUTPUT: usize = 600;

/// Programs whose exit code 1 is an answer, not a failure.
const ANSWER_PROGRAMS: &str = "\
    grep egrep fgrep rg ag ack diff cmp test [ [[ which pgrep command";

/// Programs that cover the whole project if they have no further arguments: a successful `pytest` also covers
/// `pytest tests/test_a.py`. Words after the name are subcommands that must match.
const WHOLE_PROJECT: &str = "\
    pytest cargo go npm npx pnpm yarn bun deno jest vitest mocha tox nox rspec phpunit mvn mvnw gradle \
    gradlew dotnet swift mix ctest tsc eslint ruff mypy flake8 rubocop unittest playwright cypress \
    xcodebuild rails rake bundle flutter dart zig sbt lein stack cabal meson bazel behave golangci-lint \
    pylint black prettier biome staticcheck terraform pest artisan";

/// Programs in that list whose first argument says what to do.
const NEEDS_SUBCOMMAND: &str = "\
    cargo go npm npx pnpm yarn bun deno dotnet swift mix rails rake bundle flutter dart zig bazel \
    terraform artisan stack cabal";

/// Programs that run another program. The name of that program is the one that counts.
const WRAPPERS: &str = "\
    time nice env timeout sudo xvfb-run poetry uv pipenv stdbuf nohup exec";

/// Flags that change only what is printed.
const OUTPUT_FLAGS: &str = "\
    -q -qq -v -vv -vvv -s -x --quiet --verbose --no-color --color --nocapture --no-header --tb \
    --stacktrace --info -ra --silent";

/// Whether a word is in one of these lists.
fn is_listed(list: &str, word: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

/// Whether a shell command failed. Exit code 1 from programs like `grep` only means that nothing was found.
pub(crate) fn is_failure(outcome: &Outcome) -> bool {
    if outcome.result != OutcomeResult::Fail || outcome.kind == OutcomeKind::ToolUse {
        return false;
    }
    let exit_one = matches!(outcome.reason_code.as_deref(), Some("exit_1"));
    !(exit_one && is_answer(&outcome.name))
}

/// Whether exit code 1 of a command line is an answer, judged by its last command.
fn is_answer(command: &str) -> bool {
    let last = split_words(command);
    let last = last.rsplit(|word| is_operator(word)).next().unwrap_or_default();
    let words = strip_prefixes(last);
    match words {
        [git, sub, ..] if git == "git" => {
            let answers =
                sub == "grep" || words.iter().any(|word| word == "--exit-code" || word == "--quiet");
            answers || sub == "merge-base"
        }
        [first, ..] => is_listed(ANSWER_PROGRAMS, program_name(first)),
        [] => false,
    }
}

/// Updates the unfixed failures after one more outcome.
pub(crate) fn update(unfixed: &mut Vec<Outcome>, outcome: &Outcome) {
    if is_failure(outcome) {
        let new = Command::of(outcome);
        unfixed.retain(|old| Command::of(old) != new);
        let mut outcome = outcome.clone();
        let start = outcome.summary.len().saturating_sub(MAX_OUTPUT);
        outcome.summary.drain(..outcome.summary.ceil_char_boundary(start));
        unfixed.push(outcome);
        unfixed.drain(..unfixed.len().saturating_sub(MAX_FAILURES));
    } else if outcome.result != OutcomeResult::Fail && !unfixed.is_empty() {
        let passed = Command::of(outcome);
        unfixed.retain(|old| !passed.covers(&Command::of(old)));
    }
}

/// The failures in a history of outcomes that no later outcome has fixed. The caller refers to each of them
/// by a number.
#[derive(Debug, Default)]
pub(crate) struct OpenFailures(Vec<(Command, Vec<usize>)>);

impl OpenFailures {
    /// Adds the next outcome of the history, under a number. Returns the numbers of the failures that it fixes.
    pub(crate) fn add(&mut self, outcome: &Outcome, number: usize) -> Vec<usize> {
        if is_failure(outcome) {
            let command = Command::of(outcome);
            match self.0.iter_mut().find(|(known, _)| *known == command) {
                Some((_, numbers)) => numbers.push(number),
                None => self.0.push((command, vec![number])),
            }
            return Vec::new();
        }
        if outcome.result == OutcomeResult::Fail || self.0.is_empty() {
            return Vec::new();
        }
        let passed = Command::of(outcome);
        self.take(|failed| passed.covers(failed))
    }

    /// Ends the history. Returns the numbers of the failures that are missing from the run's own list of
    /// unfixed ones, although no outcome in the history fixed them: that outcome is no longer recorded.
    pub(crate) fn close(mut self, unfixed: &[Outcome]) -> Vec<usize> {
        let unfixed: Vec<_> = unfixed.iter().map(Command::of).collect();
        self.take(|failed| !unfixed.contains(failed))
    }

    /// The numbers of the failures that are missing from the run's own list of unfixed ones.
    pub(crate) fn missing_from(&self, unfixed: &[Outcome]) -> Vec<usize> {
        let unfixed: Vec<_> = unfixed.iter().map(Command::of).collect();
        let missing = self.0.iter().filter(|(failed, _)| !unfixed.contains(failed));
        missing.flat_map(|(_, numbers)| numbers.iter().copied()).collect()
    }

    /// Adds the unfixed failures of a later history, whose numbers are increased by `offset`.
    pub(crate) fn append(&mut self, later: Self, offset: usize) {
        for (command, numbers) in later.0 {
            let numbers = numbers.into_iter().map(|number| number + offset);
            match self.0.iter_mut().find(|(known, _)| *known == command) {
                Some((_, known)) => known.extend(numbers),
                None => self.0.push((command, numbers.collect())),
            }
        }
    }

    fn take(&mut self, is_fixed: impl Fn(&Command) -> bool) -> Vec<usize> {
        let (fixed, open): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.0).into_iter().partition(|(failed, _)| is_fixed(failed));
        self.0 = open;
        fixed.into_iter().flat_map(|(_, numbers)| numbers).collect()
    }
}

/// A command, reduced to the parts that affect its meaning.
#[derive(Debug, PartialEq, Eq)]
struct Command {
    folder: String,
    /// The simple commands of the command line, each as its words.
    parts: Vec<Vec<String>>,
}

impl Command {
    /// Removes `cd`, variables, redirections and pipes that only filter the output.
    fn of(outcome: &Outcome) -> Self {
        let mut folder = outcome.folder().unwrap_or_default().trim_end_matches('/').to_owned();
        let mut parts: Vec<Vec<String>> = Vec::new();
        let mut after_pipe = false;
        let words = split_words(&outcome.name);
        for piece in words.split_inclusive(|word| is_operator(word)) {
            let (operator, part) = match piece.split_last() {
                Some((last, rest)) if is_operator(last) => (last.as_str(), rest),
                _ => ("", piece),
            };
            let part = strip_redirections(strip_prefixes(part));
            let is_filter = std::mem::replace(&mut after_pipe, operator == "|");
            match part.first().map(String::as_str) {
                None | Some("true" | "echo" | "pushd" | "popd") => {}
                Some("cd") => folder = join_folder(&folder, part.get(1).map_or("", String::as_str)),
                Some("export" | "source" | "." | "set") => {}
                _ if is_filter && !parts.is_empty() => {}
                _ => parts.push(part),
            }
        }
        Self { folder, parts }
    }

    /// Whether the success of this command means that `failed` is fixed: it is the same command, or
    /// one that does everything that `failed` does.
    fn covers(&self, failed: &Self) -> bool {
        if self == failed {
            return true;
        }
        let same_place = self.folder == failed.folder || is_inside(&failed.folder, &self.folder);
        same_place && !failed.parts.is_empty() && {
            let (last, before) = (failed.parts.last(), &failed.parts[..failed.parts.len() - 1]);
            let relevant = last.into_iter().chain(before.iter().filter(|part| is_check(part)));
            relevant.into_iter().all(|part| {
                self.parts
                    .iter()
                    .any(|own| own == part && self.folder == failed.folder || covers_part(own, part))
            })
        }
    }
}

/// Whether a simple command runs one of the known test and build programs.
fn is_check(part: &[String]) -> bool {
    part.first().is_some_and(|word| is_listed(WHOLE_PROJECT, program_name(word)))
}

/// Whether one simple command does all that another one does. Everything that limits the wide command must
/// also limit the narrow one, and every path of the narrow one must be within a path of the wide one.
fn covers_part(wide: &[String], narrow: &[String]) -> bool {
    let (wide, narrow) = (program_and_arguments(wide), program_and_arguments(narrow));
    let (Some((program, wide)), Some((other_program, narrow))) = (wide, narrow) else { return false };
    if program != other_program || !is_listed(WHOLE_PROJECT, program.as_str()) {
        return false;
    }
    let same = wide.iter().zip(&narrow).take_while(|(a, b)| a == b && is_word(a)).count();
    // Without a subcommand, such a program does something else.
    if same == 0
        && narrow.first().is_some_and(|first| is_word(first))
        && is_listed(NEEDS_SUBCOMMAND, program.as_str())
    {
        return false;
    }
    let (wide, narrow) = (&wide[same..], &narrow[same..]);
    let limits_both = |word: &String| narrow.iter().any(|other| covers_argument(word, other));
    let is_within = |word: &String| wide.iter().any(|own| covers_argument(own, word));
    let has_paths = wide.iter().any(|word| !word.starts_with('-'));
    wide.iter().all(limits_both) && (!has_paths || narrow.iter().filter(|word| is_path(word)).all(is_within))
}

/// Whether an argument is a plain word, such as a subcommand.
fn is_word(argument: &str) -> bool {
    !argument.starts_with('-') && !is_path(argument)
}

fn is_path(argument: &str) -> bool {
    !argument.starts_with('-') && argument.contains(['/', '.', ':'])
}

/// Whether `narrow` is the same argument as `wide`, or names something inside the place that `wide` names.
fn covers_argument(wide: &str, narrow: &str) -> bool {
    let trimmed = wide.trim_end_matches("...").trim_end_matches('/');
    if wide == narrow || wide == "." || wide == "./..." {
        return true;
    }
    let rest = narrow.strip_prefix(trimmed).unwrap_or_default();
    let contains = rest.starts_with('/') || rest.starts_with("::") || rest.starts_with(':');
    !wide.starts_with('-') && contains
}

fn is_output_flag(word: &str) -> bool {
    is_listed(OUTPUT_FLAGS, word.split('=').next().unwrap_or(word))
}

/// The name of the program, and its arguments without flags that change only the output.
fn program_and_arguments(part: &[String]) -> Option<(String, Vec<String>)> {
    let mut words = part;
    // `python -m pytest` and `bundle exec rspec` run another program.
    if let [python, m, module, rest @ ..] = words
        && program_name(python).starts_with("python")
        && m == "-m"
    {
        return Some((module.clone(), arguments(rest)));
    }
    if let [bundle, exec, rest @ ..] = words
        && matches!((bundle.as_str(), exec.as_str()), ("bundle", "exec") | ("npx", _) | ("pnpm", "exec"))
    {
        words = if bundle == "npx" { &words[1..] } else { rest };
    }
    let (program, rest) = words.split_first()?;
    Some((program_name(program).to_owned(), arguments(rest)))
}

fn arguments(words: &[String]) -> Vec<String> {
    words.iter().filter(|word| !is_output_flag(word) && *word != "--").cloned().collect()
}

/// The file name of a program, without its folder.
fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The words of a simple command without variable assignments and wrappers in front of it.
fn strip_prefixes(mut words: &[String]) -> &[String] {
    while let [first, rest @ ..] = words {
        let wrapped = is_listed(WRAPPERS, first.as_str()) && !rest.is_empty();
        if !(is_assignment(first) || wrapped) {
            break;
        }
        words = rest;
        if wrapped {
            // Flags and durations of the wrapper, and `run` of `poetry run` and `uv run`.
            while let [option, rest @ ..] = words
                && !rest.is_empty()
                && (option.starts_with('-')
                    || option == "run"
                    || option.trim_end_matches(['s', 'm', 'h']).parse::<f64>().is_ok())
            {
                words = rest;
            }
        }
    }
    words
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Removes redirections such as `2>&1`, `> file` and `< file`.
fn strip_redirections(words: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut skip = false;
    for word in words {
        if std::mem::take(&mut skip) {
            continue;
        }
        let rest = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '&');
        match rest.strip_prefix(['>', '<']) {
            Some(target) => skip = target.trim_start_matches(['>', '<', '|']).is_empty(),
            None => kept.push(word.clone()),
        }
    }
    kept
}

fn is_operator(word: &str) -> bool {
    matches!(word, "&&" | "||" | ";" | "|" | "|&" | "&" | "\n")
}

/// Splits a command line into words and operators. Quotes group words and are removed.
fn split_words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut chars = command.chars().peekable();
    let flush = |word: &mut String, words: &mut Vec<String>| {
        if !word.is_empty() {
            words.push(std::mem::take(word));
        }
    };
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.push(c),
            (None, '\'' | '"') => quote = Some(c),
            (None, '\\') => word.extend(chars.next()),
            (None, ';' | '\n') => {
                flush(&mut word, &mut words);
                words.push(if c == ';' { ";" } else { "\n" }.to_owned());
            }
            (None, '|') => {
                flush(&mut word, &mut words);
                let double = chars.next_if_eq(&'|').is_some();
                words.push(if double { "||" } else { "|" }.to_owned());
            }
            (None, '&') if word.ends_with('>') => word.push(c),
            (None, '&') if chars.peek() == Some(&'>') => word.push(c),
            (None, '&') => {
                flush(&mut word, &mut words);
                let double = chars.next_if_eq(&'&').is_some();
                words.push(if double { "&&" } else { "&" }.to_owned());
            }
            (None, c) if c.is_whitespace() => flush(&mut word, &mut words),
            (None, c) => word.push(c),
        }
    }
    flush(&mut word, &mut words);
    words
}

/// The current folder after `cd target` is run in `folder`.
fn join_folder(folder: &str, target: &str) -> String {
    let target = target.trim_end_matches('/');
    if target.starts_with('/') || folder.is_empty() {
        return target.to_owned();
    }
    match target {
        "" | "." => folder.to_owned(),
        ".." => folder.rsplit_once('/').map_or("", |(parent, _)| parent).to_owned(),
        _ => format!("{folder}/{}", target.trim_start_matches("./")),
    }
}

fn is_inside(folder: &str, outer: &str) -> bool {
    folder.strip_prefix(outer).is_some_and(|rest| outer.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, code: i64) -> Outcome {
        Outcome {
            duration_ms: 0,
            kind: OutcomeKind::Shell,
            name: name.to_owned(),
            reason_code: (code != 0).then(|| format!("exit_{code}")),
            result: if code == 0 { OutcomeResult::Pass } else { OutcomeResult::Fail },
            summary: String::new(),
            extra: Default::default(),
        }
    }

    /// The commands that are still unfixed after a history of commands with their exit codes.
    fn unfixed(history: &[(&str, i64)]) -> Vec<String> {
        let mut list = Vec::new();
        for (name, code) in history {
            update(&mut list, &outcome(name, *code).in_folder("/p").unwrap());
        }
        list.into_iter().map(|outcome| outcome.name).collect()
    }

    #[test]
    fn a_failure_stays_until_the_same_command_succeeds() {
        assert_eq!(unfixed(&[("make test", 2), ("make lint", 0)]), ["make test"]);
        assert!(unfixed(&[("make test", 2), ("make lint", 0), ("make test", 0)]).is_empty());
        assert_eq!(unfixed(&[("make a", 2), ("make b", 2), ("make a", 2)]), ["make b", "make a"]);
    }

    #[test]
    fn what_does_not_change_a_command_is_ignored() {
        for success in [
            "cd /p && pytest -q tests/test_a.py",
            "PYTHONPATH=src pytest tests/test_a.py",
            "pytest tests/test_a.py 2>&1 | tail -20",
            "pytest tests/test_a.py > out.txt",
            "timeout 60 pytest tests/test_a.py",
            "env A=1 pytest tests/test_a.py &> log",
        ] {
            assert!(unfixed(&[("pytest tests/test_a.py", 1), (success, 0)]).is_empty(), "{success}");
        }
    }

    #[test]
    fn a_wider_command_covers_a_narrower_one() {
        for (failed, success) in [
            ("pytest tests/test_3.py", "pytest"),
            ("pytest tests/test_3.py::test_x", "pytest tests"),
            ("pytest tests/test_3.py::test_x -x", "python -m pytest tests/test_3.py"),
            ("pytest -k slow", "pytest"),
            ("cargo test parser", "cargo test"),
            ("cargo test -p core parser", "cargo test --quiet"),
            ("go test ./pkg/a", "go test ./..."),
            ("go test -run TestX ./pkg/a", "go test ./pkg/..."),
            ("npm test -- src/a.test.ts", "npm test"),
            ("npx jest src/a.test.ts", "npx jest"),
            ("./gradlew test --tests A", "./gradlew test"),
            ("cargo build && cargo test parser", "cargo build && cargo test"),
        ] {
            assert!(unfixed(&[(failed, 1), (success, 0)]).is_empty(), "{failed} / {success}");
        }
    }

    #[test]
    fn a_narrower_or_different_command_does_not() {
        for (failed, success) in [
            ("pytest", "pytest tests/test_3.py"),
            ("pytest tests/test_3.py", "pytest tests/test_4.py"),
            ("pytest tests/test_3.py", "pytest -k fast"),
            ("cargo test", "cargo build"),
            ("cargo test parser", "cargo test lexer"),
            ("cargo test -p core", "cargo test -p cli"),
            ("npm run build", "npm run lint"),
            ("npm run build", "npm install"),
            ("make test", "make"),
            ("go test ./pkg/a", "go test ./pkg/b"),
            ("go test ./pkg/a", "go vet ./..."),
            ("python run.py", "python other.py"),
            ("terraform apply", "terraform plan"),
            ("docker compose up", "docker compose build"),
        ] {
            assert_eq!(unfixed(&[(failed, 2), (success, 0)]), [failed], "{success}");
        }
    }

    #[test]
    fn a_history_says_which_failures_were_fixed() {
        let mut open = OpenFailures::default();
        let mut fixed = Vec::new();
        let history =
            [("cargo test a", 1), ("make", 2), ("cargo test a", 1), ("cargo test", 0), ("cargo test a", 1)];
        for (number, (name, code)) in history.into_iter().enumerate() {
            fixed.extend(open.add(&outcome(name, code), number));
        }
        assert_eq!(fixed, [0, 2]);
        assert_eq!(open.close(&[outcome("cargo test a", 1)]), [1], "the run does not list it as unfixed");
    }

    #[test]
    fn an_answer_is_no_failure() {
        for command in [
            "grep -r x src",
            "cat a | grep x",
            "diff a b",
            "test -f x",
            "which node",
            "cd a && rg x",
            "git diff --exit-code",
        ] {
            assert!(unfixed(&[(command, 1)]).is_empty(), "{command}");
        }
        assert_eq!(unfixed(&[("grep -r x src", 2)]).len(), 1);
        assert_eq!(unfixed(&[("pytest | grep x && make", 1)]).len(), 1);
    }

    #[test]
    fn folders_distinguish_commands() {
        let mut list = Vec::new();
        update(&mut list, &outcome("npm test", 1).in_folder("/p/web").unwrap());
        update(&mut list, &outcome("npm test", 0).in_folder("/p/api").unwrap());
        assert_eq!(list.len(), 1);
        update(&mut list, &outcome("cd web && npm test", 0).in_folder("/p").unwrap());
        assert!(list.is_empty());
    }
}
