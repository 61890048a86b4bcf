//! The list of the binary's components as a CycloneDX document: crates with licences and checksums, and the C libraries
//! that are compiled in.

use std::fs;
use std::path::PathBuf;

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
    // Compiled by libsqlite3-sys and zstd-sys.
    components.push(c_library("sqlite", rusqlite::version(), "blessing"));
    components.push(c_library("zstd", zstd::zstd_safe::version_string(), "BSD-3-Clause"));
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

/// The package URL of a crate.
fn purl(known: &Crate) -> String {
    format!("pkg:cargo/{}@{}", known.name, known.version)
}
