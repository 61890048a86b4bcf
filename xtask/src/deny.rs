//! `cargo xtask deny`: checks the licence, name and source of every dependency against the lists in
//! `deny.toml`. The short form needs only `cargo metadata`. `--full` also runs cargo-deny, which reads the
//! licence files and, if the advisory database can be fetched, checks for advisories.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use toml::Table;

use crate::shell::{cargo, is_installed, read_output, root, run_program};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

pub fn run(full: bool) -> Result<()> {
    check_metadata()?;
    if full {
        run_cargo_deny()?;
    }
    Ok(())
}

fn check_metadata() -> Result<()> {
    let rules: Table = std::fs::read_to_string(root().join("deny.toml"))?.parse()?;
    let list = |section: &str, key: &str| rules.get(section)?.get(key)?.as_array().cloned();
    let allowed: BTreeSet<String> = list("licenses", "allow")
        .context("deny.toml has no licenses.allow")?
        .iter()
        .filter_map(|name| Some(name.as_str()?.to_owned()))
        .collect();
    let banned: BTreeSet<String> = list("bans", "deny")
        .context("deny.toml has no bans.deny")?
        .iter()
        .filter_map(|ban| Some(ban.get("name")?.as_str()?.to_owned()))
        .collect();
    let text =
        read_output(cargo().args(["metadata", "--format-version", "1", "--locked", "--all-features"]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut violations = Vec::new();
    for package in packages {
        let field = |name: &str| package[name].as_str().unwrap_or_default();
        let name = format!("{} {}", field("name"), field("version"));
        if !is_allowed(field("license"), &allowed) {
            violations
                .push(format!("{name}: the licence \"{}\" is not allowed by deny.toml", field("license")));
        }
        if banned.contains(field("name")) {
            violations.push(format!("{name} is banned by deny.toml"));
        }
        if !package["source"].is_null() && field("source") != CRATES_IO {
            violations.push(format!("{name} comes from {}, not from crates.io", field("source")));
        }
        // Only workspace crates have no source. A published crate needs a version for every dependency.
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        for dependency in
            dependencies.filter(|_| package["source"].is_null() && !package["publish"].is_array())
        {
            if dependency["req"] == "*" && dependency["kind"] != "dev" {
                violations.push(format!("{name}: the dependency {} has no version", dependency["name"]));
            }
        }
    }
    if !violations.is_empty() {
        bail!("deny.toml is violated:\n{}", violations.join("\n"));
    }
    println!("deny: {} packages have allowed licences, names and sources", packages.len());
    Ok(())
}

/// Whether the allowed licences satisfy an SPDX expression. `/` is a legacy spelling of OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let (result, rest) = either(&words, allowed);
    result && rest.is_empty()
}

fn either<'a, 'w>(words: &'a [&'w str], allowed: &BTreeSet<String>) -> (bool, &'a [&'w str]) {
    let (mut result, mut rest) = both(words, allowed);
    while let ["OR", after @ ..] = rest {
        let (next, after) = both(after, allowed);
        (result, rest) = (result || next, after);
    }
    (result, rest)
}

fn both<'a, 'w>(words: &'a [&'w str], allowed: &BTreeSet<String>) -> (bool, &'a [&'w str]) {
    let (mut result, mut rest) = one(words, allowed);
    while let ["AND", after @ ..] = rest {
        let (next, after) = one(after, allowed);
        (result, rest) = (result && next, after);
    }
    (result, rest)
}

fn one<'a, 'w>(words: &'a [&'w str], allowed: &BTreeSet<String>) -> (bool, &'a [&'w str]) {
    match words {
        ["(", inside @ ..] => {
            let (result, rest) = either(inside, allowed);
            (result && rest.first() == Some(&")"), rest.get(1..).unwrap_or_default())
        }
        [name, "WITH", exception, rest @ ..] => (allowed.contains(&format!("{name} WITH {exception}")), rest),
        [name, rest @ ..] => (allowed.contains(*name), rest),
        [] => (false, words),
    }
}

fn run_cargo_deny() -> Result<()> {
    if !is_installed("cargo-deny") {
        run_program(cargo().args(["install", "--quiet", "--locked", "cargo-deny"]))?;
    }
    run_program(cargo().args(["deny", "--all-features", "check"]).args(CHECKS))?;
    if let Err(e) = read_output(cargo().args(["deny", "fetch", "db"])) {
        println!("advisories: skipped because the database cannot be fetched ({})", first_line(&e));
        return Ok(());
    }
    run_program(cargo().args(["deny", "--all-features", "check", "advisories"]))
}

fn first_line(e: &anyhow::Error) -> String {
    format!("{e:#}").lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spdx_expressions_are_evaluated() {
        let allowed = ["MIT", "Unicode-3.0", "Zlib"].map(str::to_owned).into();
        for good in ["MIT", "MIT/Apache-2.0", "Apache-2.0 / MIT", "(MIT OR Apache-2.0) AND Unicode-3.0"] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0 WITH LLVM-exception", "(MIT", "MIT MIT"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }
}
