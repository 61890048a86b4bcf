//! Save: saves one checkpoint, durably. Redacts and checks the request, then decides inside the store's
//! write: composes the body, coalesces it or seals it, and plans which old checkpoints retention removes.

use derive_getters::Getters;
use std::path::PathBuf;

use jiff::{RoundMode, TimestampRound, Unit};
use serde_json::json;

use super::bookkeeping::{NO_SESSION, enter_session, event, open_record, record_checkpoint};
use super::compose::{self, CheckpointContext};
use super::prune::{RunAfterCommit, drop_oldest, may_drop};
use super::{Milepost, Save, Settings, capture, change, snapshot};
use crate::Error;
use crate::capture::WorkspaceCapture;
use crate::clock::elapsed_ms;
use crate::model::{
    CaptureHistory, CheckpointId, ClockReading, Event, EventType, Marks, RunId, Source, Status, Workspace,
    WriteToken,
};
use crate::redact::{self, Redaction};
use crate::retain::{self, CoalesceDecision, Trigger};
use crate::seal::{self, Unsealed};
use crate::store::{
    CheckpointEntry, CheckpointFilter, Commit, CommittedWrite, HeaderQuery, Row, RunDetails, RunView,
    StoreError, WriteDecision,
};

/// A saved checkpoint, or the one that its trigger was folded into.
#[derive(Getters, Debug, Clone, PartialEq)]
pub struct Saved {
    /// The checkpoint id.
    pub(crate) snapshot_id: CheckpointId,
    /// The run id.
    pub(crate) run_id: RunId,
    /// The sequence number within the run.
    pub(crate) sequence: u64,
    /// Whether the trigger was folded into an earlier checkpoint.
    pub(crate) coalesced: bool,
    /// The source that triggered the save.
    #[getter(copy)]
    pub(crate) source: Source,
    /// The status of the work.
    #[getter(copy)]
    pub(crate) status: Status,
    /// The checkpoint's file, in stores that have one.
    pub(crate) file: Option<PathBuf>,
    /// Checkpoints that retention removed.
    pub(crate) pruned: Vec<CheckpointId>,
    /// Number of files touched since the run began, if the workspace was captured.
    #[getter(copy)]
    pub(crate) touched: Option<u64>,
    /// Why the pointer file could not be updated. The checkpoint is saved anyway.
    pub(crate) pointer_error: Option<String>,
    /// Number of secrets replaced in this save.
    pub(crate) replaced: u64,
}

impl Saved {
    /// A new checkpoint, with all optional results empty.
    fn new(snapshot_id: CheckpointId, run_id: RunId, sequence: u64, source: Source, status: Status) -> Self {
        Self {
            snapshot_id,
            run_id,
            sequence,
            coalesced: false,
            source,
            status,
            file: None,
            pruned: Vec::new(),
            touched: None,
            pointer_error: None,
            replaced: 0,
        }
    }
}

/// What the decision needs in addition to the view of the run. The clock is read and the ids are generated
/// beforehand.
struct Request<'a> {
    run: &'a RunId,
    save: &'a Save,
    id: CheckpointId,
    moment: ClockReading,
    token: WriteToken,
    settings: &'a Settings,
    redaction: Redaction,
    capture: Option<JoinedCapture<'a>>,
}

impl Request<'_> {
    fn event(&self, kind: EventType, about: Option<&CheckpointId>, data: &serde_json::Value) -> Event {
        event(self.run, self.moment.at, kind, about, data)
    }
}

/// A capture whose files are joined with those of earlier captures.
struct JoinedCapture<'a> {
    capture: &'a WorkspaceCapture,
    /// The newest capture that it was joined with; the run must not have a newer one. `None` accepts any.
    after: Option<u64>,
}

impl Milepost {
    /// Saves a checkpoint into a run, and opens the run if it does not exist.
    pub fn save(&self, run: &RunId, mut save: Save) -> Result<Saved, Error> {
        save.condition = None;
        let saved = self.save_if(run, save)?;
        saved.ok_or_else(|| StoreError::Rules("the store did not call the decision").into())
    }

