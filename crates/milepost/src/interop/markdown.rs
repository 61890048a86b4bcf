//! Markdown briefs: one file a piece of work, in `active/` or `archive/`, with deltas at its end and `LEARNINGS.md` beside.
//! Each file is a run; each delta is a checkpoint whose brief is the file up to there.

use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::folder::{SourceFolder, file_name, subfolder_or_self};
use super::types::{
    ExportFile, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, ForeignRun, format_time,
    import_metadata, note_lost_members, note_lost_run_members, note_lost_source, safe_file_name, text_member,
};
use super::{Format, InteropError, Progress};
use crate::brief::{self, Brief, BriefFacts, SectionKind, compose};
use crate::model::{Draft, JsonPath, LogLine, RawJson, RawObject, Source, Status};

const FORMAT: Format = Format::Markdown;
const LEARNINGS: &str = "LEARNINGS.md";
const ARCHIVE: &str = "archive";
/// Maximum size of a brief. Parsing takes many times as much memory.
const BRIEF_LIMIT: usize = 1 << 20;

/// Whether a file is a brief by its name and its first lines.
pub(super) fn is_brief(path: &Path) -> bool {
    use std::io::Read;
    let mut head = String::new();
    let named = path.extension().is_some_and(|e| e == "md" || e == "markdown");
    // Opening anything but a file may never end.
    let is_file = || std::fs::metadata(path).is_ok_and(|about| about.is_file());
    if named
        && is_file()
        && let Ok(file) = std::fs::File::open(path)
    {
        let mut bytes = Vec::new();
        let _ = file.take(4096).read_to_end(&mut bytes);
        head = String::from_utf8_lossy(&bytes).into_owned();
    }
    named && head.trim_start_matches('\u{feff}').starts_with("---") && head.contains("\ncheckpoint:")
}

