//! Blobs are stored once under the hash of their content, kept while a checkpoint or a root refers to them, and
//! removed by a collection that decides under the writers' lock. A collection is about the whole store, so
//! these rules keep all blobs that they did not create.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use milepost::model::{BlobId, RunId};
use milepost::store::{
    BLOB_LIMIT, BlobEntry, CollectReport, Commit, HeaderQuery, LiveBlobs, Store, StoreError, WriteDecision,
};

use crate::fixtures::{self, TestCheckpoint};
use crate::oracle::{Oracle, good};
use crate::rng::{Rng, text};

/// Bytes that do not compress, different for every label.
fn noise(label: &str, length: usize) -> Vec<u8> {
    let seed = label.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let rng = Rng::new(seed);
    (0..length.div_ceil(8)).flat_map(|_| rng.below(u64::MAX).to_le_bytes()).take(length).collect()
}

/// Stores contents and returns their ids.
fn put(store: &dyn Store, contents: &[Vec<u8>]) -> Vec<BlobId> {
    let slices: Vec<_> = contents.iter().map(Vec::as_slice).collect();
    store.put_blobs(&slices).unwrap();
    contents.iter().map(|content| BlobId::of(content)).collect()
}

/// The list entry of a blob.
fn entry(store: &dyn Store, id: &BlobId) -> Option<BlobEntry> {
    store.blobs(None, 0).unwrap().into_iter().find(|entry| entry.id == *id)
}

/// Panics unless a blob has this content.
fn holds(store: &dyn Store, content: &[u8]) {
    let id = BlobId::of(content);
    assert!(store.blob(&id).unwrap() == content, "{id}: another content of {} bytes", content.len());
}

/// Panics unless the content of a blob is missing.
fn lacks(store: &dyn Store, id: &BlobId) {
    assert!(matches!(store.blob(id), Err(StoreError::NoBlob(missing)) if missing == *id), "{id}");
    assert_eq!(store.missing_blobs(&[*id]).unwrap(), [*id]);
}

/// Keeps all blobs of the store except `own`. Of `own`, keeps `keep` and evicts `evict`.
fn live(
    store: &dyn Store,
    own: &[BlobId],
    keep: &[BlobId],
    evict: &[BlobId],
) -> Result<LiveBlobs, StoreError> {
    let mut live = LiveBlobs::default();
    let all = store.blobs(None, 0)?.into_iter().map(|entry| entry.id);
    live.keep.extend(all.filter(|id| !own.contains(id) || keep.contains(id)));
    live.evict.extend(evict);
    Ok(live)
}

/// Collects the blobs of one rule.
fn collect(store: &dyn Store, own: &[BlobId], keep: &[BlobId], evict: &[BlobId]) -> CollectReport {
    store.collect_blobs(&mut || live(store, own, keep, evict)).unwrap()
}

/// A blob is stored once. Storing it again changes nothing, within one call and across calls.
pub fn put_is_idempotent(store: &dyn Store) {
    let [a, b, c] = ["a", "b", "c"].map(|name| format!("idempotent {name} {}", text(2000, 1)).into_bytes());
    let ids = put(store, &[a.clone(), b.clone(), a.clone()]);
    let first = entry(store, &ids[0]).unwrap();
    assert!(first.bytes > 0 && !first.evicted);
    put(store, &[a.clone(), b.clone()]);
    put(store, &[c.clone(), a.clone(), c.clone()]);
    let listed: Vec<_> = store.blobs(None, 0).unwrap().into_iter().map(|entry| entry.id).collect();
    assert_eq!(listed.iter().filter(|id| **id == ids[0]).count(), 1);
    assert_eq!(entry(store, &ids[0]), Some(first));
    for content in [&a, &b, &c] {
        holds(store, content);
    }
    store.put_blobs(&[]).unwrap();
}

/// A content comes back exactly, whatever it is: empty, short, compressible or not, below and above the size at
/// which a store changes its representation.
pub fn contents_come_back(store: &dyn Store) {
    let lengths = [0, 1, 2, 100, 4096, 70_000, 131_072, 131_073, 200_000, 1 << 20];
    let mut contents: Vec<_> =
        lengths.iter().map(|length| noise(&format!("back {length}"), *length)).collect();
    contents.extend(lengths.iter().map(|length| text(*length, 77).into_bytes()));
    contents.push(vec![0; 3 << 20]);
    let ids = put(store, &contents);
    assert_eq!(store.missing_blobs(&ids).unwrap(), []);
    for content in &contents {
        holds(store, content);
    }
    let unknown = BlobId::of(b"a content that nobody stored");
    lacks(store, &unknown);
    assert_eq!(store.missing_blobs(&[ids[0], unknown, ids[1]]).unwrap(), [unknown]);
}

