//! Blobs in a SQLite store: damage to a pack, a row, a root or a file is reported for that blob alone, files that
//! a crash left are removed, and salvage and recovery keep all blobs that verify. The tests change the database
//! and its files behind the store's back.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use milepost::internal::fs::atomic;
use milepost::internal::store::SqliteStore;
use milepost::model::BlobId;
use milepost::store::{LiveBlobs, Maintenance, OpenOptions, Part, ProblemKind, Store, StoreError};
use milepost_testkit::rng::text;
use milepost_testkit::{Oracle, fixtures};
use rstest::rstest;

/// A store with twelve small blobs in one pack and two large ones.
struct Folder {
    dir: tempfile::TempDir,
    contents: Vec<Vec<u8>>,
}

impl Folder {
    fn new() -> Self {
        let small = (0..12).map(|n| text(3000 + n, n as u64).into_bytes());
        let large = (0..2).map(|n| text(300_000, 100 + n).into_bytes());
        let folder = Self { dir: tempfile::tempdir().unwrap(), contents: small.chain(large).collect() };
        folder.put(&folder.open());
        folder
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("milepost.db")
    }

    fn open(&self) -> SqliteStore {
        SqliteStore::open(&self.path(), &OpenOptions::new().create(true)).unwrap()
    }

    fn put(&self, store: &dyn Store) {
        store.put_blobs(&self.contents.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    }

    fn id(&self, n: usize) -> BlobId {
        BlobId::of(&self.contents[n])
    }

    fn ids(&self) -> Vec<BlobId> {
        (0..self.contents.len()).map(|n| self.id(n)).collect()
    }

    /// The file of a large blob.
    fn file(&self, n: usize) -> PathBuf {
        let id = self.id(n).to_string();
        self.dir.path().join("milepost.db-blobs").join(&id[..2]).join(id)
    }

    fn execute(&self, sql: &str, n: usize) {
        let connection = rusqlite::Connection::open(self.path()).unwrap();
        assert_eq!(connection.execute(sql, [&self.id(n).as_bytes()[..]]).unwrap(), 1, "{sql}");
    }

    /// Checks that blob `n` is reported as damaged and that all others are readable.
    fn is_only_damaged(&self, store: &dyn Store, n: usize, what: &str) {
        for (at, content) in self.contents.iter().enumerate() {
            match store.blob(&self.id(at)) {
                Err(StoreError::Damaged(damage)) => {
                    assert_eq!(at, n, "{what}: {damage}");
                    assert_eq!((damage.part(), damage.expected()), (Part::Blob, &self.id(n).to_string()));
                    assert_ne!(damage.found(), damage.expected());
                }
                found => {
                    assert!(at != n, "{what}: the damage is not found");
                    assert!(found.unwrap() == *content, "{what}: {at}");
                }
            }
        }
    }

    fn all_are_readable(&self, store: &dyn Store) {
        for content in &self.contents {
            assert!(store.blob(&BlobId::of(content)).unwrap() == *content);
        }
    }

    /// Commits a reference to all blobs and a root.
    fn commit(&self, store: &dyn Store, name: &str) {
        let mut oracle = Oracle::begin(store, name);
        oracle.put_many(2);
        let doc = oracle.doc("refers");
        oracle.commit(|view, commit| {
            commit.puts.push(doc.seal(&view.slot));
            commit.blobs.extend(self.ids());
            commit.roots.push((format!("root of {name}"), self.id(3)));
        });
        oracle.check();
    }
}

fn keep(ids: &[BlobId]) -> LiveBlobs {
    let mut live = LiveBlobs::default();
    live.keep = ids.iter().copied().collect::<HashSet<_>>();
    live
}

fn kinds(store: &dyn Store, what: Maintenance<'_>) -> Vec<ProblemKind> {
    store.maintain(what).unwrap().problems.into_iter().map(|problem| problem.kind).collect()
}

fn write(path: &Path, bytes: &[u8]) {
    atomic::write(path, bytes, atomic::Mode::Private).unwrap();
}

#[test]
fn a_put_and_a_commit_survive_reopening() {
    let folder = Folder::new();
    let mark = folder.dir.path().join("milepost.db-mark");
    let before = std::fs::read(&mark).unwrap();
    folder.open().put_blobs(&[b"never committed"]).unwrap();
    assert_eq!(std::fs::read(&mark).unwrap(), before, "a put takes no stamp");
    folder.commit(&folder.open(), "r");
    let store = folder.open();
    folder.all_are_readable(&store);
    assert_eq!(store.blob(&BlobId::of(b"never committed")).unwrap(), b"never committed");
    assert_eq!(store.blob_roots().unwrap(), [("root of r".to_owned(), folder.id(3))]);
    assert_eq!(store.lost_writes().unwrap(), 0);
    assert_eq!(kinds(&store, Maintenance::Inspect), []);
    assert!(store.info().unwrap().bytes() > store.blob_bytes().unwrap());
    // A store that was removed while it was open is created again.
    for entry in std::fs::read_dir(folder.dir.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path)).unwrap();
    }
    folder.put(&store);
    folder.all_are_readable(&store);
}

