//! Checks dependencies against tables of what is allowed: between crates, read from `cargo metadata`, and
//! between modules of the library and of the command line, read from the `crate::` paths in their sources.
//! Returns the violations.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Tree;
use crate::shell::{cargo, read_output};

/// A workspace crate, the workspace crates it may depend on, and those that only its tests may use.
const CRATES: [(&str, &[&str], &[&str]); 8] = [
    ("milepost", &[], &["milepost-testkit"]),
    (
        "milepost-cli",
        &["milepost", "milepost-mcp", "milepost-postgres", "milepost-ui"],
        &["milepost-testkit"],
    ),
    (
        "milepost-fuzz",
        &["milepost", "milepost-cli", "milepost-mcp", "milepost-postgres", "milepost-testkit"],
        &[],
    ),
    ("milepost-mcp", &["milepost"], &[]),
    ("milepost-postgres", &["milepost"], &["milepost-testkit"]),
    // For the store, the settings and the trust of the command line.
    ("milepost-py", &["milepost", "milepost-cli"], &[]),
    ("milepost-testkit", &["milepost"], &[]),
    ("milepost-ui", &["milepost"], &[]),
];

/// Crates that must not be in the library's dependency tree.
const BANNED: [&str; 6] = ["tokio", "async-std", "smol", "reqwest", "hyper", "openssl"];

/// A library module and the modules it may use; `module::Type` allows that type only. Seal and retain use
/// plain types of the store: the slot that a document is sealed into, and the content of a row. Capture uses
/// the paths of a project and its store, to read the project and exclude the store.
const MODULES: &[(&str, &[&str])] = &[
    ("options", &[]),
    ("model", &[]),
    ("fs", &[]),
    ("parallel", &[]),
    ("humanize", &[]),
    ("platform", &[]),
    ("clock", &["model", "platform"]),
    ("trigger", &["model", "clock"]),
    ("owner", &["model", "platform", "fs"]),
    ("redact", &["model"]),
    ("git", &["fs", "store::project_paths", "store::Repository"]),
    ("restore", &["model", "fs"]),
    (
        "capture",
        &["model", "fs", "git", "platform", "store::project_paths", "store::Repository", "store::StoreUrl"],
    ),
    // The folder of a project that Milepost keeps its own files in, and the repository to read.
    (
        "snapshot",
        &[
            "model",
            "fs",
            "git",
            "capture",
            "parallel",
            "store::project_paths",
            "store::Repository",
            "store::StoreUrl",
        ],
    ),
    ("failures", &["model"]),
    ("threads", &["model"]),
    ("front_matter", &[]),
    ("brief", &["model", "front_matter"]),
    // A brief's own id also names its checkpoint, so headers contain it.
    ("seal", &["model", "front_matter", "store::Slot", "ReasonCode"]),
    ("diff", &["model", "brief"]),
    ("retain", &["model", "clock", "seal", "store::CheckpointEntry", "store::RetentionEntry"]),
    ("resume", &["model", "clock", "owner", "ReasonCode"]),
    ("trust", &["model", "fs", "owner"]),
    ("database", &[]),
    (
        "store",
        &[
            "model",
            "clock",
            "fs",
            "database",
            "owner",
            "parallel",
            "seal",
            "trust",
            "ReasonCode",
            "error::error_chain",
        ],
    ),
    // The checks of a file before SQLite opens it.
    ("search", &["model", "database", "fs", "store::project_paths", "trust::user_id"]),
    ("interop", &["model", "seal", "brief", "database", "fs", "ReasonCode"]),
    ("error", &["model", "brief", "restore", "seal", "store", "trigger", "interop"]),
    (
        "engine",
        &[
            "model",
            "clock",
            "fs",
            "brief",
            "capture",
            "diff",
            "failures",
            "front_matter",
            "git",
            "interop",
            "owner",
            "parallel",
            "redact",
            "resume",
            "restore",
            "seal",
            "snapshot",
            "retain",
            "parallel",
            "search",
            "store",
            "threads",
            "trigger",
            "trust",
            "Error",
            "ReasonCode",
            "error::error_chain",
        ],
    ),
    (
        "run",
        &[
            "model",
            "owner",
            "trigger",
            "capture",
            "engine",
            "store::StoreError",
            "store::StoreUrl",
            "store::OpenOptions",
            "Error",
            "error::error_chain",
        ],
    ),
    ("lib", &[]),
    (
        "internal",
        &[
            "brief",
            "capture",
            "clock",
            "diff",
            "engine",
            "error",
            "fs",
            "front_matter",
            "humanize",
            "resume",
            "interop",
            "model",
            "owner",
            "redact",
            "restore",
            "run",
            "seal",
            "snapshot",
            "store",
            "threads",
            "trigger",
            "trust",
        ],
    ),
];

const COMMAND_LINE: &str = "crates/milepost-cli/src/";

