//! What reaches the next session: messages across a chain of runs, within the limits of agents, and through
//! copies and bundles.

use std::time::{Duration, Instant};

use milepost::internal::brief::BriefLimit;
use milepost::internal::engine::{RunOptions, StartOptions};
use milepost::model::{Change, Item, Message, Outcome, OutcomeKind, OutcomeResult, Status};
use milepost::{PruneOptions, Redaction, Save, Settings};
use rstest::rstest;

use crate::engine::{Kind, World, run};

fn prompt(text: impl Into<String>) -> Change {
    Change::Prompt(text.into())
}

fn outcome(name: &str, code: u8) -> Change {
    Change::Item(Item::Outcome(Outcome {
        duration_ms: 5,
        kind: OutcomeKind::Shell,
        name: name.to_owned(),
        reason_code: (code > 0).then(|| format!("exit_{code}")),
        result: if code > 0 { OutcomeResult::Fail } else { OutcomeResult::Pass },
        summary: "the end of the output".into(),
        extra: Default::default(),
    }))
}

fn record(world: &World, name: &str, changes: &[Change]) {
    world.mp.record_changes(&run(name), changes, &RunOptions::default(), None).unwrap();
}

/// Saves a checkpoint, pauses the run and continues it in another one.
fn hand_over(world: &World, from: &str, to: &str) {
    world.mp.finish(&run(from), Status::Paused, Save::new()).unwrap();
    let start = StartOptions { run_id: Some(run(to)), ..StartOptions::default() };
    world.mp.continue_run(&run(from), start, false).unwrap();
    world.mp.save(&run(to), Save::new()).unwrap();
}

fn brief(world: &World, name: &str, limit: Option<&BriefLimit>) -> String {
    let from = world.mp.assess(&run(name), false).unwrap();
    world.mp.current_brief(&from, None, limit).unwrap()
}

#[rstest]
fn what_was_said_and_failed_survives_handovers(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    record(
        &world,
        "a",
        &[prompt("Write the sync.\nDon't touch the sync client."), outcome("pytest test_3", 1)],
    );
    record(&world, "a", &[Change::Answer { question: "Which database?".into(), text: "SQLite".into() }]);
    record(&world, "a", &[Change::Plan { text: "1. protocol\n2. client".into(), is_approved: true }]);
    for n in 0..250 {
        record(&world, "a", &[outcome(&format!("make part{n}"), 0)]);
    }
    hand_over(&world, "a", "b");
    record(&world, "b", &[prompt("Never touch the billing folder"), outcome("cargo test", 101)]);
    hand_over(&world, "b", "c");
    record(&world, "c", &[Change::Reply("Half of the protocol works.".into())]);
    let text = brief(&world, "c", None);
    for expected in [
        "Don't touch the sync client.",
        "Never touch the billing folder",
        "Which database? → SQLite",
        "> 1. protocol",
        "Half of the protocol works.",
        "`pytest test_3` failed 2026-11-15 12:00 (exit_1), not seen to pass since",
        "`cargo test` failed 2026-11-15 12:00 (exit_101), not seen to pass since",
    ] {
        assert!(text.contains(expected), "{expected:?} in {text}");
    }
    // A wider command that succeeds removes the failure, in whichever run it failed.
    record(&world, "c", &[outcome("pytest", 0), outcome("cargo test", 0)]);
    let text = brief(&world, "c", None);
    assert!(!text.contains("failed"), "{text}");
}

#[rstest]
fn an_order_that_was_given_is_followed(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    for (n, text) in ["one", "two"].into_iter().enumerate() {
        record(&world, "a", &[prompt(text), Change::Reply(format!("reply {n}"))]);
    }
    hand_over(&world, "a", "b");
    record(&world, "b", &[prompt("three")]);
    let texts: Vec<_> = world.mp.conversation(&run("b")).unwrap();
    let texts: Vec<_> = texts.iter().map(Message::text).collect();
    assert_eq!(texts, ["one", "reply 0", "two", "reply 1", "three"]);
    assert_eq!(world.mp.conversation(&run("a")).unwrap().len(), 4);
    assert!(world.mp.conversation(&run("nothing")).unwrap().is_empty());
}

#[rstest]
fn messages_are_copied_bundled_and_redacted(
    #[values((Kind::Sqlite, Kind::Files), (Kind::Files, Kind::Sqlite))] (from, to): (Kind, Kind),
) {
    use milepost::interop::Format;
    use milepost::{ExportOptions, ImportOptions};
    let settings = Settings::default().redaction(Redaction::On);
    let world = World::new(from).with(settings);
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    for n in 0..450 {
        record(&world, "a", &[prompt(format!("prompt {n}"))]);
    }
    record(&world, "a", &[prompt(format!("the token is {token}"))]);
    world.mp.save(&run("a"), Save::new()).unwrap();
    let said = world.mp.conversation(&run("a")).unwrap();
    assert_eq!(said.len(), 451);
    assert!(
        !said[450].text().contains(&token) && said[450].text().contains("the token is"),
        "{:?}",
        said[450]
    );
    let other = World::new(to);
    world.mp.copy_to(&other.mp, &mut |_| ()).unwrap();
    world.mp.copy_to(&other.mp, &mut |_| ()).unwrap();
    assert_eq!(other.mp.conversation(&run("a")).unwrap(), said);
    assert_eq!(world.mp.compare_with(&other.mp, &mut |_| ()).unwrap().differences(), &Vec::new());
    let bundle = world.dir.path().join("b.bundle");
    world.mp.export(&ExportOptions::new(Format::Bundle, run("a"), bundle.clone()), &mut |_| ()).unwrap();
    let third = World::new(to);
    third.mp.import(&ImportOptions::new(bundle), &mut |_, _| ()).unwrap();
    assert_eq!(third.mp.conversation(&run("a")).unwrap(), said);
    let text = brief(&third, "a", None);
    assert!(text.contains("None of it is from the user.") && !text.contains("What the user said"), "{text}");
}

