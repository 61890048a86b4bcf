//! Numbered checkpoints of a session: one JSON file each, with what git, the watched folder and the process said.

use std::collections::BTreeMap;
use std::path::Path;

use super::folder::{SourceFolder, subfolder_or_self};
use super::types::{
    ExportCheckpoint, ExportFile, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, format_time,
    import_metadata, note_lost_members, note_lost_run_members, note_lost_source, pretty_json, take_optional,
    take_required, take_time,
};
use super::{Format, InteropError, Progress};
use crate::ReasonCode;
use crate::model::{
    Draft, GitFacts, MemoryUsage, PathText, RawJson, RawObject, Source, Status, ValidationError,
    WatchedFiles, Workspace,
};

const FORMAT: Format = Format::Aiwg;
/// The folder that the originals watch; their paths are inside of it.
const WATCHED: &str = ".aiwg/";

/// Whether a file of this name is a checkpoint.
pub(super) fn is_checkpoint(name: &str) -> bool {
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && &name[digits..] == "-checkpoint.json"
}

/// Reads the numbered files; each session is a run of its own.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    let mut folder = SourceFolder::open(path, progress)?;
    let place = subfolder_or_self(path, "checkpoints");
    for file in folder.files(&place, is_checkpoint) {
        let Some((fields, _)) = folder.read_object(&file) else { continue };
        let name = folder.relative_name(&file);
        match parse_checkpoint(fields, &name) {
            Ok((session, read)) => folder.data.run_mut(FORMAT, &session).checkpoints.push(read),
            Err(e) => folder.data.skip_invalid(name, ReasonCode::CheckpointSchemaInvalid, e.to_string()),
        }
    }
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
            files: files.into_iter().map(|path| map_watched_path(path, true)).collect(),
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
    for (name, raw) in fields.iter() {
        kept.set(name, raw.clone());
    }
    let id = format!("{session}-{number:03}");
    let (path, number) = (path.to_owned(), Some(number));
    Ok((
        session,
        ForeignCheckpoint { id, path, created_at, elapsed_ms, number, draft, kept, completed: None },
    ))
}

/// A path of the watched folder as this program has it, or as the originals do.
fn map_watched_path(path: PathText, inwards: bool) -> PathText {
    match path {
        PathText::Text(path) if inwards => PathText::Text(format!("{WATCHED}{path}")),
        PathText::Text(path) => {
            PathText::Text(path.strip_prefix(WATCHED).map_or(path.clone(), ToOwned::to_owned))
        }
        bytes => bytes,
    }
}

/// Writes `checkpoints/NNN-checkpoint.json`.
pub(crate) fn write(run: &ExportRun<'_>) -> Result<ExportedRun, InteropError> {
    let mut out = ExportedRun::default();
    for held in run.checkpoints {
        let fields = to_foreign(held, &mut out)
            .map_err(|e| InteropError::Unfit { format: FORMAT, why: e.to_string() })?;
        let name = format!("{:03}-checkpoint.json", held.body.sequence);
        out.files.push(ExportFile { path: Path::new("checkpoints").join(name), bytes: pretty_json(&fields) });
        let mut home = vec!["created_at", "elapsed_ms", "session_id", "workspace"];
        let came = !import_metadata(held.body.metadata.as_ref(), FORMAT).is_empty();
        if came {
            // What the import made of it is made again.
            home.push("snapshot_id");
        }
        if super::types::own_metadata(held.body.metadata.as_ref()).is_none_or(|fields| fields.is_empty()) {
            home.push("metadata");
        }
        note_lost_members(held, &home, &mut out.lost);
        let made: &[&str] = if held.body.sequence <= 1 { &["manual", "session_start"] } else { &["timer"] };
        note_lost_source(held, made, &mut out.lost);
    }
    note_lost_run_members(run, &["sequence"], &mut out.lost);
    Ok(out)
}

fn to_foreign(held: &ExportCheckpoint, out: &mut ExportedRun) -> Result<RawObject, ValidationError> {
    let body = &held.body;
    let mut kept = import_metadata(body.metadata.as_ref(), FORMAT);
    let none = Workspace::default();
    let workspace = body.workspace.as_ref().unwrap_or(&none);
    let mut fields = RawObject::default();
    fields.set("number", RawJson::of(&body.sequence)?);
    fields.set(
        "timestamp",
        kept.take("timestamp").map_or_else(|| RawJson::of(&format_time(body.created_at)), Ok)?,
    );
    fields.set("duration", RawJson::of(&body.elapsed_ms)?);
    let mut git = RawObject::default();
    let facts = workspace.git.clone().unwrap_or_default();
    git.set("branch", RawJson::of(&facts.branch.clone().unwrap_or_default())?);
    git.set("modified", path_list(&facts.modified, out)?);
    git.set("untracked", path_list(&facts.untracked, out)?);
    git.set("staged", path_list(&facts.staged, out)?);
    if let Some(error) = &facts.error {
        git.set("error", RawJson::of(error)?);
    }
    copy_members(&facts.extra, &mut git);
    for (name, there) in
        [("workspace.git.head", facts.head.is_some()), ("workspace.git.renamed", !facts.renamed.is_empty())]
    {
        if there {
            out.lost.insert(name.into());
        }
    }
    fields.set("gitStatus", RawJson::of(&git)?);
    let watched = workspace.watched.clone().unwrap_or_default();
    let mut state = RawObject::default();
    let inside: Vec<_> = watched.files.into_iter().map(|path| map_watched_path(path, false)).collect();
    state.set("files", path_list(&inside, out)?);
    let sizes: BTreeMap<_, _> = watched
        .sizes
        .into_iter()
        .map(|(path, size)| (path.strip_prefix(WATCHED).map_or(path.clone(), ToOwned::to_owned), size))
        .collect();
    state.set("sizes", RawJson::of(&sizes)?);
    if let Some(error) = &watched.error {
        state.set("error", RawJson::of(error)?);
    }
    copy_members(&watched.extra, &mut state);
    fields.set("aiwgState", RawJson::of(&state)?);
    fields.set("filesModified", path_list(&workspace.files_modified, out)?);
    fields.set("sessionId", RawJson::of(&body.session_id)?);
    let memory = workspace.memory.clone().unwrap_or_default();
    let mut sizes = RawObject::default();
    sizes.set("heapUsed", RawJson::of(&memory.heap_used.unwrap_or_default())?);
    sizes.set("rss", RawJson::of(&memory.rss.unwrap_or_default())?);
    copy_members(&memory.extra, &mut sizes);
    if memory.peak_rss.is_some() {
        out.lost.insert("workspace.memory.peak_rss".into());
    }
    if !workspace.skipped.is_empty() {
        out.lost.insert("workspace.skipped".into());
    }
    fields.set("memory", RawJson::of(&sizes)?);
    for (name, value) in kept.iter().filter(|(name, _)| !["format", "id", "path", "run"].contains(name)) {
        fields.set(name, value.clone());
    }
    Ok(fields)
}

fn copy_members(from: &RawObject, to: &mut RawObject) {
    for (name, value) in from.iter() {
        to.set(name, value.clone());
    }
}

/// Paths as text; one that is none is written with what stands for its bytes, and said to be lost.
fn path_list(all: &[PathText], out: &mut ExportedRun) -> Result<RawJson, ValidationError> {
    let text: Vec<&str> = all
        .iter()
        .map(|path| match path {
            PathText::Text(path) => path.as_str(),
            PathText::Bytes { b64 } => {
                out.lost.insert("workspace (paths that are not UTF-8)".into());
                b64
            }
        })
        .collect();
    RawJson::of(&text)
}
