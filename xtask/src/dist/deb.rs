//! The Debian package: the static binary, completions, manual pages and the licences, in Debian's folders. It depends on
//! nothing and has no scripts.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use flate2::{Compression, GzBuilder};

use super::archive::{COMPLETIONS, Entry, THIRD_PARTY, completion, manual};
use super::release_info::{DESCRIPTION, ReleaseInfo};
use super::{Build, dependencies};
use crate::shell::{is_installed, root, run_program};

/// Where Debian keeps the completion scripts of packages, by shell.
const COMPLETION_FOLDERS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions"),
    ("zsh", "usr/share/zsh/vendor-completions"),
    ("fish", "usr/share/fish/vendor_completions.d"),
];

pub(super) fn build(build: &Build) -> Result<Vec<PathBuf>> {
    let info = &build.info;
    let Some(architecture) = info.platform().and_then(|platform| platform.debian) else {
        println!("deb: skipped: {} is not a Debian architecture", info.target);
        return Ok(Vec::new());
    };
    if !is_installed("dpkg-deb") {
        println!("deb: skipped: dpkg-deb is not installed");
        return Ok(Vec::new());
    }
    let tree = tempfile::tempdir()?;
    let entries = entries(build)?;
    let installed_kib: usize = entries.iter().map(|entry| entry.content.len().div_ceil(1024)).sum();
    for entry in &entries {
        write(tree.path(), entry)?;
    }
    write(tree.path(), &Entry::new("DEBIAN/control", control(info, architecture, installed_kib)))?;
    let file = info.folder.join(format!("milepost_{}_{architecture}.deb", debian_version(&info.version)));
    let mut pack = Command::new("dpkg-deb");
    pack.env("SOURCE_DATE_EPOCH", info.time.to_string()).args(["--root-owner-group", "-Zxz", "--build"]);
    run_program(pack.arg(tree.path()).arg(&file).stdout(std::process::Stdio::null()))?;
    Ok(vec![file])
}

/// Debian sorts `1.0~rc1` before `1.0`, as Cargo sorts `1.0-rc1`.
fn debian_version(version: &str) -> String {
    version.replace('-', "~")
}

fn control(info: &ReleaseInfo, architecture: &str, installed_kib: usize) -> String {
    let version = debian_version(&info.version);
    let (owner, _) = info.owner_and_name();
    format!(
        "Package: milepost\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: The Milepost contributors <{owner}@users.noreply.github.com>\n\
         Installed-Size: {installed_kib}\nRecommends: git\nSection: devel\nPriority: optional\nHomepage: {}\n\
         Description: {DESCRIPTION}\n \
         Milepost records the progress of coding agents, scripts and long jobs, so that\n \
         the next session picks up where the last one died.\n",
        info.repository
    )
}

fn entries(build: &Build) -> Result<Vec<Entry>> {
    let binary = build.binary.get()?;
    let program = fs::read(binary).with_context(|| binary.display().to_string())?;
    let mut entries = vec![Entry { is_program: true, ..Entry::new("usr/bin/milepost", program) }];
    for (shell, folder) in COMPLETION_FOLDERS {
        let name = COMPLETIONS.iter().find(|(known, _)| *known == shell).map_or("milepost", |(_, name)| name);
        entries.push(Entry::new(format!("{folder}/{name}"), completion(binary, shell)?));
    }
    for (name, page) in manual(binary)? {
        entries.push(Entry::new(format!("usr/share/man/man1/{name}.gz"), compress(&page)?));
    }
    let documents = "usr/share/doc/milepost";
    let changes = fs::read(root().join("CHANGELOG.md")).context("CHANGELOG.md")?;
    entries.push(Entry::new(format!("{documents}/changelog.gz"), compress(&changes)?));
    entries.push(Entry::new(format!("{documents}/copyright"), copyright(&build.info)?));
    entries.push(Entry::new(
        format!("{documents}/{THIRD_PARTY}.gz"),
        compress(dependencies::licences()?.as_bytes())?,
    ));
    Ok(entries)
}

/// The licence in the format of Debian. The text of the Apache licence is part of every Debian system.
fn copyright(info: &ReleaseInfo) -> Result<String> {
    let mit = fs::read_to_string(root().join("LICENSE-MIT")).context("LICENSE-MIT")?;
    let indented: String = mit
        .lines()
        .map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") })
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: milepost\n\
         Source: {}\n\nFiles: *\nCopyright: The Milepost contributors\nLicense: Expat or Apache-2.0\n\n\
         License: Expat\n{indented}\nLicense: Apache-2.0\n \
         On Debian systems, the text of this licence is in /usr/share/common-licenses/Apache-2.0.\n",
        info.repository
    ))
}

/// Compresses as `gzip -n9` does, without a name and a time.
fn compress(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// Writes a file of the package with the permissions that it has when installed.
fn write(tree: &Path, entry: &Entry) -> Result<()> {
    let file = tree.join(&entry.path);
    for folder in
        file.ancestors().skip(1).take_while(|folder| *folder != tree).collect::<Vec<_>>().iter().rev()
    {
        if !folder.exists() {
            fs::create_dir(folder)?;
            set_mode(folder, 0o755)?;
        }
    }
    fs::write(&file, &entry.content)?;
    set_mode(&file, if entry.is_program { 0o755 } else { 0o644 })
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(mode))?)
}

/// Debian packages are only built on Linux.
#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> Result<()> {
    Ok(())
}
