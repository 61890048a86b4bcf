//! Reads SQLite's write-ahead log as a file and checks its frames. Takes the path or the bytes of a WAL.
//! Rewrites and syncs the intact frames in place, or builds a copy in which damaged frames no longer hide
//! later ones. Depends on SQLite's file format, not on the content of pages.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::fs::{bounded, if_exists};

/// Sizes of the file header and of a frame header, in bytes.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Page sizes that SQLite supports.
const PAGE_SIZES: std::ops::RangeInclusive<usize> = 512..=65536;

/// The two running checksums of a WAL.
type Sums = (u32, u32);

/// The header fields that determine how checksums are computed.
#[derive(Clone, Copy)]
struct Layout {
    big_endian: bool,
    page_size: usize,
    salts: [u8; 8],
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn sums_at(bytes: &[u8], at: usize) -> Sums {
    (word(bytes, at), word(bytes, at + 4))
}

fn put_sums(bytes: &mut [u8], at: usize, (first, second): Sums) {
    bytes[at..at + 4].copy_from_slice(&first.to_be_bytes());
    bytes[at + 4..at + 8].copy_from_slice(&second.to_be_bytes());
}

impl Layout {
    /// The layout and checksums of a header, if the header is intact.
    fn of(header: &[u8]) -> Option<(Self, Sums)> {
        let layout = Self::unproven(header)?;
        let sums = layout.sums(&header[..24], (0, 0));
        (sums == sums_at(header, 24)).then_some((layout, sums))
    }

    /// The layout of a header, without verifying its checksums.
    fn unproven(header: &[u8]) -> Option<Self> {
        let magic = word(header, 0);
        let page_size = word(header, 8) as usize;
        let known = magic & !1 == 0x377f_0682 && is_page_size(page_size);
        let salts = header.get(16..24)?.try_into().ok()?;
        known.then_some(Self { big_endian: magic & 1 == 1, page_size, salts })
    }

    /// Adds bytes to the running checksums. The number of bytes must be a multiple of eight.
    fn sums(self, bytes: &[u8], (mut first, mut second): Sums) -> Sums {
        let read = |bytes: [u8; 4]| match self.big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        };
        let (words, _) = bytes.as_chunks::<4>();
        let (pairs, _) = words.as_chunks::<2>();
        for [a, b] in pairs {
            first = first.wrapping_add(read(*a)).wrapping_add(second);
            second = second.wrapping_add(read(*b)).wrapping_add(first);
        }
        (first, second)
    }

    fn frame_size(self) -> usize {
        FRAME_HEADER + self.page_size
    }

    /// The checksums of a frame that follows the checksums `before`.
    fn frame_sums(self, frame: &[u8], before: Sums) -> Sums {
        let sums = self.sums(&frame[..8], before);
        self.sums(&frame[FRAME_HEADER..], sums)
    }

    fn is_of_this_log(self, frame: &[u8]) -> bool {
        frame[8..16] == self.salts
    }
}

fn is_page_size(size: usize) -> bool {
    size.is_power_of_two() && PAGE_SIZES.contains(&size)
}

/// Rewrites every intact frame of a WAL in place and syncs the file. Returns the number of frames.
///
/// After a failed sync, the kernel may consider pages clean that never reached the disk. Only a new write
/// makes it try again. Readers always see the same bytes. The caller excludes other writers.
pub(super) fn rewrite(path: &Path) -> io::Result<u64> {
    let mut options = File::options();
    let file = if_exists(bounded::open_with(path, options.read(true).write(true)))?;
    let Some(mut file) = file else { return Ok(0) };
    let mut header = [0; HEADER];
    if !read_whole(&mut file, &mut header)? {
        return Ok(0);
    }
    let Some((layout, mut sums)) = Layout::of(&header) else { return Ok(0) };
    write_back(&mut file, &header)?;
    let mut frame = vec![0; layout.frame_size()];
    let mut frames = 0;
    while read_whole(&mut file, &mut frame)? {
        let next = layout.frame_sums(&frame, sums);
        if !layout.is_of_this_log(&frame) || next != sums_at(&frame, 16) {
            break;
        }
        sums = next;
        write_back(&mut file, &frame)?;
        frames += 1;
    }
    file.sync_data()?;
    Ok(frames)
}

