//! Sessions with periodic captures, in real folders and with a real git, and how captures accumulate files.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use milepost::Redaction;
use milepost::internal::capture::CaptureOptions;
use milepost::model::{Body, PathText, Source};
use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Error, Milepost, Profile, ReasonCode, Save, Session, Status};
use milepost::{Reference, Settings};
use milepost::{SessionEvent, format_duration};

use crate::engine::{Kind, World, open, run};
use crate::run::Full;

fn git(root: &Path, args: &[&str]) {
    let done = Command::new("git")
        .current_dir(root)
        .args(["-c", "user.name=t", "-c", "user.email=t@t"])
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("HOME", root)
        .output()
        .unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}

#[allow(clippy::disallowed_methods, reason = "a test's own file")]
fn write(path: &Path, content: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

fn repository() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    git(dir.path(), &["init", "-q", "-b", "main"]);
    git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "one"]);
    dir
}

fn texts(paths: &[PathText]) -> Vec<&str> {
    paths.iter().map(|path| if let PathText::Text(text) = path { text.as_str() } else { "bytes" }).collect()
}

fn touched(body: &Body) -> Vec<&str> {
    texts(&body.workspace.as_ref().unwrap().files_modified)
}

fn next_checkpoint(events: &Receiver<SessionEvent>) -> Box<Body> {
    loop {
        match events.recv_timeout(Duration::from_secs(20)).unwrap() {
            SessionEvent::Checkpoint(body) => return body,
            SessionEvent::Failed { message } => panic!("{message}"),
            _ => {}
        }
    }
}

