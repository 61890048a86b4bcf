//! The brief: a Markdown document that lets a new agent session continue the work. Parses, checks, merges,
//! composes and fits briefs. Takes text, facts or a token budget; returns sections, findings or a new brief.
//! Preserves unchanged text byte for byte. Must not use files, the store or the clock.

mod artifact;
mod blocks;
pub(crate) mod check;
pub(crate) mod compose;
mod fit;
mod headings;
pub(crate) mod merge;
pub(crate) mod parse;
pub(crate) mod section;
mod section_names;
pub(crate) mod single_line;
pub(crate) mod tokens;

#[cfg(feature = "exact-tokens")]
mod exact;
#[cfg(test)]
mod tests;

pub(crate) use crate::front_matter::{FrontMatter, Warning};
pub(crate) use check::CheckReport;
pub(crate) use check::parse_created;
pub(crate) use compose::{BriefFacts, BriefLimit, compose, compose_update, compose_within};
#[cfg(feature = "exact-tokens")]
pub use exact::ExactTokenizer;
pub use fit::{FitOptions, FittedBrief, Omitted, OverBudget, Overflow};
pub(crate) use merge::MergedBrief;
pub(crate) use parse::{InvalidUtf8, Section};
pub(crate) use section::{REQUIRED_SECTIONS, SECTION_ORDER, SectionKind};
pub(crate) use tokens::QUARTERS_PER_TOKEN;
pub(crate) use tokens::TokenCounter;
pub use tokens::Tokenizer;

/// A parsed brief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    text: String,
    layout: parse::Layout,
}

impl Brief {
    /// Parses any text; never fails.
    pub fn parse(text: impl Into<String>) -> Self {
        let text = text.into();
        let layout = parse::parse_layout(&text);
        Self { text, layout }
    }

    /// Parses the bytes of a file, which must be UTF-8.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self, InvalidUtf8> {
        let text = String::from_utf8(bytes).map_err(|e| InvalidUtf8 { at: e.utf8_error().valid_up_to() })?;
        Ok(Self::parse(text))
    }

    /// The Markdown, rebuilt from the parsed parts; equals the original text byte for byte.
    pub fn markdown(&self) -> String {
        let mut text = self.slice(0..self.first_section_start()).to_owned();
        text.extend(self.sections().iter().map(|section| self.slice(section.range.clone())));
        let end = self.sections().last().map_or(self.layout.preamble.end, |section| section.range.end);
        text + self.slice(end.max(self.first_section_start())..self.text.len())
    }

    /// The original text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The front matter, if the brief has one.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn front_matter(&self) -> Option<&FrontMatter> {
        self.layout.front_matter.as_ref()
    }

    /// The value of a front matter key; `None` if it is missing or empty.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.front_matter()?.get(key)
    }

    /// The id under `checkpoint` in the front matter.
    pub fn id(&self) -> Option<&str> {
        self.value("checkpoint")
    }

    /// All sections in document order, including those inside deltas.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn sections(&self) -> &[Section] {
        &self.layout.sections
    }

    /// The sections of one kind that are not inside a delta.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn sections_of_kind(&self, kind: SectionKind) -> impl Iterator<Item = &Section> {
        self.sections().iter().filter(move |section| section.kind == kind && !section.in_delta)
    }

    /// A section's heading and content, verbatim.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn source(&self, section: &Section) -> &str {
        self.slice(section.range.clone())
    }

    /// A section's content, verbatim.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn content(&self, section: &Section) -> &str {
        self.slice(section.content.clone())
    }

    /// The warnings from parsing.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.layout.warnings
    }

    /// Checks the brief against the format.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn check(&self) -> CheckReport {
        check::check(self)
    }

    /// Merges an update into this brief.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn merge(&self, update: &Self) -> MergedBrief {
        merge::merge(self, update)
    }

    /// Fits the brief into a token budget.
    pub fn fit(&self, options: &FitOptions<'_>) -> Result<FittedBrief, OverBudget> {
        fit::fit(self, options)
    }

    /// The text between the front matter and the first section.
    fn preamble(&self) -> &str {
        self.slice(self.layout.preamble.clone())
    }

    fn first_section_start(&self) -> usize {
        self.sections().first().map_or(self.layout.preamble.end, |section| section.range.start)
    }

    fn slice(&self, range: std::ops::Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }
}

impl std::fmt::Display for Brief {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.markdown())
    }
}

/// Splits a text into sections, each with its heading as the name. The first part contains the text before
/// the first section and has an empty name. The parts together cover the whole text.
pub(crate) fn split_sections(markdown: &str) -> Vec<(String, &str)> {
    let brief = Brief::parse(markdown);
    let piece = |range: std::ops::Range<usize>| markdown.get(range).unwrap_or_default();
    let mut found = vec![(String::new(), piece(0..brief.first_section_start()))];
    let last = brief.sections().len().saturating_sub(1);
    for (i, section) in brief.sections().iter().enumerate() {
        let end = if i == last { markdown.len() } else { section.range.end };
        found.push((section.heading.clone(), piece(section.range.start..end)));
    }
    found
}
