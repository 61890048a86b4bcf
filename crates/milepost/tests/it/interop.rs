//! Foreign formats on real stores: files of the original tools are imported completely and exported
//! unchanged, and native runs survive an export and an import.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use milepost::Milepost;
use milepost::internal::engine::RunOptions;
use milepost::internal::model::Draft;
use milepost::internal::preview_import;
use milepost::interop::Format;
use milepost::model::{
    ContextChange, Criterion, CriterionStatus, Outcome, OutcomeKind, OutcomeResult, Phase, Profile, RawJson,
    RawObject, Source, Status, Task,
};
use milepost::{Error, ReasonCode, Save};
use milepost::{ExportOptions, ImportOptions, ImportReport, ListQuery, Reference};
use rstest::rstest;
use serde_json::{Value, json};

use crate::engine::{Kind, World, run};

fn fixtures(format: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/foreign").join(format)
}

fn import(mp: &Milepost, format: Option<Format>, path: &Path) -> ImportReport {
    mp.import(&ImportOptions::new(path).format(format), &mut |_, _| {}).unwrap()
}

fn exporting(format: Format, name: &str, path: PathBuf) -> ExportOptions {
    ExportOptions::new(format, run(name), path)
}

fn bodies(mp: &Milepost, name: &str) -> Vec<Value> {
    let query = ListQuery::default().run(Some(run(name)));
    let listing = mp.list(&query).unwrap();
    let mut all: Vec<_> = listing.checkpoints.into_iter().collect();
    all.reverse();
    all.iter()
        .map(|listed| {
            let mut body: Value = serde_json::from_slice(mp.read(listed.entry()).unwrap().bytes()).unwrap();
            body["completed"] = listed.completed().into();
            body
        })
        .collect()
}

/// The content of every file under a folder by its path, with compressed files decompressed.
fn documents(folder: &Path) -> BTreeMap<String, Value> {
    fn walk(root: &Path, folder: &Path, into: &mut BTreeMap<String, Value>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, into);
                continue;
            }
            let mut bytes = std::fs::read(&path).unwrap();
            let mut name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            if let Some(plain) = name.strip_suffix(".gz") {
                name = plain.to_owned();
                let mut unpacked = Vec::new();
                std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut unpacked)
                    .unwrap();
                bytes = unpacked;
            }
            let value = match path.extension().and_then(|e| e.to_str()) {
                Some("jsonl") => String::from_utf8(bytes)
                    .unwrap()
                    .lines()
                    .map(|line| serde_json::from_str::<Value>(line).unwrap())
                    .collect(),
                Some("md") => String::from_utf8(bytes).unwrap().into(),
                _ => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            };
            into.insert(name, value);
        }
    }
    let mut all = BTreeMap::new();
    walk(folder, folder, &mut all);
    all
}

