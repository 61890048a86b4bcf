//! Fits a brief into a token budget. Takes a brief and a budget, and returns Markdown and the omissions.
//! Applies demotion steps in a fixed order until the brief fits. Each step only removes text and leftover
//! space is not filled, so a larger budget never yields less. The steps in `demote` do not change the
//! sections that must be kept; those in `shrink` shorten them and mark the result as shrunk.

mod build_page;
mod clip;
mod demote;
mod entry;
mod folders;
mod notice;
mod page;
mod shrink;

use derive_getters::Getters;
use std::ops::ControlFlow;

use super::{Brief, SectionKind, TokenCounter, Tokenizer};
use page::Page;

crate::model::closed_enum! {
    /// What to do if the sections that must be kept do not fit.
    #[derive(Default)]
    pub enum Overflow {
        /// Return an error with the size of each section.
        #[default]
        Error = "error",
        /// Shorten them, and mark the result as shrunk.
        Shrink = "shrink",
        /// Keep them in full and exceed the budget.
        Exceed = "exceed",
    }
}

options! {
    /// Options for fitting a brief.
    #[derive(Debug, Clone, Default)]
    pub struct FitOptions<'a> {
        /// Sets the maximum number of tokens.
        pub(crate) budget: u64 [number],
        /// Sets what to do if the sections that must be kept do not fit.
        pub(crate) overflow: Overflow,
        /// Sets the token counter.
        pub(crate) counter: TokenCounter<'a> [internal],
        /// Sets the command that shows the full brief, for the notice about omissions.
        pub(crate) full_command: Option<String>,
    }
}

impl<'a> FitOptions<'a> {
    /// Sets the tokenizer, which replaces the default estimate.
    pub fn tokenizer(self, tokenizer: &'a dyn Tokenizer) -> Self {
        self.counter(TokenCounter::new(tokenizer))
    }
}

/// A brief that was fitted into a token budget.
#[derive(Getters, Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FittedBrief {
    /// The Markdown.
    pub(crate) markdown: String,
    /// The number of tokens it takes.
    pub(crate) tokens: u64,
    /// The maximum number of tokens.
    pub(crate) budget: u64,
    /// The name of the token counter.
    pub(crate) counter: String,
    /// The omissions, one entry per section.
    pub(crate) omitted: Vec<Omitted>,
    /// Whether sections that must be kept were shortened.
    pub(crate) shrunk: bool,
    /// Whether it exceeds the budget, as `Overflow::Exceed` allows.
    pub(crate) exceeds: bool,
}

/// The omissions of one section.
#[derive(Getters, Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Omitted {
    #[serde(skip)]
    kind: SectionKind,
    /// The heading of the section.
    pub(crate) section: String,
    /// The number of entries before fitting.
    pub(crate) entries: u64,
    /// The number of removed entries.
    pub(crate) left_out: u64,
    /// The number of shortened entries.
    pub(crate) cut_short: u64,
}

/// The error if the sections that must be kept do not fit.
#[derive(Getters, Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("sections that must be kept need {needed} tokens, but the budget is {budget}: {}", sections.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", "))]
pub struct OverBudget {
    /// The maximum number of tokens.
    pub(crate) budget: u64,
    /// The number of tokens needed.
    pub(crate) needed: u64,
    /// The number of tokens of each section, and of everything else.
    pub(crate) sections: Vec<(String, u64)>,
    /// Whether shrinking was tried.
    pub(crate) shrunk: bool,
}

pub(super) fn fit(brief: &Brief, options: &FitOptions<'_>) -> Result<FittedBrief, OverBudget> {
    if !options.counter.exceeds(brief.text(), options.budget) {
        let (markdown, tokens) = (brief.text().to_owned(), options.counter.tokens(brief.text()));
        return Ok(to_fitted_brief(RenderedPage { markdown, tokens, omitted: Vec::new() }, options));
    }
    let mut page = build_page::build_page(brief, options);
    if let ControlFlow::Break(page_that_fits) = demote::demote_until_fits(&mut page) {
        return Ok(to_fitted_brief(page_that_fits, options));
    }
    if options.overflow != Overflow::Shrink
        && let ControlFlow::Break(page_that_fits) = demote::remove_all_files(&mut page)
    {
        return Ok(to_fitted_brief(page_that_fits, options));
    }
    let needed = page.tokens();
    match options.overflow {
        Overflow::Exceed => Ok(FittedBrief { exceeds: true, ..to_fitted_brief(page.render(), options) }),
        Overflow::Shrink => match shrink::shrink_until_fits(&mut page, brief) {
            ControlFlow::Break(page_that_fits) => {
                Ok(FittedBrief { shrunk: true, ..to_fitted_brief(page_that_fits, options) })
            }
            ControlFlow::Continue(()) => Err(OverBudget {
                budget: options.budget,
                needed: page.tokens(),
                sections: vec![("shortest possible brief".to_owned(), page.tokens())],
                shrunk: true,
            }),
        },
        Overflow::Error => Err(OverBudget {
            budget: options.budget,
            needed,
            sections: section_sizes(&page, options),
            shrunk: false,
        }),
    }
}

#[derive(Debug)]
struct RenderedPage {
    markdown: String,
    tokens: u64,
    omitted: Vec<Omitted>,
}

/// Breaks with the rendered page as soon as it fits.
type FitFlow = ControlFlow<RenderedPage>;

fn to_fitted_brief(page_that_fits: RenderedPage, options: &FitOptions<'_>) -> FittedBrief {
    FittedBrief {
        markdown: page_that_fits.markdown,
        tokens: page_that_fits.tokens,
        budget: options.budget,
        counter: options.counter.name(),
        omitted: page_that_fits.omitted,
        shrunk: false,
        exceeds: false,
    }
}

/// The tokens of each section that must be kept, and of the rest of the page.
fn section_sizes(page: &Page<'_>, options: &FitOptions<'_>) -> Vec<(String, u64)> {
    let mut sizes: Vec<(String, u64)> = Vec::new();
    let mut kept = 0;
    for part in page.parts.iter().filter(|part| part.kind.must_keep()) {
        let quarters = part.verbatim.as_ref().map_or(0, |text| text.cost);
        kept += quarters;
        let tokens = options.counter.round_up(quarters);
        match sizes.iter_mut().find(|(name, _)| *name == part.kind.as_str()) {
            Some((_, n)) => *n += tokens,
            None => sizes.push((part.kind.as_str().to_owned(), tokens)),
        }
    }
    let rest = options.counter.round_up(page.total_quarters().saturating_sub(kept));
    sizes.push(("everything else".to_owned(), rest));
    sizes
}

/// The name that reports use for the text before the first section.
const PREAMBLE_NAME: &str = "text before the first section";

/// Decides in which demotion step an entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// A delta's prose, or one of its transitions.
    Delta,
    /// A line of code or output, in a section that does not have to be kept.
    Code,
    /// An entry of a section of no known kind, or of the preamble.
    Other,
    Breadcrumb,
    Step,
    /// A file; `finished` means that it needs no further work.
    Artifact {
        finished: bool,
    },
    Technical,
    MustKeep(SectionKind),
}
