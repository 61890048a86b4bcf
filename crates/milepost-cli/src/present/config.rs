//! The result of `config show`: every setting with its value and its origin.

use serde::Serialize;

use super::table::{Column, Table, cell};
use super::{Document, Output};
use crate::config::Setting;
use crate::error::Result;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.config/1")]
pub(crate) struct ConfigDocument {
    pub(crate) file: String,
    pub(crate) settings: Vec<Setting>,
}

impl Document for ConfigDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let mut rows =
            Table::new(output, &[Column::new("KEY"), Column::text("VALUE", 24), Column::text("FROM", 12)]);
        for setting in &self.settings {
            rows.add_row([cell(setting.key), cell(&setting.value), cell(setting.origin.to_string())]);
        }
        output.write_text(&rows.lines())
    }
}