    /// Saves a checkpoint if the save's condition holds for the run; returns `None` if it does not.
    pub(crate) fn save_if(&self, run: &RunId, mut save: Save) -> Result<Option<Saved>, Error> {
        // Each failed try means that another process saved a capture in the meantime.
        const TRIES: u32 = 100;
        let Some(mut capture) = save.capture.take() else { return self.save_once(run, save, None) };
        // A new run has no earlier captures.
        let mut known = if save.only_new { Some(CaptureHistory::default()) } else { capture.after.clone() };
        let mut tries = 0;
        loop {
            tries += 1;
            let earlier = self.earlier_captures(run, known.take())?;
            let mut save = save.clone();
            save.draft.workspace = Some(earlier.join(&capture));
            // The last try accepts any newer capture: an incomplete file list is better than no checkpoint.
            let after = (tries < TRIES).then_some(earlier.latest);
            match self.save_once(run, save, Some(JoinedCapture { capture: &capture, after })) {
                Err(Error::CaptureMoved) => {}
                Err(Error::Store(StoreError::BlobsMissing(_))) if capture.snapshot.is_some() => {
                    self.retake_snapshot(run, &mut capture)?;
                }
                other => return other,
            }
        }
    }

    fn save_once(
        &self,
        run: &RunId,
        mut save: Save,
        capture: Option<JoinedCapture<'_>>,
    ) -> Result<Option<Saved>, Error> {
        let redaction = save.redaction.unwrap_or(self.settings.redaction);
        let mut replaced = 0;
        if redaction == Redaction::On {
            super::check_run_name(run, &self.settings.redaction_allow)?;
            replaced = save.redact(&self.settings.redaction_allow)?;
        }
        save.check(Some(run), &self.settings)?;
        save.draft.run_id = None;
        let mut moment = self.read_clock();
        let id = match &save.promised {
            Some((id, at)) => {
                moment = ClockReading { at: *at, boot_id: None, uptime_ms: None };
                id.clone()
            }
            None => CheckpointId::generate(moment.at),
        };
        // Documents store milliseconds, rounded down like those in the id. Later comparisons have to use
        // the same value.
        let down = TimestampRound::new().smallest(Unit::Millisecond).mode(RoundMode::Trunc);
        moment.at = moment.at.round(down).unwrap_or(moment.at);
        let request = Request {
            run,
            save: &save,
            id,
            moment,
            token: WriteToken::generate(),
            settings: &self.settings,
            redaction,
            capture,
        };
        let (mut outcome, mut stamp) = (None, 0);
        let written = self.write(run, &mut |view| {
            stamp = view.slot.stamp();
            let (decision, result) = decide(view, &request);
            outcome = Some(result);
            decision
        });
        let mut saved = match (written, outcome) {
            (Ok(receipt), Some(Ok(Some(saved)))) => Saved { file: receipt.file, ..saved },
            (Ok(_), Some(Ok(None))) => return Ok(None),
            (Ok(_), Some(Err(e))) => return Err(e),
            // Our own id already exists: the reply was lost, and the token is no longer among the run's
            // recent commits.
            (Err(Error::Store(StoreError::Exists(id))), _) if id == request.id => {
                self.find_own_commit(&id)?
            }
            (Err(Error::Store(StoreError::Named(id))), _) => return Err(self.brief_exists(id)?),
            (Err(e), _) => return Err(e),
            (Ok(_), None) => return Err(StoreError::Rules("the store did not call the decision").into()),
        };
        saved.replaced = replaced;
        saved.pointer_error = self.update_pointer_after_save(run, stamp);
        self.prune_whole_run_sometimes(&mut saved);
        if request.capture.is_some() {
            self.remember_touched(run, saved.sequence, save.draft.workspace);
        }
        Ok(Some(saved))
    }

    /// The error for a brief whose id is taken. Names the checkpoint that has the id.
    fn brief_exists(&self, id: String) -> Result<Error, Error> {
        let mut checkpoint = "a damaged checkpoint".to_owned();
        for find in [CheckpointFilter::Id(&id), CheckpointFilter::Name(&id)] {
            let rows = self.store.headers(&HeaderQuery::default().find(find).limit(1))?;
            if let Some(entry) = rows.into_iter().find_map(Row::intact) {
                checkpoint = format!("{}@{}", entry.header.run_id, entry.header.sequence);
                break;
            }
        }
        Ok(Error::BriefExists { id, checkpoint })
    }

    /// The checkpoint that an earlier try of this save wrote.
    fn find_own_commit(&self, id: &CheckpointId) -> Result<Saved, Error> {
        match self.row_of(id)? {
            Some(Row::Intact(CheckpointEntry { header, .. })) => Ok(Saved::new(
                header.snapshot_id,
                header.run_id,
                header.sequence,
                header.source,
                header.status,
            )),
            _ => Err(Error::NotFound { reference: id.to_string() }),
        }
    }
}

