//! `schema`: what a checkpoint may hold, as JSON Schema.

use crate::failure::Failure;
use crate::present::Screen;

/// Print the JSON Schema of a checkpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost schema > checkpoint.schema.json")]
pub(crate) struct SchemaArgs {}

pub(crate) fn run(screen: &Screen) -> Result<(), Failure> {
    let schema = milepost::model::schema();
    if screen.json {
        return screen.document(&serde_json::json!({ "schema": "milepost.schema/1", "document": schema }));
    }
    let mut text = serde_json::to_string_pretty(&schema).map_err(|e| Failure::Output(e.into()))?;
    text.push('\n');
    screen.text(&text)
}
