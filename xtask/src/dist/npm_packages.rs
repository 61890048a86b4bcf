//! The npm packages: `milepost` with a launcher, and one package per platform with the binary, which `milepost`
//! lists as optional dependencies. Their sources are in `packaging/npm` and `plugins/opencode`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::release_info::{DESCRIPTION, LICENCE, PLATFORMS, Platform, ReleaseInfo};
use super::{Build, metadata};
use crate::shell::{is_installed, npm, read_output, root};

const LAUNCHER: &str = "packaging/npm/milepost";
const LAUNCHER_FILES: [&str; 4] = ["bin/milepost", "install.js", "platform.js", "README.md"];
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

pub(super) fn build(build: &Build) -> Result<Vec<PathBuf>> {
    if !is_installed("npm") {
        println!("npm: skipped: npm is not installed");
        return Ok(Vec::new());
    }
    let mut packages = Vec::new();
    if let Some(platform) = build.info.platform() {
        packages.push(pack_platform(build, platform)?);
    }
    packages.push(pack_launcher(&build.info)?);
    Ok(packages)
}

/// The fields that all packages share.
fn manifest(info: &ReleaseInfo, name: &str, description: &str) -> Map<String, Value> {
    let repository = json!({ "type": "git", "url": format!("git+{}.git", info.repository) });
    let all = json!({
        "name": name,
        "version": info.version,
        "description": description,
        "license": LICENCE,
        "homepage": info.repository,
        "repository": repository,
    });
    all.as_object().cloned().unwrap_or_default()
}

fn pack_platform(build: &Build, platform: &Platform) -> Result<PathBuf> {
    let name = platform.npm_package();
    let mut package = manifest(
        &build.info,
        &name,
        &format!("The program of the package milepost, for {}", platform.target),
    );
    package.insert("os".into(), json!([platform.node_platform]));
    package.insert("cpu".into(), json!([platform.node_arch]));
    // Yarn must unpack the program to start it.
    package.insert("preferUnplugged".into(), json!(true));
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("bin"))?;
    fs::copy(build.binary.get()?, folder.path().join("bin").join(platform.file_name()))?;
    let text = format!(
        "# {name}\n\nThe program of the package `milepost` for {}. Install `milepost` instead.\n",
        platform.target
    );
    fs::write(folder.path().join("README.md"), text)?;
    pack(&build.info, folder.path(), package)
}

fn pack_launcher(info: &ReleaseInfo) -> Result<PathBuf> {
    let mut package = manifest(info, "milepost", DESCRIPTION);
    let platforms: Map<_, _> =
        PLATFORMS.iter().map(|platform| (platform.npm_package(), json!(info.version))).collect();
    package.insert("mcpName".into(), json!(metadata::server_name(info)));
    package.insert("keywords".into(), json!(["checkpoint", "agent", "resume", "mcp", "cli"]));
    package.insert("bin".into(), json!({ "milepost": "bin/milepost" }));
    package.insert("scripts".into(), json!({ "postinstall": "node install.js" }));
    package.insert("engines".into(), json!({ "node": ">=18" }));
    package.insert("optionalDependencies".into(), Value::Object(platforms));
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("bin"))?;
    for name in LAUNCHER_FILES {
        fs::copy(root().join(LAUNCHER).join(name), folder.path().join(name)).context(name)?;
    }
    pack(info, folder.path(), package)
}

/// Adds the manifest and the licences, and packs the folder into the output folder.
fn pack(info: &ReleaseInfo, folder: &Path, package: Map<String, Value>) -> Result<PathBuf> {
    fs::write(folder.join("package.json"), serde_json::to_string_pretty(&package)? + "\n")?;
    for name in LICENCES {
        fs::copy(root().join(name), folder.join(name)).context(name)?;
    }
    let mut npm = npm();
    npm.current_dir(folder).args(["pack", "--json", "--ignore-scripts", "--pack-destination"]);
    let packed: Value = serde_json::from_str(&read_output(npm.arg(&info.folder))?)?;
    // The name of a scoped package is `scope-name-version.tgz`.
    let file = packed[0]["filename"].as_str().context("npm pack reported no file")?;
    let file = info.folder.join(file.replace('@', "").replace('/', "-"));
    ensure!(file.exists(), "npm pack did not write {}", file.display());
    Ok(file)
}
