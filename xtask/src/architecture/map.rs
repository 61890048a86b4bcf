//! Checks ARCHITECTURE.md against the repository: every path that it names exists, and every crate and module
//! is in a table. Returns the violations.

use std::collections::BTreeSet;

use anyhow::Result;

use super::Tree;
use crate::shell::root;

const MAP: &str = "ARCHITECTURE.md";

pub fn check(tree: &Tree) -> Result<Vec<String>> {
    let Ok(text) = std::fs::read_to_string(root().join(MAP)) else {
        return Ok(vec![format!("{MAP} is missing")]);
    };
    let rows = || text.lines().filter(|line| line.trim_start().starts_with('|'));
    if rows().next().is_none() {
        return Ok(vec![format!("{MAP} has no table")]);
    }
    let named: BTreeSet<&str> = text.lines().flat_map(paths).collect();
    let in_tables: BTreeSet<&str> = rows().flat_map(paths).collect();
    let mut violations: Vec<_> = named
        .iter()
        .filter(|path| !root().join(path).exists())
        .map(|path| format!("{MAP} names {path}, which does not exist"))
        .collect();
    for folder in modules(tree) {
        if !in_tables.contains(folder.as_str()) {
            violations.push(format!("{folder} is not in any table of {MAP}"));
        }
    }
    Ok(violations)
}

/// Words in code style that look like paths.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let path = |text: &&str| {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        let known =
            ["crates", "docs", "xtask", ".ci", ".cargo"].contains(&text.split('/').next().unwrap_or(""));
        plain && (known || text.contains('.') && root().join(text).exists())
    };
    quoted.filter(path).map(|text| text.trim_end_matches('/'))
}

/// Every crate, and every folder under its sources.
fn modules(tree: &Tree) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for file in tree.modules() {
        let parts: Vec<_> = file.split('/').collect();
        modules.insert(parts[..2].join("/"));
        modules.extend((4..parts.len()).map(|n| parts[..n].join("/")));
    }
    modules
}
