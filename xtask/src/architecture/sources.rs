//! Rules that a line of source can break: openings, lengths, printing, the environment, git, Debug output, promises for
//! later, machines.
//! The words looked for are put together here, so that this file does not break the rules itself.

use anyhow::Result;

use super::Tree;

/// The most lines a file may have.
const LINES: usize = 600;

/// Words that no source may hold.
const NOWHERE: [&str; 7] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[ig", "nore"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("unsa", "fe {"),
];

const PRINTING: [&str; 5] = ["println!", "eprintln!", "print!", "eprint!", "dbg!"];
const ENVIRONMENT: [&str; 2] = ["env::var", "env::vars"];
/// The one file of the library that reads a variable: PATH, in which git is looked for.
const PATH_FILE: &str = "crates/milepost/src/git/executable.rs";
const UNSAFE: [&str; 4] = [
    concat!("unsa", "fe fn"),
    concat!("unsa", "fe impl"),
    concat!("unsa", "fe trait"),
    concat!("unsa", "fe extern"),
];

/// Rust's Debug output, which is for programmers; the testkit's messages are.
const DEBUG: [&str; 2] = [concat!(":?", "}"), concat!(":#?", "}")];

/// Starting git, and the one file that may: there it is kept from running what a repository names.
const GIT: &str = "Command::new(\"git\")";
const GIT_FILE: &str = "crates/milepost/src/git/mod.rs";

/// Paths of one machine, and settings that name a registry.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const REGISTRIES: [&str; 4] = ["[source.", "[registries", "[registry", "replace-with"];

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    let sources = tree.files.iter().filter(|f| f.ends_with(".rs"));
    for file in sources {
        let text = tree.text(file)?;
        let module = file.starts_with("crates/") && file.contains("/src/");
        if !text.starts_with("//!") && (module || file.starts_with("xtask/")) {
            violations.push(format!("{file} does not open with //! lines that say its job"));
        }
        let lines = text.lines().count();
        if lines > LINES {
            violations.push(format!("{file} has {lines} lines, more than {LINES}: split it"));
        }
        let tests_from = text.lines().position(|line| line == "mod tests {").unwrap_or(usize::MAX);
        for (n, line) in text.lines().enumerate() {
            let at = format!("{file}:{}", n + 1);
            let is_test = file.ends_with("/tests.rs") || file.contains("/tests/") || n > tests_from;
            if module && !is_test && file != GIT_FILE && line.contains(GIT) {
                violations.push(format!("{at}: git is run by {GIT_FILE} alone"));
            }
            let for_people = module && !is_test && !file.starts_with("crates/milepost-testkit/");
            if for_people && DEBUG.iter().any(|form| line.contains(form)) {
                violations.push(format!("{at}: Debug output in a message; write the value with Display"));
            }
            for word in NOWHERE.iter().chain(&UNSAFE).filter(|word| line.contains(**word)) {
                violations.push(format!("{at}: {word} has no place here"));
            }
            let code = line.split("//").next().unwrap_or_default();
            if module && !file.contains("/tests") && !file.starts_with("crates/milepost-cli/src/present/") {
                for word in PRINTING.iter().filter(|word| calls(code, word)) {
                    violations.push(format!("{at}: {word} belongs to milepost-cli's present/"));
                }
            }
            let may_read_path = file == PATH_FILE && code.contains("var_os(\"PATH\")");
            if module && !file.starts_with("crates/milepost-cli/src/config/") && !may_read_path {
                for word in ENVIRONMENT.iter().filter(|word| code.contains(**word)).take(1) {
                    violations.push(format!("{at}: {word} belongs to milepost-cli's config/"));
                }
            }
        }
    }
    Ok(violations)
}

/// Whether a macro is called, and not another that ends like it.
fn calls(code: &str, name: &str) -> bool {
    let before = |at: usize| code[..at].chars().next_back();
    code.match_indices(name).any(|(at, _)| before(at).is_none_or(|c| !c.is_alphanumeric() && c != '_'))
}

pub fn machine_paths(tree: &Tree) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for file in &tree.files {
        for (n, line) in tree.text(file)?.lines().enumerate() {
            let at = format!("{file}:{}", n + 1);
            for path in MACHINE.iter().filter(|path| line.contains(**path)) {
                violations.push(format!("{at}: {path} is a path of one machine"));
            }
            let registry = file == "Cargo.lock"
                && line.contains("registry+")
                && !line.contains("/rust-lang/crates.io-index");
            let settings = file.starts_with(".cargo/") && REGISTRIES.iter().any(|word| line.contains(word));
            if registry || settings {
                violations.push(format!("{at}: a registry of one machine"));
            }
        }
    }
    Ok(violations)
}
