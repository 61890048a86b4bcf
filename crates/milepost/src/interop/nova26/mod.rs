//! The nova26 format: builds in a SQLite file with the tables `checkpoints` and `build_states`. Takes the
//! file, or a folder with exactly one, and returns one run per build. Reads everything in one transaction, so
//! the data is consistent while another program writes. It must not write to the database or create files
//! next to it.

mod write;

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::Value;

pub(crate) use self::write::write;
use super::types::{ForeignCheckpoint, ForeignData, parse_object, text_member};
use super::{Format, InteropError, Progress};
use crate::database;
use crate::model::{Draft, FromRawJson, JsonPath, LogLine, Phase, RawObject, Source, Status, Task};
use crate::seal::strict;

const FORMAT: Format = Format::Nova26;
/// The first bytes of every SQLite file.
pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// The maximum length of a field in bytes. Longer fields are treated as missing.
const FIELD_LIMIT: usize = 64 << 20;

/// The schema that the original tool creates.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS checkpoints (
    id TEXT PRIMARY KEY,
    build_id TEXT NOT NULL,
    timestamp TEXT NOT NULL,
    tasks TEXT NOT NULL,
    current_phase INTEGER NOT NULL,
    metadata TEXT,
    created_at DATETIME DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX IF NOT EXISTS idx_build_id ON checkpoints(build_id);
CREATE INDEX IF NOT EXISTS idx_timestamp ON checkpoints(timestamp);
CREATE TABLE IF NOT EXISTS build_states (
    build_id TEXT PRIMARY KEY,
    prd_file TEXT NOT NULL,
    start_time TEXT NOT NULL,
    tasks TEXT NOT NULL,
    completed_tasks TEXT NOT NULL,
    failed_tasks TEXT NOT NULL,
    current_phase INTEGER NOT NULL,
    logs TEXT NOT NULL,
    updated_at DATETIME DEFAULT CURRENT_TIMESTAMP
);";

const BUILD_STATE_COLUMNS: [&str; 9] = [
    "build_id",
    "prd_file",
    "start_time",
    "tasks",
    "completed_tasks",
    "failed_tasks",
    "current_phase",
    "logs",
    "updated_at",
];

/// Returns true if the path is a regular file that begins with the SQLite magic bytes.
pub(super) fn is_database(path: &Path) -> bool {
    let mut start = [0; 16];
    // Opening anything but a regular file, such as a pipe, can block forever.
    path.is_file() && read_start(path, &mut start).is_ok() && start == MAGIC
}

/// Returns the database at a path: the file itself, or the only database in the folder.
fn find_database(path: &Path) -> Result<PathBuf, InteropError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let entries = fs::read_dir(path).map_err(InteropError::read(path))?;
    let mut all: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|p| is_database(p)).collect();
    let why = match all.len() {
        1 => return Ok(all.remove(0)),
        0 => "it contains no SQLite file".to_owned(),
        n => format!("it contains {n} SQLite files: specify one"),
    };
    Err(InteropError::nothing(path, why))
}

/// Reads both tables in one transaction.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    let path = find_database(path)?;
    if !path.is_file() {
        return Err(InteropError::read(&path)(io::ErrorKind::NotFound.into()));
    }
    if !is_database(&path) {
        return Err(InteropError::nothing(&path, "it is not a SQLite file"));
    }
    // Opening the database must not create or change any file next to it, not even the index of its WAL. If
    // that is not possible, a copy is read instead.
    let mut aside = None;
    if !has_log(&path) || with_suffix(&path, "-wal").exists() && with_suffix(&path, "-shm").exists() {
        match read_tables(&path, OpenFlags::SQLITE_OPEN_READ_ONLY, progress) {
            Err(e) if needs_writer(&e) => aside = Some(e),
            result => return result.map_err(|source| InteropError::Database { path, source }),
        }
    }
    let copy = copy_at_rest(&path).map_err(InteropError::read(&path))?;
    let Some((_folder, copy)) = copy else {
        let source = aside.unwrap_or(rusqlite::Error::InvalidQuery);
        return Err(InteropError::Database { path, source });
    };
    read_tables(&copy, OpenFlags::SQLITE_OPEN_READ_WRITE, progress)
        .map_err(|source| InteropError::Database { path, source })
}

/// Returns true if the database is in WAL mode. If no other program has it open, SQLite would create the WAL
/// files on reading.
fn has_log(path: &Path) -> bool {
    let mut start = [0; 20];
    read_start(path, &mut start).is_ok() && start[18..] == [2, 2]
}

