//! Import: runs of other tools, or sealed documents of another store. Never coalesces, never prunes; what is there
//! already is left alone, so that running it twice adds nothing.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use super::bookkeeping::{note_checkpoint, remember};
use super::compose::{self, Frame};
use super::transfer::{Counting, write_sealed};
use super::{Milepost, check_run_name};
use crate::Error;
use crate::interop::sealed::Patch;
use crate::interop::{self, ForeignCheckpoint, ForeignRun, Format, Found, Note, Skipped, safe_name};
use crate::model::{
    CheckpointId, Event, EventType, Fields, Marks, Moment, Path, Raw, Recent, RunId, RunRecord, Session,
    Token, Working,
};
use crate::redact::{self, Redaction};
use crate::seal::{self, Unsealed};
use crate::store::{Commit, Find, HeaderQuery, Verdict};

/// How many checkpoints go into one transaction.
const BATCH: usize = 64;

/// What to import.
#[derive(Debug, Clone)]
pub struct Import {
    /// Its format; recognised unless given.
    pub format: Option<Format>,
    /// The file or folder.
    pub path: PathBuf,
    /// Whether secrets are replaced; as the settings say unless given.
    pub redaction: Option<Redaction>,
}

/// What was imported.
#[derive(Debug, Default)]
pub struct Imported {
    /// Its format.
    pub format: Option<Format>,
    /// How many checkpoints are new.
    pub imported: u64,
    /// How many were there already.
    pub unchanged: u64,
    /// The runs they are in.
    pub runs: Vec<RunId>,
    /// How many secrets were replaced.
    pub replaced: u64,
    /// What could not be read.
    pub skipped: Vec<Skipped>,
    /// What was odd.
    pub warnings: Vec<Note>,
    /// What a bundle brought that was not committed.
    pub patch: Option<Patch>,
    /// The commit that a bundle's work stood on.
    pub commit: Option<String>,
}

/// A checkpoint that only needs its place in the store.
struct Ready {
    unsealed: Unsealed,
    number: Option<u64>,
    completed: Option<bool>,
}

/// Says what an import would do; without a store, as into an empty one.
pub fn preview_import(
    engine: Option<&Milepost>,
    import: &Import,
    progress: &mut interop::Progress<'_>,
) -> Result<Imported, Error> {
    let format = import.format.map_or_else(|| interop::detect(&import.path), Ok)?;
    let mut report = Imported { format: Some(format), ..Imported::default() };
    if matches!(format, Format::Jsonl | Format::Bundle) {
        let (all, found) = interop::sealed::read(format, &import.path, progress)?;
        report.skipped = found.skipped;
        for sealed in all {
            for (verified, _) in &sealed.checkpoints {
                let body = verified
                    .body()
                    .map_err(|e| crate::model::Invalid { path: String::new(), message: e.to_string() })?;
                let known = engine.map_or(Ok(false), |engine| engine.has(&body.snapshot_id))?;
                report.count(known);
                report.runs.push(body.run_id);
            }
            report.patch = sealed.patch;
        }
        report.runs.dedup();
        return Ok(report);
    }
    let found = interop::read(format, &import.path, progress)?;
    for run in &found.runs {
        let id = match engine {
            Some(engine) => engine.run_for(run, &mut report)?,
            None => plain_name(run),
        };
        let known = engine.map_or(Ok(HashSet::new()), |engine| engine.ids_of(&id))?;
        run.checkpoints.iter().for_each(|one| report.count(known.contains(&derived(run, one))));
        report.runs.push(id);
    }
    report.skipped = found.skipped;
    report.warnings.extend(found.warnings);
    Ok(report)
}

impl Imported {
    fn count(&mut self, known: bool) {
        self.unchanged += u64::from(known);
        self.imported += u64::from(!known);
    }
}

