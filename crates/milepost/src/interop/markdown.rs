//! The markdown format: one brief per run in `active/` or `archive/`, with deltas at its end, and
//! `LEARNINGS.md`. Reads each file into a run with one checkpoint for the initial brief and one per delta;
//! the brief of a checkpoint is the text up to the next delta. Writes a run as files and returns the fields
//! that the format cannot represent.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::folder::{SourceFolder, file_name, subfolder_or_self};
use super::types::{
    ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, ForeignRun, format_time, safe_file_name,
    text_member, unique_name,
};
use super::{Format, InteropError, Progress};
use crate::brief::{self, Brief, BriefFacts, SectionKind, compose};
use crate::model::{Draft, LogLine, RawObject, Source, Status};

const FORMAT: Format = Format::Markdown;
const LEARNINGS: &str = "LEARNINGS.md";
const ARCHIVE: &str = "archive";
/// The maximum size of a brief in bytes. Parsing needs many times as much memory.
const BRIEF_LIMIT: usize = 1 << 20;

/// Returns true if a file looks like a brief, by its name and its first lines.
pub(super) fn is_brief(path: &Path) -> bool {
    use std::io::Read;
    let mut head = Vec::new();
    if path.extension().is_some_and(|e| e == "md" || e == "markdown")
        // Opening anything but a regular file, such as a pipe, can block forever.
        && path.is_file()
        && let Ok(file) = std::fs::File::open(path)
    {
        let _ = file.take(4096).read_to_end(&mut head);
    }
    let head = String::from_utf8_lossy(&head);
    head.trim_start_matches('\u{feff}').starts_with("---") && head.contains("\ncheckpoint:")
}

/// Reads one file, or a folder that contains briefs, `active/` and `archive/`.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    if path.is_file() {
        let root = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut folder = SourceFolder::open(root, progress)?;
        read_brief(&mut folder, path, false);
        return Ok(folder.data);
    }
    let mut folder = SourceFolder::open(path, progress)?;
    let briefs = subfolder_or_self(path, "checkpoints");
    let markdown = |name: &str| name.ends_with(".md") || name.ends_with(".markdown");
    for file in folder.files(&briefs, |name| markdown(name) && name != LEARNINGS) {
        // The folder can also contain other Markdown files.
        if is_brief(&file) {
            read_brief(&mut folder, &file, false);
        } else {
            folder.skip(&file, "it has no front matter that names a checkpoint");
        }
    }
    for (name, archived) in [("active", false), (ARCHIVE, true)] {
        if briefs.join(name).is_dir() {
            for file in folder.files(&briefs.join(name), markdown) {
                read_brief(&mut folder, &file, archived);
            }
        }
    }
    if briefs.join(LEARNINGS).exists() {
        read_learnings(&mut folder, &briefs.join(LEARNINGS));
    }
    sort_by_lineage(&mut folder.data.runs);
    Ok(folder.data)
}

/// Sorts each run before the runs that continue it. The order does not change otherwise.
fn sort_by_lineage(runs: &mut [ForeignRun]) {
    let parents: HashMap<_, _> =
        runs.iter().filter_map(|run| Some((run.id.clone(), run.continues.clone()?))).collect();
    let depth = |run: &ForeignRun| {
        let ancestors = std::iter::successors(parents.get(&run.id), |id| parents.get(*id));
        // The limit ends the walk if parents form a cycle.
        ancestors.take(parents.len() + 1).count()
    };
    runs.sort_by_cached_key(depth);
}

