//! Tests of the index: hostile queries, damaged and replaced files, removed text.

use proptest::prelude::*;

use super::*;
use crate::model::RunId;
use crate::search::SearchQuery;
use crate::search::document::Origin;

fn state(stamp: u64, sequence: u64) -> IndexedRun {
    IndexedRun { started_at: 1, stamp, sequence, checkpoints: sequence, messages: 0 }
}

fn prepared(run: &str, state: IndexedRun, before: Option<IndexedRun>) -> PreparedRun {
    let update = RunUpdate {
        id: run.parse().unwrap(),
        state,
        is_foreign: false,
        agent: None,
        project_id: None,
        about: None,
    };
    PreparedRun::new(update, before)
}

fn add(index: &mut SearchIndex, run: &str, texts: &[(Origin, u64, &str)]) {
    let id: RunId = run.parse().unwrap();
    let before = index.indexed_run(&id).unwrap();
    let stamp = before.as_ref().map_or(1, |before| before.stamp + 1);
    let sequence = texts.iter().map(|(_, sequence, _)| *sequence).max().unwrap_or_default();
    let after = before.as_ref().map_or(0, |before| before.sequence);
    let mut run = prepared(run, state(stamp, sequence), before);
    run.after = after;
    let new: std::collections::BTreeSet<u64> =
        texts.iter().map(|text| text.1).filter(|n| *n > after).collect();
    run.checkpoints = new.into_iter().map(|sequence| (sequence, 1_000)).collect();
    for (origin, sequence, text) in texts {
        run.add(*origin, 1_000, *sequence, text);
    }
    index.apply(&[run], |_| true).unwrap();
}

fn find(index: &SearchIndex, query: &SearchQuery) -> Vec<Found> {
    let mut all = Vec::new();
    let visibility = Visibility { hides_foreign: false, now: jiff::Timestamp::UNIX_EPOCH };
    search::<IndexError>(index, query, &visibility, &mut |found| {
        all.push(found);
        Ok(Verdict::Shown)
    })
    .unwrap();
    all
}

fn excerpts(index: &SearchIndex, query: &str) -> Vec<String> {
    find(index, &SearchQuery::new(query)).into_iter().map(|found| found.excerpt).collect()
}

#[test]
fn texts_are_found_and_stored_once() {
    let mut index = SearchIndex::in_memory("").unwrap();
    add(&mut index, "a", &[(Origin::Decision, 1, "use a token bucket"), (Origin::Summary, 1, "start")]);
    add(&mut index, "a", &[(Origin::Decision, 2, "use a token bucket"), (Origin::Summary, 2, "middle")]);
    let found = find(&index, &SearchQuery::new("buckets"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].spans.to_string(), "1-2");
    assert_eq!(&found[0].excerpt[found[0].matches[0].clone()], "bucket");
    assert_eq!(excerpts(&index, "token -bucket"), Vec::<String>::new());
    assert_eq!(excerpts(&index, "\"bucket token\""), Vec::<String>::new());
    assert_eq!(excerpts(&index, "tok*"), ["use a token bucket"]);
}

#[test]
fn every_substring_of_a_text_without_spaces_is_found() {
    let mut index = SearchIndex::in_memory("").unwrap();
    let text = "登录接口超时，改为异步处理";
    add(&mut index, "a", &[(Origin::Summary, 1, text)]);
    let chars: Vec<char> = text.chars().filter(|c| c.is_alphanumeric()).collect();
    for length in 1..=4 {
        for part in chars[..6].windows(length) {
            assert_eq!(excerpts(&index, &part.iter().collect::<String>()), [text]);
        }
    }
}

#[test]
fn a_text_is_removed_with_the_checkpoints_that_contain_it() {
    let mut index = SearchIndex::in_memory("").unwrap();
    add(&mut index, "a", &[(Origin::Summary, 1, "kryptonite"), (Origin::Summary, 2, "other")]);
    add(&mut index, "a", &[(Origin::Summary, 3, "kryptonite"), (Origin::Summary, 4, "last")]);
    assert_eq!(find(&index, &SearchQuery::new("kryptonite"))[0].spans.to_string(), "1-1 3-3");
    index.retain_checkpoints(&"a".parse().unwrap(), &[2, 4]).unwrap();
    assert_eq!(excerpts(&index, "kryptonite"), Vec::<String>::new());
    assert_eq!(excerpts(&index, "other"), ["other"]);
}

#[test]
fn damage_within_the_tables_makes_an_index_unusable() {
    for damage in ["UPDATE content SET text = CAST(x'ff' AS TEXT)", "UPDATE document SET spans = 'x'"] {
        let mut index = SearchIndex::in_memory("").unwrap();
        add(&mut index, "a", &[(Origin::Summary, 1, "kryptonite")]);
        index.connection.execute_batch(damage).unwrap();
        let visibility = Visibility { hides_foreign: false, now: jiff::Timestamp::UNIX_EPOCH };
        let query = SearchQuery::new("kryptonite");
        let result = search::<IndexError>(&index, &query, &visibility, &mut |_| Ok(Verdict::Shown));
        assert!(matches!(result, Err(IndexError::Unusable(_))), "{damage}: {result:?}");
    }
}

