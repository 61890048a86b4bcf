//! Tests of the picture: its size, its validity, hostile text, and golden files.

use std::path::Path;

use jiff::Timestamp;
use milepost::model::InterruptionKind;

use super::chart::{Band, Chart, Gap, Mark, MarkKind, Value};
use super::draw::{Form, svg};
use super::{Link, MAX_BYTES, TimelineOptions};

const START: i64 = 1_794_996_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(START + second).unwrap()
}

fn mark(second: i64, kind: MarkKind, name: &str, detail: &str) -> Mark {
    Mark {
        at: at(second),
        kind,
        flagged: false,
        sequence: None,
        name: name.to_owned(),
        detail: detail.to_owned(),
    }
}

/// A run with `count` checkpoints within `seconds`, in two sessions with a day between them.
fn chart(count: i64, seconds: i64) -> Chart {
    let pause = 2 * seconds + 86_400;
    let second_session = count * 3 / 5;
    let place = |i: i64| {
        let second = if count > 1 { i * seconds / (count - 1) } else { 0 };
        second + if count > 1 && i >= second_session { pause } else { 0 }
    };
    let kinds = [
        MarkKind::Timer,
        MarkKind::Timer,
        MarkKind::Boundary,
        MarkKind::Timer,
        MarkKind::Manual,
        MarkKind::Timer,
        MarkKind::Failed,
    ];
    let checkpoints: Vec<_> = (0..count)
        .map(|i| {
            let kind = if i + 1 == count { MarkKind::Completed } else { kinds[i as usize % kinds.len()] };
            let name = format!("checkpoint {}, {}", i + 1, kind.names().1);
            let flagged = i == count / 2;
            let sequence = Some(i as u64 + 1);
            Mark { flagged, sequence, ..mark(place(i), kind, &name, "Parse the new grammar") }
        })
        .collect();
    let end = place(count - 1);
    let (last_before, first_after) = (place((second_session - 1).max(0)), place(second_session));
    let band = |from, to, number| Band {
        from: at(from),
        to: at(to),
        number,
        checkpoints: count as u64 / 2,
        ended_by: (number == 1).then_some(InterruptionKind::ProcessCrash),
        is_open: false,
    };
    let values = |f: fn(i64) -> u64| (0..count).map(|i| Value { at: at(place(i)), value: f(i) }).collect();
    let some = |n: i64| (0..count).step_by((count / n).max(1) as usize);
    Chart {
        title: "Port the parser to the new grammar".to_owned(),
        run: "nightly".to_owned(),
        status: Some("completed"),
        from: at(0),
        to: at(end),
        bands: if count > 1 {
            vec![band(0, last_before, 1), band(first_after, end, 2)]
        } else {
            vec![band(0, end, 1)]
        },
        gaps: if count > 1 {
            vec![Gap { from: at(last_before), to: at(first_after), between_sessions: true }]
        } else {
            Vec::new()
        },
        messages: some(9)
            .map(|i| {
                let kind = [MarkKind::Prompt, MarkKind::Reply, MarkKind::Plan][i as usize % 3];
                mark(place(i), kind, kind.names().1, "Never touch the billing folder")
            })
            .collect(),
        failures: some(6)
            .skip(1)
            .map(|i| {
                let kind = if i % 2 == 0 { MarkKind::OpenFailure } else { MarkKind::FixedFailure };
                mark(place(i), kind, "failed, not seen to pass since", "cargo test (exit_101)")
            })
            .collect(),
        memory: values(|i| 200_000_000 + (i as u64 * 7_919 % 40) * 4_000_000),
        files: values(|i| i as u64 * 31 % 23),
        checkpoints,
        ..Chart::default()
    }
}

fn link(link: Link) -> Option<String> {
    Some(match link {
        Link::Checkpoint(sequence) => format!("/runs/nightly/{sequence}?a=1&b=2"),
        Link::Range(from, to) => format!("/runs/nightly?from={from}&to={to}"),
    })
}

/// Compares with a golden file. If they differ, the new picture is in `target/timeline`, to look at and to copy.
#[allow(clippy::disallowed_methods, reason = "a test's own files")]
fn compare(name: &str, found: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = std::fs::read_to_string(root.join("src/timeline/golden").join(name)).unwrap_or_default();
    if expected != found {
        let folder = root.join("../../target/timeline");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(name), found).unwrap();
        panic!("{name} differs; the new one is in target/timeline");
    }
}

#[test]
fn pictures_stay_as_they_are() {
    let options = TimelineOptions::new();
    compare("one.svg", &svg(&chart(1, 0), &options, Form::StandAlone));
    compare("five.svg", &svg(&chart(5, 7200), &options, Form::StandAlone));
    compare("two_hundred.svg", &svg(&chart(200, 30_000), &options, Form::StandAlone));
    let narrow = TimelineOptions::new().width(360).links(&link);
    compare("five_narrow.svg", &svg(&chart(5, 7200), &narrow, Form::Embedded));
}

#[test]
fn the_size_does_not_depend_on_the_input() {
    let mut large = chart(10_000, 300_000);
    let hostile = "\"'<&>".repeat(32);
    for mark in large.checkpoints.iter_mut().chain(&mut large.failures) {
        mark.detail.clone_from(&hostile);
    }
    large.messages = (0..1_000_000).map(|i| mark(i / 3, MarkKind::Prompt, "prompt", &hostile)).collect();
    large.bands = (0..5000)
        .map(|i| Band {
            from: at(i * 60),
            to: at(i * 60 + 20),
            number: i as usize,
            checkpoints: 2,
            ended_by: None,
            is_open: false,
        })
        .collect();
    large.gaps = (0..5000)
        .map(|i| Gap { from: at(i * 60 + 20), to: at(i * 60 + 60), between_sessions: true })
        .collect();
    for width in [320, 1200, 2400] {
        let drawn = svg(&large, &TimelineOptions::new().width(width).links(&link), Form::StandAlone);
        assert!(drawn.len() <= MAX_BYTES, "{width}: {}", drawn.len());
    }
}

#[test]
fn an_embedded_picture_follows_a_strict_policy() {
    let drawn = svg(&chart(50, 7200), &TimelineOptions::new().links(&link), Form::Embedded);
    for forbidden in ["<style", "style=", "<script", " on", "javascript:"] {
        assert!(!drawn.contains(forbidden), "{forbidden}");
    }
    assert!(drawn.contains("href=\"/runs/nightly/1?a=1&amp;b=2\""));
    assert!(drawn.contains("aria-label=\"18 Nov 2026 "));
}

#[test]
fn absurd_times_do_not_matter() {
    let mut odd = chart(5, 7200);
    (odd.from, odd.to) = (Timestamp::MIN, Timestamp::MAX);
    odd.checkpoints[0].at = Timestamp::MIN;
    odd.checkpoints[4].at = Timestamp::MAX;
    odd.bands[0].from = Timestamp::MIN;
    odd.gaps[0].from = Timestamp::MIN;
    let drawn = svg(&odd, &TimelineOptions::new(), Form::StandAlone);
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"));
    let nothing = svg(&Chart::default(), &TimelineOptions::new(), Form::StandAlone);
    assert!(nothing.contains("Checkpoints"));
}
