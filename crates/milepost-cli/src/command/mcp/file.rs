//! The tool `file`: reads lines of a file as it was, with secrets redacted. Takes a path relative to the root of
//! the project. Returns a limited size, and only facts about a binary file, whose secrets cannot be redacted.

use std::path::{Path, PathBuf};

use milepost::internal::diff::is_binary;
use milepost_mcp::arguments;
use serde::Serialize;

use crate::command::{show, worktree_path};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::handover::{self, RecordOrigin};
use crate::present::format::{bytes, counted};
use crate::present::{Document, Note, Output};

/// Maximum size of the returned lines of files, in bytes.
pub(super) const MAX_TEXT: usize = 64 << 10;

/// Lines of a file as it was.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.file/1")]
pub(super) struct FileDocument {
    path: String,
    reference: String,
    size: u64,
    executable: bool,
    symlink: bool,
    redacted: bool,
    binary: bool,
    encoding: Option<&'static str>,
    content: Option<String>,
    #[serde(flatten)]
    lines: Lines,
}

/// Which lines of a file are returned.
#[derive(Serialize, Debug, PartialEq, Eq, Default)]
struct Lines {
    first_line: usize,
    lines: usize,
    total_lines: usize,
    next_offset: Option<usize>,
    /// Whether the only line was cut, because it exceeds the limit.
    #[serde(skip)]
    is_cut: bool,
}

/// The absolute path of a file that an agent names, relative to the root of the project.
pub(super) fn project_path(path: &str, context: &Context<'_>) -> Result<PathBuf> {
    let root = &context.config.paths.root;
    worktree_path::inside(root, Path::new(path)).filter(|_| !path.is_empty()).ok_or_else(|| {
        CommandError::usage(format!("path \"{path}\" is outside of the project at {}", root.display()))
            .with_hint("name a file or folder relative to the root of the project")
    })
}

pub(super) fn execute(args: arguments::File, context: &Context<'_>) -> Result<FileDocument> {
    let path = project_path(&args.path, context)?;
    let found = show::find_file(&args.r#ref, &path, context)?;
    let mut document = FileDocument {
        path: found.path,
        reference: found.reference,
        size: found.size,
        executable: found.executable,
        symlink: found.symlink,
        redacted: false,
        binary: is_binary(&found.bytes),
        encoding: None,
        content: None,
        lines: Lines::default(),
    };
    if document.binary {
        return Ok(document);
    }
    let text = String::from_utf8_lossy(&found.bytes);
    let redacted = context.config.redact_allow.redact_text(&text);
    document.redacted = redacted.is_some();
    let text = redacted.as_deref().unwrap_or(&text);
    let first = args.offset.unwrap_or(1);
    let (content, lines) = select(text, first, args.limit.unwrap_or(usize::MAX));
    if first == 0 || (first > 1 && first > lines.total_lines) {
        let lines = counted(lines.total_lines as u64, "line");
        return Err(CommandError::usage(format!("offset {first} is not in the file, which has {lines}"))
            .with_hint("offset counts lines from 1"));
    }
    (document.encoding, document.content, document.lines) = (Some("utf-8"), Some(content.to_owned()), lines);
    Ok(document)
}

/// Selects at most `limit` lines, from line `first` on, within the maximum size.
fn select(text: &str, first: usize, limit: usize) -> (&str, Lines) {
    let skipped = first.saturating_sub(1);
    let total_lines = text.split_inclusive('\n').count();
    let start: usize = text.split_inclusive('\n').take(skipped).map(str::len).sum();
    let (mut end, mut lines) = (start, 0);
    for line in text[start..].split_inclusive('\n').take(limit) {
        if end + line.len() - start > MAX_TEXT {
            break;
        }
        end += line.len();
        lines += 1;
    }
    // A line that is longer than the maximum would never be returned.
    let is_cut = lines == 0 && limit > 0 && start < text.len();
    if is_cut {
        end = text.floor_char_boundary(start + MAX_TEXT);
        lines = 1;
    }
    let next = skipped + lines + 1;
    let next_offset = (next <= total_lines).then_some(next);
    (&text[start..end], Lines { first_line: first, lines, total_lines, next_offset, is_cut })
}

impl FileDocument {
    /// The text for the model.
    pub(super) fn text(&self) -> String {
        match &self.content {
            Some(content) => handover::wrapped(content, RecordOrigin::Foreign),
            None => format!("A binary file of {}. Its content is not shown to agents.", bytes(self.size)),
        }
    }
}

impl Document for FileDocument {
    fn render(&self, _: &Output) -> Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        let Lines { first_line, lines, total_lines, next_offset, is_cut } = &self.lines;
        if self.redacted {
            notes.push("Secrets were redacted: do not write this content to the file".to_owned());
        }
        if *is_cut {
            notes.push(format!("Line {first_line} was cut after 64 KiB"));
        }
        if let Some(next) = next_offset {
            let last = first_line + lines - 1;
            notes.push(format!(
                "Lines {first_line} to {last} of {total_lines}; call again with offset {next} for more"
            ));
        }
        notes.into_iter().map(Note::Message).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_selected_within_the_limits() {
        let text = "one\ntwo\nthree";
        let of = |first, limit| {
            let (text, lines) = select(text, first, limit);
            (text, lines.lines, lines.next_offset)
        };
        assert_eq!(of(1, 9), (text, 3, None));
        assert_eq!(of(2, 1), ("two\n", 1, Some(3)));
        assert_eq!(of(3, 1), ("three", 1, None));
        assert_eq!(of(1, 0), ("", 0, Some(1)));
        assert_eq!(select("", 1, 9).1.total_lines, 0);
    }

    #[test]
    fn long_files_and_lines_are_cut() {
        let text = "0123456789abcde\n".repeat(10_000);
        let (part, lines) = select(&text, 1, usize::MAX);
        assert_eq!((part.len(), lines.lines, lines.next_offset), (MAX_TEXT, 4096, Some(4097)));
        let text = format!("{}\nend\n", "ä".repeat(MAX_TEXT));
        let (part, lines) = select(&text, 1, usize::MAX);
        assert!(lines.is_cut && part.len() <= MAX_TEXT);
        assert_eq!(lines.next_offset, Some(2));
    }
}
