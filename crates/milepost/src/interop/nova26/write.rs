//! A run as rows of a new database.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::super::InteropError;
use super::super::types::{
    ExportCheckpoint, ExportRun, ExportedRun, format_time, import_metadata, note_lost_members,
    note_lost_run_members, note_lost_source, own_metadata, text_member,
};
use super::{FORMAT, SCHEMA};
use crate::model::{JsonPath, RawObject, Task};

/// Writes a run into a new database.
pub(crate) fn write(run: &ExportRun<'_>, path: &Path) -> Result<ExportedRun, InteropError> {
    let mut out = ExportedRun::default();
    write_tables(run, path, &mut out)
        .map_err(|source| InteropError::Database { path: path.to_owned(), source })?;
    for held in run.checkpoints {
        let home = ["snapshot_id", "created_at", "tasks", "metadata", "phase"];
        note_lost_source(held, &["timer"], &mut out.lost);
        if held.body.phase.as_ref().is_some_and(|phase| phase.name.is_some()) {
            out.lost.insert("phase.name".into());
        }
        note_lost_members(held, &home, &mut out.lost);
        if held.completed {
            out.lost.insert("completed".into());
        }
    }
    note_lost_run_members(run, &["plan", "log"], &mut out.lost);
    Ok(out)
}

fn write_tables(run: &ExportRun<'_>, path: &Path, out: &mut ExportedRun) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    // One file and nothing beside it.
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    connection.execute_batch(SCHEMA)?;
    let transaction = connection.transaction()?;
    let build = run_import_metadata(run);
    let name = text_member(&build, "id").unwrap_or_else(|| run.record.run_id.to_string());
    for held in run.checkpoints {
        let row = CheckpointRow::of(held);
        transaction.execute(
            "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase, metadata, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![row.id, name, row.timestamp, row.tasks, row.phase, row.metadata, row.created_at],
        )?;
    }
    write_build_state(run, &name, &build, &transaction, out)?;
    transaction.commit()
}

fn run_import_metadata(run: &ExportRun<'_>) -> RawObject {
    let raw = run.record.extra.get("imported");
    let fields = raw.and_then(|raw| RawObject::parse(raw.get(), &JsonPath::Root).ok()).unwrap_or_default();
    if text_member(&fields, "format").as_deref() == Some(FORMAT.as_str()) {
        fields
    } else {
        RawObject::default()
    }
}

/// A row of the first table.
struct CheckpointRow {
    id: String,
    timestamp: String,
    tasks: String,
    phase: String,
    metadata: Option<String>,
    created_at: String,
}

impl CheckpointRow {
    fn of(held: &ExportCheckpoint) -> Self {
        let body = &held.body;
        let kept = import_metadata(body.metadata.as_ref(), FORMAT);
        let at = format_sqlite_time(body.created_at);
        let metadata =
            own_metadata(body.metadata.as_ref()).and_then(|fields| serde_json::to_string(&fields).ok());
        Self {
            id: text_member(&kept, "id").unwrap_or_else(|| body.snapshot_id.to_string()),
            timestamp: text_member(&kept, "timestamp").unwrap_or_else(|| at.clone()),
            tasks: text_member(&kept, "tasks")
                .unwrap_or_else(|| serde_json::to_string(&body.tasks).unwrap_or_default()),
            phase: text_member(&kept, "current_phase")
                .unwrap_or_else(|| body.phase.as_ref().map_or(0, |phase| phase.number).to_string()),
            metadata: metadata.or_else(|| text_member(&kept, "metadata")),
            created_at: text_member(&kept, "created_at").unwrap_or(at),
        }
    }
}

/// A time as SQLite's own functions write it; with milliseconds where there are any.
fn format_sqlite_time(at: Timestamp) -> String {
    let text = format_time(at);
    text.replace('T', " ").trim_end_matches('Z').trim_end_matches(".000").to_owned()
}

fn write_build_state(
    run: &ExportRun<'_>,
    name: &str,
    build: &RawObject,
    transaction: &rusqlite::Transaction<'_>,
    out: &mut ExportedRun,
) -> rusqlite::Result<()> {
    let came =
        run.checkpoints.iter().all(|held| !import_metadata(held.body.metadata.as_ref(), FORMAT).is_empty());
    let known = build.get("build_state").filter(|_| came);
    let known = known.and_then(|raw| RawObject::parse(raw.get(), &JsonPath::Root).ok());
    if !build.is_empty() && known.is_none() && came {
        return Ok(());
    }
    let working = &run.record.working;
    let ended = |ended: fn(&Task) -> bool| -> String {
        let ids: Vec<_> = working.tasks.iter().filter(|task| ended(task)).map(Task::id).collect();
        serde_json::to_string(&ids).unwrap_or_default()
    };
    let logs: Vec<_> = working.log.iter().map(|line| &line.text).collect();
    let own = |column: &str| match column {
        "prd_file" => run.record.plan.clone().unwrap_or_default(),
        "start_time" => format_time(run.record.started_at),
        "tasks" => serde_json::to_string(&working.tasks).unwrap_or_default(),
        "completed_tasks" => ended(Task::is_completed),
        "failed_tasks" => ended(Task::is_failed),
        "current_phase" => working.phase.as_ref().map_or(0, |phase| phase.number).to_string(),
        "logs" => serde_json::to_string(&logs).unwrap_or_default(),
        _ => format_sqlite_time(run.record.updated_at),
    };
    let value = |column: &str| match &known {
        Some(known) => text_member(known, column).unwrap_or_default(),
        None => own(column),
    };
    if known.is_none() && !working.log.is_empty() {
        out.lost.insert("run.log.at".into());
    }
    transaction.execute(
        "INSERT INTO build_states (build_id, prd_file, start_time, tasks, completed_tasks, failed_tasks, current_phase, \
         logs, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            name,
            value("prd_file"),
            value("start_time"),
            value("tasks"),
            value("completed_tasks"),
            value("failed_tasks"),
            value("current_phase"),
            value("logs"),
            value("updated_at"),
        ],
    )?;
    Ok(())
}
