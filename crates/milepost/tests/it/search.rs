//! Search on both embedded stores: updates of the index, removed runs and checkpoints, stores without a folder.

use std::sync::Arc;

use milepost::internal::clock::FrozenClock;
use milepost::model::{Change, Status};
use milepost::store::{ForeignReason, OpenOptions, StoreUrl};
use milepost::{Error, Milepost, PruneOptions, Redaction, Save, SearchKind, SearchQuery, Settings};
use rstest::rstest;

use crate::engine::{Kind, START, World, at, run};

fn url(kind: Kind, dir: &std::path::Path) -> StoreUrl {
    match kind {
        Kind::Sqlite => StoreUrl::sqlite(dir.join("m.db")),
        Kind::Files => StoreUrl::files(dir.join("store")),
    }
}

fn index(kind: Kind, dir: &std::path::Path) -> std::path::PathBuf {
    match kind {
        Kind::Sqlite => dir.join("m.db-search"),
        Kind::Files => dir.join("store/.store/search"),
    }
}

fn open(kind: Kind, dir: &std::path::Path) -> Milepost {
    Milepost::at(&url(kind, dir), &OpenOptions::new().create(true)).unwrap()
}

fn save(mp: &Milepost, name: &str, summary: &str) {
    mp.save(&run(name), Save::new().summary(summary)).unwrap();
}

/// The references of the hits.
fn find(mp: &Milepost, query: &str) -> Vec<String> {
    let found = mp.search(&SearchQuery::new(query).limit(0)).unwrap();
    assert!(!found.is_incomplete());
    found.hits().iter().map(milepost::SearchHit::reference).collect()
}

#[rstest]
fn an_update_reads_only_what_is_new(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let mp = open(kind, dir.path());
    save(&mp, "a", "the walrus parser");
    save(&mp, "b", "a walrus on a page");
    assert!(!index(kind, dir.path()).exists(), "saves do not create an index");
    assert_eq!(find(&mp, "walrus").len(), 2);
    assert!(index(kind, dir.path()).exists());
    let bytes = mp.store().info().unwrap().bytes();
    let mut read = Vec::new();
    let query = SearchQuery::new("walrus");
    mp.search_with_progress(&query, &mut |done, total| read.push((done, total))).unwrap();
    assert!(read.iter().all(|(done, total)| (*done, *total) == (0, 0)), "{read:?}");
    save(&mp, "a", "the walrus lexer");
    read.clear();
    mp.search_with_progress(&query, &mut |done, total| read.push((done, total))).unwrap();
    assert_eq!(read.last(), Some(&(1, 1)));
    assert_eq!(find(&mp, "walrus lexer")[0], "a@2");
    // Another handle uses the same file.
    assert_eq!(find(&open(kind, dir.path()), "walrus").len(), 3);
    assert!(mp.store().info().unwrap().bytes() < bytes + 100_000, "the index is not part of the store");
}

#[rstest]
fn messages_and_pending_items_are_found(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let world = World::new(kind);
    let mp = &world.mp;
    let change = |change: Change| drop(mp.apply(&run("r"), vec![change], Save::new()).unwrap());
    change(Change::Prompt("Never touch the billing folder".into()));
    change(Change::Answer { question: "Which database?".into(), text: "The zebra replica".into() });
    change(Change::Decision { text: "Quokkas are cached".into(), supersedes: None });
    let kinds = |query: &str| {
        let found = mp.search(&SearchQuery::new(query)).unwrap();
        found
            .hits()
            .iter()
            .map(|hit| (hit.kind(), hit.origin().to_owned(), hit.sequence()))
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds("billing"), [(SearchKind::Prompt, "prompt".to_owned(), None)]);
    assert_eq!(kinds("zebra"), [(SearchKind::Prompt, "answer".to_owned(), None)]);
    assert_eq!(kinds("quokka"), [(SearchKind::Decision, "decision".to_owned(), None)]);
    save(mp, "r", "saved");
    assert_eq!(kinds("quokka"), [(SearchKind::Decision, "decision".to_owned(), Some(1))]);
    assert_eq!(kinds("billing")[0].2, Some(1));
}

#[rstest]
fn what_is_removed_is_not_found(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let mp = open(kind, dir.path());
    for n in 1..=6 {
        save(&mp, "a", &format!("walrus{n} common"));
    }
    save(&mp, "b", "common");
    assert_eq!(find(&mp, "walrus2"), ["a@2"]);
    let few = mp.clone().with_settings(Settings::default().keep_newest(2));
    let report = few.prune(&PruneOptions::default(), &mut |_| {}).unwrap();
    assert!(report.removed() > 0);
    assert_eq!(find(&mp, "walrus2"), Vec::<String>::new());
    assert_eq!(find(&mp, "walrus6"), ["a@6"]);
    for reference in find(&mp, "common") {
        mp.show(&reference.parse().unwrap(), None).unwrap();
    }
    mp.delete(&run("a")).unwrap();
    assert_eq!(find(&mp, "common"), ["b@1"]);
    assert_eq!(find(&mp, "walrus6"), Vec::<String>::new());
}

