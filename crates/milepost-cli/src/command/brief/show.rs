//! `brief show`: a brief as it is; the part of `resume` that needs no store where it is a file.

use milepost::brief::TokenCounter;
use serde::Serialize;

use super::print;
use super::source::Source;
use crate::context::Context;
use crate::error::CommandError;
use crate::present::brief::{FindingDocument, warn};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    markdown: &'a str,
    /// The id it gives itself.
    checkpoint: Option<&'a str>,
    /// The checkpoint it belongs to; null for a file.
    snapshot_id: Option<String>,
    /// Whether it was made of facts.
    composed: bool,
    tokens: u64,
    counter: String,
    sections: Vec<Section<'a>>,
    warnings: Vec<FindingDocument<'a>>,
}

#[derive(Serialize)]
struct Section<'a> {
    heading: &'a str,
    /// The format's name for it; empty for a section of one's own.
    kind: &'a str,
    markdown: &'a str,
}

pub(super) fn run(name: &str, context: &Context<'_>) -> Result<(), CommandError> {
    show(&Source::read(name, context)?, context)
}

pub(super) fn show(source: &Source, context: &Context<'_>) -> Result<(), CommandError> {
    let brief = &source.brief;
    if context.output.json {
        let counter = TokenCounter::default();
        let sections = brief.sections().iter().map(|section| Section {
            heading: &section.heading,
            kind: section.kind.as_str(),
            markdown: brief.content(section),
        });
        context.output.document(&Document {
            schema: "milepost.brief_show/1",
            markdown: brief.text(),
            checkpoint: brief.id(),
            snapshot_id: source.of.as_ref().map(|of| of.entry.header.snapshot_id.to_string()),
            composed: source.of.as_ref().is_some_and(|of| of.composed),
            tokens: counter.tokens(brief.text()),
            counter: counter.name(),
            sections: sections.collect(),
            warnings: FindingDocument::all(brief.warnings()),
        })?;
    } else {
        warn(context.output, brief.warnings());
        print(brief.text(), context)?;
    }
    source.end(context)
}
