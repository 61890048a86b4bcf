//! The checkpoints of a run that contain a text, as spans of consecutive ones. Pure.

use std::fmt;

use super::IndexError;

/// Spans of sequence numbers in ascending order. Every existing checkpoint within a span contains the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Spans(Vec<(u64, u64)>);

impl Spans {
    /// One checkpoint.
    pub(super) fn of(sequence: u64) -> Self {
        Self(vec![(sequence, sequence)])
    }

    /// Reads what `Display` wrote.
    pub(super) fn parse(text: &str) -> Result<Self, IndexError> {
        let span = |text: &str| {
            let (first, last) = text.split_once('-')?;
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        let spans: Option<Vec<_>> = text.split_ascii_whitespace().map(span).collect();
        spans
            .map(Self)
            .ok_or_else(|| IndexError::Unusable("it has an invalid list of checkpoints".to_owned()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first sequence number; 0 if there is none.
    pub(super) fn first(&self) -> u64 {
        self.0.first().map_or(0, |span| span.0)
    }

    /// The spans, the newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().rev().copied()
    }

    /// Adds a checkpoint. `previous` is the checkpoint of the run before it.
    pub(super) fn add(&mut self, sequence: u64, previous: u64) {
        match self.0.last_mut() {
            Some(last) if last.1 == sequence || (previous > 0 && last.1 == previous) => last.1 = sequence,
            _ => self.0.push((sequence, sequence)),
        }
    }

    /// These spans and those of newer checkpoints. A span that ends at `previous` continues with the first newer one.
    pub(super) fn followed_by(&self, newer: &Self, previous: u64) -> Self {
        let mut all: Vec<(u64, u64)> = Vec::new();
        let mut sorted: Vec<_> = self.0.iter().chain(&newer.0).copied().collect();
        sorted.sort_unstable();
        for (first, last) in sorted {
            match all.last_mut() {
                Some(before) if first <= before.1 || (previous > 0 && before.1 == previous) => {
                    before.1 = before.1.max(last);
                }
                _ => all.push((first, last)),
            }
        }
        Self(all)
    }

    /// The spans that contain at least one of these sorted sequence numbers.
    pub(super) fn that_contain(&self, sequences: &[u64]) -> Self {
        let contains = |span: &&(u64, u64)| {
            let at = sequences.partition_point(|sequence| *sequence < span.0);
            sequences.get(at).is_some_and(|sequence| *sequence <= span.1)
        };
        Self(self.0.iter().filter(contains).copied().collect())
    }
}

impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (first, last)) in self.0.iter().enumerate() {
            let separator = if n > 0 { " " } else { "" };
            write!(f, "{separator}{first}-{last}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_checkpoints_form_one_span() {
        let mut spans = Spans::default();
        // Checkpoint 3 was removed before the run was read.
        for (sequence, previous) in [(1, 0), (2, 1), (4, 2), (6, 5), (6, 5)] {
            spans.add(sequence, previous);
        }
        assert_eq!(spans.to_string(), "1-4 6-6");
        assert_eq!(Spans::parse("1-4 6-6").unwrap(), spans);
        assert_eq!(spans.followed_by(&Spans::of(7), 6).to_string(), "1-4 6-7");
        assert_eq!(spans.followed_by(&Spans::of(9), 8).to_string(), "1-4 6-6 9-9");
        assert_eq!(spans.followed_by(&Spans::of(2), 0).to_string(), "1-4 6-6");
        assert_eq!(spans.that_contain(&[5, 6]).to_string(), "6-6");
        assert!(spans.that_contain(&[5]).is_empty());
        assert!(Spans::parse("1-x").is_err());
    }
}