#[rstest]
fn a_supplied_store_and_a_foreign_one_are_searched_in_memory(
    #[values(Kind::Sqlite, Kind::Files)] kind: Kind,
) {
    let world = World::new(kind);
    save(&world.mp, "a", "the walrus parser");
    assert_eq!(find(&world.mp, "walrus"), ["a@1"]);
    save(&world.mp, "a", "a second walrus");
    assert_eq!(find(&world.mp, "walrus").len(), 2);
    let dir = tempfile::tempdir().unwrap();
    save(&open(kind, dir.path()), "a", "the walrus parser");
    let options = OpenOptions::new().foreign(Some(ForeignReason::NoRecord));
    let foreign = Milepost::at(&url(kind, dir.path()), &options).unwrap();
    assert_eq!(find(&foreign, "walrus"), ["a@1"]);
    assert!(!index(kind, dir.path()).exists());
}

#[test]
fn secrets_are_replaced_even_if_the_store_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let mp = open(Kind::Sqlite, dir.path());
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    assert_eq!(mp.settings().default_profile(), milepost::Profile::Run);
    let text = format!("deploys with {token}");
    mp.save(&run("a"), Save::new().summary(text).redaction(Redaction::Off)).unwrap();
    let found = mp.search(&SearchQuery::new("deploys")).unwrap();
    assert!(found.hits()[0].excerpt().contains("[redacted:"), "{}", found.hits()[0].excerpt());
    // An index that was made with another allow list is not used.
    let allowed = milepost::AllowList::new([&*token]).unwrap();
    let allowing = open(Kind::Sqlite, dir.path()).with_settings(Settings::default().redaction_allow(allowed));
    let shown = |mp: &Milepost| mp.search(&SearchQuery::new("deploys")).unwrap().hits()[0].excerpt().clone();
    assert!(shown(&allowing).contains(&token));
    assert!(shown(&open(Kind::Sqlite, dir.path())).contains("[redacted:"));
}

#[test]
fn a_query_needs_a_word_and_newer_texts_win_ties() {
    let clock = FrozenClock::at(at(START));
    let dir = tempfile::tempdir().unwrap();
    let mp = open(Kind::Sqlite, dir.path()).with_clock(Arc::new(clock.clone()));
    assert!(matches!(mp.search(&SearchQuery::new("?!")), Err(Error::Value { .. })));
    save(&mp, "old", "the walrus parser");
    clock.advance(std::time::Duration::from_secs(3600));
    save(&mp, "new", "the walrus parser");
    assert_eq!(find(&mp, "walrus"), ["new@1", "old@1"]);
    let recent = SearchQuery::new("walrus").since(at("2026-11-15T12:30:00Z"));
    assert_eq!(mp.search(&recent).unwrap().hits().len(), 1);
    let one = mp.search(&SearchQuery::new("walrus").limit(1)).unwrap();
    assert!(one.hits().len() == 1 && one.has_more());
}

/// A secret can be longer than the parts into which a long text is split.
#[test]
fn a_secret_at_the_end_of_a_part_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let mp = open(Kind::Sqlite, dir.path());
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    for (n, length) in (4_050..4_100).enumerate() {
        save(&mp, "a", &format!("walrus{n} {} {token} tail", "x".repeat(length)));
    }
    let jwt = format!("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.{}.c2lnbmF0dXJl", "eyJzdWIiOiIx".repeat(400));
    save(&mp, "a", &format!("walrus {jwt}"));
    assert!(!find(&mp, "walrus").is_empty());
    drop(mp);
    let bytes = std::fs::read(index(Kind::Sqlite, dir.path())).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for part in [&token[..16], &token[24..], "eyJzdWIiOiIxeyJzdWIiOiIx"] {
        assert!(!text.contains(part), "{part}");
    }
}

/// The references of the hits of a query that is limited to a run.
fn find_in(mp: &Milepost, name: &str, query: &str) -> Vec<String> {
    let found = mp.search(&SearchQuery::new(query).run(run(name))).unwrap();
    found.hits().iter().map(milepost::SearchHit::reference).collect()
}