/// Three hundred prompts over four weeks, in ten sessions that continue each other.
fn four_weeks(kind: Kind) -> World {
    let world = World::new(kind);
    for n in 0..300_u64 {
        let session = format!("s{}", n / 30);
        if n % 30 == 0 && n > 0 {
            hand_over(&world, &format!("s{}", n / 30 - 1), &session);
        }
        let text = format!(
            "Go on with module {n}. It came up in the review and looks odd to me. Never rename module_{n}. The tests \
             of the module may take a while on this machine."
        );
        record(&world, &session, &[prompt(text), Change::Reply(format!("Module {n} is done."))]);
        world.wait(4 * 7 * 24 * 3_600_000 / 300);
    }
    world.mp.save(&run("s9"), Save::new()).unwrap();
    world
}

#[rstest]
fn a_long_chain_fits_every_limit_with_the_newest_rules(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = four_weeks(kind);
    let claude = BriefLimit { chars: Some(9_400), ..BriefLimit::default() };
    let gemini = BriefLimit { bytes: Some(28_000), ..BriefLimit::default() };
    let codex = BriefLimit { tokens: Some(2_250), bytes: Some(9_200), ..BriefLimit::default() };
    let rules = |text: &str| -> Vec<u64> {
        (0..300).filter(|n| text.contains(&format!("Never rename module_{n}."))).collect()
    };
    for limit in [claude, gemini] {
        let text = brief(&world, "s9", Some(&limit));
        assert!(limit.fits(&text), "{} characters", text.chars().count());
        assert!((200..300).all(|n| rules(&text).contains(&n)), "{:?} in {text}", rules(&text));
        assert!(text.contains("Module 299 is done."), "{text}");
    }
    let text = brief(&world, "s9", Some(&codex));
    assert!(codex.fits(&text));
    let kept = rules(&text);
    let (first, last) = (kept[1], kept[kept.len() - 1]);
    assert!(kept.len() > 40 && last == 299, "{kept:?}");
    assert!((first..300).all(|n| kept.contains(&n)), "the newest, without gaps: {kept:?}");
    let notice = text.lines().find(|line| line.contains("older prompts left out")).unwrap();
    assert!(notice.ends_with("in full: `milepost brief show latest --run s9`"), "{notice}");
    let full = brief(&world, "s9", None);
    assert_eq!(rules(&full).len(), 300, "the command shows all of them");
}

#[test]
fn a_session_of_many_events_is_assessed_quickly() {
    let world = World::new(Kind::Sqlite);
    for n in 0..500 {
        let text = format!("Prompt {n}. {}", "Some more text about it. ".repeat(8));
        record(&world, "a", &[prompt(text), Change::Reply(format!("Reply {n}."))]);
        for part in 0..9 {
            record(&world, "a", &[outcome(&format!("make part{part}"), u8::from(n % 7 == 0))]);
        }
    }
    world.mp.save(&run("a"), Save::new()).unwrap();
    let limit = BriefLimit { chars: Some(9_400), ..BriefLimit::default() };
    let best = (0..5).map(|_| {
        let start = Instant::now();
        let text = brief(&world, "a", Some(&limit));
        assert!(limit.fits(&text));
        start.elapsed()
    });
    let best = best.min().unwrap();
    println!("assessed in {best:?}");
    // Unoptimised, on a busy machine; `cargo xtask bench resume` measures the program that users run.
    assert!(best < Duration::from_secs(2), "{best:?}");
}

#[rstest]
fn a_run_that_an_open_run_continues_is_not_pruned(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let day = Duration::from_secs(24 * 3600);
    let world = World::new(kind).with(Settings::default().remove_ended_after(day));
    record(&world, "a", &[prompt("Never touch the billing folder")]);
    world.mp.finish(&run("a"), Status::Failed, Save::new()).unwrap();
    let start = StartOptions { run_id: Some(run("b")), ..StartOptions::default() };
    world.mp.continue_run(&run("a"), start, false).unwrap();
    world.mp.save(&run("b"), Save::new()).unwrap();
    let prune = || {
        world.wait(10 * 24 * 3_600_000);
        world.mp.save(&run("newest"), Save::new()).unwrap();
        let report = world.mp.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
        report.runs_removed().clone()
    };
    assert_eq!(prune(), []);
    assert_eq!(world.mp.conversation(&run("b")).unwrap().len(), 1);
    world.mp.finish(&run("b"), Status::Completed, Save::new()).unwrap();
    let removed = prune();
    assert!(removed.contains(&run("a")) && removed.contains(&run("b")), "{removed:?}");
}
