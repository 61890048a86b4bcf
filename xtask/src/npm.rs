//! Programs from npm's registry, each in a folder of its own below `target/`; nothing else on the machine changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::run_program;

/// Where a package is, installed if it is not there. The folder should name the version: what is there is not looked at.
pub fn install(folder: &Path, package: &str) -> Result<PathBuf> {
    let modules = folder.join("node_modules");
    // Written last, so that an installation that broke off is made again.
    let done = folder.join("done");
    if !done.exists() {
        std::fs::create_dir_all(folder)?;
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(folder)
            .arg(package);
        run_program(&mut npm).with_context(|| format!("{package} could not be installed"))?;
        std::fs::write(done, package)?;
    }
    Ok(modules)
}

/// A program of a package that is installed.
pub fn program(modules: &Path, name: &str) -> Result<PathBuf> {
    let program = modules.join(".bin").join(name);
    ensure!(program.exists(), "{} is missing after the installation", program.display());
    Ok(program)
}