fn read_start(path: &Path, bytes: &mut [u8]) -> io::Result<()> {
    fs::File::open(path)?.read_exact(bytes)
}

fn with_suffix(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
}

/// Returns true if reading failed because the database needs a writer: it has a WAL that no process has open,
/// or a journal to roll back.
fn needs_writer(e: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly, SystemIoFailure};
    matches!(e.sqlite_error_code(), Some(CannotOpen | ReadOnly | SystemIoFailure))
}

/// Copies the database with its WAL or journal at a moment when none of the files changed. Returns `None` if
/// the files kept changing.
fn copy_at_rest(path: &Path) -> io::Result<Option<(tempfile::TempDir, PathBuf)>> {
    let ends = ["", "-wal", "-journal"];
    let state =
        || ends.map(|end| fs::metadata(with_suffix(path, end)).map(|m| (m.len(), m.modified().ok())).ok());
    for _ in 0..20 {
        let before = state();
        let folder = tempfile::Builder::new().prefix("milepost-import-").tempdir()?;
        let copy = folder.path().join("copy.db");
        for (end, _) in ends.iter().zip(&before).filter(|(_, found)| found.is_some()) {
            fs::copy(with_suffix(path, end), with_suffix(&copy, end))?;
        }
        if state() == before {
            return Ok(Some((folder, copy)));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Ok(None)
}

fn read_tables(path: &Path, how: OpenFlags, progress: &mut Progress<'_>) -> rusqlite::Result<ForeignData> {
    let escaped = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    // The original must stay unchanged, including the index of its WAL. A copy can be written.
    let foreign = how == OpenFlags::SQLITE_OPEN_READ_ONLY;
    let uri = format!("file:{escaped}{}", if foreign { "?readonly_shm=1" } else { "" });
    let connection =
        Connection::open_with_flags(uri, how | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    database::restrict(&connection)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    connection.execute_batch("BEGIN")?;
    let mut found = ForeignData::default();
    // Accept only plain tables. The content of views, virtual tables and generated columns is computed, and a
    // malicious computation might never end.
    let has = |table: &str| {
        connection.query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND sql NOT LIKE 'CREATE VIRTUAL%' \
             AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(?1) WHERE hidden > 1)",
            [table],
            |row| row.get::<_, i64>(0).map(|n| n > 0),
        )
    };
    if has("checkpoints")? {
        let sql = "SELECT id, build_id, timestamp, tasks, current_phase, metadata, created_at FROM checkpoints \
                   ORDER BY timestamp, rowid";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        for n in 1.. {
            let Some(row) = rows.next()? else { break };
            progress(n);
            read_checkpoint_row(row, &mut found)?;
        }
    } else {
        found.warn("checkpoints", "the database has no such table");
    }
    if has("build_states")? {
        let sql = format!("SELECT {} FROM build_states ORDER BY rowid", BUILD_STATE_COLUMNS.join(", "));
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            read_build_state_row(row, &mut found)?;
        }
    }
    Ok(found)
}

/// Returns a field as text. `None` if it is null, a blob, too long or not UTF-8.
fn field(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<String>> {
    Ok(match row.get_ref(at)? {
        ValueRef::Text(text) if text.len() <= FIELD_LIMIT => {
            std::str::from_utf8(text).ok().map(ToOwned::to_owned)
        }
        ValueRef::Integer(n) => Some(n.to_string()),
        ValueRef::Real(n) => Some(n.to_string()),
        _ => None,
    })
}

/// Parses a time in RFC 3339, or in SQLite's form without a time zone, which is UTC.
fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok().or_else(|| format!("{}Z", text.trim().replacen(' ', "T", 1)).parse().ok())
}