#[cfg(unix)]
#[test]
fn files_of_blobs_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let file = folder.file(12);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!([file.parent().unwrap(), file.parent().unwrap().parent().unwrap()].map(mode), [0o700; 2]);
}

#[test]
fn a_flipped_byte_of_a_pack_damages_one_blob() {
    let folder = Folder::new();
    let store = folder.open();
    let connection = rusqlite::Connection::open(folder.path()).unwrap();
    let packs: i64 = connection.query_row("SELECT count(*) FROM blob_pack", [], |row| row.get(0)).unwrap();
    assert_eq!(packs, 1, "small blobs share a pack");
    let data: Vec<u8> = connection.query_row("SELECT data FROM blob_pack", [], |row| row.get(0)).unwrap();
    for n in [0, 5, 11] {
        let (offset, length): (usize, usize) = connection
            .query_row(
                "SELECT offset, length FROM blob WHERE id = ?1",
                [&folder.id(n).as_bytes()[..]],
                |row| Ok((row.get::<_, i64>(0)? as usize, row.get::<_, i64>(1)? as usize)),
            )
            .unwrap();
        for at in [offset, offset + length / 2, offset + length - 1] {
            let mut damaged = data.clone();
            damaged[at] ^= 1;
            connection.execute("UPDATE blob_pack SET data = ?1", [damaged]).unwrap();
            folder.is_only_damaged(&store, n, "a byte of the pack");
        }
    }
    // A collection moves the other blobs out of the damaged pack.
    let live = keep(&[&folder.ids()[..3], &folder.ids()[9..]].concat());
    store.collect_blobs(&mut || Ok(live.clone())).unwrap();
    for n in [0, 1, 2, 9, 10] {
        assert!(store.blob(&folder.id(n)).unwrap() == folder.contents[n]);
    }
    assert!(matches!(store.blob(&folder.id(11)), Err(StoreError::Damaged(_))));
    connection.execute("DELETE FROM blob_pack", []).unwrap();
    assert!(matches!(store.blob(&folder.id(0)), Err(StoreError::Damaged(_))), "a missing pack");
}

#[test]
fn a_damaged_file_damages_one_blob() {
    let folder = Folder::new();
    let store = folder.open();
    let file = folder.file(12);
    let whole = std::fs::read(&file).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 20) {
        let mut damaged = whole.clone();
        damaged[at] ^= 4;
        write(&file, &damaged);
        folder.is_only_damaged(&store, 12, &format!("byte {at}"));
    }
    for (bytes, what) in
        [(&whole[..whole.len() - 1], "short"), (&[], "empty"), (&[&whole[..], b"x"].concat(), "long")]
    {
        write(&file, bytes);
        folder.is_only_damaged(&store, 12, what);
        assert_eq!(store.missing_blobs(&folder.ids()).unwrap(), [folder.id(12)], "{what}");
    }
    std::fs::remove_file(&file).unwrap();
    folder.is_only_damaged(&store, 12, "no file");
    // A missing file is written again, and the counter stays right.
    folder.put(&store);
    folder.all_are_readable(&store);
    assert_eq!(kinds(&store, Maintenance::Inspect), []);
}

#[rstest]
#[case("pack = pack + 1")]
#[case("pack = 0")]
#[case("pack = NULL")]
#[case("offset = offset + 1")]
#[case("length = length - 1")]
#[case("length = 1 << 40, size = 1 << 40")]
#[case("size = size + 1")]
#[case("checksum = x'00'")]
fn a_damaged_row_damages_one_blob(#[case] change: &str) {
    let folder = Folder::new();
    let store = folder.open();
    folder.execute(&format!("UPDATE blob SET {change} WHERE id = ?1"), 4);
    folder.is_only_damaged(&store, 4, change);
    assert_eq!(store.missing_blobs(&folder.ids()).unwrap(), [folder.id(4)]);
    assert_eq!(store.blobs(None, 0).unwrap().len(), folder.contents.len());
    // The collection cannot know which pack has the content, and keeps the row.
    store.collect_blobs(&mut || Ok(keep(&folder.ids()[2..]))).unwrap();
    assert!(matches!(store.blob(&folder.id(4)), Err(StoreError::Damaged(_))));
    assert!(store.blob(&folder.id(5)).unwrap() == folder.contents[5]);
    // Storing the blob again replaces the row.
    folder.put(&store);
    folder.all_are_readable(&store);
    assert_eq!(kinds(&store, Maintenance::Inspect), []);
}

