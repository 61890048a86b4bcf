//! The aiwg format: numbered checkpoints of a session, one JSON file each, with the state of git, the watched
//! folder and memory. Reads a folder into one run per session. Writes a run as files and returns the fields
//! that the format cannot represent.

use std::collections::BTreeMap;
use std::path::Path;

use super::folder::{SourceFolder, subfolder_or_self};
use super::types::{
    ExportCheckpoint, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, format_time, pretty_json,
    restore_members, take_optional, take_required, take_time,
};
use super::{Format, InteropError, Progress};
use crate::model::{
    Draft, GitFacts, MemoryUsage, PathText, RawObject, Source, Status, ValidationError, WatchedFiles,
    Workspace,
};

const FORMAT: Format = Format::Aiwg;
/// The folder that the original tool watches. The paths in its files are relative to it.
const WATCHED: &str = ".aiwg/";

/// Returns true if a file with this name is a checkpoint.
pub(super) fn is_checkpoint(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && &name[digits..] == "-checkpoint.json"
}

/// Reads the numbered files and returns one run per session.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    let mut folder = SourceFolder::open(path, progress)?;
    let files = folder.files(&subfolder_or_self(path, "checkpoints"), is_checkpoint);
    folder.read_checkpoints(FORMAT, &files, |fields, path, _| parse_checkpoint(fields, path));
    for run in &mut folder.data.runs {
        run.checkpoints.sort_by_key(|one| (one.number, one.created_at));
    }
    Ok(folder.data)
}

fn parse_checkpoint(
    mut fields: RawObject,
    path: &str,
) -> Result<(String, ForeignCheckpoint), ValidationError> {
    let f = &mut fields;
    let mut kept = RawObject::default();
    let number: u64 = take_required(f, "number")?;
    let created_at = take_time(f, "timestamp", &mut kept)?;
    let elapsed_ms: u64 = take_optional(f, "duration")?;
    let session: String = take_optional(f, "sessionId")?;
    let session = if session.is_empty() { "unknown".to_owned() } else { session };
    let mut git: RawObject = take_optional(f, "gitStatus")?;
    let mut watched: RawObject = take_optional(f, "aiwgState")?;
    let mut memory: RawObject = take_optional(f, "memory")?;
    let sizes: BTreeMap<String, u64> = take_optional(&mut watched, "sizes")?;
    let files: Vec<PathText> = take_optional(&mut watched, "files")?;
    let in_project = |path| match path {
        PathText::Text(path) => PathText::Text(format!("{WATCHED}{path}")),
        bytes => bytes,
    };
    let workspace = Workspace {
        git: Some(GitFacts {
            branch: take_optional(&mut git, "branch")?,
            error: take_optional(&mut git, "error")?,
            modified: take_optional(&mut git, "modified")?,
            staged: take_optional(&mut git, "staged")?,
            untracked: take_optional(&mut git, "untracked")?,
            extra: git,
            ..GitFacts::default()
        }),
        watched: Some(WatchedFiles {
            error: take_optional(&mut watched, "error")?,
            files: files.into_iter().map(in_project).collect(),
            sizes: sizes.into_iter().map(|(path, size)| (format!("{WATCHED}{path}"), size)).collect(),
            extra: watched,
        }),
        files_modified: take_optional(f, "filesModified")?,
        memory: Some(MemoryUsage {
            heap_used: take_optional(&mut memory, "heapUsed")?,
            peak_rss: None,
            rss: take_optional(&mut memory, "rss")?,
            extra: memory,
        }),
        ..Workspace::default()
    };
    let first = number <= 1;
    let draft = Draft {
        session_id: Some(session.clone()),
        source: Some(if first { Source::Manual } else { Source::Timer }),
        reasons: if first { vec!["session_start".to_owned()] } else { Vec::new() },
        status: Some(Status::InProgress),
        workspace: Some(workspace),
        ..Draft::default()
    };
    kept.set_all(&fields);
    let id = format!("{session}-{number:03}");
    let checkpoint = ForeignCheckpoint::new(id, path, created_at, draft, kept);
    Ok((session, ForeignCheckpoint { elapsed_ms, number: Some(number), ..checkpoint }))
}

