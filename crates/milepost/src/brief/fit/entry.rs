//! One line of the page that can be demoted. It is weighed only once that matters, and what was done to it before is
//! done then: a rung costs what has to be known to take it, and no more.

use std::borrow::Cow;

use super::super::TokenCounter;
use super::super::artifact::Artifact;
use super::Rank;
use super::clip;
use super::folders::Place;

/// Words that a line keeps before it goes.
const FEW: usize = 12;

/// How an entry is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it.
    Whole,
    /// In part.
    Cut,
    /// Among the files of its folder, with what changed in it.
    Noted(Place),
    /// Its path, among those of its folder.
    Path(Place),
    /// Not at all.
    Gone,
}

impl Shown {
    /// Whether it is a line of its own.
    pub(super) fn is_line(self) -> bool {
        matches!(self, Self::Whole | Self::Cut)
    }
}

/// What can be done to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// A step without its outcome.
    WithoutOutcome,
    /// What it claims, without why.
    Claim,
    /// Its first words.
    Few,
    /// On one line with the others of its section.
    Joined,
}

#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) rank: Rank,
    pub(super) part: usize,
    pub(super) shown: Shown,
    /// The line as it stands; as long as it is not weighed, its end may be missing, or all of it for a file.
    text: Cow<'a, str>,
    /// What was touched, if it is a file.
    pub(super) file: Option<Artifact<'a>>,
    /// What it costs, once it is weighed.
    cost: Option<u64>,
    /// What is to be done to it when it is weighed, in this order; where it would be more, it is weighed.
    pending: [Option<Way>; 4],
}

impl<'a> Entry<'a> {
    pub(super) fn line(part: usize, rank: Rank, text: Cow<'a, str>) -> Self {
        Self { rank, part, shown: Shown::Whole, text, file: None, cost: None, pending: [None; 4] }
    }

    pub(super) fn file(part: usize, file: Artifact<'a>) -> Self {
        let rank = Rank::Artifact { finished: file.is_finished() };
        Self { file: Some(file), ..Self::line(part, rank, Cow::Borrowed("")) }
    }

    /// The line, of an entry that is weighed.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What it adds to the page as far as that is known.
    pub(super) fn cost(&self) -> u64 {
        self.cost.unwrap_or(0)
    }

    pub(super) fn is_weighed(&self) -> bool {
        self.cost.is_some()
    }

    /// Counts a line, as it is after all that was done to it.
    pub(super) fn weigh(&mut self, counter: &TokenCounter<'_>) {
        if let Some(file) = &self.file {
            self.text = Cow::Owned(file.dense());
        } else if !self.text.ends_with('\n') {
            self.text = Cow::Owned([&self.text, "\n"].concat());
        }
        self.cost = Some(counter.quarters(&self.text));
        for way in std::mem::take(&mut self.pending).into_iter().flatten() {
            self.change(way, counter);
        }
    }

    /// Does something to a line, now or when it is weighed.
    pub(super) fn change(&mut self, way: Way, counter: &TokenCounter<'_>) {
        if self.cost.is_none() {
            if let Some(free) = self.pending.iter_mut().find(|way| way.is_none()) {
                *free = Some(way);
                return;
            }
            self.weigh(counter);
        }
        let cost = self.cost();
        let Some(text) = way.of(&self.text) else { return };
        let new = counter.quarters(&text);
        // What is cut has to be cheaper for it.
        if way != Way::Joined {
            if new >= cost {
                return;
            }
            self.shown = Shown::Cut;
        }
        (self.text, self.cost) = (Cow::Owned(text), Some(new));
    }

    /// What it would cost less after something, once it is weighed.
    pub(super) fn saved(&self, way: Way, counter: &TokenCounter<'_>) -> u64 {
        way.of(&self.text).map_or(0, |text| self.cost().saturating_sub(counter.quarters(&text)))
    }

    /// Shows a file in another way, which has not been weighed.
    pub(super) fn show(&mut self, shown: Shown) {
        (self.shown, self.cost) = (shown, None);
    }

    /// Says what the path costs.
    pub(super) fn set_cost(&mut self, cost: u64) {
        self.cost = Some(cost);
    }
}

impl Way {
    /// What becomes of a line, if anything.
    fn of(self, line: &str) -> Option<String> {
        match self {
            Self::WithoutOutcome => clip::without_outcome(line),
            Self::Claim => clip::claim(line),
            Self::Few => clip::words(line, FEW),
            Self::Joined => {
                let line = line.trim_end();
                (!line.contains('\n')).then(|| clip::joined(line))
            }
        }
    }
}