#[test]
fn a_damaged_root_stops_no_save_but_stops_a_collection() {
    let folder = Folder::new();
    let store = folder.open();
    folder.commit(&store, "r");
    folder.commit(&store, "s");
    let connection = rusqlite::Connection::open(folder.path()).unwrap();
    let other = folder.id(1);
    let sql = "UPDATE blob_root SET blob = ?1 WHERE name = 'root of r'";
    assert_eq!(connection.execute(sql, [&other.as_bytes()[..]]).unwrap(), 1);
    assert!(matches!(store.blob_roots(), Err(StoreError::Damaged(damage)) if damage.part() == Part::Blob));
    let refused = store.collect_blobs(&mut || store.blob_roots().map(|_| LiveBlobs::default()));
    assert!(matches!(refused, Err(StoreError::Damaged(_))));
    folder.all_are_readable(&store);
    folder.commit(&store, "t");
    assert_eq!(kinds(&store, Maintenance::Inspect), [ProblemKind::Record]);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
    let names: Vec<_> = store.blob_roots().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["root of s", "root of t"]);
    assert_eq!(kinds(&store, Maintenance::Inspect), []);
}

#[test]
fn a_wrong_counter_is_found_and_repaired() {
    let folder = Folder::new();
    let store = folder.open();
    let bytes = store.blob_bytes().unwrap();
    let connection = rusqlite::Connection::open(folder.path()).unwrap();
    connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'blob_bytes'", []).unwrap();
    assert_eq!(store.blob_bytes().unwrap(), bytes, "a damaged counter is not used");
    assert_eq!(kinds(&store, Maintenance::Inspect), [ProblemKind::Derived]);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 1);
    assert_eq!((kinds(&store, Maintenance::Inspect), store.blob_bytes().unwrap()), (vec![], bytes));
}

#[test]
fn files_that_a_crash_left_are_removed() {
    let folder = Folder::new();
    let store = folder.open();
    // A put that died before its commit, a collection that died after it, and a temporary file.
    let stray = folder.dir.path().join("milepost.db-blobs/ab").join("ab".repeat(32));
    atomic::create_folder(stray.parent().unwrap()).unwrap();
    write(&stray, b"stray");
    let whole = std::fs::read(folder.file(13)).unwrap();
    store.collect_blobs(&mut || Ok(keep(&folder.ids()[..13]))).unwrap();
    assert!(!folder.file(13).exists());
    write(&folder.file(13), &whole);
    let temporary = stray.with_file_name(".milepost-tmp-x");
    write(&temporary, b"half a file");
    let found = [ProblemKind::StrayFile, ProblemKind::Orphan, ProblemKind::Orphan];
    assert_eq!(kinds(&store, Maintenance::Inspect), found);
    assert_eq!(store.maintain(Maintenance::Repair).unwrap().done, 3);
    assert!(!stray.exists() && !temporary.exists() && !folder.file(13).exists());
    assert_eq!(kinds(&store, Maintenance::Inspect), []);
    for n in 0..13 {
        assert!(store.blob(&folder.id(n)).unwrap() == folder.contents[n]);
    }
    // A damaged row may be the one that a file belongs to, so no file is removed.
    write(&stray, b"stray");
    folder.execute("UPDATE blob SET id = zeroblob(32) WHERE id = ?1", 12);
    store.maintain(Maintenance::Repair).unwrap();
    assert!(stray.exists() && folder.file(12).exists());
}