/// A run that continues another one inherits its notes and decisions. They are shown once, where they were recorded.
#[rstest]
fn an_inherited_text_is_one_hit(#[values(Kind::Sqlite, Kind::Files)] kind: Kind) {
    let dir = tempfile::tempdir().unwrap();
    let mp = open(kind, dir.path());
    let changes = || {
        vec![
            Change::Note("The walrus parser needs a lookahead".into()),
            Change::Decision { text: "Quokkas are cached".into(), supersedes: None },
        ]
    };
    mp.apply(&run("first"), changes(), Save::new().status(Status::InProgress)).unwrap();
    mp.save(&run("first"), Save::new().summary("half done").status(Status::Paused)).unwrap();
    let next = mp.run("next").continuing(&run("first")).start().unwrap();
    let is_shown_once = |mp: &Milepost, inherited: &str| {
        for word in ["walrus", "quokka"] {
            assert_eq!(find(mp, word), ["first@1"], "{word}");
            assert_eq!(find_in(mp, "next", word), [inherited], "{word}");
            assert_eq!(find_in(mp, "first", word), ["first@1"], "{word}");
        }
    };
    is_shown_once(&mp, "next");
    next.save(Save::new().summary("on")).unwrap();
    is_shown_once(&mp, "next@1");
    // The order in which the runs enter the index makes no difference.
    mp.apply(&run("first"), vec![Change::Note("afterwards".into())], Save::new()).unwrap();
    is_shown_once(&mp, "next@1");
    drop(mp);
    std::fs::remove_file(index(kind, dir.path())).unwrap();
    let mp = open(kind, dir.path());
    is_shown_once(&mp, "next@1");
    // Filters apply before texts are compared, and what is gone hides nothing.
    let one = mp.search(&SearchQuery::new("walrus").limit(1)).unwrap();
    assert!(one.hits().len() == 1 && !one.has_more(), "{one:?}");
    mp.delete(&run("first")).unwrap();
    assert_eq!((find(&mp, "walrus"), find(&mp, "quokka")), (vec!["next@1".into()], vec!["next@1".into()]));
}

/// Words of 400 texts, and an index of them.
fn with_many_texts(dir: &std::path::Path) -> Milepost {
    let mp = open(Kind::Sqlite, dir);
    for n in 0..8 {
        let notes = (0..50).map(|m| Change::Note(format!("walrus number{n}x{m}")));
        mp.apply(&run(&format!("r{n}")), notes.collect(), Save::new()).unwrap();
    }
    mp
}

/// FTS5 takes a structure record of zeros for an empty index.
#[test]
fn an_index_that_lost_its_words_is_created_again() {
    let dir = tempfile::tempdir().unwrap();
    let mp = with_many_texts(dir.path());
    let file = index(Kind::Sqlite, dir.path());
    assert_eq!(find(&mp, "number3x7").len(), 1);
    for damage in [
        "UPDATE word_data SET block = zeroblob(length(block)) WHERE id = 10",
        "UPDATE word_data SET block = zeroblob(10) WHERE id = 10",
        "DELETE FROM word_data WHERE id = 10",
        "DELETE FROM word_data WHERE id > 10",
        "UPDATE word_data SET block = zeroblob(length(block)) WHERE id > 10",
        "UPDATE word_data SET block = zeroblob(length(block)) WHERE id = 1",
        "DELETE FROM word_idx",
        "DELETE FROM content",
        "DELETE FROM word_docsize",
    ] {
        for is_open in [true, false] {
            let mp = if is_open { mp.clone() } else { open(Kind::Sqlite, dir.path()) };
            let other = rusqlite::Connection::open(&file).unwrap();
            other.pragma_update(None, "secure_delete", true).unwrap();
            other.execute_batch(damage).unwrap();
            drop(other);
            for n in 0..8 {
                assert_eq!(find(&mp, &format!("number{n}x{n}")).len(), 1, "{damage}, open: {is_open}");
            }
            assert_eq!(find(&mp, "walrus number5x49").len(), 400, "{damage}, open: {is_open}");
        }
    }
}

/// Every page of the file is overwritten with zeros, one at a time.
#[test]
fn a_page_of_zeros_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mp = with_many_texts(dir.path());
    let expected = find(&mp, "walrus").len();
    assert_eq!(expected, 400);
    drop(mp);
    let file = index(Kind::Sqlite, dir.path());
    let sound = std::fs::read(&file).unwrap();
    assert!(sound.len() > 20 * 4096, "{}", sound.len());
    for page in 0..sound.len() / 4096 {
        let mut bytes = sound.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        milepost::internal::fs::atomic::write(&file, &bytes, milepost::internal::fs::atomic::Mode::Private)
            .unwrap();
        let mp = open(Kind::Sqlite, dir.path());
        for n in (0..8).rev() {
            assert_eq!(find(&mp, &format!("number{n}x{n}")).len(), 1, "page {page}, {n}");
        }
        assert_eq!(find(&mp, "walrus").len(), expected, "page {page}");
    }
}
