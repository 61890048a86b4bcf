//! `brief check`: what is wrong with briefs. A file that cannot be read is reported, and hides no other.

use std::path::{Path, PathBuf};

use crate::error_advice::Exit;
use milepost::brief::{Brief, Check};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::input::read_text;
use crate::present::brief::{FindingDocument, page};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    valid: bool,
    /// Of one file; of several they stand in `files`.
    errors: Vec<FindingDocument<'a>>,
    warnings: Vec<FindingDocument<'a>>,
    files: Vec<Checked<'a>>,
}

#[derive(Serialize)]
struct Checked<'a> {
    path: String,
    valid: bool,
    errors: Vec<FindingDocument<'a>>,
    warnings: Vec<FindingDocument<'a>>,
}

pub(super) fn run(files: &[PathBuf], context: &Context<'_>) -> Result<(), CommandError> {
    let mut found = Vec::new();
    for file in files {
        match file.is_dir() {
            true => inside(file, &mut found),
            false => found.push((file.clone(), check(file))),
        }
    }
    if found.is_empty() {
        return Err(CommandError::usage("there is no .md file in there"));
    }
    let valid = found.iter().all(|(_, check)| check.valid());
    if context.output.json {
        let one = found.first().filter(|_| found.len() == 1).map(|(_, check)| check);
        let files = found.iter().map(|(path, check)| Checked {
            path: path.to_string_lossy().into_owned(),
            valid: check.valid(),
            errors: FindingDocument::all(&check.errors),
            warnings: FindingDocument::all(&check.warnings),
        });
        context.output.document(&Document {
            schema: "milepost.brief_check/1",
            valid,
            errors: one.map(|check| FindingDocument::all(&check.errors)).unwrap_or_default(),
            warnings: one.map(|check| FindingDocument::all(&check.warnings)).unwrap_or_default(),
            files: files.collect(),
        })?;
    } else {
        context.output.text(&page(&found))?;
    }
    if valid { Ok(()) } else { Err(CommandError::ExitOnly(Exit::Failed)) }
}

fn check(file: &Path) -> Check {
    match read_text(file, "") {
        Ok(text) => Brief::parse(text).check(),
        Err(failure) => unreadable(&failure),
    }
}

/// Why a file could not be read, as the only thing wrong with it.
fn unreadable(failure: &CommandError) -> Check {
    let mut message = failure.to_string();
    let mut cause = std::error::Error::source(failure);
    while let Some(e) = cause {
        message = format!("{message}: {e}");
        cause = e.source();
    }
    Check { errors: vec![milepost::brief::Warning { section: None, message }], warnings: Vec::new() }
}

/// Every Markdown file of a folder, by name.
fn inside(folder: &Path, found: &mut Vec<(PathBuf, Check)>) {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(source) => {
            let error = milepost::Error::File { path: folder.to_owned(), what: "read", source };
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