#[test]
fn a_collection_shrinks_the_database() {
    let folder = Folder::new();
    let store = folder.open();
    let many: Vec<_> = (0..600).map(|n| text(4000, 1000 + n).into_bytes()).collect();
    store.put_blobs(&many.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
    store.maintain(Maintenance::Compact).unwrap();
    let (bytes, before) = (store.blob_bytes().unwrap(), store.info().unwrap().bytes());
    let count = |sql: &str| -> i64 {
        rusqlite::Connection::open(folder.path()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    let packs = count("SELECT count(*) FROM blob_pack");
    // Every tenth blob of every pack stays.
    let kept: Vec<_> = many.iter().step_by(10).map(|content| BlobId::of(content)).collect();
    let report = store.collect_blobs(&mut || Ok(keep(&kept))).unwrap();
    assert_eq!(report.removed, 540 + 14);
    assert_eq!(report.bytes_freed, bytes - store.blob_bytes().unwrap());
    assert!(count("SELECT count(*) FROM blob_pack") * 8 <= packs + 8, "the packs are rewritten");
    let unused = "SELECT (SELECT sum(length(data)) FROM blob_pack) - (SELECT sum(length) FROM blob)";
    assert_eq!(count(unused), 0);
    let after = store.info().unwrap().bytes();
    assert!(after < before / 5, "{after} of {before} bytes are left");
    for content in many.iter().step_by(10) {
        assert!(store.blob(&BlobId::of(content)).unwrap() == *content);
    }
    // Little unused space is not worth a rewrite.
    let packs = count("SELECT max(n) FROM blob_pack");
    store.collect_blobs(&mut || Ok(keep(&kept[1..]))).unwrap();
    assert_eq!(count("SELECT max(n) FROM blob_pack"), packs);
    assert!(count(unused) > 0);
}

/// Overwrites the root page of a table in the database file.
fn destroy(db: &Path, table: &str) {
    let connection = rusqlite::Connection::open(db).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let select = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
    let root: u32 = connection.query_row(select, [table], |row| row.get(0)).unwrap();
    drop(connection);
    let mut bytes = std::fs::read(db).unwrap();
    let at = (root as usize - 1) * 4096;
    bytes[at..at + 4096].fill(0xA5);
    write(db, &bytes);
}

#[rstest]
#[case("event", 14)]
#[case("checkpoint_id", 14)]
#[case("blob_root", 14)]
#[case("meta", 14)]
// Without their rows, only files can be verified.
#[case("blob", 2)]
#[case("blob_pack", 2)]
fn salvage_keeps_the_blobs_that_verify(#[case] table: &str, #[case] readable: usize) {
    let folder = Folder::new();
    folder.commit(&folder.open(), "r");
    let evicted = BlobId::of(b"evicted");
    folder.open().put_blobs(&[b"evicted"]).unwrap();
    let mut live = keep(&folder.ids());
    live.evict.insert(evicted);
    folder.open().collect_blobs(&mut || Ok(live.clone())).unwrap();
    destroy(&folder.path(), table);
    let store = folder.open();
    assert_eq!(kinds(&store, Maintenance::Inspect), [ProblemKind::Pages]);
    store.maintain(Maintenance::Repair).unwrap();
    assert!(folder.dir.path().join("milepost.db.damaged-1").exists());
    drop(store);
    let store = folder.open();
    let found = folder
        .contents
        .iter()
        .filter(|content| store.blob(&BlobId::of(content)).is_ok_and(|found| found == **content));
    assert_eq!(found.count(), readable, "{table}");
    assert!(store.run(&fixtures::run_id("r")).unwrap().is_some());
    if readable == folder.contents.len() {
        assert_eq!(store.blobs(None, 0).unwrap().iter().filter(|entry| entry.evicted).count(), 1);
        let roots = if table == "blob_root" { 0 } else { 1 };
        assert_eq!(store.blob_roots().unwrap().len(), roots);
    }
    assert_eq!(kinds(&store, Maintenance::Inspect), []);
    folder.put(&store);
    folder.all_are_readable(&store);
}

#[test]
fn recovery_brings_back_the_blobs_of_lost_writes() {
    let folder = Folder::new();
    folder.commit(&folder.open(), "r");
    // A damaged WAL header hides all frames without damaging them.
    let wal = folder.dir.path().join("milepost.db-wal");
    let mut bytes = std::fs::read(&wal).unwrap();
    assert!(bytes.len() > 32, "the writes are in the WAL");
    bytes[20] ^= 1;
    write(&wal, &bytes);
    let store = folder.open();
    assert_eq!(store.missing_blobs(&folder.ids()).unwrap().len(), folder.contents.len());
    assert!(store.lost_writes().unwrap() > 0);
    store.maintain(Maintenance::Repair).unwrap();
    folder.all_are_readable(&store);
    assert_eq!(store.blob_roots().unwrap().len(), 1);
    assert_eq!(store.headers(&Default::default()).unwrap().len(), 3);
    assert_eq!(kinds(&store, Maintenance::Inspect), []);
}