fn read_checkpoint_row(row: &Row<'_>, found: &mut ForeignData) -> rusqlite::Result<()> {
    let (id, build) = (field(row, 0)?.unwrap_or_default(), field(row, 1)?.unwrap_or_default());
    let location = format!("checkpoints/{id}");
    let time = field(row, 2)?.unwrap_or_default();
    let made = field(row, 6)?;
    let Some(created_at) = parse_time(&time).or_else(|| made.as_deref().and_then(parse_time)) else {
        found.skip(location, format!("timestamp \"{time}\" is not a time"));
        return Ok(());
    };
    if id.is_empty() || build.is_empty() {
        found.skip(location, "it has no id or no build id");
        return Ok(());
    }
    let mut kept = RawObject::default();
    kept.put("timestamp", &time);
    kept.put("created_at", &made);
    let tasks = task_list(field(row, 3)?, &location, &mut kept, found);
    let current_phase = field(row, 4)?;
    let phase = current_phase.as_deref().and_then(phase);
    if phase.is_none() {
        kept.put("current_phase", &current_phase);
        found.warn(&location, "current_phase is not a whole number of 0 or more: kept in metadata.imported");
    }
    let metadata = field(row, 5)?;
    let object = |text: &String| strict::raw(text.as_bytes()).ok().filter(|raw| parse_object(raw).is_some());
    let read = metadata.as_ref().and_then(object);
    if read.is_none() {
        if metadata.is_some() {
            found.warn(&location, "metadata is not a JSON object: kept in metadata.imported");
        }
        kept.put("metadata", &metadata);
    }
    let draft = Draft {
        source: Some(Source::Timer),
        status: Some(Status::InProgress),
        phase,
        tasks,
        metadata: read,
        ..Draft::default()
    };
    let run = found.run_mut(FORMAT, &build);
    run.checkpoints.push(ForeignCheckpoint::new(id, &location, created_at, draft, kept));
    Ok(())
}

/// Parses a list of tasks. An invalid list is stored unchanged in `kept`.
fn task_list(
    text: Option<String>,
    location: &str,
    kept: &mut RawObject,
    found: &mut ForeignData,
) -> Option<Vec<Task>> {
    let text = text?;
    let read = strict::check(text.as_bytes()).and_then(|text| Vec::<Task>::from_raw(text, &JsonPath::Root));
    match read {
        Ok(tasks) => Some(tasks),
        Err(e) => {
            found.warn(location, format!("tasks: {e}: kept in metadata.imported"));
            kept.put("tasks", &text);
            None
        }
    }
}

fn read_build_state_row(row: &Row<'_>, found: &mut ForeignData) -> rusqlite::Result<()> {
    let mut columns = RawObject::default();
    for (at, name) in BUILD_STATE_COLUMNS.into_iter().enumerate() {
        columns.put(name, &field(row, at)?);
    }
    let text = |column| text_member(&columns, column);
    let Some(build) = text("build_id").filter(|build| !build.is_empty()) else {
        found.skip("build_states", "a row without a build id");
        return Ok(());
    };
    let location = format!("build_states/{build}");
    // An invalid list needs no separate copy, because all columns are stored below.
    let mut tasks = task_list(text("tasks"), &location, &mut RawObject::default(), found).unwrap_or_default();
    let run = found.run_mut(FORMAT, &build);
    if tasks.is_empty() {
        tasks = run.checkpoints.last().and_then(|last| last.draft.tasks.clone()).unwrap_or_default();
    }
    for (column, status) in [("completed_tasks", "done"), ("failed_tasks", "failed")] {
        for id in text(column).iter().flat_map(|text| task_ids(text)) {
            match tasks.iter_mut().find(|task| task.id() == id) {
                Some(task)
                    if status == "done" && task.is_completed() || status == "failed" && task.is_failed() => {}
                Some(task) => drop(task.update(status, None)),
                None => tasks.extend(Task::new(&id, status, None)),
            }
        }
    }
    let time = |column| text(column).as_deref().and_then(parse_time);
    let lines: Vec<Value> = serde_json::from_str(&text("logs").unwrap_or_default()).unwrap_or_default();
    run.plan = text("prd_file").filter(|file| !file.is_empty());
    run.started_at = time("start_time");
    run.phase = text("current_phase").and_then(|n| phase(&n));
    run.tasks = (!tasks.is_empty()).then_some(tasks);
    let newest = run.checkpoints.last().map(|last| last.created_at);
    let at = time("updated_at").or(run.started_at).or(newest).unwrap_or_default();
    let to_text = |line: Value| line.as_str().map_or_else(|| line.to_string(), ToOwned::to_owned);
    let log_line = |line| LogLine { at, text: to_text(line), extra: RawObject::default() };
    run.log = lines.into_iter().map(log_line).collect();
    run.kept.put("build_state", &columns);
    Ok(())
}

fn phase(number: &str) -> Option<Phase> {
    number.parse().ok().map(|number| Phase { number, ..Phase::default() })
}

/// Parses a list of task ids. Each entry is a string or an object with an `id`.
fn task_ids(text: &str) -> Vec<String> {
    let all: Vec<Value> = serde_json::from_str(text).unwrap_or_default();
    all.iter().filter_map(|v| v.as_str().or_else(|| v["id"].as_str()).map(ToOwned::to_owned)).collect()
}
