//! Installs each package with its own tool, as a user does, but from the built files and into an empty folder.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Installed;
use crate::dist::Build;
use crate::dist::crates::CRATES;
use crate::shell::{self, is_installed, is_root, root, run_program, target};

/// A program that runs as long as a test needs it.
pub(in crate::dist) struct Helper(Child);

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

type Outcome = Result<Result<Installed, String>>;

fn installed(bin: PathBuf) -> Outcome {
    Ok(Ok(Installed { bin, _helper: None }))
}

/// Unpacks the archive and copies the program, as docs/install.md describes.
pub(super) fn archive(build: &Build, folder: &Path) -> Outcome {
    let name = build.info.archive_name(&build.info.target);
    let file = build.info.folder.join(format!("{name}.tar.gz"));
    run_program(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder))?;
    let unpacked = folder.join(name);
    for wanted in
        ["README.md", "LICENSE-MIT", "completions/_milepost", "man/milepost.1", "man/milepost-save.1"]
    {
        ensure!(unpacked.join(wanted).exists(), "{wanted} is not in the archive");
    }
    installed(unpacked)
}

pub(super) fn deb(build: &Build, folder: &Path) -> Outcome {
    if !is_installed("dpkg") || !is_root() {
        return Ok(Err("dpkg is missing, or not root".to_owned()));
    }
    let Some(file) = find(build, |name| name.ends_with(".deb"))? else {
        return Ok(Err("no Debian package was built".to_owned()));
    };
    let database = folder.join("var/lib/dpkg");
    for part in ["info", "updates", "triggers"] {
        fs::create_dir_all(database.join(part))?;
    }
    fs::write(database.join("status"), "")?;
    let dpkg = |words: &[&str]| {
        let mut command = Command::new("dpkg");
        command
            .arg(format!("--root={}", folder.display()))
            .args(["--force-script-chrootless", "--log=/dev/null"]);
        command.args(words).stdout(Stdio::null());
        command
    };
    run_program(dpkg(&["--install"]).arg(file))?;
    for wanted in [
        "usr/share/bash-completion/completions/milepost",
        "usr/share/man/man1/milepost.1.gz",
        "usr/share/doc/milepost/copyright",
    ] {
        ensure!(folder.join(wanted).exists(), "{wanted} is not in the package");
    }
    run_program(&mut dpkg(&["--verify", "milepost"]))?;
    if !build.binary.is_dev {
        // The folder has no C library, as on a system with another one.
        let said =
            shell::read_output(Command::new("chroot").arg(folder).args(["/usr/bin/milepost", "--version"]))?;
        ensure!(said.contains(&build.info.version), "in the empty root folder, the program printed {said:?}");
    }
    installed(folder.join("usr/bin"))
}

pub(super) fn npm(build: &Build, folder: &Path) -> Outcome {
    let installed = npm_install(build, folder, &[])?;
    if let Ok(installed) = &installed {
        let program = fs::read(installed.bin.join("milepost"))?;
        ensure!(!program.starts_with(b"#!"), "the command is still the launcher");
    }
    Ok(installed)
}

pub(super) fn npm_without_scripts(build: &Build, folder: &Path) -> Outcome {
    npm_install(build, folder, &["--ignore-scripts"])
}

/// Installs globally, below `folder`, from a registry on the loopback that has only the built packages.
fn npm_install(build: &Build, folder: &Path, options: &[&str]) -> Outcome {
    if !is_installed("npm") {
        return Ok(Err("npm is not installed".to_owned()));
    }
    let (registry, address) = start_registry(&build.info.folder)?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--global", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"]).arg(folder);
    npm.arg("--cache").arg(folder.join("cache")).arg(format!("--registry={address}")).args(options);
    // Settings of this machine must not change the result.
    npm.env("npm_config_userconfig", folder.join("npmrc")).env_remove("npm_config_registry");
    run_program(npm.arg("milepost").stdout(Stdio::null()))?;
    Ok(Ok(Installed { bin: folder.join("bin"), _helper: Some(registry) }))
}

fn start_registry(packages: &Path) -> Result<(Helper, String)> {
    let mut node = Command::new("node");
    node.arg(root().join("xtask/src/dist/check/registry.mjs")).arg(packages).stdout(Stdio::piped());
    let mut helper = Helper(node.spawn().context("cannot start node")?);
    let mut address = String::new();
    BufReader::new(helper.0.stdout.take().context("no stdout")?).read_line(&mut address)?;
    ensure!(!address.trim().is_empty(), "the registry on the loopback did not start");
    Ok((helper, address.trim().to_owned()))
}

/// Installs the wheel into a virtual environment, and checks the program and the module.
pub(super) fn pip(build: &Build, folder: &Path) -> Outcome {
    let Some(wheel) = find(build, |name| name.ends_with(".whl"))? else {
        return Ok(Err("no wheel was built".to_owned()));
    };
    let environment = folder.join("environment");
    let mut make = Command::new("python3");
    let made = shell::read_output(make.args(["-m", "venv", "--without-pip"]).arg(&environment));
    if let Err(e) = made {
        return Ok(Err(format!("cannot create a virtual environment: {e:#}")));
    }
    let python = environment.join("bin/python");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--isolated", "--quiet", "--disable-pip-version-check", "--python"]).arg(&python);
    run_program(pip.args(["install", "--no-index"]).arg(wheel))?;
    let mut module = Command::new(&python);
    run_program(module.current_dir(folder).args(["-c", "import milepost; milepost.Milepost"]))?;
    installed(environment.join("bin"))
}

/// Compiles the program from the packages for crates.io. The other crates of this repository come from their packages too.
pub(super) fn cargo(build: &Build, folder: &Path) -> Outcome {
    let mut install = shell::cargo();
    install.args(["install", "--quiet", "--locked", "--root"]).arg(folder.join("installed"));
    for name in CRATES {
        let package = format!("{name}-{}", build.info.version);
        let file = build.info.folder.join(format!("{package}.crate"));
        run_program(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder))?;
        let unpacked = folder.join(&package);
        if name == "milepost-cli" {
            install.arg("--path").arg(unpacked);
        } else {
            let patch = format!("patch.crates-io.{name}.path='{}'", unpacked.display());
            install.arg("--config").arg(patch);
        }
    }
    // Shared between checks, so that dependencies are compiled once.
    install.env("CARGO_TARGET_DIR", target()?.join("dist-check"));
    run_program(install.current_dir(folder))?;
    installed(folder.join("installed/bin"))
}

/// The newest matching package in the output folder.
fn find(build: &Build, is_wanted: impl Fn(&str) -> bool) -> Result<Option<PathBuf>> {
    let files = crate::dist::sums::packages(&build.info.folder)?;
    // A pre-release has other forms in Debian and Python.
    let version = &build.info.version;
    let versions = [version.clone(), version.replace('-', "~"), version.replace("-rc.", "rc")];
    Ok(files.into_iter().rfind(|file| {
        let name = file.file_name().and_then(|name| name.to_str());
        let is_version = |name: &str| versions.iter().any(|version| name.contains(version));
        name.is_some_and(|name| is_version(name) && is_wanted(name))
    }))
}