#[rstest]
fn phase_checkpoints_come_in_whole_and_go_out_the_same(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let source = fixtures("pai");
    let report = import(&world.mp, None, &source);
    assert_eq!((report.format(), report.imported(), report.skipped().len()), (Some(Format::Pai), 4, 0));
    assert!(report.warnings().is_empty(), "{:?}", report.warnings());
    let all = bodies(&world.mp, "sess-1");
    let names: Vec<_> = all.iter().map(|body| body["phase"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["observe", "think", "plan", "build"]);
    assert_eq!(all[0]["created_at"], "2026-11-15T18:13:54.301Z");
    assert_eq!(all[0]["metadata"]["imported"]["id"], "4M4I7j6tIRG2cmQvUszMs");
    assert_eq!(all[2]["criteria"][0]["subject"], "Tests pass ü");
    let completed: Vec<_> = all.iter().map(|body| body["completed"].as_bool().unwrap()).collect();
    assert_eq!(completed, [true, false, false, false]);
    let found = world.mp.find(&"IEhABvay7a8ld2NS6uXNX".parse::<Reference>().unwrap(), None).unwrap();
    assert_eq!(found.header.sequence(), 4);
    let detail = world.mp.run_detail(&run("sess-1")).unwrap();
    assert_eq!(detail.summary().record().clone().unwrap().profile(), Profile::Pai);
    // A second import adds nothing, whether from the folder itself or from its parent.
    let again = import(&world.mp, Some(Format::Pai), &source.join("checkpoints"));
    assert_eq!((again.imported(), again.unchanged()), (0, 4));
    let out = world.dir.path().join("out");
    let report = world.mp.export(&exporting(Format::Pai, "sess-1", out.clone()), &mut |_| {}).unwrap();
    assert!(report.lost_fields().is_empty(), "{:?}", report.lost_fields());
    assert_eq!(documents(&out), documents(&source));
}

#[rstest]
fn snapshots_are_verified_and_go_out_with_their_checksums(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let source = fixtures("snapshot/checkpoints");
    let report = import(&world.mp, None, &source);
    assert_eq!((report.format(), report.imported()), (Some(Format::Snapshot), 3));
    assert_eq!(report.skipped().len(), 1);
    assert!(
        report.skipped()[0].path.ends_with("cp_torn.json")
            && report.skipped()[0].reason.contains("too early")
    );
    assert!(report.warnings().iter().any(|note| note.message.contains("manual_checkpoint")));
    let all = bodies(&world.mp, "plan1-20260101-000000");
    assert_eq!(all[0]["source"], "manual");
    assert_eq!(all[0]["metadata"]["imported"]["source"], "manual_checkpoint");
    assert_eq!(all[1]["runtime_state"]["plan"]["metadata"]["id"], "plan1");
    assert_eq!(all[2]["created_at"], "2026-11-15T18:13:57.000Z");
    let out = world.dir.path().join("out");
    let what = exporting(Format::Snapshot, "plan1-20260101-000000", out.clone());
    let report = world.mp.export(&what, &mut |_| {}).unwrap();
    assert!(report.lost_fields().is_empty(), "{:?}", report.lost_fields());
    let mut expected = documents(&source);
    expected.retain(|name, _| !name.contains("torn"));
    assert_eq!(documents(&out), expected);
    // The checksum detects one changed letter.
    let file = out.join("plan1-20260101-000000/history/cp_20261115_181355.json");
    let changed = std::fs::read_to_string(&file).unwrap().replace("p.md", "q.md");
    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
    std::fs::write(&file, changed).unwrap();
    let report = import(&World::new(kind).mp, Some(Format::Snapshot), &out);
    assert_eq!(report.imported(), 2);
    assert!(report.skipped()[0].reason.contains("checkpoint_integrity_mismatch"), "{:?}", report.skipped());
}

#[rstest]
fn numbered_files_come_in_whole_and_go_out_the_same(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let source = fixtures("aiwg");
    let report = import(&world.mp, None, &source);
    assert_eq!((report.format(), report.imported(), report.skipped().len()), (Some(Format::Aiwg), 3, 0));
    let all = bodies(&world.mp, "abc123");
    let facts: Vec<_> =
        all.iter().map(|b| (b["sequence"].as_u64().unwrap(), b["elapsed_ms"].as_u64().unwrap())).collect();
    assert_eq!(facts, [(1, 1), (2, 11), (3, 18)]);
    assert_eq!(all[0]["workspace"]["watched"]["files"], json!([".aiwg/requirements/UC-001.md"]));
    assert_eq!(all[0]["workspace"]["git"]["untracked"], json!([".aiwg/", "new.txt"]));
    let out = world.dir.path().join("out");
    let report = world.mp.export(&exporting(Format::Aiwg, "abc123", out.clone()), &mut |_| {}).unwrap();
    assert!(report.lost_fields().is_empty(), "{:?}", report.lost_fields());
    assert_eq!(documents(&out), documents(&source));
}

/// Every row of a database, table by table.
fn rows(path: &Path) -> Vec<Vec<String>> {
    let db = rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut all = Vec::new();
    for table in ["checkpoints", "build_states"] {
        let mut statement = db.prepare(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
        let width = statement.column_count();
        let rows = statement.query_map([], |row| {
            (0..width)
                .map(|at| row.get_ref(at).map(|value| format!("{value:?}")))
                .collect::<Result<Vec<_>, _>>()
        });
        all.extend(rows.unwrap().map(Result::unwrap));
    }
    all
}

#[rstest]
fn builds_come_in_whole_and_go_out_the_same(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let source = fixtures("nova26");
    let report = import(&world.mp, None, &source);
    assert_eq!((report.format(), report.imported(), report.skipped().len()), (Some(Format::Nova26), 5, 0));
    let all = bodies(&world.mp, "build-1");
    let phases: Vec<_> = all.iter().map(|body| body["phase"]["number"].as_u64().unwrap()).collect();
    assert_eq!(phases, [0, 1, 2, 3, 4]);
    assert_eq!(all[3]["tasks"], json!([{ "id": "t1", "status": "done" }]));
    assert_eq!(all[0]["metadata"]["prdFile"], "prd.json");
    let record = world.mp.run_detail(&run("build-1")).unwrap().summary().record().clone().unwrap();
    assert_eq!((record.plan().as_deref(), record.profile()), (Some("prd.json"), Profile::Build));
    assert_eq!(record.started_at().to_string(), "2026-01-01T00:00:00Z");
    let out = world.dir.path().join("out.db");
    let report = world.mp.export(&exporting(Format::Nova26, "build-1", out.clone()), &mut |_| {}).unwrap();
    assert!(report.lost_fields().is_empty(), "{:?}", report.lost_fields());
    assert_eq!(rows(&out), rows(&source.join("checkpoints.db")));
}

#[rstest]
fn briefs_come_in_whole_and_go_out_the_same(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let source = fixtures("markdown/checkpoints");
    let report = import(&world.mp, None, &source);
    assert_eq!((report.format(), report.imported(), report.skipped().len()), (Some(Format::Markdown), 5, 0));
    assert!(report.warnings().iter().any(|note| note.path.contains("badyaml")), "{:?}", report.warnings());
    let auth = bodies(&world.mp, "chk-auth");
    assert_eq!(auth.len(), 2, "the original file, and the file with its delta");
    assert!(auth[1]["brief"].as_str().unwrap().starts_with(auth[0]["brief"].as_str().unwrap()));
    let ui = world.mp.run_detail(&run("chk-auth-ui")).unwrap().summary().record().clone().unwrap();
    assert_eq!(
        ui.parent().as_ref().unwrap().as_str(),
        auth[1]["snapshot_id"],
        "it continues the newest checkpoint of its parent"
    );
    let old = world.mp.run_detail(&run("chk-old")).unwrap();
    assert_eq!(old.summary().record().clone().unwrap().status(), Status::Completed);
    let mut out = BTreeMap::new();
    for name in ["chk-auth", "chk-auth-ui", "chk-badyaml", "chk-old"] {
        let folder = world.dir.path().join(name);
        let report =
            world.mp.export(&exporting(Format::Markdown, name, folder.clone()), &mut |_| {}).unwrap();
        assert!(report.lost_fields().is_empty(), "{:?}", report.lost_fields());
        out.extend(documents(&folder));
    }
    assert_eq!(out, documents(&source));
}

/// Saves a native run with as many fields as possible.
fn native(world: &World) {
    let rich = |n: u64| {
        let mut draft = Draft {
            session_id: Some("s1".into()),
            phase: Some(Phase { name: Some("BUILD".into()), number: 4, ..Phase::default() }),
            task_summary: Some(format!("part {n}")),
            criteria: Some(vec![Criterion {
                id: "c1".into(),
                status: CriterionStatus::Pending,
                subject: "it builds".into(),
                extra: RawObject::default(),
            }]),
            tasks: Some(vec![Task::new("t1", "done", Some("one")).unwrap()]),
            brief: Some(format!(
                "---\ncheckpoint: chk-{n}\ncreated: 2026-11-15T12:00:00Z\n---\n\n## Problem\nNo {n}.\n"
            )),
            state: Some(RawJson::parse(format!("{{\"n\":{n}.0,\"big\":9007199254740993}}")).unwrap()),
            metadata: Some(RawJson::parse("{\"own\":[1,2]}").unwrap()),
            ..Draft::default()
        };
        draft.command_outcomes.push(Outcome {
            duration_ms: 5,
            kind: OutcomeKind::Shell,
            name: "make".into(),
            reason_code: None,
            result: OutcomeResult::Pass,
            summary: "ok ü".into(),
            extra: RawObject::default(),
        });
        draft.workspace = Some(serde_json::from_value(json!({
            "git": { "branch": "main", "head": "0123456789abcdef0123456789abcdef01234567", "modified": ["a"] },
            "watched": { "files": [".aiwg/x"], "sizes": { ".aiwg/x": 2 } },
            "files_modified": ["a"], "memory": { "rss": 7, "heap_used": 3 },
        })).unwrap());
        draft
    };
    for n in 1..4 {
        let mut save = Save::new().profile(Profile::Build);
        *save.draft_mut() = rich(n);
        let run_options = RunOptions {
            profile: Some(Profile::Build),
            plan: Some("plan.md".into()),
            ..RunOptions::default()
        };
        save = save.source(Source::Timer).run_options(run_options);
        if n == 1 {
            save = save.change(ContextChange { policy: Some("default".into()), ..ContextChange::default() });
        }
        world.mp.save(&run("native"), save).unwrap();
        world.clock.advance(std::time::Duration::from_secs(60));
    }
}

#[rstest]
fn a_run_comes_back_but_for_what_was_listed(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
    #[values(Format::Pai, Format::Nova26, Format::Snapshot, Format::Aiwg, Format::Markdown)] format: Format,
) {
    let world = World::new(kind);
    native(&world);
    let out = world.dir.path().join("out");
    let report = world.mp.export(&exporting(format, "native", out.clone()), &mut |_| {}).unwrap();
    assert_eq!(report.exported(), 3);
    let other = World::new(kind);
    let came = import(&other.mp, None, &out);
    assert_eq!(
        (came.format(), came.imported(), came.skipped().len()),
        (Some(format), 3, 0),
        "{:?}",
        came.skipped()
    );
    let before = bodies(&world.mp, "native");
    let lost = |name: &str| {
        report.lost_fields().iter().any(|lost| lost == name || lost.starts_with(&format!("{name}.")))
    };
    let after: Vec<Value> = came.runs().iter().flat_map(|run| bodies(&other.mp, run.as_str())).collect();
    assert_eq!(after.len(), 3);
    for (before, after) in before.iter().zip(&after) {
        for (name, value) in before.as_object().unwrap() {
            // The seal and the origin belong to one store, and some formats name the run after its session.
            let own = ["integrity", "metadata", "run_id", "parent", "sequence", "completed"]
                .contains(&name.as_str());
            if own || lost(name) {
                continue;
            }
            assert_eq!(value, &after[name], "{format}: {name}; lost: {:?}", report.lost_fields());
        }
        if !lost("metadata") && format != Format::Markdown {
            assert_eq!(before["metadata"]["own"], after["metadata"]["own"]);
        }
    }
    for field in ["state", "brief"] {
        let holds = format == Format::Snapshot || field == "brief" && format == Format::Markdown;
        assert_eq!(!lost(field), holds, "{format}: {field}: {:?}", report.lost_fields());
    }
    // Nothing is overwritten without `force`.
    let refused = world.mp.export(&exporting(format, "native", out.clone()), &mut |_| {}).unwrap_err();
    assert!(matches!(refused, Error::RestoreRefused { .. }), "{refused}");
    let what = exporting(format, "native", out).force(true);
    world.mp.export(&what, &mut |_| {}).unwrap();
}

#[rstest]
fn bundles_and_lines_carry_seals(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    native(&world);
    let before = bodies(&world.mp, "native");
    for format in [Format::Bundle, Format::Jsonl] {
        let out = world.dir.path().join(format.as_str());
        world.mp.export(&exporting(format, "native", out.clone()), &mut |_| {}).unwrap();
        let other = World::new(if matches!(kind, Kind::Sqlite) { Kind::Files } else { Kind::Sqlite });
        assert_eq!(import(&other.mp, None, &out).imported(), 3);
        assert_eq!(bodies(&other.mp, "native"), before, "with their seals");
        assert_eq!(import(&other.mp, None, &out).unchanged(), 3);
        // A changed byte is detected.
        let text = std::fs::read_to_string(&out).unwrap().replacen("part 2", "part 9", 1);
        #[allow(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&out, text).unwrap();
        let fresh = World::new(kind);
        let what = ImportOptions::new(out).format(format);
        match fresh.mp.import(&what, &mut |_, _| {}) {
            Ok(report) => {
                assert_eq!((format, report.imported(), report.skipped().len()), (Format::Jsonl, 2, 1))
            }
            Err(e) => {
                assert_eq!((format, e.reason()), (Format::Bundle, ReasonCode::CheckpointIntegrityMismatch));
            }
        }
    }
    let detail = world.mp.run_detail(&run("native")).unwrap();
    assert_eq!(detail.summary().record().clone().unwrap().plan().as_deref(), Some("plan.md"));
}

#[test]
fn a_copy_there_and_back_is_the_same() {
    let (first, files, last) = (World::new(Kind::Sqlite), World::new(Kind::Files), World::new(Kind::Sqlite));
    native(&first);
    for format in ["pai", "nova26", "snapshot", "aiwg", "markdown"] {
        import(&first.mp, None, &fixtures(format));
    }
    // Runs that were written alternately, with marks and a pending item.
    for n in 0..150 {
        let name = format!("turn-{}", n % 3);
        first.mp.save(&run(&name), Save::new().summary(format!("{n}"))).unwrap();
        first.clock.advance(std::time::Duration::from_secs(5));
    }
    let entry = first.mp.find(&Reference::Numbered(run("turn-1"), 7), None).unwrap();
    let change = milepost::MarkChange::default().pin(Some(true)).tag(vec!["kept".into()]).untag(Vec::new());
    first.mp.mark(&entry, &change).unwrap();
    let note = milepost::model::Change::Note("waits".into());
    first.mp.apply(&run("turn-2"), vec![note], Save::new()).unwrap();
    let copied = first.mp.copy_to(&files.mp, &mut |_| {}).unwrap();
    assert_eq!(copied.copied(), 3 + 20 + 150);
    files.mp.copy_to(&last.mp, &mut |_| {}).unwrap();
    for (a, b) in [(&first, &files), (&files, &last), (&first, &last), (&last, &first)] {
        let compared = a.mp.compare_with(&b.mp, &mut |_| {}).unwrap();
        assert_eq!(compared.checked(), 173);
        assert!(compared.differences().is_empty(), "{:?}", compared.differences());
    }
    let order = |world: &World| -> Vec<String> {
        let all = world.mp.list(&ListQuery::default()).unwrap().checkpoints;
        all.iter().map(|listed| listed.entry().header.snapshot_id().to_string()).collect()
    };
    assert_eq!(order(&first), order(&last), "the order over all runs is kept");
    let again = first.mp.copy_to(&last.mp, &mut |_| {}).unwrap();
    assert_eq!((again.copied(), again.unchanged()), (0, 173));
    // A later change is reported as a difference, and a conflict is refused.
    last.mp.save(&run("turn-0"), Save::new().summary("went on")).unwrap();
    assert!(!first.mp.compare_with(&last.mp, &mut |_| {}).unwrap().differences().is_empty());
    first.mp.save(&run("turn-0"), Save::new().summary("went on as well")).unwrap();
    assert!(matches!(first.mp.copy_to(&last.mp, &mut |_| {}), Err(Error::Conflict { .. })));
}

#[test]
fn what_would_be_imported_is_said_without_a_store() {
    let what = ImportOptions::new(fixtures("markdown"));
    let report = preview_import(None, &what, &mut |_, _| {}).unwrap();
    assert_eq!((report.imported(), report.unchanged(), report.runs().len()), (5, 0, 4));
}