impl Milepost {
    /// Imports what is at a path.
    pub fn import(&self, import: &Import, progress: &mut interop::Progress<'_>) -> Result<Imported, Error> {
        let format = import.format.map_or_else(|| interop::detect(&import.path), Ok)?;
        let mut report = Imported { format: Some(format), ..Imported::default() };
        if matches!(format, Format::Jsonl | Format::Bundle) {
            self.import_sealed(format, import, progress, &mut report)?;
            return Ok(report);
        }
        let Found { runs, skipped, warnings } = interop::read(format, &import.path, progress)?;
        report.skipped = skipped;
        report.warnings = warnings;
        let redaction = import.redaction.unwrap_or(self.settings.redaction);
        let mut newest: HashMap<String, CheckpointId> = HashMap::new();
        for run in runs {
            let id = self.run_for(&run, &mut report)?;
            let continues = run.continues.as_ref().and_then(|name| newest.get(name).cloned());
            if let (Some(name), None) = (&run.continues, &continues) {
                let message = format!("it continues {name:?}, which is not here");
                report.warnings.push(Note { path: run.id.clone(), message });
            }
            if let Some(last) = run.checkpoints.last() {
                newest.insert(run.id.clone(), derived(&run, last));
            }
            self.import_run(&id, run, continues, redaction, &mut report)?;
            report.runs.push(id);
        }
        Ok(report)
    }

    fn import_sealed(
        &self,
        format: Format,
        import: &Import,
        progress: &mut interop::Progress<'_>,
        report: &mut Imported,
    ) -> Result<(), Error> {
        let (all, found) = interop::sealed::read(format, &import.path, progress)?;
        report.skipped = found.skipped;
        for sealed in all {
            report.commit = sealed.head.as_ref().and_then(|head| head.commit.clone());
            report.patch = sealed.patch.clone();
            let mut counting = Counting::default();
            write_sealed(self, sealed, &mut counting, &mut report.runs)?;
            report.imported += counting.copied;
            report.unchanged += counting.unchanged;
        }
        Ok(())
    }

    fn has(&self, id: &CheckpointId) -> Result<bool, Error> {
        let query = HeaderQuery { find: Find::Id(id.as_str()), limit: 1, ..HeaderQuery::default() };
        Ok(!self.store.headers(&query)?.is_empty())
    }

    fn ids_of(&self, run: &RunId) -> Result<HashSet<CheckpointId>, Error> {
        let mut ids = HashSet::new();
        if self.store.run(run)?.is_some() {
            self.each_entry(run, &mut |entry| {
                ids.insert(entry.header.snapshot_id);
            })?;
        }
        Ok(ids)
    }

    /// The run here for a run there: the one it was imported into before, or one that is nobody's.
    fn run_for(&self, run: &ForeignRun, report: &mut Imported) -> Result<RunId, Error> {
        let plain = plain_name(run);
        let ends = [String::new(), format!("-{}", run.format), format!("-{}", digits(run, None, 8))];
        for end in &ends {
            let cut: String = plain.as_str().chars().take(128 - end.len()).collect();
            let Ok(id) = format!("{cut}{end}").parse::<RunId>() else { continue };
            let Some(state) = self.store.run(&id)? else {
                if id.as_str() != run.id {
                    let message = format!("run {:?} is called {id} here", run.id);
                    report.warnings.push(Note { path: run.id.clone(), message });
                }
                return Ok(id);
            };
            let ours = state.row.record.is_ok_and(|record| {
                let of =
                    record.extra.get("imported").and_then(|raw| Fields::parse(raw.get(), &Path::Root).ok());
                let text = |name: &str| {
                    of.as_ref().and_then(|of| serde_json::from_str::<String>(of.get(name)?.get()).ok())
                };
                text("format").as_deref() == Some(run.format.as_str())
                    && text("id").as_ref() == Some(&clean(&run.id))
            });
            if ours {
                return Ok(id);
            }
        }
        Err(Error::RunExists(plain))
    }