/// Decides what a save does to its run. Pure.
fn decide(view: &RunView, request: &Request<'_>) -> (WriteDecision, Result<Option<Saved>, Error>) {
    if let Some(only) = request.save.condition
        && !view.record.as_ref().is_some_and(|record| only.holds(record.status))
    {
        return (WriteDecision::NoChange, Ok(None));
    }
    let without_details = RunDetails::default();
    let details = match &view.details {
        Some(details) => details,
        None if view.waiting == 0 && !may_drop(view, request.moment.at, request.settings) => &without_details,
        None => return (WriteDecision::NeedDetails, Ok(None)),
    };
    match plan_commit(view, details, request) {
        Ok((Some(commit), saved)) => (WriteDecision::Commit(Box::new(commit)), Ok(Some(saved))),
        Ok((None, saved)) => (WriteDecision::NoChange, Ok(Some(saved))),
        Err(e) => (WriteDecision::NoChange, Err(e)),
    }
}

fn plan_commit(
    view: &RunView,
    details: &RunDetails,
    request: &Request<'_>,
) -> Result<(Option<Commit>, Saved), Error> {
    let save = request.save;
    let now = request.moment.at;
    let source = save.draft.source.unwrap_or(Source::Manual);
    let previous = view.record.as_ref().filter(|_| save.condition.is_some()).map(|record| record.status);
    let status = save.draft.status.or(previous).unwrap_or(Status::InProgress);
    let mut saved = Saved::new(request.id.clone(), request.run.clone(), view.slot.sequence(), source, status);
    saved.touched = save.draft.workspace.as_ref().and_then(count_touched);
    let mut events = Vec::new();
    let mut record = open_record(view, request.run, &save.run_options, request.settings, now, &mut events);
    if let Some(earlier) = record.find_commit(&request.token) {
        saved.sequence = earlier.sequence();
        saved.coalesced = earlier.coalesced();
        if let (true, Some(latest)) = (saved.coalesced, &view.latest) {
            saved.snapshot_id = latest.header.snapshot_id.clone();
        }
        return Ok((None, saved));
    }
    if save.only_new && view.record.is_some() {
        return Err(Error::RunExists(request.run.clone()));
    }
    if let Some(joined) = &request.capture {
        if joined.after.is_some_and(|latest| latest != record.captures.latest) {
            return Err(Error::CaptureMoved);
        }
        capture::remember_capture(
            &mut record.captures,
            joined.capture,
            request.redaction,
            &request.settings.redaction_allow,
            now,
        );
    }
    let reopens = view.record.as_ref().is_some_and(|record| !record.is_open());
    let session = save.draft.session_id.as_deref().filter(|id| !id.is_empty());
    let first_of_session = enter_session(&mut record, session, &request.moment, &mut events);
    let (session_id, elapsed_ms) = match &mut record.session {
        Some(session) => {
            let elapsed = elapsed_ms(&session.started, &request.moment).max(session.elapsed_ms);
            session.elapsed_ms = elapsed;
            (session.id.clone(), elapsed)
        }
        None => (NO_SESSION.to_owned(), 0),
    };
    let context = CheckpointContext {
        id: &request.id,
        created_at: now,
        elapsed_ms,
        status,
        session_id: &session_id,
        parent: view.latest.as_ref().map(|e| e.header.snapshot_id.clone()).or_else(|| record.parent.clone()),
    };
    let mut items = details.items.clone();
    let messages = change::resolve(&save.changes, &record, &mut items, now, &request.settings.limits)?;
    record.working.note_messages(&messages);
    let draft = save.draft_for(record.profile);
    let body = compose::compose(&mut record, &items, &draft, context)?;
    let phase = body.phase.clone();
    let restore_points = body.restore_points.clone().unwrap_or_default();
    let memory = body.workspace.as_ref().and_then(|w| w.memory.clone());
    let outcomes = !body.command_outcomes.is_empty();
    let mut unsealed = Unsealed::new(body, save.draft.state.is_some())?;
    if request.redaction == Redaction::On
        && let Some(redactions) = redact::summarize_redactions(unsealed.members())
    {
        let mut body = unsealed.into_body();
        body.redacted = Some(redactions.merge(body.redacted.take()));
        unsealed = Unsealed::new(body, save.draft.state.is_some())?;
    }
    let trigger = Trigger {
        source,
        reasons: &save.draft.reasons,
        status,
        material: unsealed.material(),
        outcomes,
        profile: record.profile,
        // A promised id must exist, and a save into an ended run reopens it.
        never_coalesce: first_of_session || save.last_of_session || save.promised.is_some() || reopens,
    };
    let coalescing = view
        .latest
        .as_ref()
        .map_or(CoalesceDecision::NewCheckpoint, |latest| retain::coalesce(latest, &trigger, now));
    record.updated_at = now;
    record.heartbeat = Some(now);
    // A timer does not show that the work continues.
    let work_continues = !save.changes.is_empty() || (save.condition.is_none() && source != Source::Timer);
    if save.interruption.is_some() || work_continues {
        record.interruption.clone_from(&save.interruption);
    }
    if save.releases_owner {
        record.owner = None;
    }
    let mut commit = Commit::new(record);
    commit.consume = details.items.len();
    commit.messages = messages;
    if let Some(taken) = request.capture.as_ref().and_then(|joined| joined.capture.snapshot.as_ref()) {
        snapshot::include_snapshot(&mut commit, taken);
    }
    commit.new_names.extend(save.draft.brief.as_deref().and_then(crate::front_matter::brief_id));
    match (coalescing, &view.latest) {
        (CoalesceDecision::NewCheckpoint, _) | (_, None) => {
            let sealed = seal::seal(unsealed, &view.slot)?;
            let header = sealed.header();
            let sequence = header.sequence;
            record_checkpoint(&mut commit.record, header, now);
            let mut data = json!({ "sequence": sequence, "source": source, "status": status });
            if let Some(phase) = &phase {
                data["phase"] = phase.name.clone().into();
                data["phase_number"] = phase.number.into();
            }
            let event = |kind, data: serde_json::Value| request.event(kind, Some(&request.id), &data);
            events.push(event(EventType::CheckpointCreated, data));
            if status.is_terminal() {
                events.push(event(EventType::RunFinished, json!({ "status": status })));
            }
            if save.last_of_session {
                events.push(event(EventType::SessionStopped, json!({ "session_id": session_id })));
            }
            if save.pin || !save.tags.is_empty() {
                commit.marks.push((sequence, add_marks(Marks::default(), save)));
            }
            let after = RunAfterCommit { count: view.count + 1, newest: sequence, at: request.moment.at };
            let pruned = drop_oldest(&mut commit, &details.oldest, &after, request.settings);
            if !pruned.is_empty() {
                events.push(request.event(EventType::Pruned, None, &json!({ "removed": pruned })));
            }
            saved.pruned = pruned;
            commit.puts.push(sealed);
            commit.generated_ids = save.promised.is_none();
        }
        (coalescing, Some(latest)) => {
            let mut marks = latest.marks.clone();
            retain::coalesce_into(&mut marks, coalescing, &trigger, memory, now);
            commit.record.marks_changed += u64::from(save.pin || !save.tags.is_empty());
            commit.marks.push((latest.header.sequence, add_marks(marks, save)));
            saved.snapshot_id = latest.header.snapshot_id.clone();
            saved.sequence = latest.header.sequence;
            saved.coalesced = true;
            commit.record.working.restore_points = restore_points;
            if coalescing == CoalesceDecision::AppendSource {
                let data = json!({ "sequence": saved.sequence, "source": source });
                events.push(request.event(EventType::CheckpointCoalesced, Some(&saved.snapshot_id), &data));
            }
        }
    }
    commit.set_token(&request.token, CommittedWrite::new(saved.sequence, saved.coalesced));
    commit.events = events;
    Ok((Some(commit), saved))
}

/// Number of touched files; `None` if none are known and git could not be read.
fn count_touched(workspace: &Workspace) -> Option<u64> {
    let count = workspace.files_modified.len() as u64;
    let git_unknown = workspace.git.as_ref().is_none_or(|git| git.error.is_some());
    (count > 0 || !git_unknown).then_some(count)
}

fn add_marks(mut marks: Marks, save: &Save) -> Marks {
    marks.pinned |= save.pin;
    for tag in &save.tags {
        if !marks.tags.contains(tag) {
            marks.tags.push(tag.clone());
        }
    }
    marks.revision = marks.revision.max(1);
    marks
}