/// Fills the buffer. Returns `false` if the file ends first.
fn read_whole(file: &mut File, buffer: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(buffer) {
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        other => other.map(|()| true),
    }
}

/// Overwrites the bytes that were just read with the same bytes.
fn write_back(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    file.seek(SeekFrom::Current(-i64::try_from(bytes.len()).unwrap_or(i64::MAX)))?;
    file.write_all(bytes)
}

/// How to treat frames that fail verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unproven {
    /// Use their pages: most of such a page is intact, and each row has its own checksum.
    Use,
    /// Keep the previous version of their pages.
    Skip,
}

/// Builds a WAL that SQLite reads to the end from one that is damaged in the middle. Returns
/// `None` if there is no usable frame.
///
/// Each frame is verified against the checksums stored in the frame before it, so damage to
/// one frame does not hide the next.
pub(super) fn rebuilt(wal: &[u8], page_size: usize, unproven: Unproven) -> Option<Vec<u8>> {
    let header = wal.get(..HEADER)?;
    let layout = match Layout::of(header) {
        Some((layout, _)) => layout,
        None => guessed(wal, page_size)?,
    };
    let frames: Vec<&[u8]> = wal[HEADER..].chunks_exact(layout.frame_size()).collect();
    // Frames of an earlier generation of the log come after those of this one, never between them.
    let count = frames.iter().rposition(|frame| layout.is_of_this_log(frame))? + 1;
    let mut before = sums_at(header, 24);
    let (mut chosen, mut pages) = (Vec::new(), 0);
    for frame in &frames[..count] {
        let is_proven = layout.frame_sums(frame, before) == sums_at(frame, 16);
        before = sums_at(frame, 16);
        if is_proven && word(frame, 4) > 0 {
            pages = word(frame, 4);
        }
        if is_proven || unproven == Unproven::Use {
            chosen.push(*frame);
        }
    }
    chosen.retain(|frame| (1..=pages).contains(&word(frame, 0)));
    (!chosen.is_empty()).then(|| layout.chained(&chosen, pages))
}

/// Guesses the layout of a file with a damaged header from its first frames.
fn guessed(wal: &[u8], page_size: usize) -> Option<Layout> {
    let frame_size = FRAME_HEADER + if is_page_size(page_size) { page_size } else { return None };
    let frames: Vec<&[u8]> = wal[HEADER..].chunks_exact(frame_size).collect();
    let (first, second) = (frames.first()?, frames.get(1));
    let salts: [u8; 8] = second.unwrap_or(first).get(8..16)?.try_into().ok()?;
    let layout = |big_endian| Layout { big_endian, page_size, salts };
    // The checksums in the first frame verify the second one in one of the two byte orders.
    let fits = |layout: &Layout| {
        second.is_some_and(|second| layout.frame_sums(second, sums_at(first, 16)) == sums_at(second, 16))
    };
    Some([true, false].map(layout).into_iter().find(fits).unwrap_or(layout(cfg!(target_endian = "big"))))
}

