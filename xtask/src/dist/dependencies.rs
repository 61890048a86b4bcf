//! The crates that are linked into the packaged binary, from `cargo metadata` and Cargo.lock, and their licences.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use toml::Table;

use super::binary;
use crate::shell::{cargo, read_output, root};

/// The crate with the binary.
pub(super) const BINARY_CRATE: &str = "milepost-cli";

/// A crate that the binary contains, or a macro that it was compiled with.
pub(super) struct Crate {
    /// Cargo's id of the package.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) description: String,
    /// The licence as an SPDX expression.
    pub(super) licence: String,
    /// The SHA-256 of the package on crates.io. Crates of this repository have none.
    pub(super) checksum: Option<String>,
    /// The ids of the crates that it uses.
    pub(super) uses: Vec<String>,
    /// The folder of its sources on this machine.
    pub(super) folder: String,
}

/// The crates of the binary for this machine's target, sorted by name and version.
pub(super) fn read() -> Result<Vec<Crate>> {
    let target = binary::host()?;
    let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", &target];
    let metadata: Value = serde_json::from_str(&read_output(cargo().args(args))?)?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"]["nodes"])
        .into_iter()
        .filter_map(|node| Some((node["id"].as_str()?.to_owned(), node)))
        .collect();
    let packages = list(&metadata["packages"]);
    let start = packages.iter().find(|package| package["name"] == BINARY_CRATE);
    let start = start.and_then(|package| package["id"].as_str()).context("the binary's crate is missing")?;
    let mut wanted = BTreeSet::new();
    let mut waiting = vec![start.to_owned()];
    while let Some(id) = waiting.pop() {
        if wanted.insert(id.clone()) {
            waiting.extend(used_by(&nodes[&id]));
        }
    }
    let checksums = checksums()?;
    let mut crates: Vec<_> = packages
        .iter()
        .filter(|package| package["id"].as_str().is_some_and(|id| wanted.contains(id)))
        .map(|package| {
            let field = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
            let (name, version) = (field("name"), field("version"));
            let folder = Path::new(&field("manifest_path")).parent().map(|p| p.display().to_string());
            Crate {
                uses: used_by(&nodes[&field("id")]),
                checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
                description: field("description").split_whitespace().collect::<Vec<_>>().join(" "),
                // The separator of old packages.
                licence: field("license").replace('/', " OR "),
                folder: folder.unwrap_or_default(),
                id: field("id"),
                name,
                version,
            }
        })
        .collect();
    crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(crates)
}

/// The ids of a node's dependencies, without those for builds and tests.
fn used_by(node: &Value) -> Vec<String> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let is_normal = |dependency: &&Value| {
        dependency["dep_kinds"]
            .as_array()
            .is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    dependencies
        .filter(is_normal)
        .filter_map(|dependency| Some(dependency["pkg"].as_str()?.to_owned()))
        .collect()
}

/// The checksums in Cargo.lock, by name and version.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let lock: Table = fs::read_to_string(root().join("Cargo.lock")).context("Cargo.lock")?.parse()?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let field = |package: &toml::Value, name: &str| Some(package.get(name)?.as_str()?.to_owned());
    let entry = |package: &toml::Value| {
        Some(((field(package, "name")?, field(package, "version")?), field(package, "checksum")?))
    };
    Ok(packages.iter().filter_map(entry).collect())
}

/// The licence files of all crates that are not part of this repository. Equal texts appear once, with all crates
/// that they apply to.
pub(super) fn licences() -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut all = "The program milepost contains the following crates. Their licences follow.\n\n".to_owned();
    for known in read()?.iter().filter(|known| known.checksum.is_some()) {
        all.push_str(&format!("- {} {}: {}\n", known.name, known.version, known.licence));
        for text in licence_files(Path::new(&known.folder))? {
            texts.entry(text).or_default().push(known.name.clone());
        }
    }
    all.push_str("\nIt also contains SQLite, which is in the public domain.\n");
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by(|a, b| (&a.1, &a.0).cmp(&(&b.1, &b.0)));
    for (text, mut names) in texts {
        names.dedup();
        let line = "-".repeat(80);
        all.push_str(&format!("\n{line}\n{}\n{line}\n\n{}\n", names.join(", "), text.trim_end()));
    }
    Ok(all)
}

/// The texts of the licence files in a crate's folder.
fn licence_files(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        let is_licence =
            ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|start| name.starts_with(start));
        if is_licence && entry.file_type()?.is_file() {
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).replace("\r\n", "\n"));
        }
    }
    texts.sort();
    Ok(texts)
}
