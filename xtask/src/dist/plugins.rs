//! The packages of plugins that agents do not install from the repository itself: the npm package for OpenCode, and the
//! archives in which Gemini looks for an extension in a release. Both contain files of `plugins/`, unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Build;
use super::archive::{Entry, write_tar_gz};
use super::release_info::ReleaseInfo;
use crate::shell::{is_installed, npm, read_output, root};

const EXTENSION: &str = "plugins/gemini";
const PACKAGE: &str = "plugins/opencode";
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];
/// Gemini takes the file of a release whose name starts with the platform.
const PLATFORMS: [&str; 3] = ["darwin", "linux", "win32"];

pub(super) fn build(build: &Build) -> Result<Vec<PathBuf>> {
    let mut files = pack_extension(&build.info)?;
    if is_installed("npm") {
        files.push(pack_package(&build.info)?);
    } else {
        println!("plugins: no package for OpenCode, because npm is not installed");
    }
    Ok(files)
}

/// The same archive for every platform, because the extension contains no program.
fn pack_extension(info: &ReleaseInfo) -> Result<Vec<PathBuf>> {
    let mut entries = Vec::new();
    let folder = root().join(EXTENSION);
    for file in files(&folder)? {
        let name = file.strip_prefix(&folder)?.to_string_lossy().replace('\\', "/");
        entries.push(Entry::new(name, fs::read(&file).with_context(|| file.display().to_string())?));
    }
    ensure!(
        entries.iter().any(|entry| entry.path == "gemini-extension.json"),
        "the extension has no manifest"
    );
    for name in LICENCES {
        entries.push(Entry::new(name, fs::read(root().join(name)).context(name)?));
    }
    let archives = PLATFORMS.map(|platform| info.folder.join(format!("{platform}.milepost-gemini.tar.gz")));
    for archive in &archives {
        write_tar_gz(archive, &entries, info.time)?;
    }
    Ok(archives.to_vec())
}

/// The files below a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

fn pack_package(info: &ReleaseInfo) -> Result<PathBuf> {
    let mut npm = npm();
    npm.current_dir(root().join(PACKAGE)).args(["pack", "--json", "--ignore-scripts", "--pack-destination"]);
    let packed: Value = serde_json::from_str(&read_output(npm.arg(&info.folder))?)?;
    let version = packed[0]["version"].as_str().unwrap_or_default();
    ensure!(
        version == info.version,
        "the package for OpenCode has the version {version}, not {}",
        info.version
    );
    Ok(info.folder.join(format!("milepost-opencode-{version}.tgz")))
}
