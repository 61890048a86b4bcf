//! `SHA256SUMS`: the checksums of all packages in the output folder, in the format of `sha256sum`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

const NAME: &str = "SHA256SUMS";

pub(super) fn write(folder: &Path) -> Result<()> {
    let mut lines = String::new();
    for file in packages(folder)? {
        let name = file.file_name().and_then(|name| name.to_str()).context("a package has a strange name")?;
        lines.push_str(&format!("{}  {name}\n", digest(&file)?));
    }
    Ok(fs::write(folder.join(NAME), lines)?)
}

/// The files of the folder, sorted by name, without the checksums.
pub(super) fn packages(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_file() && entry.file_name() != NAME {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// The SHA-256 of a file, as hexadecimal digits.
pub(super) fn digest(file: &Path) -> Result<String> {
    let bytes = fs::read(file).with_context(|| file.display().to_string())?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}
