//! `show`: one checkpoint, verified before it is shown.

use milepost::Reference;
use milepost::model::{RawJson, ValidationError};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::present::checkpoint::{MarksDocument, page};
use crate::present::damage::{fell_back, names};

/// Show a checkpoint
///
/// REF is an id, the start of one, `latest`, `latest~2`, `RUN@12`, a tag, or the id it was imported under. Plain
/// `latest` falls back to the newest good checkpoint where the newest is damaged, and exits 3.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost show\n  milepost show nightly@12\n  milepost show latest~1 --json"
)]
pub(crate) struct ShowArgs {
    /// The checkpoint
    #[arg(value_name = "REF", default_value = "latest")]
    pub(super) reference: String,
}

#[derive(Serialize)]
struct Document {
    schema: &'static str,
    checkpoint: RawJson,
    marks: MarksDocument,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fell_back_from: Vec<String>,
}

pub(crate) fn run(args: &ShowArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let reference: Reference = args.reference.parse()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &reference)?;
    let shown = mp.show(&reference, run.as_ref())?;
    let header = &shown.entry.header;
    context.ensure_visible(&mp, &header.run_id)?;
    if context.output.json {
        let text = std::str::from_utf8(shown.verified.bytes()).map_err(|e| ValidationError {
            path: String::new(),
            message: format!("invalid UTF-8 at byte {}", e.valid_up_to()),
        })?;
        context.output.document(&Document {
            schema: "milepost.show/1",
            checkpoint: RawJson::parse(text)?,
            marks: MarksDocument::of(&shown.entry, shown.completed),
            fell_back_from: names(&shown.fell_back_from),
        })?;
    } else {
        let body = shown.verified.body().map_err(|source| milepost::Error::Newer {
            run: header.run_id.clone(),
            sequence: header.sequence,
            source,
        })?;
        context.output.text(&page(&shown, &body, mp.now()))?;
    }
    fell_back(context.output, &shown.fell_back_from, &header.snapshot_id)
}
