//! The result of `ui`: the address of the page.

use serde::Serialize;

use super::format::bold;
use super::{Document, Note, Output};
use crate::error::Result;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.ui/1")]
pub(crate) struct UiDocument {
    /// The address to open. Whoever has it can read everything that the page shows.
    pub(crate) url: String,
    pub(crate) port: u16,
    /// Whether a browser is opened.
    #[serde(skip)]
    pub(crate) opens: bool,
}

impl Document for UiDocument {
    fn render(&self, output: &Output) -> Result<()> {
        output.write_text(&format!("{}\n", bold(&self.url)))
    }

    fn notes(&self) -> Vec<Note> {
        let what =
            if self.opens { "The page opens in your browser" } else { "Open this address in a browser" };
        vec![Note::Message(format!("{what}. Keep it to yourself: it grants access. Press Ctrl-C to stop."))]
    }
}
