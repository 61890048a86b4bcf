//! A damaged write-ahead log: no acknowledged write is lost silently, and every write that verifies is
//! recovered. The tests flip a byte, restore an older copy of the database, or remove the mark. There are no
//! false alarms.

use std::path::{Path, PathBuf};

use milepost::internal::store::SqliteStore;
use milepost::model::{Item, LogLine};
use milepost::store::{Commit, OpenOptions, StoreUrl, WriteDecision};
use milepost::{Error, Milepost, Save, Saved};
use milepost::{ListQuery, VerifyScope};

use milepost_testkit::fixtures;

use crate::engine::run;

/// A store in its own folder, opened again for each step, as commands do.
struct Folder {
    dir: tempfile::TempDir,
}

const FILES: [&str; 5] = ["", "-wal", "-shm", "-mark", "-id"];

impl Folder {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// A store whose run `r` has six checkpoints, all of them in the WAL.
    fn with_six() -> Self {
        let folder = Self::new();
        for n in 1..=6 {
            folder.save("r", n);
        }
        assert_eq!((folder.numbers("r"), folder.lost()), (vec![1, 2, 3, 4, 5, 6], 0));
        folder
    }

    fn file(&self, suffix: &str) -> PathBuf {
        self.dir.path().join(format!("m.db{suffix}"))
    }

    fn open(&self) -> Milepost {
        let options = OpenOptions::new().create(true);
        Milepost::at(&StoreUrl::sqlite(self.file("")), &options).unwrap()
    }

    fn save(&self, name: &str, n: u64) -> Saved {
        let mut save = Save::new();
        save = save.summary(format!("number {n}")).state_text(&format!("{{\"n\":{n}}}")).unwrap();
        self.open().save(&run(name), save).unwrap()
    }

    fn numbers(&self, name: &str) -> Vec<u64> {
        let query = ListQuery::default().run(Some(run(name)));
        let listing = match self.open().list(&query) {
            Err(Error::NoRun(_)) => return Vec::new(),
            listing => listing.unwrap(),
        };
        let mut numbers: Vec<_> =
            listing.checkpoints.iter().map(|row| row.entry().header.sequence()).collect();
        numbers.sort_unstable();
        numbers
    }

    fn lost(&self) -> u64 {
        self.open().lost_writes().unwrap()
    }

    fn is_intact(&self) -> bool {
        self.open().verify(&VerifyScope::Store, &mut |_| {}).unwrap().damaged().is_empty()
    }

    fn fix(&self) -> String {
        let report = self.open().doctor(true, None, &mut |_| {}).unwrap();
        assert!(report.problems.iter().all(|problem| problem.fixed), "{report:?}");
        report.problems.into_iter().map(|problem| problem.message).collect()
    }

    fn read(&self, suffix: &str) -> Vec<u8> {
        std::fs::read(self.file(suffix)).unwrap()
    }

    fn set(&self, suffix: &str, bytes: &[u8]) {
        write(&self.file(suffix), bytes);
    }

    fn copy_to(&self, to: &Path) {
        for suffix in FILES {
            if self.file(suffix).exists() {
                std::fs::copy(self.file(suffix), to.join(format!("m.db{suffix}"))).unwrap();
            }
        }
    }
}

fn write(path: &Path, bytes: &[u8]) {
    milepost::internal::fs::atomic::write(path, bytes, milepost::internal::fs::atomic::Mode::Private)
        .unwrap();
}

#[test]
fn a_flipped_byte_in_the_wal_loses_nothing_in_silence() {
    let six = Folder::with_six();
    let wal = six.read("-wal");
    let (mut alarms, mut recovered) = (0, 0);
    for at in (0..wal.len()).step_by(wal.len() / 60) {
        let folder = Folder::new();
        six.copy_to(folder.dir.path());
        let mut damaged = wal.clone();
        damaged[at] ^= 0x10;
        folder.set("-wal", &damaged);
        let (left, lost) = (folder.numbers("r"), folder.lost());
        assert_eq!(left.len() < 6, lost > 0, "byte {at}: {left:?} left, {lost} lost");
        // Acknowledged sequence numbers are never reused, in any run.
        let saved = folder.save("r", 7);
        assert_eq!(saved.sequence(), 7, "byte {at}: {left:?} left, {lost} lost");
        assert_eq!(folder.save("other", 1).sequence(), 1 + lost, "byte {at}");
        if lost == 0 {
            continue;
        }
        alarms += 1;
        assert_eq!(folder.lost(), lost, "byte {at}: the loss is reported until it is acknowledged");
        assert!(!folder.is_intact(), "byte {at}");
        let said = folder.fix();
        assert!(said.contains("milepost") || said.contains("m.db.damaged-1"), "{said}");
        assert_eq!(folder.lost(), 0, "byte {at}");
        assert!(folder.is_intact(), "byte {at}");
        let now = folder.numbers("r");
        assert!(left.iter().all(|n| now.contains(n)) && now.contains(&7), "byte {at}: {now:?}");
        recovered += now.len() - left.len() - 1;
        assert_eq!(folder.save("r", 8).sequence(), 8, "byte {at}");
        assert_eq!(folder.save("new", 1).sequence(), 1, "byte {at}: after the loss was acknowledged");
    }
    assert!(alarms >= 20, "only {alarms} of the flipped bytes hid a write");
    assert!(recovered >= alarms * 2, "only {recovered} checkpoints were recovered in {alarms} cases");
}