impl Layout {
    /// Builds a WAL from these frames as a single commit of a database with `pages` pages.
    fn chained(self, frames: &[&[u8]], pages: u32) -> Vec<u8> {
        let mut wal = vec![0; HEADER];
        wal[..4].copy_from_slice(&(0x377f_0682 | u32::from(self.big_endian)).to_be_bytes());
        wal[4..8].copy_from_slice(&3_007_000_u32.to_be_bytes());
        wal[8..12].copy_from_slice(&u32::try_from(self.page_size).unwrap_or_default().to_be_bytes());
        wal[16..24].copy_from_slice(&self.salts);
        let mut sums = self.sums(&wal[..24], (0, 0));
        put_sums(&mut wal, 24, sums);
        for (n, frame) in frames.iter().enumerate() {
            let mut frame = frame.to_vec();
            let size = if n + 1 == frames.len() { pages } else { 0 };
            frame[4..8].copy_from_slice(&size.to_be_bytes());
            frame[8..16].copy_from_slice(&self.salts);
            sums = self.frame_sums(&frame, sums);
            put_sums(&mut frame, 16, sums);
            wal.extend_from_slice(&frame);
        }
        wal
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use rusqlite::Connection;
    use rusqlite::config::DbConfig;

    use super::*;

    /// A database with one row per commit in its WAL.
    fn database(dir: &Path, rows: u32) -> (PathBuf, Vec<u8>) {
        let path = dir.join("a.db");
        let db = Connection::open(&path).unwrap();
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY, pad BLOB);")
            .unwrap();
        for n in 0..rows {
            db.execute("INSERT INTO t VALUES (?1, randomblob(3000))", [n]).unwrap();
        }
        drop(db);
        let wal = std::fs::read(dir.join("a.db-wal")).unwrap();
        (path, wal)
    }

    /// Number of rows that can be read, each queried separately.
    fn rows(path: &Path) -> usize {
        let db = Connection::open(path).unwrap();
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        let is_there = |n: &u32| {
            let read =
                db.query_row("SELECT length(pad) FROM t WHERE n = ?1", [n], |row| row.get::<_, i64>(0));
            read.is_ok_and(|length| length == 3000)
        };
        (0..20).filter(is_there).count()
    }

    fn set(path: &Path, bytes: &[u8]) {
        crate::fs::atomic::write(path, bytes, crate::fs::atomic::Mode::Private).unwrap();
    }

    #[test]
    fn rewriting_changes_no_byte_and_counts_what_sqlite_counts() {
        let dir = tempfile::tempdir().unwrap();
        let (path, wal) = database(dir.path(), 20);
        let file = dir.path().join("a.db-wal");
        let frames = (wal.len() - HEADER) / (4096 + FRAME_HEADER);
        assert_eq!(rewrite(&file).unwrap(), frames as u64);
        assert_eq!(std::fs::read(&file).unwrap(), wal);
        let db = Connection::open(&path).unwrap();
        let seen: i64 = db.query_row("PRAGMA wal_checkpoint(NOOP)", [], |row| row.get(1)).unwrap();
        assert_eq!(seen, frames as i64);
        drop(db);
        // Frames after a damaged one are not rewritten.
        let mut damaged = wal.clone();
        damaged[HEADER + 3 * (4096 + FRAME_HEADER) + 100] ^= 1;
        set(&file, &damaged);
        assert_eq!(rewrite(&file).unwrap(), 3);
        assert_eq!(std::fs::read(&file).unwrap(), damaged);
        set(&file, b"");
        assert_eq!(rewrite(&file).unwrap(), 0);
        assert_eq!(rewrite(&dir.path().join("none")).unwrap(), 0);
    }

    #[test]
    fn a_damaged_frame_does_not_hide_those_behind_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, wal) = database(dir.path(), 20);
        let file = dir.path().join("a.db-wal");
        let frame = 4096 + FRAME_HEADER;
        let main = std::fs::read(&path).unwrap();
        // Damage the header, then the page number, size, salts, checksums and content of a middle frame.
        let middle = HEADER + 9 * frame;
        for at in [0, 9, 17, 25, middle + 3, middle + 6, middle + 9, middle + 17, middle + 1000] {
            let mut damaged = wal.clone();
            damaged[at] ^= 1;
            let lost = |unproven| {
                set(&path, &main);
                set(&file, &rebuilt(&damaged, 4096, unproven).unwrap());
                let _ = std::fs::remove_file(dir.path().join("a.db-shm"));
                20 - rows(&path)
            };
            let lost = lost(Unproven::Use).min(lost(Unproven::Skip));
            assert!(lost <= 1, "byte {at}: {lost} rows lost");
        }
        assert_eq!(rebuilt(b"", 4096, Unproven::Use), None);
        assert_eq!(rebuilt(&wal[..HEADER + 10], 4096, Unproven::Use), None);
        assert_eq!(rebuilt(&vec![0; 9000], 4096, Unproven::Use), None);
    }
}
