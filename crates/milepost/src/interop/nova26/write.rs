//! Writes a run into a new nova26 database. Takes a run and the path of a file that does not exist yet,
//! creates the file, and returns the fields that the format cannot represent.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, params, params_from_iter};

use super::super::InteropError;
use super::super::types::{ExportRun, ExportedRun, format_time, parse_object, text_member};
use super::{BUILD_STATE_COLUMNS, FORMAT, SCHEMA};
use crate::model::{RawObject, Task};

/// Writes a run into a new database at `path`.
pub(crate) fn write(run: &ExportRun<'_>, path: &Path) -> Result<ExportedRun, InteropError> {
    let mut out = ExportedRun::default();
    write_tables(run, path, &mut out)
        .map_err(|source| InteropError::Database { path: path.to_owned(), source })?;
    for checkpoint in run.checkpoints {
        let phase = checkpoint.body.phase.as_ref();
        out.lose_if(phase.is_some_and(|phase| phase.name.is_some()), "phase.name");
        out.lose_if(checkpoint.completed, "completed");
        out.lose_source_unless(checkpoint, &["timer"]);
        out.lose_members_except(checkpoint, &["snapshot_id", "created_at", "tasks", "metadata", "phase"]);
    }
    out.lose_run_members_except(run, &["plan", "log"]);
    Ok(out)
}

fn write_tables(run: &ExportRun<'_>, path: &Path, out: &mut ExportedRun) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    // Create no journal file next to the database.
    connection.pragma_update(None, "journal_mode", "MEMORY")?;
    connection.execute_batch(SCHEMA)?;
    let transaction = connection.transaction()?;
    let imported = run.import_metadata(FORMAT);
    let build = text_member(&imported, "id").unwrap_or_else(|| run.record.run_id.to_string());
    for checkpoint in run.checkpoints {
        let body = &checkpoint.body;
        let imported = checkpoint.import_metadata(FORMAT);
        let original = |column| text_member(&imported, column);
        let at = format_sqlite_time(body.created_at);
        let phase = || body.phase.as_ref().map_or(0, |phase| phase.number).to_string();
        let metadata = checkpoint.callers_metadata().map(|fields| to_json(&fields));
        transaction.execute(
            "INSERT INTO checkpoints (id, build_id, timestamp, tasks, current_phase, metadata, created_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                checkpoint.original_id(&imported),
                build,
                original("timestamp").unwrap_or_else(|| at.clone()),
                original("tasks").unwrap_or_else(|| to_json(&body.tasks)),
                original("current_phase").unwrap_or_else(phase),
                metadata.or_else(|| original("metadata")),
                original("created_at").unwrap_or(at),
            ],
        )?;
    }
    write_build_state(run, &build, &imported, &transaction, out)?;
    transaction.commit()
}

fn to_json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Formats a time like SQLite's own functions, with milliseconds unless they are zero.
fn format_sqlite_time(at: Timestamp) -> String {
    let text = format_time(at);
    text.replace('T', " ").trim_end_matches('Z').trim_end_matches(".000").to_owned()
}

fn write_build_state(
    run: &ExportRun<'_>,
    build: &str,
    imported: &RawObject,
    transaction: &rusqlite::Transaction<'_>,
    out: &mut ExportedRun,
) -> rusqlite::Result<()> {
    let all_imported =
        run.checkpoints.iter().all(|checkpoint| !checkpoint.import_metadata(FORMAT).is_empty());
    let original = imported.get("build_state").filter(|_| all_imported).and_then(parse_object);
    if !imported.is_empty() && original.is_none() && all_imported {
        return Ok(());
    }
    let working = &run.record.working;
    out.lose_if(original.is_none() && !working.log.is_empty(), "run.log.at");
    let ids = |ended: fn(&Task) -> bool| -> Vec<_> {
        working.tasks.iter().filter(|task| ended(task)).map(Task::id).collect()
    };
    let value = |column: &str| match (column, &original) {
        ("build_id", _) => build.to_owned(),
        (_, Some(original)) => text_member(original, column).unwrap_or_default(),
        ("prd_file", _) => run.record.plan.clone().unwrap_or_default(),
        ("start_time", _) => format_time(run.record.started_at),
        ("tasks", _) => to_json(&working.tasks),
        ("completed_tasks", _) => to_json(&ids(Task::is_completed)),
        ("failed_tasks", _) => to_json(&ids(Task::is_failed)),
        ("current_phase", _) => working.phase.as_ref().map_or(0, |phase| phase.number).to_string(),
        ("logs", _) => to_json(&working.log.iter().map(|line| &line.text).collect::<Vec<_>>()),
        _ => format_sqlite_time(run.record.updated_at),
    };
    let sql = format!(
        "INSERT INTO build_states ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        BUILD_STATE_COLUMNS.join(", ")
    );
    transaction.execute(&sql, params_from_iter(BUILD_STATE_COLUMNS.map(value)))?;
    Ok(())
}
