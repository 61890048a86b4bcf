//! `brief check`: what is wrong with briefs. A file that cannot be read is reported, and hides no other.

use std::path::{Path, PathBuf};

use milepost::brief::Brief;
use milepost::internal::brief::{CheckReport, Finding};
use milepost::internal::error_chain;

use crate::error::{CommandError, Result};
use crate::input::read_text;
use crate::present::brief::CheckDocument;

pub(super) fn execute(files: &[PathBuf]) -> Result<CheckDocument> {
    let mut found = Vec::new();
    for file in files {
        match file.is_dir() {
            true => check_folder(file, &mut found),
            false => found.push((file.clone(), check(file))),
        }
    }
    if found.is_empty() {
        return Err(CommandError::usage("there is no .md file in there"));
    }
    Ok(CheckDocument::new(found))
}

fn check(file: &Path) -> CheckReport {
    match read_text(file, "") {
        Ok(text) => Brief::parse(text).check(),
        Err(error) => unreadable(&error),
    }
}

/// Why a file could not be read, as the only thing wrong with it.
fn unreadable(error: &CommandError) -> CheckReport {
    let finding = Finding { section: None, message: error_chain(error) };
    CheckReport { errors: vec![finding], warnings: Vec::new() }
}

/// Every Markdown file of a folder, by name.
fn check_folder(folder: &Path, found: &mut Vec<(PathBuf, CheckReport)>) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) => {
            let error = milepost::Error::file(folder, "read")(e);
            found.push((folder.to_owned(), unreadable(&error.into())));
            return;
        }
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e.eq_ignore_ascii_case("md")));
    files.sort();
    found.extend(files.into_iter().map(|file| {
        let check = check(&file);
        (file, check)
    }));
}