fn read_brief(folder: &mut SourceFolder<'_, '_>, file: &Path, archived: bool) {
    let Some(source) = folder.read_text(file) else { return };
    let name = folder.relative_name(file);
    if source.len() > BRIEF_LIMIT {
        return folder.data.skip(name, "it is larger than 1 MiB");
    }
    let brief = Brief::parse(source);
    if brief.front_matter().is_none() {
        return folder.data.skip(name, "it has no front matter");
    }
    for warning in brief.warnings() {
        folder.data.warn(&name, warning.message.clone());
    }
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let id = brief.id().map_or_else(
        || {
            folder.data.warn(&name, "its front matter names no checkpoint: using the file name as its id");
            stem.clone()
        },
        ToOwned::to_owned,
    );
    if folder.data.runs.iter().any(|run| run.id == id) {
        return folder.data.skip(name, format!("another file has the same id \"{id}\""));
    }
    let created = brief.value("created").ok_or_else(|| "is missing".to_owned());
    let created_at = match created.and_then(brief::parse_created) {
        Ok((at, odd)) => {
            odd.into_iter().for_each(|odd| folder.data.warn(&name, format!("created: {odd}")));
            at
        }
        Err(why) => {
            folder.data.warn(&name, format!("created: {why}; using the file's modification time"));
            let modified = std::fs::metadata(file).and_then(|meta| meta.modified()).ok();
            modified.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default()
        }
    };
    let mut front = RawObject::default();
    for field in brief.front_matter().into_iter().flat_map(|front| &front.fields) {
        front.put(&field.key, &field.value);
    }
    let mut kept = RawObject::default();
    kept.put("front", &front);
    let run = folder.data.run_mut(FORMAT, &id);
    run.continues = brief.value("parent").filter(|parent| *parent != id).map(ToOwned::to_owned);
    run.started_at = Some(created_at);
    run.status = archived.then_some(Status::Completed);
    run.checkpoints = checkpoints(&brief, &id, &name, created_at, &kept, archived);
}

fn checkpoints(
    brief: &Brief,
    id: &str,
    path: &str,
    created_at: Timestamp,
    kept: &RawObject,
    archived: bool,
) -> Vec<ForeignCheckpoint> {
    let whole = brief.text();
    let begins = |source: &str| source.as_ptr() as usize - whole.as_ptr() as usize;
    let deltas: Vec<_> =
        brief.sections().iter().filter(|section| section.kind == SectionKind::Delta).collect();
    let checkpoint = |n: usize| {
        let delta = n.checked_sub(1).and_then(|before| deltas.get(before));
        let end = deltas.get(n).map_or(whole.len(), |next| begins(brief.source(next)));
        let time = delta.and_then(|delta| delta.heading.split_once(':')).map(|(_, time)| time.trim());
        let is_last = n == deltas.len();
        let draft = Draft {
            source: Some(Source::Manual),
            reasons: delta.map(|_| "delta".to_owned()).into_iter().collect(),
            status: Some(if is_last && archived { Status::Completed } else { Status::InProgress }),
            brief: Some(whole[..end].to_owned()),
            ..Draft::default()
        };
        // The id of the brief refers to the whole file. Earlier versions get a number as suffix.
        let id = if is_last { id.to_owned() } else { format!("{id}#{}", n + 1) };
        let created_at = time.and_then(parse_time).unwrap_or(created_at);
        ForeignCheckpoint::new(id, path, created_at, draft, kept.clone())
    };
    (0..=deltas.len()).map(checkpoint).collect()
}

fn parse_time(text: &str) -> Option<Timestamp> {
    brief::parse_created(text).ok().map(|(at, _)| at)
}

/// Adds the entries of `LEARNINGS.md` to the logs of their runs.
fn read_learnings(folder: &mut SourceFolder<'_, '_>, file: &Path) {
    let Some(text) = folder.read_text(file) else { return };
    let name = folder.relative_name(file);
    for part in text.split("\n## ").skip(1) {
        let (heading, rest) = part.split_once('\n').unwrap_or((part, ""));
        let at = heading.split_whitespace().next().and_then(parse_time).unwrap_or_default();
        let id = heading.split_whitespace().next_back();
        let run = id.and_then(|id| folder.data.runs.iter_mut().find(|run| run.id == id));
        let Some(run) = run else {
            folder.data.skip(&name, format!("\"{heading}\" does not belong to an imported checkpoint"));
            continue;
        };
        let lines =
            rest.lines().map(|line| line.trim_start_matches("- ").trim()).filter(|line| !line.is_empty());
        run.log.extend(lines.map(|line| LogLine { at, text: line.to_owned(), extra: RawObject::default() }));
        run.kept.put("learnings", &format!("## {}\n", part.trim_end()));
    }
}