/// Reads one file, or a folder with `active/`, `archive/` and files of its own.
pub(crate) fn read(path: &Path, progress: &mut Progress<'_>) -> Result<ForeignData, InteropError> {
    if path.is_file() {
        let root = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut folder = SourceFolder::open(root, progress)?;
        read_brief(&mut folder, path, false);
        return Ok(folder.data);
    }
    let mut folder = SourceFolder::open(path, progress)?;
    let place = subfolder_or_self(path, "checkpoints");
    let markdown = |name: &str| name.ends_with(".md") || name.ends_with(".markdown");
    for file in folder.files(&place, |name| markdown(name) && name != LEARNINGS) {
        // Other Markdown may lie there as well.
        if is_brief(&file) {
            read_brief(&mut folder, &file, false);
        } else {
            let name = folder.relative_name(&file);
            folder.data.skip(name, "it has no front matter that names a checkpoint");
        }
    }
    for (name, archived) in [("active", false), (ARCHIVE, true)] {
        if place.join(name).is_dir() {
            for file in folder.files(&place.join(name), markdown) {
                read_brief(&mut folder, &file, archived);
            }
        }
    }
    if place.join(LEARNINGS).exists() {
        read_learnings(&mut folder, &place.join(LEARNINGS));
    }
    // What others continue comes first.
    let names: Vec<_> = folder.data.runs.iter().map(|run| run.id.clone()).collect();
    let depth = |run: &ForeignRun| {
        let mut depth = 0;
        let mut at = run.continues.clone();
        while let Some(id) = at.filter(|_| depth <= names.len()) {
            depth += 1;
            at = folder.data.runs.iter().find(|run| run.id == id).and_then(|run| run.continues.clone());
        }
        depth
    };
    let mut order: Vec<(usize, usize)> =
        folder.data.runs.iter().enumerate().map(|(i, run)| (depth(run), i)).collect();
    order.sort_unstable();
    let mut runs: Vec<Option<ForeignRun>> =
        std::mem::take(&mut folder.data.runs).into_iter().map(Some).collect();
    folder.data.runs = order.into_iter().filter_map(|(_, i)| runs[i].take()).collect();
    Ok(folder.data)
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
            folder.data.warn(&name, "its front matter names no checkpoint: called by its file");
            stem.clone()
        },
        ToOwned::to_owned,
    );
    if folder.data.runs.iter().any(|run| run.id == id) {
        return folder.data.skip(name, format!("another file is called \"{id}\" as well"));
    }
    let mut kept = RawObject::default();
    let created = brief.value("created").map(ToOwned::to_owned);
    let read = created.as_deref().map_or_else(|| Err("is missing".to_owned()), brief::parse_created);
    let created_at = match read {
        Ok((at, odd)) => {
            odd.into_iter().for_each(|odd| folder.data.warn(&name, format!("created: {odd}")));
            at
        }
        Err(why) => {
            folder.data.warn(&name, format!("created: {why}; the file's own time is taken"));
            let modified = std::fs::metadata(file).and_then(|meta| meta.modified()).ok();
            modified.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default()
        }
    };
    let mut front = RawObject::default();
    for field in brief.front_matter().map(|front| front.fields.as_slice()).unwrap_or_default() {
        if let Ok(raw) = RawJson::of(&field.value) {
            front.set(&field.key, raw);
        }
    }
    if let Ok(raw) = RawJson::of(&front) {
        kept.set("front", raw);
    }
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
    let deltas: Vec<(usize, String)> = brief
        .sections()
        .iter()
        .filter(|section| section.kind == SectionKind::Delta)
        .map(|section| (begins(brief.source(section)), section.heading.clone()))
        .collect();
    let made = |n: usize, end: usize, heading: Option<&str>| {
        let said =
            heading.and_then(|heading| heading.split_once(':')).map(|(_, time)| time.trim().to_owned());
        let at = said.as_deref().and_then(parse_time).unwrap_or(created_at);
        let last = n == deltas.len();
        let draft = Draft {
            source: Some(Source::Manual),
            reasons: heading.map(|_| "delta".to_owned()).into_iter().collect(),
            status: Some(if last && archived { Status::Completed } else { Status::InProgress }),
            brief: Some(whole[..end].to_owned()),
            ..Draft::default()
        };
        // The name means the whole file; what it was before a delta is told apart by its number.
        let id = if last { id.to_owned() } else { format!("{id}#{}", n + 1) };
        let (path, kept) = (path.to_owned(), kept.clone());
        ForeignCheckpoint {
            id,
            path,
            created_at: at,
            elapsed_ms: 0,
            number: None,
            draft,
            kept,
            completed: None,
        }
    };
    let end = |n: usize| deltas.get(n).map_or(whole.len(), |(at, _)| *at);
    (0..=deltas.len())
        .map(|n| {
            made(n, end(n), n.checked_sub(1).and_then(|i| deltas.get(i)).map(|(_, heading)| heading.as_str()))
        })
        .collect()
}

fn parse_time(text: &str) -> Option<Timestamp> {
    brief::parse_created(text).ok().map(|(at, _)| at)
}

/// What was learned goes to the log of the run it was learned in.
fn read_learnings(folder: &mut SourceFolder<'_, '_>, file: &Path) {
    let Some(text) = folder.read_text(file) else { return };
    let name = folder.relative_name(file);
    for part in text.split("\n## ").skip(1) {
        let (heading, rest) = part.split_once('\n').unwrap_or((part, ""));
        let words: Vec<&str> =
            heading.split(|c: char| c.is_whitespace()).filter(|word| !word.is_empty()).collect();
        let at = words.first().and_then(|word| parse_time(word)).unwrap_or_default();
        let run = words.last().and_then(|id| folder.data.runs.iter_mut().find(|run| run.id == *id));
        let Some(run) = run else {
            folder.data.skip(&name, format!("\"{heading}\" belongs to no checkpoint that is here"));
            continue;
        };
        let lines =
            rest.lines().map(|line| line.trim_start_matches("- ").trim()).filter(|line| !line.is_empty());
        run.log.extend(lines.map(|line| LogLine { at, text: line.to_owned(), extra: RawObject::default() }));
        if let Ok(raw) = RawJson::of(&format!("## {}\n", part.trim_end())) {
            run.kept.set("learnings", raw);
        }
    }
}

