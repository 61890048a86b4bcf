//! One line of the page that can be shortened or removed. Its tokens are counted lazily; shortenings
//! requested before the first count are queued.

use std::borrow::Cow;

use super::super::TokenCounter;
use super::super::artifact::Artifact;
use super::Rank;
use super::clip;
use super::folders::Slot;

/// Maximum number of words that `FirstWords` keeps.
const MAX_WORDS: usize = 12;

/// How much of an entry the page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Full,
    Shortened,
    /// In its folder's line, with a note on what changed.
    FolderNote(Slot),
    /// Only its path, in its folder's line.
    FolderPath(Slot),
    Removed,
}

impl Visibility {
    pub(super) fn is_own_line(self) -> bool {
        matches!(self, Self::Full | Self::Shortened)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shortening {
    DropOutcome,
    /// Keep the first clause, without reasons.
    FirstClause,
    FirstWords,
    /// Join with the other lines of its section.
    JoinLines,
}

#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) rank: Rank,
    pub(super) part: usize,
    pub(super) visibility: Visibility,
    /// The line in its current form. Until it is counted, the newline may be missing, and the line of a file
    /// is empty.
    text: Cow<'a, str>,
    pub(super) file: Option<Artifact<'a>>,
    cost: Option<u64>,
    /// Shortenings to apply in this order when it is counted. If there is no room for another one, it is
    /// counted immediately.
    pending: [Option<Shortening>; 4],
}

impl<'a> Entry<'a> {
    pub(super) fn from_line(part: usize, rank: Rank, text: Cow<'a, str>) -> Self {
        Self { rank, part, visibility: Visibility::Full, text, file: None, cost: None, pending: [None; 4] }
    }

    pub(super) fn from_file(part: usize, file: Artifact<'a>) -> Self {
        let rank = Rank::Artifact { finished: file.is_finished() };
        Self { file: Some(file), ..Self::from_line(part, rank, Cow::Borrowed("")) }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Its cost; 0 until it is counted.
    pub(super) fn cost(&self) -> u64 {
        self.cost.unwrap_or(0)
    }

    pub(super) fn is_counted(&self) -> bool {
        self.cost.is_some()
    }

    /// Counts the line and applies the pending shortenings.
    pub(super) fn count_tokens(&mut self, counter: &TokenCounter<'_>) {
        if let Some(file) = &self.file {
            self.text = Cow::Owned(file.to_compact_line());
        } else if !self.text.ends_with('\n') {
            self.text = Cow::Owned([&self.text, "\n"].concat());
        }
        self.cost = Some(counter.quarters(&self.text));
        for shortening in std::mem::take(&mut self.pending).into_iter().flatten() {
            self.shorten(shortening, counter);
        }
    }

    /// Shortens the line; if it is not counted yet, queues the shortening.
    pub(super) fn shorten(&mut self, shortening: Shortening, counter: &TokenCounter<'_>) {
        if self.cost.is_none() {
            if let Some(free) = self.pending.iter_mut().find(|shortening| shortening.is_none()) {
                *free = Some(shortening);
                return;
            }
            self.count_tokens(counter);
        }
        let cost = self.cost();
        let Some(text) = shortening.apply(&self.text) else { return };
        let new = counter.quarters(&text);
        // A shortened line must be cheaper.
        if shortening != Shortening::JoinLines {
            if new >= cost {
                return;
            }
            self.visibility = Visibility::Shortened;
        }
        (self.text, self.cost) = (Cow::Owned(text), Some(new));
    }

    /// The cost that a shortening would save, if the line is counted.
    pub(super) fn savings(&self, shortening: Shortening, counter: &TokenCounter<'_>) -> u64 {
        shortening.apply(&self.text).map_or(0, |text| self.cost().saturating_sub(counter.quarters(&text)))
    }

    /// Changes how a file is shown; its cost must be counted again.
    pub(super) fn set_visibility(&mut self, visibility: Visibility) {
        (self.visibility, self.cost) = (visibility, None);
    }

    pub(super) fn set_cost(&mut self, cost: u64) {
        self.cost = Some(cost);
    }
}

impl Shortening {
    /// The shortened line; `None` if it cannot be shortened this way.
    fn apply(self, line: &str) -> Option<String> {
        match self {
            Self::DropOutcome => clip::drop_outcome(line),
            Self::FirstClause => clip::first_clause(line),
            Self::FirstWords => clip::first_words(line, MAX_WORDS),
            Self::JoinLines => {
                let line = line.trim_end();
                (!line.contains('\n')).then(|| clip::to_joined_form(line))
            }
        }
    }
}