/// Many small blobs in one put all come back.
pub fn many_small_ones(store: &dyn Store) {
    let contents: Vec<_> =
        (0..300).map(|n| format!("small {n} {}", text(n * 12, n as u64)).into_bytes()).collect();
    let ids = put(store, &contents);
    assert_eq!(store.missing_blobs(&ids).unwrap(), []);
    for content in &contents {
        holds(store, content);
    }
}

/// A content above the limit is refused, and nothing of that call is stored.
pub fn too_large_is_refused(store: &dyn Store) {
    let large = vec![1; BLOB_LIMIT as usize + 1];
    let refused = store.put_blobs(&[b"beside a content that is too large", &large]);
    assert!(matches!(refused, Err(StoreError::Rules(_))), "{refused:?}");
    lacks(store, &BlobId::of(b"beside a content that is too large"));
}

/// A commit that refers to a missing blob is refused and writes nothing, whether the blob is in its list or is
/// the target of a root.
pub fn missing_blobs_refuse_a_commit(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "blobs-missing");
    let there = put(store, &[b"blobs-missing there".to_vec()])[0];
    let absent = BlobId::of(b"blobs-missing absent");
    oracle.put_many(2);
    for in_root in [false, true] {
        let doc = oracle.doc(format!("refused-{in_root}"));
        let refused = oracle.attempt(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.push.push(fixtures::item("refused"));
            commit.blobs.push(there);
            commit.roots.push(("blobs-missing refused".into(), there));
            match in_root {
                true => commit.roots.push(("blobs-missing absent".into(), absent)),
                false => commit.blobs.push(absent),
            }
        });
        assert!(matches!(&refused, Err(StoreError::BlobsMissing(ids)) if *ids == [absent]), "{refused:?}");
        oracle.check();
        let roots = store.blob_roots().unwrap();
        assert!(!roots.iter().any(|(name, _)| name.starts_with("blobs-missing")), "{roots:?}");
    }
    put(store, &[b"blobs-missing absent".to_vec()]);
    let doc = oracle.doc("accepted");
    oracle.commit(|view, commit| {
        commit.puts.push(doc.seal(&view.slot));
        commit.blobs.extend([there, absent, there]);
    });
    oracle.check();
}

/// Roots are set by commits of every shape, replaced by later ones, and listed by name.
pub fn roots_are_set_by_commits(store: &dyn Store) {
    let mut oracle = Oracle::begin(store, "blobs-roots");
    let ids = put(store, &[b"root one".to_vec(), b"root two".to_vec()]);
    let names = ["blobs-roots a", "blobs-roots \u{e9}\n\"b\"", "blobs-roots"];
    // The first commit creates the run. The others add one checkpoint, or none.
    for (n, name) in names.iter().enumerate() {
        let doc = oracle.doc(n);
        oracle.commit(|view, commit| {
            commit.puts.extend((n < 2).then(|| doc.seal(&view.slot)));
            commit.blobs.push(ids[0]);
            commit.roots.push(((*name).to_owned(), ids[0]));
        });
    }
    oracle.commit(|_, commit| commit.roots.push((names[0].into(), ids[1]))).check();
    let own = |store: &dyn Store| {
        let mut roots = store.blob_roots().unwrap();
        assert!(roots.is_sorted_by(|a, b| a.0 < b.0), "{roots:?}");
        roots.retain(|(name, _)| name.starts_with("blobs-roots"));
        roots
    };
    let expected = |which: &[usize]| {
        let mut roots: Vec<_> =
            which.iter().map(|n| (names[*n].to_owned(), ids[usize::from(*n == 0)])).collect();
        roots.sort();
        roots
    };
    assert_eq!(own(store), expected(&[0, 1, 2]));
    let report = store.collect_blobs(&mut || {
        let mut live = live(store, &[], &[], &[])?;
        live.drop_roots = vec![names[1].into(), "blobs-roots that does not exist".into()];
        Ok(live)
    });
    assert_eq!(report.unwrap(), CollectReport::default(), "a root has no content");
    assert_eq!(own(store), expected(&[0, 2]));
}

