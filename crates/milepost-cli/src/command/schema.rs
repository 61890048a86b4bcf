//! `schema`: what a checkpoint may hold, as JSON Schema.

use crate::error::CommandError;
use crate::present::Output;

/// Print the JSON Schema of a checkpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost schema > checkpoint.schema.json")]
pub(crate) struct SchemaArgs {}

pub(crate) fn run(output: &Output) -> Result<(), CommandError> {
    let schema = milepost::internal::model::schema();
    if output.json {
        return output.document(&serde_json::json!({ "schema": "milepost.schema/1", "document": schema }));
    }
    let mut text = serde_json::to_string_pretty(&schema).map_err(|e| CommandError::Stdout(e.into()))?;
    text.push('\n');
    output.text(&text)
}
