//! `schema`: prints the JSON Schema of a checkpoint.

use crate::present::reference::SchemaDocument;

/// Print the JSON Schema of a checkpoint
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost schema > checkpoint.schema.json\n  milepost schema --json")]
pub(crate) struct SchemaArgs {}

pub(crate) fn execute() -> SchemaDocument {
    SchemaDocument { document: milepost::internal::model::schema().into() }
}
