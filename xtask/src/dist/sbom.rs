//! The list of the binary's components as a CycloneDX document: crates with licences and checksums, and the C libraries
//! that are compiled in.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::dependencies::{self, BINARY_CRATE, Crate};
use super::release_info::ReleaseInfo;

pub(super) fn write(info: &ReleaseInfo) -> Result<PathBuf> {
    let file = info.folder.join(format!("{}.cdx.json", info.archive_name(&info.target)));
    fs::write(&file, serde_json::to_string_pretty(&document(info, &dependencies::read()?)?)? + "\n")?;
    Ok(file)
}

fn document(info: &ReleaseInfo, crates: &[Crate]) -> Result<Value> {
    let main =
        crates.iter().find(|known| known.name == BINARY_CRATE).context("the binary's crate is missing")?;
    let others = crates.iter().filter(|known| known.name != BINARY_CRATE);
    let mut components: Vec<_> = others.map(|known| component(known, "library")).collect();
    components.push(c_library("sqlite", &sqlite_version(crates)?, "blessing"));
    components.push(c_library("zstd", &zstd_version(crates)?, "BSD-3-Clause"));
    let purls = |ids: &[String]| -> Vec<String> {
        let used = crates.iter().filter(|known| ids.contains(&known.id));
        used.map(purl).collect()
    };
    let dependencies: Vec<_> =
        crates.iter().map(|known| json!({ "ref": purl(known), "dependsOn": purls(&known.uses) })).collect();
    let timestamp = jiff::Timestamp::from_second(i64::try_from(info.time)?)?;
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": timestamp.to_string(),
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist" }] },
            "component": component(main, "application"),
            "properties": [{ "name": "milepost:target", "value": info.target }],
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

fn component(known: &Crate, kind: &str) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(known),
        "name": known.name,
        "version": known.version,
        "description": known.description,
        "licenses": [{ "expression": known.licence }],
        "purl": purl(known),
    });
    if let Some(checksum) = &known.checksum {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    component
}

fn c_library(name: &str, version: &str, licence: &str) -> Value {
    let purl = format!("pkg:generic/{name}@{version}");
    let licences = json!([{ "license": { "id": licence } }]);
    json!({
        "type": "library", "bom-ref": purl, "name": name, "version": version, "licenses": licences, "purl": purl,
    })
}

/// The version of SQLite that libsqlite3-sys compiles, from its header.
fn sqlite_version(crates: &[Crate]) -> Result<String> {
    let known =
        crates.iter().find(|known| known.name == "libsqlite3-sys").context("libsqlite3-sys is missing")?;
    let header = Path::new(&known.folder).join("sqlite3/sqlite3.h");
    let text = fs::read_to_string(&header).with_context(|| header.display().to_string())?;
    let version = text.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    Ok(version.context("the header has no version")?.trim().trim_matches('"').to_owned())
}

/// The version of zstd that zstd-sys compiles, which its own version contains: `2.0.16+zstd.1.5.7`.
fn zstd_version(crates: &[Crate]) -> Result<String> {
    let known = crates.iter().find(|known| known.name == "zstd-sys").context("zstd-sys is missing")?;
    let (_, version) =
        known.version.split_once("+zstd.").context("zstd-sys does not name its version of zstd")?;
    Ok(version.to_owned())
}

/// The package URL of a crate.
fn purl(known: &Crate) -> String {
    format!("pkg:cargo/{}@{}", known.name, known.version)
}