#[test]
fn a_session_from_its_start_to_its_summary() {
    let project = repository();
    let root = project.path();
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("m.db").display());
    let (seen, bad) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, panicked) = (seen.clone(), bad.clone());
    let session = Session::options()
        .store(&url)
        .project_root(root)
        .session_id("abc123")
        .run("r")
        .title("a session")
        .heap(|| 42)
        .on_event(move |_| {
            panicked.fetch_add(1, Ordering::SeqCst);
            panic!("a bad listener")
        })
        .on_checkpoint(move |body| {
            assert_eq!(body.session_id, "abc123");
            counted.fetch_add(1, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    assert_eq!(session.stop().unwrap().total(), 0, "nothing to stop: only a summary");
    assert!(session.latest().unwrap().is_none() && session.checkpoints().unwrap().is_empty());
    let events = session.events();
    write(&root.join(".aiwg/planning/one.md"), "12345");
    let interval = Duration::from_millis(50);
    session.start_with(Some(interval), None).unwrap();
    assert!(matches!(session.start(), Err(Error::SessionRunning)));
    match events.recv().unwrap() {
        SessionEvent::Started { interval: told, store } => {
            assert_eq!((told, store.as_str()), (interval, url.as_str()));
        }
        other => panic!("{other:?}"),
    }
    let first = next_checkpoint(&events);
    assert_eq!((first.sequence, first.source_details[1].as_str()), (1, "session_start"));
    let facts = first.workspace.as_ref().unwrap();
    assert_eq!(texts(&facts.watched.as_ref().unwrap().files), [".aiwg/planning/one.md"]);
    assert_eq!(facts.watched.as_ref().unwrap().sizes[".aiwg/planning/one.md"], 5);
    let memory = facts.memory.as_ref().unwrap();
    assert!(memory.rss.unwrap() > 100_000 && memory.peak_rss >= memory.rss);
    assert_eq!(memory.heap_used, Some(42));
    write(&root.join("new.rs"), "x");
    let ticked = loop {
        let body = next_checkpoint(&events);
        if touched(&body).contains(&"new.rs") {
            break body;
        }
    };
    assert_eq!(ticked.source, Source::Timer);
    std::fs::remove_file(root.join("new.rs")).unwrap();
    write(&root.join("other.rs"), "x");
    let by_hand = session.capture().unwrap();
    assert_eq!(touched(&by_hand), [".aiwg/planning/one.md", "new.rs", "other.rs"]);
    assert_eq!(
        texts(&by_hand.workspace.as_ref().unwrap().git.as_ref().unwrap().untracked).last(),
        Some(&"other.rs")
    );
    let summary = session.stop().unwrap();
    let last = events.try_iter().last().unwrap();
    match last {
        SessionEvent::Stopped { final_checkpoint, summary: told } => {
            assert_eq!((final_checkpoint.status, *told), (Status::Completed, summary.clone()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((summary.total(), summary.sessions().len()), (summary.checkpoints().len() as u64, 1));
    assert!(summary.checkpoints().iter().map(|line| line.number()).eq(1..=summary.total()), "contiguous");
    assert_eq!(texts(summary.files_modified()), [".aiwg/planning/one.md", "new.rs", "other.rs"]);
    let line = summary.checkpoints().last().unwrap();
    assert_eq!((line.files_modified(), line.git_status().untracked(), line.aiwg_files()), (3, 2, 1));
    assert_eq!(summary.total_duration(), line.duration());
    assert!(summary.peak_rss().unwrap() > 100_000);
    assert_eq!(session.checkpoints().unwrap().len() as u64, summary.total());
    assert_eq!(seen.load(Ordering::SeqCst), summary.total(), "callbacks after a panicking one are called");
    assert!(bad.load(Ordering::SeqCst) >= summary.total() + 2);
    // Starting again opens another session of the same run.
    session.start_with(None, Some("again".into())).unwrap();
    let again = session.stop_as(Status::Failed).unwrap();
    assert_eq!((again.total(), again.sessions()[0].session_id().as_str()), (2, "again"));
    let mp = Milepost::at(&url.parse().unwrap(), &OpenOptions::new()).unwrap();
    let whole = mp.summary(&run("r")).unwrap();
    let ids: Vec<_> = whole.sessions().iter().map(|s| (s.session_id().as_str(), s.total())).collect();
    assert_eq!(ids, [("abc123", summary.total()), ("again", 2)]);
    assert_eq!((whole.total(), whole.status()), (summary.total() + 2, Some(Status::Failed)));
    assert!(whole.total_duration() >= summary.total_duration());
    let latest = Session::latest_of(&mp, None).unwrap().unwrap();
    assert_eq!((latest.status, latest.session_id.as_str()), (Status::Failed, "again"));
    assert_eq!(format_duration(Duration::from_millis(latest.elapsed_ms)), "0s");
}

#[test]
fn what_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = |options: milepost::SessionOptions| match options.build() {
        Err(e @ Error::MissingOption(_)) => {
            assert_eq!(e.reason(), ReasonCode::Usage);
            e.to_string()
        }
        other => panic!("{other:?}"),
    };
    assert!(missing(Session::options().project_root(dir.path())).contains("store"));
    let url = dir.path().join("m.db").display().to_string();
    assert!(missing(Session::options().store(&url)).contains("project_root"));
    let unnamed = Session::options().store(&url).project_root(dir.path()).run("no id");
    assert!(matches!(unnamed.build(), Err(Error::Id(_))));
    assert!(!dir.path().join("m.db").exists(), "no store was created");
    assert!(matches!(
        Session::options().store("ftp://x").project_root(".").build(),
        Err(Error::Store(milepost::store::StoreError::Address(_)))
    ));
    let session = Session::options().store(&url).project_root(dir.path()).build().unwrap();
    assert!(matches!(session.start_with(Some(Duration::ZERO), None), Err(Error::ZeroInterval)));
    session.start().unwrap();
    let body = session.latest().unwrap().unwrap();
    assert_eq!(body.session_id, "unknown");
    let git = body.workspace.unwrap().git.unwrap();
    assert_eq!(git.error.as_deref(), Some("not a git repository"));
    session.stop().unwrap();
}

#[test]
fn a_start_that_failed_is_tried_again_and_ticks_that_fail_are_told() {
    let world = World::new(Kind::Sqlite);
    let full = Arc::new(AtomicBool::new(true));
    let mp = Milepost::on(Arc::new(Full::new(open(Kind::Sqlite, world.dir.path()), full.clone())));
    let session = Session::options()
        .milepost(&mp)
        .project_root(world.dir.path())
        .interval(Duration::from_millis(20))
        .build()
        .unwrap();
    let events = session.events();
    assert!(session.start().is_err() && session.capture().is_err());
    assert!(events.try_recv().is_err(), "nothing has started");
    full.store(false, Ordering::SeqCst);
    session.start().unwrap();
    full.store(true, Ordering::SeqCst);
    let failed = |event: &SessionEvent| matches!(event, SessionEvent::Failed { message } if message.contains("the disk"));
    assert!(events.iter().any(|event| failed(&event)));
    assert!(session.capture().is_err() && session.stop().is_err(), "the caller gets the error");
    full.store(false, Ordering::SeqCst);
    let summary = session.stop().unwrap();
    assert_eq!(summary.status(), Some(Status::Completed), "a second attempt succeeds");
}

#[test]
fn a_project_may_be_a_part_of_a_repository() {
    let project = repository();
    let root = project.path();
    write(&root.join("packages/a/src/x.rs"), "x");
    write(&root.join("packages/b/y.rs"), "y");
    let mp = Milepost::at(&StoreUrl::files(root.join("packages/a/kept")), &OpenOptions::new().create(true))
        .unwrap();
    let session = Session::options().milepost(&mp).project_root(root.join("packages/a")).build().unwrap();
    let body = session.capture().unwrap();
    assert_eq!(touched(&body), ["../b/y.rs", "src/x.rs"], "the store is excluded");
    let other = session.capture().unwrap();
    assert_eq!(touched(&other), touched(&body));
}

#[test]
fn of_two_captures_at_once_none_forgets_what_the_other_saw() {
    let project = repository();
    let root = project.path();
    let dir = tempfile::tempdir().unwrap();
    let url = StoreUrl::sqlite(dir.path().join("m.db"));
    let open = || Milepost::at(&url, &OpenOptions::new().create(true)).unwrap();
    open().save(&run("r"), Save::new().profile(Profile::Session)).unwrap();
    let (one, two) = (open(), open());
    let look = |mp: &Milepost| mp.capture_workspace(&run("r"), &CaptureOptions::at(root)).unwrap();
    write(&root.join("a"), "x");
    let first = look(&one);
    std::fs::remove_file(root.join("a")).unwrap();
    write(&root.join("b"), "x");
    let second = look(&two);
    std::fs::remove_file(root.join("b")).unwrap();
    two.save(&run("r"), Save::new().capture(Box::new(second))).unwrap();
    one.save(&run("r"), Save::new().capture(Box::new(first))).unwrap();
    // Neither handle has read what the other one saved.
    for (mp, name) in [(&two, "c"), (&one, "d")] {
        write(&root.join(name), "x");
        let seen = look(mp);
        mp.save(&run("r"), Save::new().summary(name).capture(Box::new(seen))).unwrap();
        std::fs::remove_file(root.join(name)).unwrap();
    }
    let shown = one.show(&Reference::Latest(0), Some(&run("r"))).unwrap();
    assert_eq!(touched(&shown.body().unwrap()), ["a", "b", "c", "d"]);
    // Concurrent captures, each with its own file, which no other capture sees.
    std::thread::scope(|threads| {
        for n in 0..4 {
            let (mp, look) = (open(), &look);
            threads.spawn(move || {
                for i in 0..5 {
                    let mut seen = look(&mp);
                    seen.git.untracked = vec![PathText::Text(format!("t{n}-{i}"))];
                    mp.save(&run("r"), Save::new().summary(format!("{n} {i}")).capture(Box::new(seen)))
                        .unwrap();
                }
            });
        }
    });
    let shown = open().show(&Reference::Latest(0), Some(&run("r"))).unwrap();
    assert_eq!(touched(&shown.body().unwrap()).len(), 24);
}

#[test]
fn a_timer_that_does_not_look_confirms_what_was_seen() {
    let project = repository();
    let world = World::new(Kind::Files);
    let seen = world.mp.capture_workspace(&run("r"), &CaptureOptions::at(project.path())).unwrap();
    world.mp.save(&run("r"), Save::new().summary("s").capture(Box::new(seen))).unwrap();
    world.wait(60_000);
    let timer = || world.mp.save(&run("r"), Save::new().summary("s").source(Source::Timer)).unwrap();
    assert!(timer().coalesced());
    let due = |source| {
        world
            .mp
            .capture_if_due(&run("r"), &CaptureOptions::at(project.path()), source, None)
            .unwrap()
            .is_some()
    };
    assert!(!due(Source::Timer) && due(Source::Manual));
    world.wait(30 * 60_000);
    assert!(due(Source::Timer), "a capture is due after half an hour");
    assert!(!world.mp.save(&run("r"), Save::new().summary("t").source(Source::Timer)).unwrap().coalesced());
}

#[test]
fn what_waited_in_the_outbox_forgets_nothing() {
    let project = repository();
    let root = project.path();
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(Kind::Sqlite);
    let outbox = crate::engine::outbox(dir.path());
    let look = || world.mp.capture_workspace(&run("r"), &CaptureOptions::at(root)).unwrap();
    write(&root.join("a"), "x");
    world.mp.save(&run("r"), Save::new().capture(Box::new(look()))).unwrap();
    std::fs::remove_file(root.join("a")).unwrap();
    write(&root.join("b"), "x");
    let seen = milepost::internal::capture::capture_workspace(&CaptureOptions::at(root), &Default::default());
    let waiting = Save::new().summary("waits").capture(Box::new(seen));
    let settings = Settings::default().redaction(Redaction::On);
    outbox.enqueue(&run("r"), waiting, &settings, &world.clock).unwrap();
    std::fs::remove_file(root.join("b")).unwrap();
    assert_eq!(outbox.deliver(&world.mp).unwrap().saved.len(), 1);
    world.mp.save(&run("r"), Save::new().summary("after").capture(Box::new(look()))).unwrap();
    for n in [2, 3] {
        let shown = world.mp.show(&Reference::Numbered(run("r"), n), None).unwrap();
        assert_eq!(touched(&shown.body().unwrap()), ["a", "b"], "{n}");
    }
}

/// The record of an imported run, or of a run in an adopted store, cannot pass options to git. The record of
/// an imported run cannot name folders to watch either.
#[test]
fn a_record_from_elsewhere_does_not_steer_a_look() {
    use milepost::internal::capture::CaptureOptions;
    use milepost::internal::engine::{Caller, RunResolution};
    use milepost::internal::model::RunOrigin;
    use milepost::store::{Commit, WriteDecision};
    use milepost_testkit::fixtures::set_member;

    let dir = repository();
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("authorized_keys");
    write(&victim, "precious");
    write(&outside.path().join("seen/file"), "x");
    let world = World::new(Kind::Sqlite);
    for origin in
        [None, Some(RunOrigin { kind: "bundle".into(), from: "elsewhere".into(), at: world.mp.now() })]
    {
        let name = run(if origin.is_some() { "foreign" } else { "adopted" });
        world.mp.save(&name, Save::new().summary("theirs")).unwrap();
        let forge = |view: &milepost::store::RunView| {
            let captures = serde_json::json!({
                "base": format!("--output={}", victim.display()),
                "head": "x",
                "watch": [outside.path().join("seen")],
            });
            let record = set_member(view.record.as_ref().unwrap(), "captures", &captures.to_string());
            let record = set_member(&record, "origin", &serde_json::to_string(&origin).unwrap());
            WriteDecision::Commit(Box::new(Commit::new(record)))
        };
        world.mp.raw_store().write(&name, &mut { forge }).unwrap();
        let seen = world.mp.capture_workspace(&name, &CaptureOptions::at(dir.path())).unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(seen.watch.is_empty(), origin.is_some(), "{:?}", seen.watch);
    }
    // The imported run is open, but it is only selected by name.
    let worktree =
        world.mp.run_detail(&run("foreign")).unwrap().summary().record().clone().unwrap().worktree().clone();
    let meant = world.mp.current_run(&Caller { worktree, ..Caller::default() }).unwrap();
    assert!(matches!(&meant, RunResolution::Run(only) if only.as_str() == "adopted"), "{meant:?}");
}
