//! The results of `brief new`, `show`, `check`, `merge` and `fit`. Text output is the Markdown itself, or the
//! findings of a check.

use std::path::PathBuf;

use milepost::brief::FittedBrief;
use milepost::internal::brief::{CheckReport, Finding};
use milepost::model::CheckpointId;
use serde::Serialize;

use super::damage::Fallback;
use super::format::{clean, counted, green, red, yellow};
use super::{Document, Note, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum BriefDocument {
    New(NewDocument),
    Show(ShowDocument),
    Check(CheckDocument),
    Merge(MergeDocument),
    Fit(FitDocument),
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.brief_new/1")]
pub(crate) struct NewDocument {
    pub(crate) markdown: String,
    pub(crate) from: Option<CheckpointId>,
    pub(crate) carried_from: Option<CheckpointId>,
    #[serde(skip)]
    pub(crate) fallback: Fallback,
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.brief_show/1")]
pub(crate) struct ShowDocument {
    pub(crate) markdown: String,
    /// The id in the brief's front matter.
    pub(crate) checkpoint: Option<String>,
    /// The checkpoint that the brief belongs to. Null for a file.
    pub(crate) snapshot_id: Option<CheckpointId>,
    /// Whether the brief was composed from recorded facts.
    pub(crate) composed: bool,
    pub(crate) tokens: u64,
    pub(crate) counter: String,
    pub(crate) sections: Vec<Section>,
    pub(crate) warnings: Vec<Finding>,
    #[serde(skip)]
    pub(crate) fallback: Fallback,
}

#[derive(Serialize)]
pub(crate) struct Section {
    pub(crate) heading: String,
    /// The format's name for the section. Empty for a custom section.
    pub(crate) kind: &'static str,
    pub(crate) markdown: String,
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.brief_merge/1")]
pub(crate) struct MergeDocument {
    pub(crate) markdown: String,
    pub(crate) warnings: Vec<Finding>,
    #[serde(skip)]
    pub(crate) fallbacks: [Fallback; 2],
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.brief_fit/1")]
pub(crate) struct FitDocument {
    #[serde(flatten)]
    pub(crate) fitted: FittedBrief,
    #[serde(skip)]
    pub(crate) fallback: Fallback,
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.brief_check/1")]
pub(crate) struct CheckDocument {
    valid: bool,
    /// The report of a single file. Reports of several files are only in `files`.
    #[serde(flatten)]
    report: CheckReport,
    files: Vec<CheckedFile>,
}

#[derive(Serialize)]
struct CheckedFile {
    path: String,
    valid: bool,
    #[serde(flatten)]
    report: CheckReport,
}

fn sentence(finding: &Finding) -> String {
    let section = finding.section.as_deref().map_or(String::new(), |section| format!("{section} "));
    clean(&format!("{section}{}", finding.message))
}

impl CheckDocument {
    pub(crate) fn new(found: Vec<(PathBuf, CheckReport)>) -> Self {
        let file = |(path, report): (PathBuf, CheckReport)| CheckedFile {
            path: path.to_string_lossy().into_owned(),
            valid: report.is_valid(),
            report,
        };
        let files: Vec<_> = found.into_iter().map(file).collect();
        Self {
            valid: files.iter().all(|file| file.valid),
            report: if let [only] = &files[..] { only.report.clone() } else { CheckReport::default() },
            files,
        }
    }

    /// One line per file, followed by its errors and warnings.
    fn page(&self) -> String {
        let mut page = String::new();
        for file in &self.files {
            let verdict = if file.valid { green("valid") } else { red("not valid") };
            page.push_str(&format!("{}  {verdict}\n", clean(&file.path)));
            for error in &file.report.errors {
                page.push_str(&format!("  {} {}\n", red("error"), sentence(error)));
            }
            for warning in &file.report.warnings {
                page.push_str(&format!("  {} {}\n", yellow("warning"), sentence(warning)));
            }
        }
        if self.files.len() > 1 {
            let bad = self.files.iter().filter(|file| !file.valid).count();
            page.push_str(&format!("{}, {bad} not valid\n", counted(self.files.len() as u64, "file")));
        }
        page
    }
}

impl BriefDocument {
    /// The Markdown; empty for a check.
    pub(crate) fn markdown(&self) -> &str {
        match self {
            Self::New(document) => &document.markdown,
            Self::Show(document) => &document.markdown,
            Self::Merge(document) => &document.markdown,
            Self::Fit(document) => document.fitted.markdown(),
            Self::Check(_) => "",
        }
    }
}

impl Document for BriefDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let warnings = match self {
            Self::Check(document) => return output.write_text(&document.page()),
            Self::Show(document) => &document.warnings[..],
            Self::Merge(document) => &document.warnings[..],
            Self::New(_) | Self::Fit(_) => &[],
        };
        for warning in warnings {
            output.message(&format!("Warning: {}", sentence(warning)));
        }
        let markdown = self.markdown();
        output.write_bytes(markdown.as_bytes())?;
        // The shell prompt must start on a new line.
        if !markdown.ends_with('\n') && output.is_terminal() {
            output.write_plain("\n")?;
        }
        if let Self::Fit(FitDocument { fitted, .. }) = self {
            let (tokens, budget, counter) = (fitted.tokens(), fitted.budget(), fitted.counter());
            output.detail(&format!("Uses {tokens} of {budget} tokens (counter: {counter})"));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        let Self::Fit(FitDocument { fitted, .. }) = self else { return Vec::new() };
        let warning = match (fitted.exceeds(), fitted.shrunk()) {
            (true, _) => format!(
                "required sections exceed the budget: {} of {} tokens",
                fitted.tokens(),
                fitted.budget()
            ),
            (_, true) => "required sections were shortened to fit the budget".to_owned(),
            _ => return Vec::new(),
        };
        vec![Note::Message(format!("Warning: {warning}"))]
    }

    fn error(&self) -> Option<CommandError> {
        match self {
            Self::New(document) => document.fallback.error(),
            Self::Show(document) => document.fallback.error(),
            Self::Merge(document) => document.fallbacks.iter().find_map(Fallback::error),
            Self::Fit(document) => document.fallback.error(),
            Self::Check(check) => (!check.valid).then_some(CommandError::ExitOnly(Exit::Failed)),
        }
    }
}
