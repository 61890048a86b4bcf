//! The result or the plan of `purge`, as JSON and as text.

use milepost::PurgeReport;
use milepost::model::PathText;
use serde::Serialize;

use super::format::{bytes, counted};
use super::{Document, Output};
use crate::error::Result;

/// Maximum number of paths to show.
const SHOWN: usize = 20;

/// The result or the plan of `purge`.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.purge/1")]
pub(crate) struct PurgeDocument {
    #[serde(flatten)]
    report: PurgeReport,
}

impl PurgeDocument {
    pub(crate) fn new(report: PurgeReport) -> Self {
        Self { report }
    }

    /// The paths and the summary line.
    pub(crate) fn text(&self) -> String {
        let report = &self.report;
        if report.contents() + report.moved_aside() == 0 {
            return "The store has no content of these files.\n".to_owned();
        }
        let mut text = list(report.paths());
        if !report.shared_with().is_empty() {
            text.push_str("Files with the same content, which lose it too:\n");
            text.push_str(&list(report.shared_with()));
        }
        let removed = if report.dry_run() { "would be removed" } else { "removed" };
        let mut parts = Vec::new();
        if report.contents() > 0 {
            parts.push(format!(
                "{} ({})",
                counted(report.contents(), "stored content"),
                bytes(report.bytes())
            ));
        }
        if report.moved_aside() > 0 {
            parts.push(format!("{} for undo", counted(report.moved_aside(), "file kept")));
        }
        text.push_str(&format!("{} {removed}.\n", parts.join(" and ")));
        text
    }
}

fn list(paths: &[PathText]) -> String {
    let mut text = String::new();
    for path in paths.iter().take(SHOWN) {
        text.push_str(&format!("  {}\n", super::format::path(path)));
    }
    if paths.len() > SHOWN {
        text.push_str(&format!("  … and {} more\n", paths.len() - SHOWN));
    }
    text
}

impl Document for PurgeDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&self.text())
    }

    fn change(&self) -> Option<String> {
        (!self.report.dry_run()).then(|| "contents of files were purged".to_owned())
    }
}
