//! Puts recorded times in order. A clock can jump, and imported data can contain any time. Takes times in the order
//! in which they were recorded; returns times that never decrease and are within a range. Pure.

use jiff::Timestamp;

/// The times that a timeline can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeRange {
    first: Timestamp,
    last: Timestamp,
}

impl TimeRange {
    /// From 1970 until `last`. Earlier times come from clocks that were never set.
    pub(super) fn until(last: Timestamp) -> Self {
        let first = Timestamp::UNIX_EPOCH;
        Self { first, last: last.max(first) }
    }

    /// The time in this range that is nearest to `time`.
    pub(super) fn nearest(&self, time: Timestamp) -> Timestamp {
        time.clamp(self.first, self.last)
    }

    fn contains(&self, time: Timestamp) -> bool {
        self.first <= time && time <= self.last
    }
}

/// Returns one time for each recorded one. As many times as possible stay as they are: the longest sequence that
/// never decreases, without those outside the range. Each other one becomes the nearest earlier time that stays, or
/// the first one.
pub(super) fn order(recorded: &[Option<Timestamp>], range: &TimeRange) -> Vec<Timestamp> {
    let kept = longest_ordered(recorded, range);
    let mut placed = Vec::with_capacity(recorded.len());
    let mut kept = kept.into_iter().peekable();
    let nothing_kept = recorded.iter().flatten().next().map_or(range.first, |time| range.nearest(*time));
    let mut time = kept.peek().and_then(|index| recorded[*index]).unwrap_or(nothing_kept);
    for (index, recorded) in recorded.iter().enumerate() {
        if kept.next_if_eq(&index).is_some() {
            time = recorded.unwrap_or(time);
        }
        placed.push(time);
    }
    placed
}

/// The indexes of the longest sequence of times that never decreases.
fn longest_ordered(recorded: &[Option<Timestamp>], range: &TimeRange) -> Vec<usize> {
    // The last index of the best sequence of each length, and for each index the one before it.
    let mut ends: Vec<(Timestamp, usize)> = Vec::new();
    let mut before = vec![usize::MAX; recorded.len()];
    for (index, time) in recorded.iter().enumerate() {
        let Some(time) = time.filter(|time| range.contains(*time)) else { continue };
        let length = ends.partition_point(|(end, _)| *end <= time);
        if let Some((_, previous)) = length.checked_sub(1).and_then(|last| ends.get(last)) {
            before[index] = *previous;
        }
        match ends.get_mut(length) {
            Some(end) => *end = (time, index),
            None => ends.push((time, index)),
        }
    }
    let mut kept = Vec::with_capacity(ends.len());
    let mut next = ends.last().map_or(usize::MAX, |(_, index)| *index);
    while let Some(previous) = before.get(next) {
        kept.push(next);
        next = *previous;
    }
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(times: &[i64]) -> Vec<Option<Timestamp>> {
        times.iter().map(|s| Timestamp::from_second(*s).ok()).collect()
    }

    fn ordered(times: &[i64]) -> Vec<i64> {
        let range = TimeRange::until(Timestamp::from_second(1000).unwrap());
        order(&seconds(times), &range).iter().map(|time| time.as_second()).collect()
    }

    #[test]
    fn times_in_order_stay() {
        assert_eq!(ordered(&[]), [0; 0]);
        assert_eq!(ordered(&[7]), [7]);
        assert_eq!(ordered(&[1, 2, 2, 900]), [1, 2, 2, 900]);
    }

    #[test]
    fn a_clock_that_jumps_back_moves_only_what_it_stamped() {
        assert_eq!(ordered(&[100, 110, 20, 120, 130]), [100, 110, 110, 120, 130]);
        assert_eq!(ordered(&[500, 110, 120, 130]), [110, 110, 120, 130], "the first one was ahead");
    }

    #[test]
    fn times_outside_the_range_move_to_their_neighbours() {
        let far = Timestamp::MAX.as_second();
        assert_eq!(ordered(&[100, far, 200]), [100, 100, 200]);
        assert_eq!(ordered(&[-62_000_000_000, 200]), [200, 200]);
        assert_eq!(ordered(&[far]), [1000]);
        assert_eq!(ordered(&[-5, -6]), [0, 0]);
    }

    proptest! {
        #[test]
        fn the_result_is_ordered_and_within_the_range(
            times in prop::collection::vec(
                prop::option::of(Timestamp::MIN.as_second()..=Timestamp::MAX.as_second()), 0..60),
            last in Timestamp::MIN.as_second()..=Timestamp::MAX.as_second(),
        ) {
            let recorded: Vec<_> =
                times.iter().map(|time| time.and_then(|s| Timestamp::from_second(s).ok())).collect();
            let range = TimeRange::until(Timestamp::from_second(last).unwrap());
            let placed = order(&recorded, &range);
            prop_assert_eq!(placed.len(), recorded.len());
            prop_assert!(placed.is_sorted());
            prop_assert!(placed.iter().all(|time| range.contains(*time)));
        }

        #[test]
        fn ordered_input_does_not_change(mut times in prop::collection::vec(0..1000i64, 0..60)) {
            times.sort_unstable();
            prop_assert_eq!(ordered(&times), times);
        }
    }
}
