//! What is wrong with briefs, for people and for programs.

use std::path::PathBuf;

use milepost::brief::{Check, Finding};
use serde::Serialize;

use super::Output;
use super::format::{clean, counted, green, red, yellow};

/// One finding as programs see it.
#[derive(Debug, Serialize)]
pub(crate) struct FindingDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<&'a str>,
    message: &'a str,
}

impl<'a> FindingDocument<'a> {
    /// All of them.
    pub(crate) fn all(findings: &'a [Finding]) -> Vec<Self> {
        let one =
            |finding: &'a Finding| Self { section: finding.section.as_deref(), message: &finding.message };
        findings.iter().map(one).collect()
    }
}

fn sentence(finding: &Finding) -> String {
    let section = finding.section.as_deref().map_or(String::new(), |section| format!("{section} "));
    clean(&format!("{section}{}", finding.message))
}

/// Says what reads oddly.
pub(crate) fn warn(output: &Output, findings: &[Finding]) {
    findings.iter().for_each(|finding| output.message(&format!("Warning: {}", sentence(finding))));
}

/// One line a file, and below it what is wrong.
pub(crate) fn page(found: &[(PathBuf, Check)]) -> String {
    let mut page = String::new();
    for (path, check) in found {
        let verdict = if check.valid() { green("valid") } else { red("not valid") };
        page.push_str(&format!("{}  {verdict}\n", clean(&path.to_string_lossy())));
        for error in &check.errors {
            page.push_str(&format!("  {} {}\n", red("error"), sentence(error)));
        }
        for warning in &check.warnings {
            page.push_str(&format!("  {} {}\n", yellow("warning"), sentence(warning)));
        }
    }
    if found.len() > 1 {
        let bad = found.iter().filter(|(_, check)| !check.valid()).count() as u64;
        page.push_str(&format!("{}, {bad} not valid\n", counted(found.len() as u64, "file")));
    }
    page
}