/// Writes `checkpoints/NNN-checkpoint.json`.
pub(crate) fn write(run: &ExportRun<'_>) -> ExportedRun {
    let mut out = ExportedRun::default();
    for checkpoint in run.checkpoints {
        let fields = to_foreign(checkpoint, &mut out);
        let name = format!("checkpoints/{:03}-checkpoint.json", checkpoint.body.sequence);
        out.add_file(name, pretty_json(&fields));
        let mut held = vec!["created_at", "elapsed_ms", "session_id", "workspace"];
        if !checkpoint.import_metadata(FORMAT).is_empty() {
            // A new import derives the same id again.
            held.push("snapshot_id");
        }
        if checkpoint.callers_metadata().is_none_or(|fields| fields.is_empty()) {
            held.push("metadata");
        }
        out.lose_members_except(checkpoint, &held);
        let is_first = checkpoint.body.sequence <= 1;
        out.lose_source_unless(checkpoint, if is_first { &["manual", "session_start"] } else { &["timer"] });
    }
    out.lose_run_members_except(run, &["sequence"]);
    out
}

fn to_foreign(checkpoint: &ExportCheckpoint, out: &mut ExportedRun) -> RawObject {
    let body = &checkpoint.body;
    let imported = checkpoint.import_metadata(FORMAT);
    let workspace = body.workspace.clone().unwrap_or_default();
    let git = workspace.git.unwrap_or_default();
    let watched = workspace.watched.unwrap_or_default();
    let memory = workspace.memory.unwrap_or_default();
    out.lose_if(git.head.is_some(), "workspace.git.head");
    out.lose_if(!git.renamed.is_empty(), "workspace.git.renamed");
    out.lose_if(memory.peak_rss.is_some(), "workspace.memory.peak_rss");
    out.lose_if(!workspace.skipped.is_empty(), "workspace.skipped");

    let mut git_status = RawObject::default();
    git_status.put("branch", &git.branch.unwrap_or_default());
    git_status.put("modified", &path_list(&git.modified, out));
    git_status.put("untracked", &path_list(&git.untracked, out));
    git_status.put("staged", &path_list(&git.staged, out));
    git.error.iter().for_each(|error| git_status.put("error", error));
    git_status.set_all(&git.extra);

    let mut state = RawObject::default();
    let files: Vec<_> = path_list(&watched.files, out).into_iter().map(strip_watched).collect();
    state.put("files", &files);
    let sizes: BTreeMap<_, _> =
        watched.sizes.iter().map(|(path, size)| (strip_watched(path), size)).collect();
    state.put("sizes", &sizes);
    watched.error.iter().for_each(|error| state.put("error", error));
    state.set_all(&watched.extra);

    let mut sizes = RawObject::default();
    sizes.put("heapUsed", &memory.heap_used.unwrap_or_default());
    sizes.put("rss", &memory.rss.unwrap_or_default());
    sizes.set_all(&memory.extra);

    let mut fields = RawObject::default();
    fields.put("number", &body.sequence);
    fields.put("timestamp", &format_time(body.created_at));
    fields.put("duration", &body.elapsed_ms);
    fields.put("gitStatus", &git_status);
    fields.put("aiwgState", &state);
    fields.put("filesModified", &path_list(&workspace.files_modified, out));
    fields.put("sessionId", &body.session_id);
    fields.put("memory", &sizes);
    // Restores the original text of the time and the unknown members.
    restore_members(&imported, &mut fields);
    fields
}

/// Converts a path to the form of the original tool, relative to the watched folder.
fn strip_watched(path: &str) -> &str {
    path.strip_prefix(WATCHED).unwrap_or(path)
}

/// Returns paths as text. A path that is not UTF-8 is written as base64 and recorded as lost.
fn path_list<'p>(paths: &'p [PathText], out: &mut ExportedRun) -> Vec<&'p str> {
    let is_text = |path: &PathText| matches!(path, PathText::Text(_));
    out.lose_if(!paths.iter().all(is_text), "workspace (paths that are not UTF-8)");
    paths.iter().map(|(PathText::Text(path) | PathText::Bytes { b64: path })| path.as_str()).collect()
}
