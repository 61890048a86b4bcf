//! The brief: the Markdown that lets a fresh agent continue. Pure: no files, no store, no clock.
//! In: any text, facts of a checkpoint, a token budget. Out: sections, what is wrong with them, two briefs made one, a
//! brief out of facts, a brief that fits. What was not changed is given back byte for byte.

mod artifact;
mod blocks;
pub(crate) mod check;
pub(crate) mod compose;
mod fit;
mod headings;
pub(crate) mod line;
pub(crate) mod merge;
pub(crate) mod parse;
pub(crate) mod section;
mod section_names;
pub(crate) mod tokens;

#[cfg(feature = "exact-tokens")]
mod exact;
#[cfg(test)]
mod tests;

pub(crate) use crate::front_matter::{FrontMatter, Warning};
pub(crate) use check::Check;
pub(crate) use check::created;
pub(crate) use compose::{BriefFacts, compose, compose_update};
#[cfg(feature = "exact-tokens")]
pub use exact::ExactTokenizer;
pub use fit::{Fit, Fitted, Omitted, OverBudget, Overflow};
pub(crate) use merge::Merged;
pub(crate) use parse::{NotText, Section};
pub(crate) use section::{Kind, ORDER, REQUIRED};
pub(crate) use tokens::QUARTERS;
pub use tokens::{HeuristicTokenizer, TokenCounter, Tokenizer};

/// A brief, read and not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Brief {
    text: String,
    layout: parse::Layout,
}

impl Brief {
    /// Reads any text.
    pub fn parse(text: impl Into<String>) -> Self {
        let text = text.into();
        let layout = parse::layout(&text);
        Self { text, layout }
    }

    /// Reads a file's bytes, which have to be UTF-8.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Result<Self, NotText> {
        let text = String::from_utf8(bytes).map_err(|e| NotText { at: e.utf8_error().valid_up_to() })?;
        Ok(Self::parse(text))
    }

    /// The Markdown, byte for byte: everything before the first section, then section by section.
    pub fn markdown(&self) -> String {
        let mut whole = self.slice(0..self.first()).to_owned();
        whole.extend(self.sections().iter().map(|section| self.slice(section.range.clone())));
        let end = self.sections().last().map_or(self.layout.preamble.end, |section| section.range.end);
        whole + self.slice(end.max(self.first())..self.text.len())
    }

    /// The text as it came.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The front matter.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn front_matter(&self) -> Option<&FrontMatter> {
        self.layout.front.as_ref()
    }

    /// A value of the front matter.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.front_matter()?.get(key)
    }

    /// The id it gives itself.
    pub fn id(&self) -> Option<&str> {
        self.value("checkpoint")
    }

    /// The sections, in their order, those of deltas last.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn sections(&self) -> &[Section] {
        &self.layout.sections
    }

    /// The sections of a kind, deltas left aside.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Section> {
        self.sections().iter().filter(move |section| section.kind == kind && !section.in_delta)
    }

    /// A section's heading and content, as they stand.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn source(&self, section: &Section) -> &str {
        self.slice(section.range.clone())
    }

    /// A section's content, as it stands.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn content(&self, section: &Section) -> &str {
        self.slice(section.content.clone())
    }

    /// What read oddly.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.layout.warnings
    }

    /// What is wrong with it, and what is thin.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn check(&self) -> Check {
        check::check(self)
    }

    /// Carries this brief forward by an update of it.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn merge(&self, update: &Self) -> Merged {
        merge::merge(self, update)
    }

    /// Makes it fit a budget.
    pub fn fit(&self, how: &Fit<'_>) -> Result<Fitted, OverBudget> {
        fit::fit(self, how)
    }

    /// What stands after the front matter and before the first section.
    fn preamble(&self) -> &str {
        self.slice(self.layout.preamble.clone())
    }

    fn first(&self) -> usize {
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

/// The pieces of a text that lie end to end: what stands before the first section, nameless, then each section by its
/// heading.
pub(crate) fn pieces(markdown: &str) -> Vec<(String, &str)> {
    let brief = Brief::parse(markdown);
    let piece = |range: std::ops::Range<usize>| markdown.get(range).unwrap_or_default();
    let mut found = vec![(String::new(), piece(0..brief.first()))];
    let last = brief.sections().len().saturating_sub(1);
    for (i, section) in brief.sections().iter().enumerate() {
        let end = if i == last { markdown.len() } else { section.range.end };
        found.push((section.heading.clone(), piece(section.range.start..end)));
    }
    found
}
