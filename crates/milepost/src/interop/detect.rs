//! Format detection. Takes the path of a file or folder and returns its format, or an error that states what
//! was found. It must not read more than file names and the first bytes of files.

use std::fs;
use std::path::Path;

use super::folder::{file_name, subfolder_or_self};
use super::{Format, InteropError, aiwg, markdown, nova26, pai, sealed, snapshot};

/// Detects the format of a file or folder. Fails if it matches no format or several.
pub fn detect(path: &Path) -> Result<Format, InteropError> {
    if fs::metadata(path).map_err(InteropError::read(path))?.is_file() {
        if nova26::is_database(path) {
            return Ok(Format::Nova26);
        }
        return match path.extension().and_then(|e| e.to_str()) {
            Some("md" | "markdown") => Ok(Format::Markdown),
            _ => sealed::detect(path)
                .ok_or_else(|| InteropError::nothing(path, "it is not in any of the known formats")),
        };
    }
    let folder = subfolder_or_self(path, "checkpoints");
    let mut found = Vec::new();
    let entries = fs::read_dir(&folder).map_err(InteropError::read(&folder))?;
    let mut note = |format| {
        if !found.contains(&format) {
            found.push(format);
        }
    };
    if snapshot::is_run(&folder) {
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
        [] => Err(InteropError::nothing(path, "it contains no data in a known format")),
        many => {
            let names: Vec<_> = many.iter().map(|format| format.as_str()).collect();
            let why = format!("it contains several formats: {}; specify one", names.join(", "));
            Err(InteropError::nothing(path, why))
        }
    }
}
