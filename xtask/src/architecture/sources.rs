//! Rules for the text of files: `//!` headers, file length, printing, environment access, calls of git, Debug
//! output, notes for later, machine-specific paths and registries. Returns the violations. The forbidden
//! words are concatenated here so that this file does not violate its own rules.

use anyhow::Result;

use super::Tree;

/// Maximum number of lines per file.
const LINES: usize = 600;

/// Words that no source may contain.
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
/// The only file of the library that reads an environment variable: PATH, to find git.
const PATH_FILE: &str = "crates/milepost/src/git/executable.rs";
/// The only file of the testkit that reads the environment: PATH, and the address of an existing server.
const TEST_SERVER_FILE: &str = "crates/milepost-testkit/src/postgres/programs.rs";
const UNSAFE: [&str; 4] = [
    concat!("unsa", "fe fn"),
    concat!("unsa", "fe impl"),
    concat!("unsa", "fe trait"),
    concat!("unsa", "fe extern"),
];

/// Rust's Debug output, which does not belong in messages to users. The testkit and the fuzz targets are exempt:
/// programmers read their messages.
const DEBUG: [&str; 2] = [concat!(":?", "}"), concat!(":#?", "}")];

/// The code that starts git, and the only file that may contain it. That file prevents git from running
/// programs that a repository configures.
const GIT: &str = "Command::new(\"git\")";
const GIT_FILE: &str = "crates/milepost/src/git/mod.rs";

const FOR_PROGRAMMERS: [&str; 2] = ["crates/milepost-testkit/", "crates/milepost-fuzz/"];

/// Machine-specific paths, and settings that name a registry.
const MACHINE: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
/// Stories quote the output of programs on other machines, with their paths.
const STORIES: &str = "xtask/corpus/handover/";
const REGISTRIES: [&str; 4] = ["[source.", "[registries", "[registry", "replace-with"];

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    let sources = tree.files.iter().filter(|f| f.ends_with(".rs"));
    for file in sources {
        let text = tree.text(file)?;
        let module = file.starts_with("crates/") && file.contains("/src/");
        if !text.starts_with("//!") && (module || file.starts_with("xtask/")) {
            violations.push(format!("{file} does not start with //! lines that describe it"));
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
                violations.push(format!("{at}: only {GIT_FILE} may run git"));
            }
            let for_people =
                module && !is_test && !FOR_PROGRAMMERS.iter().any(|folder| file.starts_with(folder));
            if for_people && DEBUG.iter().any(|form| line.contains(form)) {
                violations.push(format!("{at}: Debug output in a message; use Display"));
            }
            for word in NOWHERE.iter().chain(&UNSAFE).filter(|word| line.contains(**word)) {
                violations.push(format!("{at}: {word} is forbidden"));
            }
            let code = line.split("//").next().unwrap_or_default();
            if module && !file.contains("/tests") && !file.starts_with("crates/milepost-cli/src/present/") {
                for word in PRINTING.iter().filter(|word| calls(code, word)) {
                    violations.push(format!("{at}: {word} is allowed only in milepost-cli's present/"));
                }
            }
            let may_read = file == TEST_SERVER_FILE
                || file == PATH_FILE && code.contains("var_os(\"PATH\")")
                || file.starts_with("crates/milepost-cli/src/config/");
            if module && !may_read {
                for word in ENVIRONMENT.iter().filter(|word| code.contains(**word)).take(1) {
                    violations.push(format!("{at}: {word} is allowed only in milepost-cli's config/"));
                }
            }
        }
    }
    Ok(violations)
}

/// Whether code calls the macro `name`, rather than one whose name only ends with it.
fn calls(code: &str, name: &str) -> bool {
    let before = |at: usize| code[..at].chars().next_back();
    code.match_indices(name).any(|(at, _)| before(at).is_none_or(|c| !c.is_alphanumeric() && c != '_'))
}

pub fn machine_paths(tree: &Tree) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for file in &tree.files {
        for (n, line) in tree.text(file)?.lines().enumerate() {
            let at = format!("{file}:{}", n + 1);
            let is_quote = file.starts_with(STORIES);
            for path in MACHINE.iter().filter(|path| !is_quote && line.contains(**path)) {
                violations.push(format!("{at}: {path} is a machine-specific path"));
            }
            let registry = file == "Cargo.lock"
                && line.contains("registry+")
                && !line.contains("/rust-lang/crates.io-index");
            let settings = file.starts_with(".cargo/") && REGISTRIES.iter().any(|word| line.contains(word));
            if registry || settings {
                violations.push(format!("{at}: machine-specific registry"));
            }
        }
    }
    Ok(violations)
}
