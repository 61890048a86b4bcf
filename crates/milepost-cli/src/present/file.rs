//! The result of `show REF:PATH`: a file as it was, byte for byte, or as JSON. On a terminal, unsafe characters
//! are replaced and binary files are only described.

use milepost::internal::diff::is_binary;
use serde::Serialize;

use super::format::{bytes, clean_lines};
use super::{Document, Note, Output};
use crate::error::Result;

/// A file as it was at a checkpoint or before a prompt.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.file/1")]
pub(crate) struct FileDocument {
    path: String,
    reference: String,
    size: u64,
    executable: bool,
    /// Whether it is a symbolic link, whose content is the path that it points to.
    symlink: bool,
    /// Whether secrets were redacted, because the content is for an agent.
    redacted: bool,
    encoding: Encoding,
    content: String,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// How the JSON form contains the content.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[serde(rename = "utf-8")]
    Utf8,
    Base64,
}

/// A file that was found.
pub(crate) struct FoundFile {
    pub(crate) path: String,
    pub(crate) reference: String,
    pub(crate) size: u64,
    pub(crate) executable: bool,
    pub(crate) symlink: bool,
    pub(crate) redacted: bool,
    pub(crate) bytes: Vec<u8>,
}

impl FileDocument {
    pub(crate) fn new(file: FoundFile) -> Self {
        let FoundFile { path, reference, size, executable, symlink, redacted, bytes } = file;
        let (encoding, content) = match std::str::from_utf8(&bytes) {
            Ok(text) => (Encoding::Utf8, text.to_owned()),
            Err(_) => (Encoding::Base64, data_encoding::BASE64.encode(&bytes)),
        };
        Self { path, reference, size, executable, symlink, redacted, encoding, content, bytes }
    }
}

impl Document for FileDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if !output.is_terminal() {
            return output.write_exact(&self.bytes);
        }
        if is_binary(&self.bytes) {
            let size = bytes(self.size);
            return output.write_text(&format!("binary file, {size}; redirect the output to save it\n"));
        }
        let mut text = clean_lines(&String::from_utf8_lossy(&self.bytes));
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        output.write_paged(&text)
    }

    fn notes(&self) -> Vec<Note> {
        let note = "Secrets were redacted because an agent runs this command: do not use this as the file";
        if self.redacted { vec![Note::Message(note.to_owned())] } else { Vec::new() }
    }
}
