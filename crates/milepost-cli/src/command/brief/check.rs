//! `brief check`: reports problems in briefs. After an unreadable file, checks the remaining ones.

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
        return Err(CommandError::usage("the folder contains no .md files"));
    }
    Ok(CheckDocument::new(found))
}

fn check(file: &Path) -> CheckReport {
    match read_text(file, "") {
        Ok(text) => Brief::parse(text).check(),
        Err(error) => unreadable(&error),
    }
}

/// Reports a read error as the only finding of a file.
fn unreadable(error: &CommandError) -> CheckReport {
    let finding = Finding { section: None, message: error_chain(error) };
    CheckReport { errors: vec![finding], warnings: Vec::new() }
}

/// Checks every Markdown file of a folder, in order of name.
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
