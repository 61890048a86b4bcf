//! Which format a file or folder is in, by what is there.

use std::fs;
use std::path::Path;

use super::folder::{file_name, subfolder_or_self};
use super::{Format, InteropError, aiwg, markdown, nova26, pai, sealed, snapshot};

/// Recognises a format; an error names what was found where it is none or several.
pub fn detect(path: &Path) -> Result<Format, InteropError> {
    let nothing = |why: String| InteropError::Nothing { path: path.to_owned(), why };
    let meta = fs::metadata(path).map_err(|source| InteropError::Read { path: path.to_owned(), source })?;
    if meta.is_file() {
        if nova26::is_database(path) {
            return Ok(Format::Nova26);
        }
        return match path.extension().and_then(|e| e.to_str()) {
            Some("md" | "markdown") => Ok(Format::Markdown),
            _ => sealed::detect(path).ok_or_else(|| nothing("it is in none of the known formats".into())),
        };
    }
    let place = subfolder_or_self(path, "checkpoints");
    let mut found = Vec::new();
    let entries =
        fs::read_dir(&place).map_err(|source| InteropError::Read { path: place.clone(), source })?;
    let mut note = |format| {
        if !found.contains(&format) {
            found.push(format);
        }
    };
    if snapshot::is_run(&place) {
        note(Format::Snapshot);
    }
    for entry in entries.flatten() {
        let path = entry.path();
        let name = file_name(&path);
        if path.is_dir() {
            if ["active", "archive"].contains(&name.as_str()) {
                note(Format::Markdown);
            } else if snapshot::is_run(&path) {
                note(Format::Snapshot);
            }
        } else if pai::is_checkpoint(&name) {
            note(Format::Pai);
        } else if aiwg::is_checkpoint(&name) {
            note(Format::Aiwg);
        } else if markdown::is_brief(&path) {
            note(Format::Markdown);
        } else if (name.ends_with(".db") || name.ends_with(".sqlite")) && nova26::is_database(&path) {
            note(Format::Nova26);
        }
    }
    match found.as_slice() {
        [format] => Ok(*format),
        [] => Err(nothing("nothing of a known format in it".into())),
        many => {
            let names: Vec<_> = many.iter().map(|format| format.as_str()).collect();
            Err(nothing(format!("several formats in it: {}; name one", names.join(", "))))
        }
    }
}
