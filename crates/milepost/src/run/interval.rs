//! Formats durations, and recommends capture intervals for sessions.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Formats a duration for display: `1h 30m`, `1m 30s`, `5s`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (hours, minutes) => format!("{hours}h {}m", minutes % 60),
    }
}

/// The range of capture intervals recommended for a session with this expected duration.
pub fn recommended_interval(expected: Duration) -> RangeInclusive<Duration> {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let range = |from, to| minutes(from)..=minutes(to);
    match expected.as_secs() / 3600 {
        0 => range(10, 15),
        1 | 2 => range(15, 20),
        3..=5 => range(20, 30),
        _ => range(30, 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_for_people() {
        for (ms, text) in [
            (5_400_000, "1h 30m"),
            (90_000, "1m 30s"),
            (5_000, "5s"),
            (0, "0s"),
            (999, "0s"),
            (90_061_000, "25h 1m"),
        ] {
            assert_eq!(format_duration(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn longer_sessions_are_captured_less_often() {
        let recommended = |minutes: u64| {
            let range = recommended_interval(Duration::from_secs(60 * minutes));
            (range.start().as_secs() / 60, range.end().as_secs() / 60)
        };
        assert_eq!(
            [10, 59, 60, 179, 180, 359, 360, 480].map(recommended),
            [(10, 15), (10, 15), (15, 20), (15, 20), (20, 30), (20, 30), (30, 30), (30, 30)]
        );
    }
}
