//! Programs that write a file while it is restored. No version that was completely written is lost, except
//! those that the writer itself overwrote.

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::*;

/// Restores a file repeatedly, from whatever it contains at that time, while `write` runs in a thread.
/// Returns what the writer reports.
fn restore_during<T: Send>(w: &World, write: impl FnOnce(&AtomicBool) -> T + Send) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&stop));
        for n in 0..300 {
            // After a deletion, wait until the writer creates the file again.
            let content = loop {
                match fs::read(w.at("file")) {
                    Ok(content) => break content,
                    Err(_) => std::thread::yield_now(),
                }
            };
            let after = w.file(format!("restored {n}"));
            let change = match n % 3 {
                0 => w.unsaved("file", after),
                1 => change("file", w.file(content), after),
                _ => change("file", w.file(content), ABSENT),
            };
            w.apply(&n.to_string(), vec![change]).unwrap();
            assert!(w.recover().unwrap().is_none());
        }
        stop.store(true, Relaxed);
        writer.join().unwrap()
    })
}

/// Whether a content is in the worktree, was moved aside, or was known to be saved.
fn is_somewhere(w: &World, content: &[u8]) -> bool {
    w.contents().iter().any(|found| found == content)
        || w.blobs.0.lock().unwrap().contains_key(&BlobId::of(content))
}

#[test]
fn a_version_that_is_renamed_into_place_is_not_lost() {
    let w = World::new();
    w.write("file", "version 0");
    let outside = tempfile::tempdir_in(w.root.parent().unwrap()).unwrap();
    let (temp, path) = (outside.path().join("temp"), w.at("file"));
    let (written, overwritten) = restore_during(&w, |stop| {
        let (mut written, mut overwritten) = (Vec::new(), Vec::new());
        for n in 1.. {
            let version = format!("version {n}").into_bytes();
            write_file(&temp, &version);
            // The exchange tells which version this writer overwrites.
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            match rustix::fs::renameat_with(rustix::fs::CWD, &temp, rustix::fs::CWD, &path, flags) {
                Ok(()) => overwritten.push(fs::read(&temp).unwrap()),
                // The file is deleted at the moment. This writer must not overwrite one that appears now.
                Err(_) => {
                    if fs::hard_link(&temp, &path).is_err() {
                        continue;
                    }
                    fs::remove_file(&temp).unwrap();
                }
            }
            written.push(version);
            if stop.load(Relaxed) {
                break;
            }
            std::thread::yield_now();
        }
        (written, overwritten)
    });
    let lost = |version: &&Vec<u8>| !overwritten.contains(version) && !is_somewhere(&w, version);
    let lost: Vec<_> = written.iter().filter(lost).map(|v| String::from_utf8_lossy(v)).collect();
    assert!(lost.is_empty(), "{} of {} lost", lost.len(), written.len());
    assert!(is_somewhere(&w, written.last().unwrap()));
}

#[test]
fn a_version_that_is_written_in_place_is_not_lost() {
    let w = World::new();
    w.write("file", "version 0");
    let path = w.at("file");
    let last = restore_during(&w, |stop| {
        for n in 1.. {
            let version = format!("version {n}").into_bytes();
            let mut file = fs::File::create(&path).unwrap();
            file.write_all(&version).unwrap();
            if stop.load(Relaxed) || n % 50 == 0 {
                // A pause lets a restore take this version.
                std::thread::sleep(std::time::Duration::from_micros(500));
            }
            // A program that opens a file before a restore exchanges it, and writes to it afterwards, writes to a
            // file that is gone. docs/limits.md says so.
            let is_gone = file.metadata().unwrap().nlink() == 0;
            if stop.load(Relaxed) && !is_gone {
                return version;
            }
        }
        unreachable!()
    });
    assert!(is_somewhere(&w, &last));
}