/// Writes one file for each brief that is not the beginning of a later one, and what was learned.
pub(crate) fn write(run: &ExportRun<'_>) -> Result<ExportedRun, InteropError> {
    let mut out = ExportedRun::default();
    let mut names = std::collections::HashSet::new();
    let none = run.checkpoints.iter().all(|held| held.body.brief.is_none());
    for (n, held) in run.checkpoints.iter().enumerate() {
        let kept = import_metadata(held.body.metadata.as_ref(), FORMAT);
        let came = !kept.is_empty();
        let mut home = vec!["brief", "created_at", "status"];
        if came {
            home.extend(["snapshot_id", "metadata", "log", "session_id"]);
        } else {
            out.lost.insert("run_id".into());
        }
        note_lost_members(held, &home, &mut out.lost);
        let delta = came && held.body.source_details.len() > 1;
        note_lost_source(held, if delta { &["manual", "delta"] } else { &["manual"] }, &mut out.lost);
        let made;
        let brief = match &held.body.brief {
            Some(brief) => brief,
            // A run without any is told by one that is made of facts.
            None if none && n + 1 == run.checkpoints.len() => {
                made = compose(&BriefFacts {
                    id: held.body.snapshot_id.to_string(),
                    created: held.body.created_at,
                    body: Some(&held.body),
                    record: Some(run.record),
                    ..BriefFacts::default()
                });
                out.lost.insert("brief".into());
                &made
            }
            None => {
                out.lost.insert("checkpoints without a brief".into());
                continue;
            }
        };
        let later = run.checkpoints[n + 1..].iter().filter_map(|later| later.body.brief.as_ref());
        if later.clone().any(|later| later.starts_with(brief.as_str())) {
            continue;
        }
        let archived = held.completed || !run.record.is_open();
        let folder =
            text_member(&kept, "path").and_then(|path| PathBuf::from(path).parent().map(Path::to_owned));
        let folder =
            folder.filter(|_| came).map(|f| f.strip_prefix("checkpoints").map(Path::to_owned).unwrap_or(f));
        let folder = folder.unwrap_or_else(|| PathBuf::from(if archived { ARCHIVE } else { "active" }));
        let parsed = Brief::parse(brief.as_str());
        let stem = match text_member(&kept, "path") {
            Some(path) if came => file_name(Path::new(&path)).trim_end_matches(".md").to_owned(),
            _ => safe_file_name(parsed.id().unwrap_or(held.body.snapshot_id.as_str())),
        };
        let said = parsed.value("created").and_then(parse_time);
        if !came && said.is_some_and(|said| said != held.body.created_at) {
            out.lost.insert("created_at".into());
        }
        let mut name = stem.clone();
        for n in 2.. {
            if names.insert(name.clone()) {
                break;
            }
            name = format!("{stem}-{n}");
        }
        // A brief without front matter gets the one that the format asks for.
        let bytes = if parsed.front_matter().is_some() {
            brief.clone()
        } else {
            let at = format_time(held.body.created_at);
            format!("---\ncheckpoint: {name}\ncreated: {at}\n---\n\n{brief}")
        };
        let safe: PathBuf =
            folder.components().filter(|c| matches!(c, std::path::Component::Normal(_))).collect();
        out.files.push(ExportFile { path: safe.join(format!("{name}.md")), bytes: bytes.into_bytes() });
    }
    let raw = run.record.extra.get("imported");
    let of_run = raw.and_then(|raw| RawObject::parse(raw.get(), &JsonPath::Root).ok()).unwrap_or_default();
    let learned = text_member(&of_run, "learnings");
    note_lost_run_members(
        run,
        if learned.is_some() { &["log", "parent"] } else { &["parent"] },
        &mut out.lost,
    );
    if let Some(learned) = learned {
        out.files.push(ExportFile {
            path: LEARNINGS.into(),
            bytes: format!("# Learnings\n\n{learned}").into_bytes(),
        });
    }
    Ok(out)
}
