//! Replayed logs, kept while the process lives.
//! In: a run's id. Out: its log as of now, read anew only where the file has changed, and only its new lines where it
//! has grown. Takes no lock between processes and writes nothing.

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

/// Maximum size of a log. Logs are written anew long before they get there.
const LOG_LIMIT: u64 = 256 << 20;

/// Tells one state of a file from another.
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
            let changed = meta.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
            let changed = changed.map_or((0, 0), |d| (d.as_secs() as i64, i64::from(d.subsec_nanos())));
            Self { file: 0, length: meta.len(), changed }
        }
    }
}

/// Where the next line of a log goes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct End {
    /// The offset; what lies beyond was never acknowledged.
    pub(super) at: u64,
    /// Whether the last line has lost its newline.
    pub(super) open: bool,
}

/// A replayed log and the file it was read from.
#[derive(Debug)]
pub(super) struct Cached {
    version: Version,
    end: End,
    last_start: u64,
    /// How the last line begins, its checksum included.
    last_head: Vec<u8>,
    log: Arc<RunLog>,
}

impl FilesStore {
    /// The run's log as it is now; `None` if there is no such run.
    pub(super) fn load(&self, run: &RunId) -> Result<Option<Arc<RunLog>>, StoreError> {
        Ok(self.load_with_end(run)?.map(|(log, _)| log))
    }

    /// The run's log, and where its next line goes.
    pub(super) fn load_with_end(&self, run: &RunId) -> Result<Option<(Arc<RunLog>, End)>, StoreError> {
        let history = self.history(run);
        if let Some(found) = self.replay(run, &history)? {
            return Ok(Some(found));
        }
        // `latest.json` comes after the first commit: without a line, the log is what is missing. It may just have come.
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

    /// The run's log from its file; `None` where the file has no line.
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

    /// Keeps a log that was just written as `bytes`, so that it need not be read again. Only while the lock is held.
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

    /// All runs. One whose log cannot be read is shown by what else is there.
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
        // Without a new line the last known one, with which the bytes begin, is still the last.
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
        // The last known line must still be there: the log may have been cut and written again.
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

fn range(file: &mut File, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(end.saturating_sub(start) as usize);
    file.seek(SeekFrom::Start(start))?;
    file.take(end.saturating_sub(start)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