#[test]
fn a_batch_of_a_run_that_changed_or_is_gone_is_left_out() {
    let mut index = SearchIndex::in_memory("").unwrap();
    let mut stale = prepared("a", state(1, 1), None);
    stale.add(Origin::Summary, 0, 1, "stale");
    add(&mut index, "a", &[(Origin::Summary, 1, "current")]);
    index.apply(&[stale], |_| true).unwrap();
    let mut gone = prepared("b", state(1, 1), None);
    gone.add(Origin::Summary, 0, 1, "gone");
    index.apply(&[gone], |_| false).unwrap();
    assert_eq!((excerpts(&index, "stale").len(), excerpts(&index, "gone").len()), (0, 0));
    assert_eq!(excerpts(&index, "current").len(), 1);
}

/// Whether a file contains these bytes.
fn contains(path: &std::path::Path, needle: &str) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes.windows(needle.len()).any(|window| window == needle.as_bytes())
}

#[test]
fn removed_text_does_not_remain_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("search");
    let mut index = SearchIndex::create(&path, "x").unwrap();
    let filler: Vec<String> = (0..500).map(|n| format!("ordinary text number {n}")).collect();
    let texts: Vec<_> = filler.iter().map(|text| (Origin::Summary, 1, text.as_str())).collect();
    add(&mut index, "other", &texts);
    let secret = (Origin::Decision, 1, "xylophonequartz and zyzzyvas");
    let kept = (Origin::Decision, 2, "marmalade stays");
    add(&mut index, "a", &[secret, kept, (Origin::File, 2, "src/vuvuzela.rs")]);
    index.flush().unwrap();
    assert!(contains(&path, "xylophonequartz") && contains(&path, "vuvuzela"));
    index.retain_checkpoints(&"a".parse().unwrap(), &[2]).unwrap();
    index.remove_paths(|path| path == "src/vuvuzela.rs").unwrap();
    index.flush().unwrap();
    assert_eq!(excerpts(&index, "marmalade").len(), 1);
    index.remove_run("a").unwrap();
    index.flush().unwrap();
    drop(index);
    for word in ["xylophonequartz", "zyzzyva", "vuvuzela", "marmalad"] {
        assert!(!contains(&path, word), "{word}");
    }
    let index = SearchIndex::open(&path, "x").unwrap();
    assert_eq!(excerpts(&index, "number 499")[0], "ordinary text number 499");
}

#[test]
fn an_index_that_is_not_ours_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("search");
    let refused = || matches!(SearchIndex::open(&path, "x"), Err(IndexError::Unusable(_)));
    drop(SearchIndex::create(&path, "x").unwrap());
    assert!(SearchIndex::open(&path, "x").is_ok());
    assert!(matches!(SearchIndex::open(&path, "y"), Err(IndexError::Unusable(_))));
    let bytes = std::fs::read(&path).unwrap();
    let write =
        |bytes: &[u8]| crate::fs::atomic::write(&path, bytes, crate::fs::atomic::Mode::Private).unwrap();
    write(b"");
    assert!(refused());
    write(&bytes[..bytes.len() / 2]);
    assert!(refused());
    write(&[7; 8192]);
    assert!(refused());
    drop(SearchIndex::create(&path, "x").unwrap());
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TRIGGER t AFTER INSERT ON run BEGIN SELECT 1; END").unwrap();
    drop(other);
    assert!(refused());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(refused());
    drop(SearchIndex::create(&path, "x").unwrap());
    #[cfg(unix)]
    {
        let elsewhere = dir.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(refused());
        drop(SearchIndex::create(&path, "x").unwrap());
        assert!(elsewhere.exists() && std::fs::symlink_metadata(&path).unwrap().is_file());
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_query_fails(text in "(\\PC|[\"*:^()+{}\\-]| AND | OR | NOT | NEAR\\(){0,40}", prefix_last: bool) {
        thread_local! {
            static INDEX: SearchIndex = {
                let mut index = SearchIndex::in_memory("").unwrap();
                add(&mut index, "a", &[(Origin::Summary, 1, "AND the OR token NOT near 検索 \"quoted\" a-b* {x}")]);
                index
            };
        }
        INDEX.with(|index| find(index, &SearchQuery::new(&*text).prefix_last(prefix_last)));
    }

    #[test]
    fn a_text_finds_itself(text in "\\PC{1,60}") {
        let mut index = SearchIndex::in_memory("").unwrap();
        add(&mut index, "a", &[(Origin::Summary, 1, &text)]);
        let query = text.replace(['"', '“', '”', '„', '*'], " ");
        let query = query.split_whitespace().filter(|word| !word.starts_with('-')).collect::<Vec<_>>().join(" ");
        let is_searchable = crate::search::is_searchable(&SearchQuery::new(&*query));
        prop_assert_eq!(find(&index, &SearchQuery::new(&*query)).len(), usize::from(is_searchable));
    }
}