/// A collection removes exactly what is not kept, evicts, and keeps everything else readable. An evicted blob is
/// listed, counts as missing and can be stored again.
pub fn collection_removes_what_is_not_kept(store: &dyn Store) {
    let small: Vec<_> = (0..40).map(|n| noise(&format!("collected {n}"), 500 + n * 200)).collect();
    let large: Vec<_> = (0..4).map(|n| noise(&format!("collected large {n}"), 150_000)).collect();
    let contents = [small, large].concat();
    let own = put(store, &contents);
    assert_eq!(collect(store, &own, &own, &[]), CollectReport::default());
    // Keeps every third blob, evicts every third, and removes the others.
    let part = |remainder: usize| -> Vec<_> { own.iter().copied().skip(remainder).step_by(3).collect() };
    let (keep, evict, remove) = (part(0), part(1), part(2));
    let bytes = |ids: &[BlobId]| -> u64 { ids.iter().map(|id| entry(store, id).unwrap().bytes).sum() };
    let expected = bytes(&evict) + bytes(&remove);
    let report = collect(store, &own, &own[..1], &[]);
    assert_eq!(report.removed, own.len() as u64 - 1);
    put(store, &contents);
    // An id in `evict` is evicted even if it is also kept.
    let report = collect(store, &own, &[&keep[..], &evict[..1]].concat(), &evict);
    assert_eq!((report.removed, report.bytes_freed), ((evict.len() + remove.len()) as u64, expected));
    for (id, content) in own.iter().zip(&contents) {
        if keep.contains(id) {
            holds(store, content);
            continue;
        }
        lacks(store, id);
        assert_eq!(entry(store, id), evict.contains(id).then(|| BlobEntry::evicted(*id)));
    }
    assert_eq!(collect(store, &own, &keep, &evict), CollectReport::default(), "nothing is left to remove");
    let refused = Oracle::begin(store, "blobs-evicted").attempt(|_, commit| commit.blobs.push(evict[0]));
    assert!(matches!(refused, Err(StoreError::BlobsMissing(_))), "{refused:?}");
    put(store, &contents);
    for content in &contents {
        holds(store, content);
    }
    assert_eq!(collect(store, &own, &[], &[]).removed, own.len() as u64);
    assert!(own.iter().all(|id| entry(store, id).is_none()));
}

/// If the decision fails, a collection changes nothing.
pub fn failed_decision_collects_nothing(store: &dyn Store) {
    let own = put(store, &[b"kept by a failed decision".to_vec()]);
    let failed = store.collect_blobs(&mut || Err(StoreError::NoBlob(own[0])));
    assert!(matches!(failed, Err(StoreError::NoBlob(_))));
    holds(store, b"kept by a failed decision");
}

/// Lists are in the order of ids, and a cursor and a limit give pages without gaps or repetitions.
pub fn listed_in_pages(store: &dyn Store) {
    let own = put(store, &(0..30).map(|n| format!("paged {n}").into_bytes()).collect::<Vec<_>>());
    collect(store, &own, &own[5..], &own[5..10]);
    let all = store.blobs(None, 0).unwrap();
    assert!(all.is_sorted_by(|a, b| a.id < b.id));
    assert_eq!(all.iter().filter(|entry| own.contains(&entry.id)).count(), 25, "evicted blobs are listed");
    for limit in [1, 7, all.len(), all.len() + 1] {
        let (mut pages, mut after) = (Vec::new(), None);
        loop {
            let page = store.blobs(after.as_ref(), limit).unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            pages.extend(page);
        }
        // Other users of a shared store may add and remove blobs meanwhile.
        pages.retain(|entry| own.contains(&entry.id));
        let mut expected = all.clone();
        expected.retain(|entry| own.contains(&entry.id));
        assert_eq!(pages, expected, "pages of {limit}");
    }
}

/// The total number of bytes is the sum over the list, after puts, evictions and removals.
pub fn bytes_are_counted(store: &dyn Store) {
    let is_counted = |when: &str| {
        // Other users of a shared store may change it between two reads.
        let counted = (0..20).any(|_| {
            let before = store.blobs(None, 0).unwrap();
            let bytes = store.blob_bytes().unwrap();
            before == store.blobs(None, 0).unwrap()
                && bytes == before.iter().map(|entry| entry.bytes).sum::<u64>()
        });
        assert!(counted, "{when}");
    };
    is_counted("before");
    let contents: Vec<_> = (0..10).map(|n| noise(&format!("counted {n}"), 40_000 * n + 1)).collect();
    let own = put(store, &contents);
    is_counted("after a put");
    put(store, &contents);
    is_counted("after a repeated put");
    collect(store, &own, &own[..5], &own[3..7]);
    is_counted("after a collection");
    put(store, &contents[4..]);
    is_counted("after evicted blobs are stored again");
    collect(store, &own, &[], &[]);
    is_counted("after all are removed");
    assert!(own.iter().all(|id| entry(store, id).is_none()));
}

