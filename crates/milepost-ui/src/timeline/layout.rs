//! Merges what would overlap: marks in cells, sessions in bands, values of plots in columns. Takes ordered lists and
//! the axis; returns groups whose number depends only on the width of the axis.

use jiff::Timestamp;

use super::axis::Axis;
use super::chart::{Band, Mark, MarkKind, Value};

/// The width of a column of a plot in pixels.
const COLUMN: f64 = 2.0;
/// Half the width of a mark.
const HALF_MARK: f64 = 8.0;
/// Sessions that are closer than this are one band.
const BAND_DISTANCE: f64 = 3.0;
/// The minimum width of a band.
const MIN_BAND: f64 = 3.0;

/// Marks in one cell.
#[derive(Debug, Clone)]
pub(super) struct Group<'a> {
    pub(super) x: f64,
    pub(super) marks: &'a [Mark],
}

impl Group<'_> {
    /// The most important kind.
    pub(super) fn kind(&self) -> MarkKind {
        self.marks.iter().map(|mark| mark.kind).max().unwrap_or(MarkKind::Timer)
    }

    pub(super) fn is_flagged(&self) -> bool {
        self.marks.iter().any(|mark| mark.flagged)
    }

    /// The period that the marks are in.
    pub(super) fn period(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.marks.first()?.at, self.marks.last()?.at))
    }
}

/// Puts marks into cells of at least this width. A single mark stays where it is, unless it would overlap its neighbours.
pub(super) fn group<'a>(marks: &'a [Mark], axis: &Axis, cell: f64) -> Vec<Group<'a>> {
    let (left, right) = axis.ends();
    let count = ((right - left) / cell).max(1.0).floor();
    let cell = (right - left) / count;
    let cell_of = |mark: &Mark| ((axis.position(mark.at) - left) / cell).min(count - 1.0) as usize;
    let chunks: Vec<(usize, &[Mark])> = marks
        .chunk_by(|a, b| cell_of(a) == cell_of(b))
        .filter_map(|marks| Some((cell_of(marks.first()?), marks)))
        .collect();
    let mut groups = Vec::with_capacity(chunks.len());
    for (index, (number, marks)) in chunks.iter().enumerate() {
        let middle = left + (*number as f64 + 0.5) * cell;
        let x = match marks {
            [mark] => {
                let x = axis.position(mark.at);
                let is_taken = |at: Option<usize>, other: usize| {
                    at.and_then(|at| chunks.get(at)).is_some_and(|(taken, _)| *taken == other)
                };
                let room = (cell / 2.0 - HALF_MARK).max(0.0);
                let low = if is_taken(index.checked_sub(1), number.wrapping_sub(1)) {
                    middle - room
                } else {
                    f64::MIN
                };
                let high = if is_taken(Some(index + 1), number + 1) { middle + room } else { f64::MAX };
                x.max(low).min(high)
            }
            _ => middle,
        };
        groups.push(Group { x, marks });
    }
    groups
}

/// Sessions that are drawn as one band.
#[derive(Debug, Clone)]
pub(super) struct MergedBand<'a> {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) sessions: Vec<&'a Band>,
}

pub(super) fn merge_bands<'a>(bands: &'a [Band], axis: &Axis) -> Vec<MergedBand<'a>> {
    let mut merged: Vec<MergedBand<'a>> = Vec::new();
    for band in bands {
        let left = axis.position(band.from);
        let right = axis.position(band.to).max(left + MIN_BAND);
        match merged.last_mut() {
            // Two sessions that are wide enough to see stay apart.
            Some(last)
                if left - last.right < BAND_DISTANCE
                    && (right - left < 4.0 * MIN_BAND || last.right - last.left < 4.0 * MIN_BAND) =>
            {
                last.right = last.right.max(right);
                last.sessions.push(band);
            }
            _ => merged.push(MergedBand { left, right, sessions: vec![band] }),
        }
    }
    merged
}

/// One column of a plot, with the largest value in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    pub(super) x: f64,
    pub(super) value: u64,
}

pub(super) fn columns(values: &[Value], axis: &Axis) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    for value in values {
        let x = axis.position(value.at);
        match columns.last_mut() {
            Some(last) if x - last.x < COLUMN => last.value = last.value.max(value.value),
            _ => columns.push(Column { x, value: value.value }),
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mark(second: i64) -> Mark {
        Mark {
            at: Timestamp::from_second(second).unwrap(),
            kind: MarkKind::Timer,
            flagged: false,
            sequence: None,
            name: String::new(),
            detail: String::new(),
        }
    }

    proptest! {
        #[test]
        fn groups_keep_every_mark_and_do_not_overlap(mut times in prop::collection::vec(0..100_000i64, 1..300)) {
            times.sort_unstable();
            let marks: Vec<_> = times.iter().map(|time| mark(*time)).collect();
            let axis = Axis::new(marks[0].at, marks[marks.len() - 1].at, &[], 8.0, 1000.0);
            let groups = group(&marks, &axis, 20.0);
            prop_assert_eq!(groups.iter().map(|group| group.marks.len()).sum::<usize>(), marks.len());
            prop_assert!(groups.len() <= 51);
            prop_assert!(groups.windows(2).all(|pair| pair[1].x - pair[0].x >= 15.9), "{groups:?}");
        }
    }
}
