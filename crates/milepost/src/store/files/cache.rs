//! A cache of replayed logs, for the lifetime of the store handle. Takes a run's id and returns the current
//! state of its log. Reads a log again only if its file has changed, and only the new lines if the file has
//! grown. Takes no lock between processes and writes nothing.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::log::{HEAD, pieces};
use super::state::RunLog;
use super::{FilesStore, read_error};
use crate::fs::bounded;
use crate::model::RunId;
use crate::store::StoreError;

/// Maximum size of a log. Logs are compacted long before they reach it.
pub(super) const LOG_LIMIT: u64 = 256 << 20;

/// Identifies a version of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    file: u64,
    length: u64,
    changed: (i64, i64),
}

impl Version {
    fn of(meta: &fs::Metadata) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            Self { file: meta.ino(), length: meta.len(), changed: (meta.ctime(), meta.ctime_nsec()) }
        }
        #[cfg(not(unix))]
        {
            let nanos = |time: std::io::Result<std::time::SystemTime>| {
                let since = time.ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
                since.map_or((0, 0), |d| (d.as_secs() as i64, i64::from(d.subsec_nanos())))
            };
            // The metadata has no file number. A file that replaces another one has its own time of creation.
            let (seconds, subsec) = nanos(meta.created());
            let file =
                seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(subsec.cast_unsigned());
            Self { file, length: meta.len(), changed: nanos(meta.modified()) }
        }
    }
}

/// The position of a log's next line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct End {
    /// The offset. Bytes after it were never acknowledged.
    pub(super) at: u64,
    /// Whether the newline of the last line is missing.
    pub(super) open: bool,
}

/// A replayed log and the file it was read from.
#[derive(Debug)]
pub(super) struct Cached {
    version: Version,
    end: End,
    last_start: u64,
    /// The start of the last line, including its checksum.
    last_head: Vec<u8>,
    log: Arc<RunLog>,
}

impl FilesStore {
    /// The current state of a run's log; `None` if the run does not exist.
    pub(super) fn load(&self, run: &RunId) -> Result<Option<Arc<RunLog>>, StoreError> {
        Ok(self.load_with_end(run)?.map(|(log, _)| log))
    }

    /// The current state of a run's log, and the position of its next line.
    pub(super) fn load_with_end(&self, run: &RunId) -> Result<Option<(Arc<RunLog>, End)>, StoreError> {
        let history = self.history(run);
        if let Some(found) = self.replay(run, &history)? {
            return Ok(Some(found));
        }
        // `latest.json` is written after the first commit. If it exists, either the log is missing or
        // damaged, or another process has just committed, so read again.
        if !history.latest().exists() {
            return Ok(None);
        }
        if let Some(found) = self.replay(run, &history)? {
            return Ok(Some(found));
        }
        let mut log = RunLog::without_log();
        log.survey(run, &history);
        Ok(Some((Arc::new(log), End::default())))
    }

    /// Reads the run's log from its file or the cache; `None` if the file has no lines.
    fn replay(
        &self,
        run: &RunId,
        history: &super::History,
    ) -> Result<Option<(Arc<RunLog>, End)>, StoreError> {
        let path = history.log();
        let mut runs = self.runs.lock().unwrap_or_else(|e| e.into_inner());
        history.check_links().map_err(|e| read_error(&path, e))?;
        let read = match bounded::open(&path) {
            Ok(file) if file.metadata().is_ok_and(|meta| meta.len() > LOG_LIMIT) => {
                let why = format!("larger than {LOG_LIMIT} bytes");
                return Err(read_error(&path, io::Error::new(io::ErrorKind::FileTooLarge, why)));
            }
            Ok(file) => read(file, &path, run, runs.remove(run), history)?,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
            Err(e) => return Err(read_error(&path, e)),
        };
        let Some(cached) = read.filter(|cached| cached.log.exists()) else {
            runs.remove(run);
            return Ok(None);
        };
        let found = (cached.log.clone(), cached.end);
        runs.insert(run.clone(), cached);
        Ok(Some(found))
    }

    /// Caches a log that was just written as `bytes`, to avoid a read. The caller must hold the lock.
    pub(super) fn remember(&self, run: &RunId, log: RunLog, bytes: &[u8]) {
        let Ok(meta) = fs::metadata(self.history(run).log()) else { return };
        let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let last = lines.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let cached = Cached {
            version: Version::of(&meta),
            end: End { at: bytes.len() as u64, open: false },
            last_start: last as u64,
            last_head: head(&bytes[last..]),
            log: Arc::new(log),
        };
        self.runs.lock().unwrap_or_else(|e| e.into_inner()).insert(run.clone(), cached);
    }

    /// The run that a query names, if it exists, or all runs.
    pub(super) fn load_queried(&self, run: Option<&RunId>) -> Result<Vec<(RunId, Arc<RunLog>)>, StoreError> {
        match run {
            Some(run) => Ok(self.load(run)?.map(|log| (run.clone(), log)).into_iter().collect()),
            None => self.load_all(),
        }
    }

    /// All runs. If a log cannot be read, the run's state comes from `history/`.
    pub(super) fn load_all(&self) -> Result<Vec<(RunId, Arc<RunLog>)>, StoreError> {
        let mut logs = Vec::new();
        for run in self.run_ids()? {
            match self.load(&run) {
                Ok(Some(log)) => logs.push((run, log)),
                Ok(None) => {}
                Err(_) => {
                    let mut log = RunLog::without_log();
                    log.survey(&run, &self.history(&run));
                    logs.push((run, Arc::new(log)));
                }
            }
        }
        Ok(logs)
    }
}

fn read(
    mut file: File,
    path: &Path,
    run: &RunId,
    cached: Option<Cached>,
    history: &super::History,
) -> Result<Option<Cached>, StoreError> {
    let failed = |e| read_error(path, e);
    let version = Version::of(&file.metadata().map_err(failed)?);
    let grown = match cached {
        Some(cached) if cached.version == version => return Ok(Some(cached)),
        Some(cached) => Some(cached).filter(|c| {
            c.version.file == version.file && c.version.length < version.length && !c.last_head.is_empty()
        }),
        None => None,
    };
    let replayed = |mut log: RunLog, bytes: &[u8], known: usize, offset: u64| {
        let found = pieces(run, &bytes[known..]);
        log.extend(&found.pieces);
        log.survey(run, history);
        // If there is no new line, the last line is the cached one at the start of `bytes`.
        let last_start = if found.pieces.is_empty() { 0 } else { known + found.last_start };
        Ok(Some(Cached {
            version,
            end: End { at: offset + (known + found.end) as u64, open: found.open },
            last_start: offset + last_start as u64,
            last_head: head(&bytes[last_start..known + found.end]),
            log: Arc::new(log),
        }))
    };
    if let Some(cached) = grown {
        let bytes = range(&mut file, cached.last_start, version.length).map_err(failed)?;
        // The cached last line must still be in place: the log may have been truncated and extended again.
        let known = (cached.end.at - cached.last_start) as usize;
        if !cached.end.open && bytes.len() >= known && bytes.starts_with(&cached.last_head) {
            return replayed(Arc::unwrap_or_clone(cached.log), &bytes, known, cached.last_start);
        }
    }
    let bytes = range(&mut file, 0, version.length).map_err(failed)?;
    replayed(RunLog::default(), &bytes, 0, 0)
}

fn head(line: &[u8]) -> Vec<u8> {
    line[..line.len().min(HEAD)].to_vec()
}

/// The bytes of a file between two offsets.
pub(super) fn range(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(end.saturating_sub(start) as usize);
    file.seek(SeekFrom::Start(start))?;
    file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
