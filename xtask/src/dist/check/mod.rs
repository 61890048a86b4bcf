//! `cargo xtask dist --check`: installs each built package with its own tool into an empty folder, and runs a smoke test
//! with what was installed. Changes nothing outside `target` and folders for temporary files.

mod install;
mod smoke;

use anyhow::{Context, Result};

use super::Build;

/// Installs a package into an empty folder, and returns what to test there. Returns the reason if it must be skipped.
type Install = fn(&Build, &std::path::Path) -> Result<Result<Installed, String>>;

/// What is installed, by the part of the release that it tests.
const CHECKS: [(&str, &str, Install); 6] = [
    ("archive", "archive", install::archive),
    ("deb", "deb", install::deb),
    ("npm", "npm", install::npm),
    ("npm", "npm --ignore-scripts", install::npm_without_scripts),
    ("wheel", "pip", install::pip),
    ("crates", "cargo install", install::cargo),
];

/// An installation.
pub(super) struct Installed {
    /// The folder with the command `milepost`.
    pub(super) bin: std::path::PathBuf,
    /// Ends with the test.
    pub(super) _helper: Option<install::Helper>,
}

pub(super) fn run(build: &Build, parts: &[&str]) -> Result<()> {
    for (part, name, install) in CHECKS {
        if !parts.contains(&part) {
            continue;
        }
        let folder = tempfile::tempdir()?;
        match install(build, folder.path()).with_context(|| format!("cannot install: {name}"))? {
            Ok(installed) => smoke::run(name, &installed, &build.info.version)
                .with_context(|| format!("smoke test after installation: {name}"))?,
            Err(why) => println!("{name:<22} skipped: {why}"),
        }
    }
    Ok(())
}