    fn import_run(
        &self,
        id: &RunId,
        foreign: ForeignRun,
        continues: Option<CheckpointId>,
        redaction: Redaction,
        report: &mut Imported,
    ) -> Result<(), Error> {
        let known = self.ids_of(id)?;
        let fresh = self.store.run(id)?.is_none();
        let mut record = base(id, &foreign, continues, self.now())?;
        let mut ready = Vec::new();
        let mut names: HashMap<String, CheckpointId> = HashMap::new();
        let mut parent = record.parent.clone();
        for one in &foreign.checkpoints {
            let mut name = derived(&foreign, one);
            names.insert(one.id.clone(), name.clone());
            if known.contains(&name) {
                report.unchanged += 1;
                parent = Some(name);
                continue;
            }
            // An id of this program's own may be in this store already, in the run that it was exported from.
            if name.as_str() == one.id && self.has(&name)? {
                name = made(&foreign, one);
                if known.contains(&name) {
                    report.unchanged += 1;
                    parent = Some(name);
                    continue;
                }
            }
            match prepared(&mut record, &foreign, one, &name, parent.clone(), redaction) {
                Ok((one, replaced)) => {
                    report.replaced += replaced;
                    ready.push(one);
                    parent = Some(name);
                }
                Err(Error::Schema(e)) => {
                    report.skipped.push(Skipped { path: one.path.clone(), reason: e.to_string() });
                }
                Err(e) => return Err(e),
            }
        }
        if ready.is_empty() && !(fresh && !foreign.is_empty()) {
            return Ok(());
        }
        finish(&mut record, &foreign, redaction)?;
        let events = if fresh { happened(id, &foreign, &record, &names, redaction)? } else { Vec::new() };
        report.imported += ready.len() as u64;
        let mut batches = ready.chunks(BATCH).peekable();
        let mut events = Some(events);
        loop {
            let batch = batches.next().unwrap_or_default();
            self.put(id, &record, &foreign, batch, events.take().unwrap_or_default())?;
            if batches.peek().is_none() {
                return Ok(());
            }
        }
    }

    /// Writes some checkpoints of a run in one transaction.
    fn put(
        &self,
        id: &RunId,
        finished: &RunRecord,
        foreign: &ForeignRun,
        batch: &[Ready],
        events: Vec<Event>,
    ) -> Result<(), Error> {
        let token = Token::fresh();
        let mut failed = None;
        self.write(id, &mut |view| {
            failed = None;
            let mut record = view.record.clone().unwrap_or_else(|| finished.clone());
            if record.recent.iter().any(|recent| recent.token == token) {
                return Verdict::Nothing;
            }
            let mut puts = Vec::new();
            let mut marks = Vec::new();
            let mut slot = view.slot.clone();
            for one in batch {
                slot = one.number.and_then(|number| slot.at_sequence(number)).unwrap_or(slot);
                let sealed = match seal::seal(one.unsealed.clone(), &slot) {
                    Ok(sealed) => sealed,
                    Err(e) => {
                        failed = Some(e);
                        return Verdict::Nothing;
                    }
                };
                let header = sealed.header();
                let at = header.created_at;
                note_checkpoint(&mut record, header, at);
                if let Some(completed) = one.completed {
                    marks.push((
                        header.sequence,
                        Marks { revision: 1, completed: Some(completed), ..Marks::default() },
                    ));
                }
                puts.push(sealed);
                slot = slot.next();
            }
            record.working = finished.working.clone();
            record.updated_at = finished.updated_at.max(record.updated_at);
            record.extra = finished.extra.clone();
            if let Some(status) = foreign.status {
                record.status = status;
                record.ended_at = status.is_terminal().then_some(record.updated_at);
            }
            remember(&mut record, Recent { token: token.clone(), sequence: 0, coalesced: false });
            let mut commit = Commit::of(record);
            commit.puts = puts;
            commit.marks = marks;
            commit.events = events.clone();
            Verdict::Commit(Box::new(commit))
        })?;
        failed.map_or(Ok(()), |e| Err(e.into()))
    }
}

/// The text without secrets, for names that are compared.
fn clean(text: &str) -> String {
    redact::text(text).unwrap_or_else(|| text.to_owned())
}

