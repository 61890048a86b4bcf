//! `brief show`: prints a brief unchanged. A brief in a file needs no store.

use milepost::internal::brief::TokenCounter;

use super::source::Source;
use crate::error::Result;
use crate::present::brief::{Section, ShowDocument};

pub(super) fn execute(source: &Source) -> Result<ShowDocument> {
    let brief = &source.brief;
    let gauge = TokenCounter::default();
    let sections = brief.sections().iter().map(|section| Section {
        heading: section.heading.clone(),
        kind: section.kind.as_str(),
        markdown: brief.content(section).to_owned(),
    });
    Ok(ShowDocument {
        markdown: brief.text().to_owned(),
        checkpoint: brief.id().map(str::to_owned),
        snapshot_id: source.of.as_ref().map(|of| of.entry.header.snapshot_id().clone()),
        composed: source.of.as_ref().is_some_and(|of| of.composed),
        tokens: gauge.tokens(brief.text()),
        counter: gauge.name(),
        sections: sections.collect(),
        warnings: brief.warnings().to_vec(),
        fallback: source.fallback(),
    })
}
