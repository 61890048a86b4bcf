//! The archive for installation by hand and for cargo-binstall, and the tree of files that it shares with other
//! packages: the binary, completions, manual pages, documents and licences.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Build, dependencies, sbom};
use crate::shell::{read_output, root};

/// The shells with a completion script, and the file name that each shell expects.
pub(super) const COMPLETIONS: [(&str, &str); 5] = [
    ("bash", "milepost"),
    ("zsh", "_milepost"),
    ("fish", "milepost.fish"),
    ("elvish", "milepost.elv"),
    ("powershell", "_milepost.ps1"),
];

const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"];
/// The licences of the crates that are linked into the binary.
pub(super) const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES.txt";

/// A file of a package: its path there, its content, and whether it is a program.
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) content: Vec<u8>,
    pub(super) is_program: bool,
}

impl Entry {
    pub(super) fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), content: content.into(), is_program: false }
    }
}

pub(super) fn build(build: &Build) -> Result<Vec<PathBuf>> {
    let name = build.info.archive_name(&build.info.target);
    let mut entries = files(build)?;
    for entry in &mut entries {
        entry.path = format!("{name}/{}", entry.path);
    }
    let file = build.info.folder.join(format!("{name}.tar.gz"));
    write_tar_gz(&file, &entries, build.info.time)?;
    Ok(vec![file, sbom::write(&build.info)?])
}

/// The files of the archive.
fn files(build: &Build) -> Result<Vec<Entry>> {
    let binary = build.binary.get()?;
    let program = fs::read(binary).with_context(|| binary.display().to_string())?;
    let mut entries = vec![Entry { is_program: true, ..Entry::new(super::binary::file_name(), program) }];
    for name in DOCUMENTS {
        entries.push(Entry::new(name, fs::read(root().join(name)).context(name)?));
    }
    entries.push(Entry::new(THIRD_PARTY, dependencies::licences()?));
    for (shell, name) in COMPLETIONS {
        entries.push(Entry::new(format!("completions/{name}"), completion(binary, shell)?));
    }
    for (name, page) in manual(binary)? {
        entries.push(Entry::new(format!("man/{name}"), page));
    }
    Ok(entries)
}

/// The completion script for a shell, from the binary itself.
pub(super) fn completion(binary: &Path, shell: &str) -> Result<String> {
    read_output(Command::new(binary).args(["completions", shell]))
}

/// The names and texts of all manual pages, from the binary itself.
pub(super) fn manual(binary: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = tempfile::tempdir()?;
    read_output(Command::new(binary).args(["man", "--install"]).arg(folder.path()))?;
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        pages.push((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?));
    }
    pages.sort();
    Ok(pages)
}

/// Writes a compressed archive. The same entries give the same bytes.
pub(super) fn write_tar_gz(file: &Path, entries: &[Entry], time: u64) -> Result<()> {
    let out = fs::File::create(file).with_context(|| file.display().to_string())?;
    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::best()));
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(entry.content.len() as u64);
        header.set_mode(if entry.is_program { 0o755 } else { 0o644 });
        header.set_mtime(time);
        archive.append_data(&mut header, &entry.path, entry.content.as_slice())?;
    }
    archive.into_inner()?.finish()?.flush()?;
    Ok(())
}
