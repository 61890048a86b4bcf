//! The axis of time: which horizontal position an instant has. Long periods without work become short breaks, so that
//! two hours of work with a weekend between them stay readable. Positions are always finite and within the axis.

use jiff::{SignedDuration, Timestamp};

use super::chart::Gap;

/// The width of a break in pixels.
const BREAK: f64 = 48.0;
/// Maximum share of the axis for breaks.
const MAX_BREAKS: f64 = 0.4;
/// A gap becomes a break if it takes more than this share of the time that remains.
const LONG: f64 = 0.12;
/// The minimum width of a part with work in pixels.
const MIN_PART: f64 = 24.0;
/// The shortest period that an axis shows.
const MIN_PERIOD: SignedDuration = SignedDuration::from_secs(2);

/// A part of the axis: a period and its positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
    pub(super) left: f64,
    pub(super) right: f64,
    /// Whether it is a break: a period without work, of fixed width.
    pub(super) is_break: bool,
}

/// Parts in order, without gaps between them; at least one.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    parts: Vec<Part>,
}

impl Axis {
    pub(super) fn new(from: Timestamp, to: Timestamp, gaps: &[Gap], left: f64, right: f64) -> Self {
        let (from, to) = widen(from, to.max(from));
        let room = ((right - left) * MAX_BREAKS / BREAK) as usize;
        let breaks = breaks(from, to, gaps, room);
        let mut periods = Vec::new();
        let mut start = from;
        for gap in &breaks {
            periods.push((start, gap.from, false));
            periods.push((gap.from, gap.to, true));
            start = gap.to;
        }
        periods.push((start, to, false));
        Self { parts: lay_out(&periods, left, right) }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The positions of its ends.
    pub(super) fn ends(&self) -> (f64, f64) {
        let left = self.parts.first().map_or(0.0, |part| part.left);
        (left, self.parts.last().map_or(left, |part| part.right))
    }

    /// Whether a break is between two positions.
    pub(super) fn has_break_between(&self, left: f64, right: f64) -> bool {
        self.parts.iter().any(|part| part.is_break && left <= part.left && part.right <= right)
    }

    /// The position of an instant. Instants outside of the axis are at its ends.
    pub(super) fn position(&self, at: Timestamp) -> f64 {
        let index = self.parts.partition_point(|part| part.to < at).min(self.parts.len().saturating_sub(1));
        let Some(part) = self.parts.get(index) else { return 0.0 };
        let length = seconds(part.from, part.to);
        let share = if length > 0.0 { seconds(part.from, at) / length } else { 0.5 };
        part.left + share.clamp(0.0, 1.0) * (part.right - part.left)
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}

/// A period of at least the minimum length.
fn widen(from: Timestamp, to: Timestamp) -> (Timestamp, Timestamp) {
    if to.duration_since(from) >= MIN_PERIOD {
        return (from, to);
    }
    let margin = MIN_PERIOD / 2;
    (from.checked_sub(margin).unwrap_or(Timestamp::MIN), to.checked_add(margin).unwrap_or(Timestamp::MAX))
}

/// The gaps that become breaks, in order of time: the longest ones, as long as one takes a large share of the time
/// that remains.
fn breaks(from: Timestamp, to: Timestamp, gaps: &[Gap], room: usize) -> Vec<Gap> {
    let mut longest: Vec<Gap> = gaps.iter().copied().filter(|gap| gap.from >= from && gap.to <= to).collect();
    longest.sort_by(|a, b| seconds(b.from, b.to).total_cmp(&seconds(a.from, a.to)).then(a.from.cmp(&b.from)));
    let mut remaining = seconds(from, to);
    let mut breaks: Vec<Gap> = Vec::new();
    for gap in longest {
        let length = seconds(gap.from, gap.to);
        if breaks.len() >= room || length < remaining * LONG {
            break;
        }
        remaining -= length;
        breaks.push(gap);
    }
    breaks.sort_by_key(|gap| gap.from);
    // Gaps do not overlap, but nothing depends on that.
    breaks.dedup_by(|later, earlier| later.from < earlier.to);
    breaks
}

/// Shares the width between the parts with work by their length.
fn lay_out(periods: &[(Timestamp, Timestamp, bool)], left: f64, right: f64) -> Vec<Part> {
    let count = |wanted: bool| periods.iter().filter(|(.., is_break)| *is_break == wanted).count() as f64;
    let total: f64 =
        periods.iter().filter(|(.., is_break)| !is_break).map(|(from, to, _)| seconds(*from, *to)).sum();
    let room = right - left - count(true) * BREAK;
    let least = MIN_PART.min(room / count(false));
    let flexible = room - least * count(false);
    let mut x = left;
    let mut parts = Vec::with_capacity(periods.len());
    for (from, to, is_break) in periods {
        let share = if total > 0.0 { seconds(*from, *to) / total } else { 1.0 / count(false) };
        let width = if *is_break { BREAK } else { least + flexible * share };
        parts.push(Part { from: *from, to: *to, left: x, right: x + width, is_break: *is_break });
        x += width;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn gap(from: i64, to: i64) -> Gap {
        Gap { from: at(from), to: at(to), between_sessions: true }
    }

    #[test]
    fn a_long_gap_becomes_a_break() {
        let axis = Axis::new(at(0), at(200_000), &[gap(3600, 196_400)], 0.0, 1000.0);
        assert_eq!(axis.parts().len(), 3);
        let part = axis.parts()[1];
        assert!(part.is_break && part.right - part.left == BREAK);
        assert_eq!(axis.position(at(3600)), 476.0, "both hours get half of the width");
    }

    #[test]
    fn a_short_gap_does_not() {
        assert_eq!(Axis::new(at(0), at(36_000), &[gap(3600, 5400)], 0.0, 1000.0).parts().len(), 1);
    }

    #[test]
    fn one_instant_is_in_the_middle() {
        assert_eq!(Axis::new(at(50), at(50), &[], 0.0, 1000.0).position(at(50)), 500.0);
    }

    proptest! {
        #[test]
        fn positions_are_ordered_finite_and_on_the_axis(
            mut times in prop::collection::vec(
                Timestamp::MIN.as_second()..=Timestamp::MAX.as_second(), 2..40),
            width in 300.0..2400.0f64,
        ) {
            times.sort_unstable();
            let gaps: Vec<_> = times.windows(2).step_by(2).map(|pair| gap(pair[0], pair[1])).collect();
            let axis = Axis::new(at(times[0]), at(times[times.len() - 1]), &gaps, 8.0, 8.0 + width);
            let positions: Vec<_> = times.iter().map(|time| axis.position(at(*time))).collect();
            prop_assert!(positions.iter().all(|x| x.is_finite() && *x >= 8.0 && *x <= 8.0 + width + 1e-6));
            prop_assert!(positions.windows(2).all(|pair| pair[0] <= pair[1] + 1e-6));
        }
    }
}