const SAVERS: usize = 4;
const SAVES: usize = 12;

/// The content that a checkpoint of the race refers to. Several checkpoints share each content.
fn raced(run: &RunId, saver: usize, n: usize) -> Vec<u8> {
    let (group, length) = (n / 3, if n % 4 == 3 { 140_000 } else { 900 });
    noise(&format!("{run} {} {group} {length}", saver / 2), length)
}

/// Stores a content and commits a checkpoint that refers to it. Repeats both if a collection was faster.
fn save(store: &dyn Store, run: &RunId, saver: usize, n: usize) {
    let content = raced(run, saver, n);
    let id = BlobId::of(&content);
    let doc = TestCheckpoint::new(run, format!("{saver}-{n}"));
    loop {
        store.put_blobs(&[&content]).unwrap();
        thread::yield_now();
        let written = store.write(run, &mut |view| {
            let mut commit = Commit::new(fixtures::next_record(run, view));
            commit.puts.push(doc.seal(&view.slot));
            commit.blobs.push(id);
            commit.roots.push((format!("{run} {saver}"), id));
            WriteDecision::Commit(Box::new(commit))
        });
        match written {
            Err(StoreError::BlobsMissing(missing)) => assert_eq!(missing, [id]),
            written => {
                written.unwrap_or_else(|e| panic!("save {saver}-{n}: {e}"));
                break;
            }
        }
    }
    holds(store, &content);
}

/// The blobs that the committed checkpoints of the race refer to, and those of its roots.
fn referenced(store: &dyn Store, run: &RunId) -> Result<HashSet<BlobId>, StoreError> {
    let mut ids: HashSet<_> = store.blob_roots()?.into_iter().map(|(_, id)| id).collect();
    for row in store.headers(&HeaderQuery::default().run(run))? {
        let id = good(run, row).header.snapshot_id().to_string();
        let numbers = id.rsplit('_').next().unwrap().split_once('-').unwrap();
        ids.insert(BlobId::of(&raced(run, numbers.0.parse().unwrap(), numbers.1.parse().unwrap())));
    }
    Ok(ids)
}

fn race(savers: &[&dyn Store], collector: &dyn Store, name: &str) {
    let run = &Oracle::begin(collector, name).run().clone();
    let own: Vec<_> =
        (0..SAVERS).flat_map(|saver| (0..SAVES).map(move |n| BlobId::of(&raced(run, saver, n)))).collect();
    let (stop, own) = (&AtomicBool::new(false), &own);
    thread::scope(|scope| {
        let saving: Vec<_> = (0..SAVERS)
            .map(|saver| {
                let store = savers[saver % savers.len()];
                scope.spawn(move || (0..SAVES).for_each(|n| save(store, run, saver, n)))
            })
            .collect();
        let collecting = scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let collected = collector.collect_blobs(&mut || {
                    let mut live = live(collector, own, &[], &[])?;
                    live.keep.extend(referenced(collector, run)?);
                    Ok(live)
                });
                collected.unwrap();
                // The lock of a store need not be fair.
                thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let saved: Vec<_> = saving.into_iter().map(|saver| saver.join()).collect();
        stop.store(true, Ordering::Relaxed);
        collecting.join().unwrap();
        saved.into_iter().for_each(|saved| saved.unwrap());
    });
    let rows = collector.headers(&HeaderQuery::default().run(run)).unwrap();
    assert_eq!(rows.len(), SAVERS * SAVES);
    for id in referenced(collector, run).unwrap() {
        collector.blob(&id).unwrap_or_else(|e| panic!("a committed blob is not readable: {e}"));
    }
}

/// A collection beside savers never removes the content of a committed reference.
pub fn collection_beside_savers(store: &dyn Store) {
    race(&[store], store, "blobs-race");
}

/// The same with savers on one handle and the collector on another.
pub fn collection_on_another_handle(a: &dyn Store, b: &dyn Store) {
    race(&[a, b], b, "blobs-race-handles");
}

/// A put that no commit follows, and a put before a commit, are visible to another handle.
pub fn puts_are_seen_by_another_handle(a: &dyn Store, b: &dyn Store) {
    let large = noise("seen by another handle", 300_000);
    let own = put(a, &[b"seen by another handle".to_vec(), large.clone()]);
    holds(b, b"seen by another handle");
    holds(b, &large);
    let mut oracle = Oracle::begin(b, "blobs-handles");
    oracle.commit(|_, commit| commit.blobs.extend(&own)).check();
    collect(b, &own, &[], &[]);
    own.iter().for_each(|id| lacks(a, id));
}
