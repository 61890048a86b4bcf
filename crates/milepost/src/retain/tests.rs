//! Tests of retention: tables with fixed times, and properties over histories with jumping clocks.

use std::collections::HashSet;
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::model::{KeepCount, Profile, Retention, RunId, RunRecord, Status};
use crate::store::RetentionEntry;

const DAY: u64 = 86_400;
const HOUR: u64 = 3600;

fn now() -> Timestamp {
    // A Sunday.
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - jiff::SignedDuration::from_secs(seconds)
}

fn entry(sequence: u64, at: Timestamp) -> RetentionEntry {
    RetentionEntry {
        sequence,
        snapshot_id: format!("cp_{sequence}").parse().unwrap(),
        created_at: at,
        status: Some(Status::InProgress),
        holds_state: false,
        holds_workspace: false,
        pinned: false,
        tagged: false,
        bytes: 100,
        packed: false,
    }
}

/// A run whose checkpoints have these ages in seconds, oldest first.
fn history(ages: &[i64]) -> Vec<RetentionEntry> {
    (1..).zip(ages).map(|(sequence, age)| entry(sequence, ago(*age))).collect()
}

fn kept(entries: &[RetentionEntry], policy: &Retention) -> Vec<u64> {
    let plan = plan(&RunFacts::from_entries(entries), entries, policy, now());
    assert!(plan.iter().all(|planned| !planned.reasons.is_empty()));
    plan.into_iter().filter(|planned| planned.keep).map(|planned| planned.sequence).collect()
}

fn last(n: u64) -> Retention {
    Retention { keep_last: KeepCount::Last(n), ..Retention::default() }
}

#[test]
fn the_newest_of_each_hour_day_and_week() {
    let h = HOUR as i64;
    // From the newest: Sunday 12:00, 11:59:59, 11:00, 10:30, 10:10, 8:00; Saturday 23:00 and 22:00; the
    // Monday before; the Sunday before that.
    let ages = [7 * 24 * h, 6 * 24 * h, 14 * h, 13 * h, 4 * h, h + 6600, h + 5400, h, 1, 0];
    let entries = history(&ages);
    let hourly = Retention { keep_hourly: 3, ..last(1) };
    assert_eq!(kept(&entries, &hourly), [7, 9, 10], "12h, 11h, 10h");
    let daily = Retention { keep_daily: 2, ..last(1) };
    assert_eq!(kept(&entries, &daily), [4, 10], "Sunday, Saturday");
    let weekly = Retention { keep_weekly: 5, ..last(1) };
    assert_eq!(kept(&entries, &weekly), [1, 10], "weeks begin on Mondays");
    let both = Retention { keep_hourly: 1, keep_daily: 3, keep_weekly: 2, ..last(1) };
    assert_eq!(kept(&entries, &both), [1, 2, 4, 10]);
    // Checkpoints kept for their period are not removed because of their age.
    let aged = Retention { keep_weekly: 2, max_age: Some(Duration::from_secs(60)), ..last(50) };
    assert_eq!(kept(&entries, &aged), [1, 9, 10]);
}

#[test]
fn within_keeps_what_is_young_and_what_the_clock_calls_future() {
    let entries = history(&[-400 * DAY as i64, 3 * DAY as i64, 2 * DAY as i64, 100, 0]);
    let policy = Retention { keep_within: Some(Duration::from_secs(2 * DAY)), ..last(1) };
    assert_eq!(kept(&entries, &policy), [1, 3, 4, 5]);
}

#[test]
fn thirteen_days_stay_and_fourteen_go() {
    let policy = Profile::Run.retention();
    let hours = |h: u64| (h * HOUR) as i64;
    let entries = history(&[hours(14 * 24 + 1), hours(14 * 24), hours(13 * 24 + 23), 0]);
    assert_eq!(kept(&entries, &policy), [2, 3, 4]);
    let plan = plan(&RunFacts::from_entries(&entries), &entries, &policy, now());
    assert_eq!(plan[0].reasons, [Reason::OlderThan(14 * DAY)]);
    assert_eq!(plan[0].reasons[0].to_string(), "older than 14 days");
}

#[test]
fn terminals_stay_whatever_their_age() {
    let mut entries = history(&[500, 400, 300, 200, 100, 0].map(|days| days * DAY as i64));
    entries[0].status = Some(Status::Failed);
    entries[1].status = Some(Status::Failed);
    entries[2].status = Some(Status::Completed);
    entries[3].holds_state = true;
    assert_eq!(kept(&entries, &Profile::Run.retention()), [2, 3, 4, 6]);
}