/// Writes one file per brief, except briefs that are the beginning of a later one, and `LEARNINGS.md`.
pub(crate) fn write(run: &ExportRun<'_>) -> ExportedRun {
    let mut out = ExportedRun::default();
    let mut names = HashSet::new();
    let none = run.checkpoints.iter().all(|checkpoint| checkpoint.body.brief.is_none());
    for (n, checkpoint) in run.checkpoints.iter().enumerate() {
        let body = &checkpoint.body;
        let imported = checkpoint.import_metadata(FORMAT);
        let was_imported = !imported.is_empty();
        let mut held = vec!["brief", "created_at", "status"];
        if was_imported {
            held.extend(["snapshot_id", "metadata", "log", "session_id"]);
        }
        out.lose_if(!was_imported, "run_id");
        out.lose_members_except(checkpoint, &held);
        let is_delta = was_imported && body.source_details.len() > 1;
        out.lose_source_unless(checkpoint, if is_delta { &["manual", "delta"] } else { &["manual"] });
        let text = match &body.brief {
            Some(text) => text.clone(),
            // A run without any brief gets one that is composed from its recorded facts.
            None if none && n + 1 == run.checkpoints.len() => {
                out.lose_if(true, "brief");
                compose(&BriefFacts {
                    id: body.snapshot_id.to_string(),
                    created: body.created_at,
                    body: Some(body),
                    record: Some(run.record),
                    ..BriefFacts::default()
                })
            }
            None => {
                out.lose_if(true, "checkpoints without a brief");
                continue;
            }
        };
        let mut later_briefs = run.checkpoints[n + 1..].iter().filter_map(|later| later.body.brief.as_ref());
        if later_briefs.any(|later| later.starts_with(&text)) {
            continue;
        }
        let brief = Brief::parse(text.as_str());
        let created = brief.value("created").and_then(parse_time);
        out.lose_if(!was_imported && created.is_some_and(|at| at != body.created_at), "created_at");
        let path = original_path(&imported);
        let stem = match &path {
            Some(path) => file_name(path).trim_end_matches(".md").to_owned(),
            None => safe_file_name(brief.id().unwrap_or(body.snapshot_id.as_str())),
        };
        let name = unique_name(&stem, &mut names);
        let is_archived = checkpoint.completed || !run.record.is_open();
        let folder = path.and_then(|path| path.parent().map(Path::to_owned));
        let folder = folder.unwrap_or_else(|| PathBuf::from(if is_archived { ARCHIVE } else { "active" }));
        // The format requires front matter, so it is added to a brief that has none.
        let text = match brief.front_matter() {
            Some(_) => text,
            None => {
                let at = format_time(body.created_at);
                format!("---\ncheckpoint: {name}\ncreated: {at}\n---\n\n{text}")
            }
        };
        out.add_file(folder.join(format!("{name}.md")), text);
    }
    let learned = text_member(&run.import_metadata(FORMAT), "learnings");
    out.lose_run_members_except(run, if learned.is_some() { &["log", "parent"] } else { &["parent"] });
    if let Some(learned) = learned {
        out.add_file(LEARNINGS, format!("# Learnings\n\n{learned}"));
    }
    out
}

/// Returns the path that a brief was imported from, relative to the folder of briefs. The path cannot leave
/// that folder.
fn original_path(imported: &RawObject) -> Option<PathBuf> {
    let path = PathBuf::from(text_member(imported, "path")?);
    let path = path.strip_prefix("checkpoints").unwrap_or(&path);
    Some(path.components().filter(|part| matches!(part, Component::Normal(_))).collect())
}