/// A module of the command line and the modules it may use. Agents and supervision do not depend on commands.
/// Configuration does not depend on stores or presentation.
const COMMAND_LINE_MODULES: &[(&str, &[&str])] = &[
    ("agents", &["internal::SettingsRoundTrip"]),
    ("cli", &["command", "completion", "config", "context", "error", "parse_error", "present"]),
    (
        "command",
        &[
            "agents",
            "cli",
            "completion",
            "config",
            "context",
            "error",
            "error_advice",
            "handover",
            "hook",
            "input",
            "present",
            "recorder",
            "supervise",
        ],
    ),
    ("completion", &["agents", "cli", "command", "config", "context", "present"]),
    ("config", &["agents", "cli", "error", "error_advice"]),
    ("context", &["config", "error", "error_advice", "present"]),
    ("error", &["error_advice"]),
    ("error_advice", &[]),
    ("handover", &["context", "error", "present"]),
    ("hook", &["agents", "cli", "command", "config", "context", "error", "handover", "present"]),
    ("input", &["config", "error"]),
    ("internal", &["agents", "config"]),
    ("lib", &["cli", "project"]),
    ("main", &[]),
    ("parse_error", &["cli", "error"]),
    (
        "present",
        &[
            "agents",
            "cli",
            "config::Origin",
            "config::Pager",
            "config::pager",
            "config::RecordScope",
            "config::Setting",
            "context",
            "error",
            "error_advice",
            "handover",
            "hook",
            "recorder",
            "supervise",
        ],
    ),
    ("project", &["cli", "config", "context", "error", "error_advice", "present"]),
    ("recorder", &["context"]),
    ("supervise", &["error", "error_advice"]),
];

pub fn crates(_: &Tree) -> Result<Vec<String>> {
    let text = read_output(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<_> = packages.iter().map(name).collect();
    let mut violations = Vec::new();
    for package in packages {
        let from = name(package);
        if from == "xtask" {
            continue;
        }
        let Some((_, may, tests_may)) = CRATES.iter().find(|(known, ..)| *known == from) else {
            violations.push(format!("the crate {from} has no entry in xtask/src/architecture/edges.rs"));
            continue;
        };
        for edge in package["dependencies"].as_array().into_iter().flatten() {
            let to = name(edge);
            let in_tests = edge["kind"] == "dev";
            let allowed = may.contains(&to.as_str()) || in_tests && tests_may.contains(&to.as_str());
            if ours.contains(&to) && !allowed {
                violations.push(format!("{from} must not depend on {to}"));
            }
        }
    }
    Ok(violations)
}

pub fn no_runtime(_: &Tree) -> Result<Vec<String>> {
    let text = read_output(cargo().args([
        "tree",
        "-p",
        "milepost",
        "-e",
        "normal",
        "--prefix",
        "none",
        "--offline",
    ]))?;
    let there = |banned: &&&str| text.lines().any(|line| line.split(' ').next() == Some(**banned));
    Ok(BANNED.iter().filter(there).map(|banned| format!("the library depends on {banned}")).collect())
}

pub fn library_modules(tree: &Tree) -> Result<Vec<String>> {
    check_modules(tree, "crates/milepost/src/", MODULES)
}

pub fn command_line_modules(tree: &Tree) -> Result<Vec<String>> {
    let mut violations = check_modules(tree, COMMAND_LINE, COMMAND_LINE_MODULES)?;
    for file in tree.modules().filter(|file| file.starts_with(&format!("{COMMAND_LINE}present/"))) {
        let text = tree.text(file)?;
        for word in ["Milepost::", "OpenOptions", "fs::write"].iter().filter(|word| text.contains(**word)) {
            violations
                .push(format!("{file}: {word}: present/ must only render, not open or change anything"));
        }
    }
    Ok(violations)
}

fn check_modules(tree: &Tree, root: &str, table: &[(&str, &[&str])]) -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for file in tree.modules() {
        let Some(inside) = file.strip_prefix(root) else { continue };
        let module = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let Some((_, may)) = table.iter().find(|(known, _)| *known == module) else {
            violations
                .push(format!("{file}: the module {module} has no entry in xtask/src/architecture/edges.rs"));
            continue;
        };
        for named in named(&tree.text(file)?) {
            let first = named.split("::").next().unwrap_or_default();
            let macros = ["closed_enum"].contains(&first);
            if first != module && !macros && !may.contains(&first) && !may.contains(&named.as_str()) {
                violations.push(format!("{file}: the module {module} must not use {named}"));
            }
        }
    }
    Ok(violations)
}

/// Every `crate::…` path in a source, cut to two segments, with braces expanded.
fn named(text: &str) -> BTreeSet<String> {
    let code: String =
        text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join(" ");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let (first, rest) = word(rest);
        if first.is_empty() {
            found.extend(braced(rest));
            continue;
        }
        match rest.strip_prefix("::") {
            Some(rest) => {
                let (second, rest) = word(rest);
                let all = if second.is_empty() { braced(rest) } else { vec![second.to_owned()] };
                found.extend(all.into_iter().map(|second| format!("{first}::{second}")));
            }
            None => drop(found.insert(first.to_owned())),
        }
    }
    found
}

fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()))
}

/// The first segment of each path between braces.
fn braced(text: &str) -> Vec<String> {
    let Some(inside) = text.strip_prefix('{').and_then(|rest| rest.split('}').next()) else {
        return Vec::new();
    };
    let names = inside.split(',').map(|name| word(name.trim()).0.to_owned());
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let text = "use crate::store::{Slot, CheckpointEntry}; use crate::{Error, fs}; let x = crate::seal::verify(y);";
        let expected = ["Error", "fs", "seal::verify", "store::CheckpointEntry", "store::Slot"];
        assert!(named(text).iter().map(String::as_str).eq(expected));
    }
}
