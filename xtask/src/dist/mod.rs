//! `cargo xtask dist [--check] [--dev] [PART…]`: builds everything that a release publishes, from the version in
//! Cargo.toml, into `target/dist-packages`. `--check` then installs each part with its own tool in an empty
//! folder and runs a smoke test. Must not publish anything.

mod archive;
mod binary;
#[cfg(unix)]
mod check;
mod crates;
mod deb;
mod dependencies;
mod metadata;
mod npm_packages;
mod plugins;
mod release_info;
mod sbom;
mod sums;

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

pub use self::binary::build;
pub use self::crates::CRATES;
#[cfg(unix)]
pub use self::crates::package as package_crates;
pub use self::release_info::ReleaseInfo;
use crate::shell::{build_program, run_program, target};

/// What `cargo xtask dist` builds, in this order. `metadata` describes the others, so it comes last.
const PARTS: [(&str, BuildPart); 8] = [
    ("binary", |build| build.binary.get().map(|_| Vec::new())),
    ("archive", archive::build),
    ("deb", deb::build),
    ("npm", npm_packages::build),
    ("plugins", plugins::build),
    ("wheel", build_wheel),
    ("crates", crates::build),
    ("metadata", metadata::build),
];

/// Builds a part into the output folder and returns its files.
type BuildPart = fn(&Build) -> Result<Vec<PathBuf>>;

/// What the parts are built from.
struct Build {
    info: ReleaseInfo,
    binary: Binary,
}

/// The binary to package, built when it is first needed.
struct Binary {
    /// Whether to package the development build.
    is_dev: bool,
    path: OnceCell<PathBuf>,
}

impl Binary {
    fn get(&self) -> Result<&Path> {
        if self.path.get().is_none() {
            let path = if self.is_dev { build_stripped_program() } else { build() }?;
            print_size(&path)?;
            let _ = self.path.set(path);
        }
        Ok(self.path.get().context("the binary was not built")?)
    }
}

pub fn run(words: &[&str]) -> Result<()> {
    let mut parts = Vec::new();
    let (mut is_check, mut is_dev) = (false, false);
    for word in words {
        match *word {
            "--check" => is_check = true,
            "--dev" => is_dev = true,
            name => match PARTS.iter().find(|(part, _)| *part == name) {
                Some(part) => parts.push(part),
                None => bail!("unknown part {name}; parts: {}", PARTS.map(|(part, _)| part).join(", ")),
            },
        }
    }
    let mut info = ReleaseInfo::read()?;
    if is_dev {
        // Nobody should publish these by mistake.
        info.folder.set_file_name("dist-packages-dev");
    }
    if parts.is_empty() {
        parts.extend(&PARTS);
        // Files of another version must not remain.
        let _ = fs::remove_dir_all(&info.folder);
    }
    fs::create_dir_all(&info.folder)?;
    let build = Build { binary: Binary { is_dev, path: OnceCell::new() }, info };
    for (name, build_part) in &parts {
        for file in build_part(&build).with_context(|| format!("cannot build the part `{name}`"))? {
            print_size(&file)?;
        }
    }
    sums::write(&build.info.folder)?;
    if is_check {
        let names: Vec<_> = parts.iter().map(|(name, _)| *name).collect();
        #[cfg(unix)]
        check::run(&build, &names)?;
        #[cfg(not(unix))]
        bail!("the checks of {} need Unix", names.join(", "));
    }
    Ok(())
}

fn print_size(file: &Path) -> Result<()> {
    let size = fs::metadata(file).with_context(|| file.display().to_string())?.len();
    println!("{}: {:.1} MB", file.display(), size as f64 / 1e6);
    Ok(())
}

/// Builds the program in the development profile, without debug information, which would make packages ten times as
/// large.
fn build_stripped_program() -> Result<PathBuf> {
    let built = build_program()?;
    let folder = target()?.join("dist-dev");
    fs::create_dir_all(&folder)?;
    let copy = folder.join(binary::file_name());
    fs::copy(built, &copy)?;
    run_program(Command::new("strip").arg("--strip-debug").arg(&copy))?;
    Ok(copy)
}

/// Builds the wheel and copies it to the output folder.
#[cfg(unix)]
fn build_wheel(build: &Build) -> Result<Vec<PathBuf>> {
    match crate::python::build_wheel(build.binary.is_dev)? {
        Ok(wheel) => Ok(vec![build.info.add(&wheel)?]),
        Err(why) => {
            println!("wheel: skipped: {why}");
            Ok(Vec::new())
        }
    }
}

/// The checks of the Python package, which also build the wheel, need Unix.
#[cfg(not(unix))]
fn build_wheel(_: &Build) -> Result<Vec<PathBuf>> {
    println!("wheel: skipped: this system is not supported");
    Ok(Vec::new())
}