/// What a run is called here, if nobody else is: its own name, or one that can be a name.
fn plain_name(run: &ForeignRun) -> RunId {
    let own = run.id.parse::<RunId>().ok().filter(|id| check_run_name(id).is_ok());
    let safe = || format!("{}-{}", safe_name(&clean(&run.id)), digits(run, None, 8)).parse().ok();
    let number = || format!("imported-{}", digits(run, None, 12)).parse().ok();
    own.or_else(safe)
        .filter(|id| check_run_name(id).is_ok())
        .or_else(number)
        .unwrap_or_else(|| RunId::fresh(Default::default()))
}

/// Characters that stand for a run or a checkpoint there, the same every time.
fn digits(run: &ForeignRun, one: Option<&ForeignCheckpoint>, length: usize) -> String {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let mut hasher = blake3::Hasher::new();
    for part in [run.format.as_str(), &run.id, one.map_or("", |one| one.id.as_str())] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().as_bytes().iter().take(length).map(|b| DIGITS[usize::from(b & 31)] as char).collect()
}

/// The id here: its own if this program gave it, else one made from its names there.
fn derived(run: &ForeignRun, one: &ForeignCheckpoint) -> CheckpointId {
    let shape = |id: &CheckpointId| {
        let parts: Vec<_> = id.as_str().split('_').collect();
        matches!(parts.as_slice(), ["cp", time, end] if time.len() == 19 && time.ends_with('Z') && end.len() == 12)
    };
    one.id.parse().ok().filter(shape).unwrap_or_else(|| made(run, one))
}

fn made(run: &ForeignRun, one: &ForeignCheckpoint) -> CheckpointId {
    let time = one.created_at.strftime("%Y%m%dT%H%M%S%3fZ");
    let id = format!("cp_{time}_{}", digits(run, Some(one), 12)).parse();
    id.unwrap_or_else(|_| CheckpointId::fresh(one.created_at))
}

/// A record of a run that was made elsewhere.
fn base(
    id: &RunId,
    run: &ForeignRun,
    continues: Option<CheckpointId>,
    now: jiff::Timestamp,
) -> Result<RunRecord, Error> {
    let first = run.checkpoints.iter().map(|one| one.created_at).min();
    let started = run.started_at.or(first).unwrap_or(now);
    let mut record = RunRecord::new(id.clone(), run.profile, started);
    record.parent = continues;
    record.title.clone_from(&run.title);
    record.plan.clone_from(&run.plan);
    record.updated_at = run.checkpoints.iter().map(|one| one.created_at).max().unwrap_or(started);
    let mut kept = run.kept.clone();
    kept.set("format", Raw::of(run.format.as_str())?);
    kept.set("id", Raw::of(&run.id)?);
    record.extra.set("imported", Raw::of(&kept)?);
    Ok(record)
}

