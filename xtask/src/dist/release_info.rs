//! What every package says: the version, the repository and the platform. Read from Cargo.toml, the only place where the
//! version is written by hand.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use toml::Table;

use super::binary;
use crate::shell::{read_output, root};

pub const DESCRIPTION: &str = "Checkpoints for long-running agent work: sealed, durable, resumable";
pub const LICENCE: &str = "MIT OR Apache-2.0";

/// Facts about the release that this working tree builds.
#[derive(Debug, Clone)]
pub struct ReleaseInfo {
    pub version: String,
    /// The address of the repository, without a final slash.
    pub repository: String,
    /// The target triple of the binary.
    pub target: String,
    /// Where packages are written.
    pub folder: PathBuf,
    /// The time of the last commit, in seconds since 1970. Files in packages carry it, so that they are reproducible.
    pub time: u64,
}

/// A platform for which releases have a binary.
#[derive(Debug)]
pub struct Platform {
    pub target: &'static str,
    /// Node's `process.platform`.
    pub node_platform: &'static str,
    /// Node's `process.arch`.
    pub node_arch: &'static str,
    /// Debian's name of the architecture, for platforms with a Debian package.
    pub debian: Option<&'static str>,
}

/// Every platform for which the release workflow builds a binary.
pub const PLATFORMS: [Platform; 5] = [
    platform("x86_64-unknown-linux-gnu", "linux", "x64", Some("amd64")),
    platform("aarch64-unknown-linux-gnu", "linux", "arm64", Some("arm64")),
    platform("x86_64-apple-darwin", "darwin", "x64", None),
    platform("aarch64-apple-darwin", "darwin", "arm64", None),
    platform("x86_64-pc-windows-msvc", "win32", "x64", None),
];

const fn platform(
    target: &'static str,
    node_platform: &'static str,
    node_arch: &'static str,
    debian: Option<&'static str>,
) -> Platform {
    Platform { target, node_platform, node_arch, debian }
}

impl Platform {
    /// The name of the npm package with this platform's binary.
    pub fn npm_package(&self) -> String {
        format!("@milepost/{}-{}", self.node_platform, self.node_arch)
    }

    /// The file name of the binary on this platform.
    pub fn file_name(&self) -> &'static str {
        if self.node_platform == "win32" { "milepost.exe" } else { "milepost" }
    }
}

impl ReleaseInfo {
    pub fn read() -> Result<Self> {
        let text = fs::read_to_string(root().join("Cargo.toml")).context("Cargo.toml")?;
        let manifest: Table = text.parse()?;
        let field = |name: &str| {
            let value = manifest.get("workspace")?.get("package")?.get(name)?.as_str();
            value.map(|value| value.trim_end_matches('/').to_owned())
        };
        let time = read_output(crate::shell::git().args(["log", "-1", "--format=%ct"]))?;
        Ok(Self {
            version: field("version").context("Cargo.toml has no workspace.package.version")?,
            repository: field("repository").context("Cargo.toml has no workspace.package.repository")?,
            target: binary::host()?,
            folder: root().join("target/dist-packages"),
            time: time.trim().parse()?,
        })
    }

    /// The platform of this machine, if releases have a binary for it.
    pub fn platform(&self) -> Option<&'static Platform> {
        PLATFORMS.iter().find(|platform| platform.target == self.target)
    }

    /// The name of the archive for a target, without its extension. Also the folder inside the archive.
    pub fn archive_name(&self, target: &str) -> String {
        format!("milepost-{}-{target}", self.version)
    }

    /// The address of a file of this release.
    pub fn download(&self, file: &str) -> String {
        format!("{}/releases/download/v{}/{file}", self.repository, self.version)
    }

    /// The owner and the name of the repository on GitHub.
    pub fn owner_and_name(&self) -> (String, String) {
        let mut parts = self.repository.rsplit('/');
        let name = parts.next().unwrap_or_default().to_owned();
        (parts.next().unwrap_or_default().to_owned(), name)
    }

    /// Copies a file to the output folder.
    pub fn add(&self, file: &Path) -> Result<PathBuf> {
        let copy = self.folder.join(file.file_name().context("a package has no name")?);
        fs::copy(file, &copy).with_context(|| file.display().to_string())?;
        Ok(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// cargo-binstall computes the address and the path of the program from these templates.
    #[test]
    fn cargo_binstall_finds_the_archive() {
        let info = ReleaseInfo::read().unwrap();
        let text = fs::read_to_string(root().join("crates/milepost-cli/Cargo.toml")).unwrap();
        let manifest: Table = text.parse().unwrap();
        let binstall = &manifest["package"]["metadata"]["binstall"];
        let expand = |key: &str| {
            let values = [
                ("{ repo }", info.repository.as_str()),
                ("{ version }", &info.version),
                ("{ target }", &info.target),
                ("{ bin }", "milepost"),
                ("{ binary-ext }", std::env::consts::EXE_SUFFIX),
            ];
            let template = binstall[key].as_str().unwrap().to_owned();
            values.into_iter().fold(template, |text, (name, value)| text.replace(name, value))
        };
        let name = info.archive_name(&info.target);
        assert_eq!(expand("pkg-url"), info.download(&format!("{name}.tar.gz")));
        assert_eq!(expand("bin-dir"), format!("{name}/{}", binary::file_name()));
    }
}
