//! Installs programs from the npm registry, each into its own folder under `target/`. Changes nothing else on
//! the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::run_program;

/// Installs a package into a folder, if it is not installed yet, and returns its `node_modules` folder.
/// The version of an existing installation is not checked, so the folder's name should contain the version.
pub fn install(folder: &Path, package: &str) -> Result<PathBuf> {
    install_with(Command::new("npm"), folder, package)
}

/// Installs a package that is compiled during the installation. The headers of Node are in `include/node` below
/// `prefix`, so they are not downloaded.
pub fn install_compiled(folder: &Path, package: &str, prefix: &Path) -> Result<PathBuf> {
    let mut npm = Command::new("npm");
    if prefix.join("include/node/node.h").exists() {
        npm.env("npm_config_nodedir", prefix);
    }
    install_with(npm, folder, package)
}

fn install_with(mut npm: Command, folder: &Path, package: &str) -> Result<PathBuf> {
    let modules = folder.join("node_modules");
    // Written last, so that an interrupted installation is repeated.
    let done = folder.join("done");
    if !done.exists() {
        std::fs::create_dir_all(folder)?;
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(folder)
            .arg(package);
        run_program(&mut npm).with_context(|| format!("cannot install {package}"))?;
        std::fs::write(done, package)?;
    }
    Ok(modules)
}

/// The path of a program from an installed package.
pub fn program(modules: &Path, name: &str) -> Result<PathBuf> {
    let program = modules.join(".bin").join(name);
    ensure!(program.exists(), "{} is missing after the installation", program.display());
    Ok(program)
}
