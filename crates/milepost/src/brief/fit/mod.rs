//! Fits a brief into a token budget by a fixed sequence of demotion steps, applied until the brief fits. Input: a brief
//! and a budget. Output: Markdown within the budget, and what was omitted. Each step only removes text and leftover
//! space is not filled, so that a larger budget never holds less. Sections that must be kept stay verbatim in the first
//! sequence (`demote`); the second one (`shrink`) shortens them, and the result says so.

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
        /// Refuse, with the numbers.
        #[default]
        Error = "error",
        /// Shrink it, visibly.
        Shrink = "shrink",
        /// Return all of it, over the budget.
        Exceed = "exceed",
    }
}

options! {
    /// How to fit a brief.
    #[derive(Debug, Clone, Default)]
    pub struct FitOptions<'a> {
        /// Sets the maximum number of tokens.
        pub(crate) budget: u64 [number],
        /// Sets what to do if the budget is too small.
        pub(crate) overflow: Overflow,
        /// Sets what counts the tokens.
        pub(crate) counter: TokenCounter<'a> [internal],
        /// Sets the command that shows the full brief.
        pub(crate) full_command: Option<String>,
    }
}

impl<'a> FitOptions<'a> {
    /// Sets what counts the tokens, instead of an estimate that needs no vocabulary.
    pub fn tokenizer(self, tokenizer: &'a dyn Tokenizer) -> Self {
        self.counter(TokenCounter::new(tokenizer))
    }
}

/// A brief that fits.
#[derive(Getters, Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FittedBrief {
    /// The Markdown.
    pub(crate) markdown: String,
    /// How many tokens it takes.
    pub(crate) tokens: u64,
    /// How many it may take.
    pub(crate) budget: u64,
    /// What counted them.
    pub(crate) counter: String,
    /// What was left out, section by section.
    pub(crate) omitted: Vec<Omitted>,
    /// Whether what must be kept was shrunk.
    pub(crate) shrunk: bool,
    /// Whether it exceeds the budget, as requested.
    pub(crate) exceeds: bool,
}

/// What was left out of one section.
#[derive(Getters, Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Omitted {
    #[serde(skip)]
    kind: SectionKind,
    /// The section.
    pub(crate) section: String,
    /// How many of its entries it had.
    pub(crate) entries: u64,
    /// How many of them are gone.
    pub(crate) left_out: u64,
    /// How many of them are there in part.
    pub(crate) cut_short: u64,
}

/// The sections that must be kept do not fit.
#[derive(Getters, Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what must be kept takes {needed} tokens of {budget}: {}", sections.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", "))]
pub struct OverBudget {
    /// How many tokens there may be.
    pub(crate) budget: u64,
    /// How many are needed.
    pub(crate) needed: u64,
    /// How many tokens each section takes, and the text around them.
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
                sections: vec![("the shortest there is".to_owned(), page.tokens())],
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
    sizes.push(("what stands around them".to_owned(), rest));
    sizes
}

/// The name of the text before the first section in reports.
const PREAMBLE_NAME: &str = "text before the first section";

/// Decides in which demotion step an entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// A delta's prose, or one of its transitions.
    Delta,
    /// A line of code or output, in a section that need not be kept.
    Code,
    /// An entry of a section that the format does not know.
    Other,
    Breadcrumb,
    Step,
    /// A file: whether it is finished with.
    Artifact {
        finished: bool,
    },
    Technical,
    MustKeep(SectionKind),
}
