//! A brief that fits a token budget: one fixed ladder of demotions, gone down rung by rung until it fits.
//! In: a brief and a budget. Out: Markdown within it, and what was left out. A lower rung never holds what a higher one
//! does not, so that a larger budget never holds less; the space that remains is not filled, which would break that.
//! What must be kept is verbatim on every rung of the first ladder; the second one shrinks it, and says so.

mod clip;
mod entry;
mod folders;
mod gather;
mod ladder;
mod notice;
mod page;
mod shrink;

use std::ops::ControlFlow;

use super::{Brief, Kind, TokenCounter};
use page::Page;

/// What to do where that which must be kept does not fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Refuse, with the numbers.
    #[default]
    Error,
    /// Shrink it, visibly.
    Shrink,
    /// Give all of it, over the budget.
    Exceed,
}

impl std::str::FromStr for Overflow {
    type Err = crate::model::ValidationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "error" => Ok(Self::Error),
            "shrink" => Ok(Self::Shrink),
            "exceed" => Ok(Self::Exceed),
            _ => Err(crate::model::ValidationError {
                path: String::new(),
                message: format!("\"{text}\" is not one of error, shrink, exceed"),
            }),
        }
    }
}

/// How to fit.
#[derive(Debug, Clone, Default)]
pub struct Fit<'a> {
    /// So many tokens at most.
    pub budget: u64,
    /// What to do where that is too few.
    pub overflow: Overflow,
    /// What counts them.
    pub counter: TokenCounter<'a>,
    /// The command that shows all of it.
    pub whole: Option<String>,
}

/// A brief that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fitted {
    /// The Markdown.
    pub markdown: String,
    /// How many tokens it takes.
    pub tokens: u64,
    /// How many it may take.
    pub budget: u64,
    /// What counted them.
    pub counter: String,
    /// What was left out, section by section.
    pub omitted: Vec<Omitted>,
    /// Whether what must be kept was shrunk.
    pub shrunk: bool,
    /// Whether it takes more than it may, as was asked for.
    pub exceeds: bool,
}

/// What was left out of one section.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Omitted {
    #[serde(skip)]
    kind: Kind,
    /// The section.
    pub section: String,
    /// How many of its entries it had.
    pub entries: u64,
    /// How many of them are gone.
    pub left_out: u64,
    /// How many of them are there in part.
    pub cut_short: u64,
}

/// That which must be kept does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what must be kept takes {needed} tokens of {budget}: {}", sections.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", "))]
pub struct OverBudget {
    /// How many tokens there may be.
    pub budget: u64,
    /// How many are needed.
    pub needed: u64,
    /// How many each section takes, and what stands around them.
    pub sections: Vec<(String, u64)>,
    /// Whether shrinking was tried.
    pub shrunk: bool,
}

pub(super) fn fit(brief: &Brief, how: &Fit<'_>) -> Result<Fitted, OverBudget> {
    if !how.counter.exceeds(brief.text(), how.budget) {
        return Ok(Fitted {
            markdown: brief.text().to_owned(),
            tokens: how.counter.tokens(brief.text()),
            budget: how.budget,
            counter: how.counter.name(),
            omitted: Vec::new(),
            shrunk: false,
            exceeds: false,
        });
    }
    let mut page = gather::page(brief, how);
    if let ControlFlow::Break(landing) = ladder::descend(&mut page) {
        return Ok(fitted(landing, how));
    }
    if how.overflow != Overflow::Shrink
        && let ControlFlow::Break(landing) = ladder::bare(&mut page)
    {
        return Ok(fitted(landing, how));
    }
    let needed = page.tokens();
    match how.overflow {
        Overflow::Exceed => Ok(Fitted { exceeds: true, ..fitted(page.landing(), how) }),
        Overflow::Shrink => match shrink::descend(&mut page, brief) {
            ControlFlow::Break(landing) => Ok(Fitted { shrunk: true, ..fitted(landing, how) }),
            ControlFlow::Continue(()) => Err(OverBudget {
                budget: how.budget,
                needed: page.tokens(),
                sections: vec![("the shortest there is".to_owned(), page.tokens())],
                shrunk: true,
            }),
        },
        Overflow::Error => {
            Err(OverBudget { budget: how.budget, needed, sections: sizes(&page, how), shrunk: false })
        }
    }
}

/// A rung that fits.
#[derive(Debug)]
struct Landing {
    markdown: String,
    tokens: u64,
    omitted: Vec<Omitted>,
}

/// Goes on down, or ends where it fits.
type Flow = ControlFlow<Landing>;

fn fitted(landing: Landing, how: &Fit<'_>) -> Fitted {
    Fitted {
        markdown: landing.markdown,
        tokens: landing.tokens,
        budget: how.budget,
        counter: how.counter.name(),
        omitted: landing.omitted,
        shrunk: false,
        exceeds: false,
    }
}

/// What each section that must be kept takes, and the rest of the page.
fn sizes(page: &Page<'_>, how: &Fit<'_>) -> Vec<(String, u64)> {
    let mut sizes: Vec<(String, u64)> = Vec::new();
    let mut kept = 0;
    for part in page.parts.iter().filter(|part| part.kind.must_keep()) {
        let quarters = part.verbatim.as_ref().map_or(0, |text| text.cost);
        kept += quarters;
        let tokens = how.counter.whole(quarters);
        match sizes.iter_mut().find(|(name, _)| *name == part.kind.as_str()) {
            Some((_, n)) => *n += tokens,
            None => sizes.push((part.kind.as_str().to_owned(), tokens)),
        }
    }
    let rest = how.counter.whole(page.total().saturating_sub(kept));
    sizes.push(("what stands around them".to_owned(), rest));
    sizes
}

/// The name of what is neither in a section nor front matter.
const PREAMBLE: &str = "text before the first section";

/// What an entry stands for on the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rank {
    /// A delta's prose, or one of its transitions.
    Delta,
    /// A line of code or output, in a section that need not be kept.
    Code,
    /// An entry of a section that the format does not know.
    Other,
    /// A reference for reconstruction.
    Crumb,
    /// A step.
    Step,
    /// A file: whether it is finished with.
    Artifact { finished: bool },
    /// A fact of the environment.
    Technical,
    /// A line of what must be kept.
    Must(Kind),
}