#[test]
fn runs_go_as_a_whole_only_where_nothing_speaks_for_them() {
    let mut record = RunRecord::new("r".parse::<RunId>().unwrap(), Profile::Run, ago(91 * DAY as i64));
    record.status = Status::Failed;
    record.ended_at = Some(ago(91 * DAY as i64));
    let retention = Profile::Run.retention();
    let everything = Profile::Brief.retention();
    let case = EndedRun {
        record: &record,
        retention: &retention,
        last_written: false,
        owner_alive: false,
        protected: false,
    };
    let limit = Duration::from_secs(90 * DAY);
    assert!(case.has_expired(limit, now()));
    assert!(!case.has_expired(Duration::from_secs(92 * DAY), now()));
    assert!(!case.has_expired(limit, ago(200 * DAY as i64)), "the clock went back");
    for stays in [
        EndedRun { last_written: true, ..case },
        EndedRun { owner_alive: true, ..case },
        EndedRun { protected: true, ..case },
        EndedRun { retention: &everything, ..case },
    ] {
        assert!(!stays.has_expired(limit, now()) && !stays.is_removable(), "{stays:?}");
    }
    record.status = Status::Paused;
    let open = EndedRun {
        record: &record,
        retention: &retention,
        last_written: false,
        owner_alive: false,
        protected: false,
    };
    assert!(!open.has_expired(limit, now()));
}

/// Histories with a jumping clock: the time of any checkpoint may be more than a year ahead or back.
fn histories() -> impl Strategy<Value = Vec<RetentionEntry>> {
    let one = (prop_oneof![4 => 0..2_000_000i64, 1 => -40_000_000..40_000_000i64], 0..20u8, any::<bool>());
    prop::collection::vec(one, 1..60).prop_map(|all| {
        (1..)
            .zip(all)
            .map(|(sequence, (age, kind, state))| {
                let mut entry = entry(sequence * 2, ago(age));
                entry.holds_state = state && kind > 15;
                match kind {
                    0 => entry.status = Some(Status::Failed),
                    1 => entry.status = Some(Status::Completed),
                    2 => entry.pinned = true,
                    3 => entry.tagged = true,
                    4 => entry.holds_workspace = true,
                    _ => {}
                }
                entry
            })
            .collect()
    })
}

fn policies() -> impl Strategy<Value = Retention> {
    let number = || prop_oneof![2 => Just(0u64), 1 => 1..6u64, 1 => Just(u64::MAX)];
    let keep = prop_oneof![1 => Just(KeepCount::All), 3 => (1..20u64).prop_map(KeepCount::Last)];
    let span = || prop::option::of((1..30 * DAY).prop_map(Duration::from_secs));
    (keep, span(), any::<bool>(), number(), number(), number(), span()).prop_map(
        |(keep_last, max_age, keep_first, keep_hourly, keep_daily, keep_weekly, keep_within)| Retention {
            keep_last,
            max_age,
            keep_first,
            keep_hourly,
            keep_daily,
            keep_weekly,
            keep_within,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn what_has_to_stay_stays(entries in histories(), policy in policies()) {
        let kept: HashSet<u64> = kept(&entries, &policy).into_iter().collect();
        let facts = RunFacts::from_entries(&entries);
        prop_assert!(kept.contains(&facts.newest), "the newest checkpoint");
        let special = [facts.latest_failed, facts.latest_completed, facts.latest_state, facts.latest_capture];
        for sequence in special {
            prop_assert!(sequence == 0 || kept.contains(&sequence));
        }
        for entry in entries.iter().filter(|entry| entry.pinned || entry.tagged) {
            prop_assert!(kept.contains(&entry.sequence), "pinned or tagged");
        }
        if let (KeepCount::Last(n), None) = (policy.keep_last, policy.max_age) {
            for entry in entries.iter().rev().take(n as usize) {
                prop_assert!(kept.contains(&entry.sequence), "among the last {n}");
            }
        }
        let hours = |entry: &RetentionEntry| entry.created_at.as_second().div_euclid(HOUR as i64);
        let mut seen = HashSet::new();
        for entry in entries.iter().rev() {
            if (seen.len() as u64) < policy.keep_hourly && seen.insert(hours(entry)) {
                prop_assert!(kept.contains(&entry.sequence), "the newest of its hour");
            }
        }
    }

    #[test]
    fn a_second_prune_finds_nothing(entries in histories(), policy in policies()) {
        let stays: HashSet<u64> = kept(&entries, &policy).into_iter().collect();
        let left: Vec<_> =
            entries.into_iter().filter(|entry| stays.contains(&entry.sequence)).collect();
        prop_assert_eq!(kept(&left, &policy).len(), left.len());
    }

    /// A save sees only the oldest checkpoints and the newest one. It removes nothing that a plan of the
    /// whole run would keep.
    #[test]
    fn a_save_never_removes_what_a_prune_would_keep(
        entries in histories(),
        policy in policies(),
        shown in 1..8usize,
    ) {
        let whole: HashSet<u64> = kept(&entries, &policy).into_iter().collect();
        let (newest, older) = entries.split_last().unwrap();
        let facts = RunFacts { newest_at: Some(newest.created_at), ..RunFacts::from_entries(&entries) };
        let oldest = &older[..older.len().min(shown)];
        let planned = plan(&facts, oldest, &policy, now());
        for planned in &planned {
            prop_assert!(planned.keep || !whole.contains(&planned.sequence), "{:?}", planned);
        }
        if oldest.len() == older.len() {
            let all = planned.iter().all(|planned| planned.keep == whole.contains(&planned.sequence));
            prop_assert!(all, "if all checkpoints are known, the decisions are the same");
        }
        if !policy.has_buckets() {
            prop_assert!(planned.iter().all(|p| p.keep == whole.contains(&p.sequence)), "equal without any buckets");
        }
    }
}
