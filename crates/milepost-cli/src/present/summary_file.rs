//! The result of `summary --svg` and `summary --html`: the file that was written, or its content for stdout.

use std::path::PathBuf;

use milepost::model::RunId;
use serde::Serialize;

use super::format::{bytes, clean, counted};
use super::{Document, Note, Output};
use crate::error::Result;

/// The format of a file that shows a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileFormat {
    Svg,
    Html,
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.summary_file/1")]
pub(crate) struct SummaryFileDocument {
    run_id: RunId,
    format: FileFormat,
    /// The file; null if the content went to stdout.
    path: Option<String>,
    bytes: u64,
    /// Number of values that looked like secrets and were replaced.
    redacted: u64,
    /// The content, if it was not written to a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

impl SummaryFileDocument {
    pub(crate) fn new(
        run_id: RunId,
        format: FileFormat,
        path: Option<PathBuf>,
        content: String,
        redacted: u64,
    ) -> Self {
        let path = path.map(|path| path.display().to_string());
        let bytes = content.len() as u64;
        Self { run_id, format, bytes, redacted, content: path.is_none().then_some(content), path }
    }
}

impl Document for SummaryFileDocument {
    fn render(&self, output: &Output) -> Result<()> {
        match &self.content {
            Some(content) => output.write_bytes(content.as_bytes()),
            None => Ok(()),
        }
    }

    fn notes(&self) -> Vec<Note> {
        let wrote = self.path.as_ref().map(|path| {
            let what = if self.format == FileFormat::Svg { "timeline" } else { "report" };
            format!("Wrote the {what} of {} to {} ({})", self.run_id, clean(path), bytes(self.bytes))
        });
        let redacted = (self.redacted > 0)
            .then(|| format!("Replaced {} that looked like a secret", counted(self.redacted, "value")));
        wrote.into_iter().chain(redacted).map(Note::Message).collect()
    }

    fn change(&self) -> Option<String> {
        self.path.as_ref().map(|path| format!("{path} was written"))
    }
}
