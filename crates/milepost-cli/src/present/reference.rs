//! The program's reference documents: help, manual pages, shell completions and the JSON Schema.

use serde::Serialize;

use super::format::{clean, counted};
use super::{Document, Output};
use crate::error::{CommandError, Result};

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.help/1")]
pub(crate) struct HelpDocument {
    /// The complete text, without styles.
    pub(crate) text: String,
    #[serde(skip)]
    pub(crate) styled: String,
}

impl HelpDocument {
    /// Creates a document from help rendered by clap.
    pub(crate) fn of_text(text: &clap::builder::StyledStr) -> Self {
        Self { text: text.to_string(), styled: text.ansi().to_string() }
    }
}

impl Document for HelpDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&self.styled)
    }
}

/// A manual page that is printed, or the pages that were installed.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ManualDocument {
    Printed(PrintedManual),
    Installed(InstalledManual),
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.man/1")]
pub(crate) struct PrintedManual {
    pub(crate) page: String,
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.man-install/1")]
pub(crate) struct InstalledManual {
    pub(crate) folder: String,
    /// The names of the files.
    pub(crate) pages: Vec<String>,
}

impl Document for ManualDocument {
    fn render(&self, output: &Output) -> Result<()> {
        match self {
            Self::Printed(manual) => output.write_bytes(manual.page.as_bytes()),
            Self::Installed(manual) => output.write_text(&format!("{}\n", manual.describe())),
        }
    }

    fn change(&self) -> Option<String> {
        match self {
            Self::Printed(_) => None,
            Self::Installed(manual) => Some(manual.describe()),
        }
    }
}

impl InstalledManual {
    fn describe(&self) -> String {
        format!("{} written to {}", counted(self.pages.len() as u64, "page"), clean(&self.folder))
    }
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.completions/1")]
pub(crate) struct CompletionsDocument {
    pub(crate) script: String,
}

impl Document for CompletionsDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_bytes(self.script.as_bytes())
    }
}

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.schema/1")]
pub(crate) struct SchemaDocument {
    pub(crate) document: serde_json::Value,
}

impl Document for SchemaDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.document);
        output.write_text(&format!("{}\n", text.map_err(|e| CommandError::Stdout(e.into()))?))
    }
}