#[test]
fn what_is_recovered_has_its_state_marks_and_pending_items() {
    let folder = Folder::with_six();
    let mut save = Save::new();
    save = save.tag("kept").summary("tagged");
    let id = folder.open().save(&run("r"), save).unwrap().snapshot_id().clone();
    let note = LogLine { at: Default::default(), text: "remember this".into(), extra: Default::default() };
    folder.open().record(&run("r"), &[Item::Note(note)], &Default::default()).unwrap();
    // A damaged WAL header hides all frames without damaging them.
    let mut wal = folder.read("-wal");
    wal[20] ^= 1;
    folder.set("-wal", &wal);
    assert_eq!(folder.lost(), 8);
    folder.fix();
    assert_eq!(folder.numbers("r"), [1, 2, 3, 4, 5, 6, 7]);
    let mp = folder.open();
    let found = mp.show(&"kept".parse().unwrap(), None).unwrap();
    assert_eq!(*found.entry().header.snapshot_id(), id);
    assert_eq!(mp.store().run(&run("r")).unwrap().unwrap().items.len(), 1);
    assert_eq!(folder.save("r", 8).sequence(), 8);
}

#[test]
fn lost_attachments_are_recovered() {
    let attach = |folder: &Folder, index: i64, value: &str| {
        let mp = folder.open();
        let written = mp.raw_store().write(&run("r"), &mut |view| {
            let mut commit = Commit::new(view.record.clone().unwrap());
            commit.attachments.push(fixtures::attachment("cp", "task", index, value).replacing());
            WriteDecision::Commit(Box::new(commit))
        });
        written.unwrap();
    };
    let folder = Folder::with_six();
    attach(&folder, 0, "lost");
    attach(&folder, 1, "lost");
    let mut wal = folder.read("-wal");
    wal[20] ^= 1;
    folder.set("-wal", &wal);
    assert_eq!(folder.lost(), 8);
    folder.save("r", 7);
    // Written after the loss: recovery does not replace it.
    attach(&folder, 1, "newer");
    folder.fix();
    let found = folder.open().store().attachments(&run("r"), Some("cp")).unwrap();
    let expected = [(0, "lost"), (1, "newer")];
    let expected =
        expected.map(|(index, value)| Ok(fixtures::attachment("cp", "task", index, value).replacing()));
    assert_eq!(found, expected);
    assert!(folder.is_intact());
}

#[test]
fn an_older_copy_of_the_database_is_noticed_and_one_with_its_mark_is_not() {
    let folder = Folder::with_six();
    let backup = tempfile::tempdir().unwrap();
    folder.copy_to(backup.path());
    folder.save("r", 7);
    folder.save("r", 8);
    let mark = folder.read("-mark");
    for suffix in ["", "-wal", "-mark"] {
        std::fs::copy(backup.path().join(format!("m.db{suffix}")), folder.file(suffix)).unwrap();
    }
    let _ = std::fs::remove_file(folder.file("-shm"));
    assert_eq!((folder.lost(), folder.is_intact()), (0, true), "database and mark together");
    folder.set("-mark", &mark);
    assert_eq!((folder.lost(), folder.is_intact()), (2, false), "the database alone");
    assert!(folder.fix().contains("checkpoints recovered: 0"));
    assert_eq!((folder.lost(), folder.is_intact()), (0, true));
    assert_eq!(folder.save("r", 9).sequence(), 9);
}

#[test]
fn nothing_else_raises_an_alarm() {
    let six = Folder::with_six();
    // A complete copy, a torn mark, a missing mark, a mark that is behind as after a kill, and a missing id.
    let torn: &dyn Fn(&Folder) = &|folder| folder.set("-mark", &six.read("-mark")[..40]);
    let none: &dyn Fn(&Folder) = &|folder| std::fs::remove_file(folder.file("-mark")).unwrap();
    let behind: &dyn Fn(&Folder) = &|folder| {
        let mark = folder.read("-mark");
        folder.save("r", 7);
        folder.set("-mark", &mark);
    };
    let other: &dyn Fn(&Folder) = &|folder| std::fs::remove_file(folder.file("-id")).unwrap();
    for (name, change) in [
        ("copied", &(|_: &Folder| {}) as &dyn Fn(&Folder)),
        ("torn", torn),
        ("none", none),
        ("behind", behind),
        ("no id", other),
    ] {
        let folder = Folder::new();
        six.copy_to(folder.dir.path());
        change(&folder);
        assert_eq!((folder.lost(), folder.is_intact()), (0, true), "{name}");
        let next = folder.numbers("r").len() as u64 + 1;
        assert_eq!(folder.save("r", next).sequence(), next, "{name}");
        assert_eq!((folder.lost(), folder.is_intact()), (0, true), "{name}, after a save");
    }
    // Deleting a run, and compacting the store.
    let mp = six.open();
    mp.delete(&run("r")).unwrap();
    six.save("s", 1);
    assert_eq!(six.lost(), 0, "after a run was deleted");
    let store = SqliteStore::open(&six.file(""), &OpenOptions::new()).unwrap();
    milepost::store::Store::maintain(&store, milepost::store::Maintenance::Compact).unwrap();
    drop((mp, store));
    assert_eq!((six.lost(), six.numbers("s")), (0, vec![1]));
}
