//! Ticks: round local times at suitable distances, with labels for times and for days. The number of ticks depends
//! only on the width of the axis.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

use super::axis::{Axis, Part};

/// The minimum distance between two ticks in pixels.
const DISTANCE: f64 = 76.0;
/// The minimum distance between two labels of days in pixels.
const DAY_DISTANCE: f64 = 88.0;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Distances between ticks within a day, in seconds.
const STEPS: [i64; 14] = [
    1,
    5,
    15,
    30,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
];
/// Distances between ticks in days.
const DAYS: [i64; 10] = [1, 2, 7, 14, 30, 90, 365, 3650, 36_500, 365_000];

/// A round instant on the axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) x: f64,
    /// The time; empty if only the day is shown.
    pub(super) time: String,
    /// The day, at the first tick and where it changes.
    pub(super) day: Option<String>,
}

pub(super) fn ticks(axis: &Axis, time_zone: &TimeZone) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::new();
    let mut last_day = None;
    let mut last_day_x = f64::MIN;
    for part in axis.parts().iter().filter(|part| !part.is_break) {
        let step = step_of(part);
        for civil in round_times(part, step, time_zone) {
            let Ok(zoned) = civil.to_zoned(time_zone.clone()) else { continue };
            let at = zoned.timestamp();
            if at < part.from || at > part.to {
                continue;
            }
            let x = axis.position(at);
            if ticks.last().is_some_and(|last| x - last.x < DISTANCE * 0.6) {
                continue;
            }
            let date = civil.date();
            let is_new_day = last_day != Some(date) && x - last_day_x >= DAY_DISTANCE;
            let day = is_new_day.then(|| {
                (last_day, last_day_x) = (Some(date), x);
                date.strftime(if step >= 365 * DAY { "%Y" } else { "%-d %b %Y" }).to_string()
            });
            let time = match step {
                0..MINUTE => civil.strftime("%H:%M:%S").to_string(),
                MINUTE..DAY => civil.strftime("%H:%M").to_string(),
                _ => String::new(),
            };
            ticks.push(Tick { x, time, day });
        }
    }
    ticks
}

/// The distance between the ticks of a part, in seconds.
fn step_of(part: &Part) -> i64 {
    let count = ((part.right - part.left) / DISTANCE).max(1.0);
    let least = part.to.duration_since(part.from).as_secs_f64() / count;
    let steps = STEPS.into_iter().chain(DAYS.into_iter().map(|days| days * DAY));
    steps.into_iter().find(|step| *step as f64 >= least).unwrap_or(365_000 * DAY)
}

/// The local times in a part that are multiples of the step, from midnight on, or from the start of a month or year.
fn round_times(part: &Part, step: i64, time_zone: &TimeZone) -> Vec<DateTime> {
    let mut civil = part.from.to_zoned(time_zone.clone()).datetime();
    let (end, limit) = (part.to, ((part.right - part.left) / DISTANCE) as usize + 3);
    let span = match step {
        ..DAY => {
            let since_midnight = i64::from(civil.hour()) * HOUR + i64::from(civil.minute()) * MINUTE;
            let rounded = (since_midnight + i64::from(civil.second())) / step * step;
            civil = civil.date().at(0, 0, 0, 0).saturating_add(SignedDuration::from_secs(rounded));
            step.seconds()
        }
        DAY..2_592_000 => {
            civil = civil.date().at(0, 0, 0, 0);
            (step / DAY).days()
        }
        2_592_000..31_536_000 => {
            civil = civil.date().first_of_month().at(0, 0, 0, 0);
            (step / DAY / 30).months()
        }
        _ => {
            let years = step / DAY / 365;
            let year = i64::from(civil.year()) / years * years;
            let year = i16::try_from(year).unwrap_or(1).max(1);
            civil = jiff::civil::date(year, 1, 1).at(0, 0, 0, 0);
            years.years()
        }
    };
    let mut times = Vec::new();
    while times.len() < limit {
        times.push(civil);
        let Ok(next) = civil.checked_add(span) else { break };
        civil = next;
        if is_after(civil, end, time_zone) {
            break;
        }
    }
    times
}

fn is_after(civil: DateTime, end: Timestamp, time_zone: &TimeZone) -> bool {
    civil.to_zoned(time_zone.clone()).map_or(true, |zoned| zoned.timestamp() > end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(from: &str, to: &str, width: f64, time_zone: &TimeZone) -> Vec<String> {
        let axis = Axis::new(from.parse().unwrap(), to.parse().unwrap(), &[], 0.0, width);
        let text = |tick: Tick| match tick.day {
            Some(day) => format!("{} {day}", tick.time).trim().to_owned(),
            None => tick.time,
        };
        ticks(&axis, time_zone).into_iter().map(text).collect()
    }

    #[test]
    fn ticks_are_round_local_times() {
        assert_eq!(
            labels("2026-11-17T22:10:00Z", "2026-11-18T01:50:00Z", 420.0, &TimeZone::UTC),
            ["23:00 17 Nov 2026", "00:00 18 Nov 2026", "01:00"]
        );
        let zone = TimeZone::fixed(jiff::tz::offset(5));
        assert_eq!(
            labels("2026-11-17T22:10:00Z", "2026-11-18T01:50:00Z", 420.0, &zone),
            ["04:00 18 Nov 2026", "05:00", "06:00"]
        );
        assert_eq!(
            labels("2026-11-01T00:00:00Z", "2026-11-09T00:00:00Z", 400.0, &TimeZone::UTC),
            ["1 Nov 2026", "3 Nov 2026", "5 Nov 2026", "7 Nov 2026", "9 Nov 2026"]
        );
        assert_eq!(
            labels("1990-02-01T00:00:00Z", "2026-11-09T00:00:00Z", 500.0, &TimeZone::UTC),
            ["2000", "2010", "2020"]
        );
    }

    proptest! {
        #[test]
        fn the_number_of_ticks_depends_on_the_width(
            from in Timestamp::MIN.as_second()..=Timestamp::MAX.as_second(),
            length in 0..400_000_000_000i64,
            width in 300.0..2400.0f64,
        ) {
            let from = Timestamp::from_second(from).unwrap();
            let to = from.saturating_add(SignedDuration::from_secs(length)).unwrap_or(from);
            let axis = Axis::new(from, to, &[], 0.0, width);
            let ticks = ticks(&axis, &TimeZone::UTC);
            prop_assert!(ticks.len() as f64 <= width / DISTANCE / 0.6 + 3.0);
            prop_assert!(ticks.windows(2).all(|pair| pair[0].x < pair[1].x));
        }
    }
}