/// Composes a checkpoint exactly as it was there: nothing is carried over from the one before.
fn prepared(
    record: &mut RunRecord,
    run: &ForeignRun,
    one: &ForeignCheckpoint,
    name: &CheckpointId,
    parent: Option<CheckpointId>,
    redaction: Redaction,
) -> Result<(Ready, u64), Error> {
    let mut draft = one.draft.clone();
    draft.run_id = None;
    let mut metadata = match &draft.metadata {
        Some(raw) => Fields::parse(raw.get(), &Path::Root.key("metadata"))?,
        None => Fields::default(),
    };
    let mut imported = Fields::default();
    imported.set("format", Raw::of(run.format.as_str())?);
    imported.set("id", Raw::of(&one.id)?);
    imported.set("run", Raw::of(&run.id)?);
    imported.set("path", Raw::of(&one.path)?);
    one.kept.iter().for_each(|(name, raw)| imported.set(name, raw.clone()));
    metadata.set("imported", Raw::of(&imported)?);
    draft.metadata = Some(Raw::of(&metadata)?);
    let mut replaced = 0;
    if redaction == Redaction::On {
        (draft, replaced) = redact::draft(draft)?;
    }
    let session =
        draft.session_id.clone().filter(|id| !id.is_empty()).unwrap_or_else(|| "unknown".to_owned());
    note_session(record, &session, one);
    record.working = Working::default();
    let status = draft.status.unwrap_or(crate::model::Status::InProgress);
    let frame = Frame {
        id: name,
        created_at: one.created_at,
        elapsed_ms: one.elapsed_ms,
        status,
        session_id: &session,
        parent,
    };
    let state_given = draft.state.is_some();
    let mut body = compose::compose(record, &[], &draft, frame)?;
    // Sources that it stands for, as they were.
    body.source_details.dedup();
    let mut unsealed = Unsealed::new(body, state_given)?;
    if redaction == Redaction::On
        && let Some(places) = redact::located(unsealed.members())
    {
        let mut body = unsealed.into_body();
        body.redacted = Some(places.and(body.redacted.take()));
        unsealed = Unsealed::new(body, state_given)?;
    }
    Ok((Ready { unsealed, number: one.number, completed: one.completed }, replaced))
}

fn note_session(record: &mut RunRecord, id: &str, one: &ForeignCheckpoint) {
    let same = record.session.as_ref().is_some_and(|session| session.id == id);
    if !same {
        record.earlier_ms += record.session.as_ref().map_or(0, |session| session.elapsed_ms);
        record.sessions += 1;
        let ago = jiff::SignedDuration::from_millis(i64::try_from(one.elapsed_ms).unwrap_or_default());
        let at = one.created_at.checked_sub(ago).unwrap_or(one.created_at);
        let started = Moment { at, boot_id: None, uptime_ms: None };
        record.session = Some(Session { id: id.to_owned(), started, elapsed_ms: 0, checkpoints: 0 });
    }
    if let Some(session) = &mut record.session {
        session.elapsed_ms = session.elapsed_ms.max(one.elapsed_ms);
    }
}

/// How the run stands after its newest checkpoint, where the format says more about it.
fn finish(record: &mut RunRecord, run: &ForeignRun, redaction: Redaction) -> Result<(), Error> {
    if let Some(tasks) = &run.tasks {
        record.working.tasks.clone_from(tasks);
    }
    if run.phase.is_some() {
        record.working.phase.clone_from(&run.phase);
    }
    record.working.log.extend(run.log.iter().cloned());
    if redaction == Redaction::On {
        record.title = redact::value(record.title.take(), "title")?.0;
        record.plan = redact::value(record.plan.take(), "plan")?.0;
        record.working = redact::value(std::mem::take(&mut record.working), "working")?.0;
        record.extra = redact::value(std::mem::take(&mut record.extra), "extra")?.0;
    }
    Ok(())
}

/// The run's beginning, and what the other tool had written down.
fn happened(
    id: &RunId,
    run: &ForeignRun,
    record: &RunRecord,
    names: &HashMap<String, CheckpointId>,
    redaction: Redaction,
) -> Result<Vec<Event>, Error> {
    let event = |at, kind, snapshot_id, data| Event { at, kind, run_id: id.clone(), snapshot_id, data };
    let begun = serde_json::json!({ "imported": run.format.as_str(), "id": run.id });
    let session = record.session.as_ref().map_or("unknown", |session| session.id.as_str());
    let entered = serde_json::json!({ "session_id": session, "profile": record.profile });
    let mut events = vec![
        event(record.started_at, EventType::RunStarted, None, Raw::of(&begun)?),
        event(record.started_at, EventType::SessionStarted, None, Raw::of(&entered)?),
    ];
    for one in &run.events {
        let about = one.about.as_ref().and_then(|name| names.get(name)).cloned();
        events.push(event(one.at, one.kind, about, one.data.clone()));
    }
    if redaction == Redaction::On {
        for event in &mut events {
            event.data = redact::value(event.data.clone(), "data")?.0;
        }
    }
    Ok(events)
}
