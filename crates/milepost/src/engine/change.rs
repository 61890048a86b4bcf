//! Change: records what happened between two checkpoints, durably; a boundary saves a checkpoint
//! immediately. Takes changes and resolves them to items and messages, by the run's working state and its
//! pending items.

use jiff::Timestamp;

use super::compose::{check_field_size, check_outcome, check_phase};
use super::{Milepost, Save, Saved};
use crate::model::{
    Change, ContextChange, ContextDigest, Criterion, CriterionChange, Decision, Item, JsonPath, LogLine,
    Message, RawJson, RunId, RunRecord, SizeLimits, StepChange, StepState, StepStatus, Task, TaskChange,
    ValidationError, WorkingState,
};
use crate::{Error, trigger};

/// Maximum bytes in the id of a task, criterion or step.
const ID: usize = 256;
/// Maximum number of steps in progress at the same time.
const OPEN_STEPS: usize = 100;

impl Milepost {
    /// Applies changes to a run, and opens the run if it does not exist. If one of the changes is a boundary,
    /// such as the start of a step or the end of a task, all of them are saved immediately in a checkpoint
    /// with the content of `save`. Otherwise they wait for the next checkpoint.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn apply(
        &self,
        run: &RunId,
        changes: Vec<Change>,
        save: Save,
    ) -> Result<Option<Saved>, Error> {
        if changes.iter().any(|change| trigger::boundary(change).is_some()) {
            return self.save(run, save.with_changes(changes)).map(Some);
        }
        self.record_changes(run, &changes, &save.run_options, None)?;
        Ok(None)
    }
}

/// Refuses changes that are invalid for every run.
pub(super) fn check(changes: &[Change], limits: &SizeLimits) -> Result<(), ValidationError> {
    changes.iter().try_for_each(|change| match change {
        Change::Task(change) => check_id(&change.id, "/tasks/id"),
        Change::Criterion(change) => check_id(&change.id, "/criteria/id"),
        Change::Step(change) => check_id(&change.id, "/step_state/step_id"),
        Change::Note(text) => check_text(text, "/log/text", limits),
        Change::Prompt(text)
        | Change::Plan { text, .. }
        | Change::Reply(text)
        | Change::Answer { text, .. } => check_text(text, "/messages/text", limits),
        Change::Decision { text, .. } => check_text(text, "/decisions/text", limits),
        Change::Item(Item::Outcome(outcome)) => {
            check_outcome(outcome, &JsonPath::Root.key("command_outcomes"))
        }
        Change::Context(_) | Change::Item(_) => Ok(()),
    })
}

/// Whether resolving a change requires the pending items.
pub(super) fn needs_pending_items(change: &Change) -> bool {
    match change {
        Change::Task(_) | Change::Criterion(_) | Change::Step(_) | Change::Context(_) => true,
        Change::Prompt(_) | Change::Answer { .. } | Change::Plan { .. } | Change::Reply(_) => false,
        Change::Note(_) | Change::Decision { .. } => false,
        Change::Item(item) => match item {
            Item::Task(_) | Item::Todo(_) | Item::Criterion(_) | Item::Step(_) | Item::Context(_) => true,
            Item::Outcome(_) | Item::Note(_) | Item::Decision(_) | Item::Phase(_) => false,
            Item::File(_) | Item::RestorePoint(_) => false,
        },
    }
}

/// Resolves changes to items and messages. Appends the items to `items`, the pending items, and returns the
/// messages. Each change sees the items before it.
pub(super) fn resolve(
    changes: &[Change],
    record: &RunRecord,
    items: &mut Vec<Item>,
    now: Timestamp,
    limits: &SizeLimits,
) -> Result<Vec<Message>, Error> {
    let mut messages = Vec::new();
    if changes.is_empty() {
        return Ok(messages);
    }
    let mut working = record.working.clone();
    let mut outcomes = Vec::new();
    for item in items.iter() {
        working.apply(item.clone(), &mut outcomes);
    }
    check(changes, limits)?;
    for change in changes {
        let item = match resolve_change(change, &working, now)? {
            Resolved::Item(item) => item,
            Resolved::Message(message) => {
                messages.push(message);
                continue;
            }
        };
        if let Item::Phase(phase) = &item {
            check_phase(phase, record.profile)?;
        }
        working.apply(item.clone(), &mut outcomes);
        check_item_size(&item, &working, limits)?;
        items.push(item);
    }
    Ok(messages)
}

/// What a change becomes.
#[allow(clippy::large_enum_variant)]
enum Resolved {
    Item(Item),
    Message(Message),
}

fn resolve_change(change: &Change, working: &WorkingState, now: Timestamp) -> Result<Resolved, Error> {
    let at = now;
    Ok(Resolved::Item(match change {
        Change::Prompt(text) => return Ok(Resolved::Message(Message::Prompt { at, text: text.clone() })),
        Change::Plan { text, is_approved } => {
            let (text, is_approved) = (text.clone(), *is_approved);
            return Ok(Resolved::Message(Message::Plan { at, text, is_approved }));
        }
        Change::Reply(text) => return Ok(Resolved::Message(Message::Reply { at, text: text.clone() })),
        Change::Answer { question, text } => {
            let (question, text) = (question.clone(), text.clone());
            return Ok(Resolved::Message(Message::Answer { at, question, text }));
        }
        Change::Item(Item::Outcome(outcome)) => Item::Outcome(outcome.clone().ended_at(at)?),
        Change::Item(item) => item.clone(),
        Change::Task(TaskChange { id, status, title }) => {
            Item::Task(Task::changed(&working.tasks, id, *status, title.as_deref())?)
        }
        Change::Criterion(change) => Item::Criterion(changed_criterion(change, working)),
        Change::Step(change) => Item::Step(changed_step(change, working)?),
        Change::Context(change) => Item::Context(changed_context(change, working)),
        Change::Note(text) => Item::Note(LogLine { at, text: text.clone(), extra: Default::default() }),
        Change::Decision { text, supersedes } => {
            let supersedes = supersedes.clone();
            Item::Decision(Decision { at, supersedes, text: text.clone(), extra: Default::default() })
        }
    }))
}

fn changed_criterion(change: &CriterionChange, working: &WorkingState) -> Criterion {
    let known = working.criteria.iter().find(|criterion| criterion.id == change.id).cloned();
    let mut criterion = known.unwrap_or_else(|| Criterion {
        id: change.id.clone(),
        status: change.status,
        subject: String::new(),
        extra: Default::default(),
    });
    criterion.status = change.status;
    if let Some(subject) = &change.subject {
        criterion.subject.clone_from(subject);
    }
    criterion
}

/// The step after a change. A step can end only if it has begun, but it can be skipped without having
/// begun.
fn changed_step(change: &StepChange, working: &WorkingState) -> Result<StepState, Error> {
    let this = |step: &&StepState| step.step_id.as_deref() == Some(change.id.as_str());
    let begun = working.open_steps.iter().find(this);
    // A repeated request, after a lost reply or by a rerun script: the step already ended with this status.
    let current = working.step_state.as_ref().filter(this);
    let ended_so = current.filter(|step| step.step_status == Some(change.status));
    let ends = matches!(change.status, StepStatus::Done | StepStatus::Failed);
    if ends && begun.or(ended_so).is_none() {
        let open = working.open_steps.iter().filter_map(|step| step.step_id.clone()).collect();
        return Err(Error::StepNotBegun { step: change.id.clone(), open });
    }
    if change.status == StepStatus::InProgress && begun.is_none() && working.open_steps.len() >= OPEN_STEPS {
        let message =
            format!("{OPEN_STEPS} steps are in progress, which is the limit; end some of them first");
        return Err(ValidationError { path: "/step_state".into(), message }.into());
    }
    let mut step = begun.or(current).cloned().unwrap_or_else(|| StepState {
        step_id: Some(change.id.clone()),
        // Steps of one run usually belong to one plan.
        plan_path: working.step_state.as_ref().and_then(|step| step.plan_path.clone()),
        ..StepState::default()
    });
    step.step_status = Some(change.status);
    if change.plan.is_some() {
        step.plan_path.clone_from(&change.plan);
    }
    if change.ordinal.is_some() {
        step.step_ordinal = change.ordinal;
    }
    if let Some(title) = &change.title {
        step.extra.set("step_title", RawJson::of(title)?);
    }
    Ok(step)
}

fn changed_context(change: &ContextChange, working: &WorkingState) -> ContextDigest {
    let mut digest = working.context_digest.clone().unwrap_or_default();
    digest.window_pressure = change.pressure.or(digest.window_pressure);
    digest.dropped_items = change.dropped.unwrap_or(digest.dropped_items);
    if change.policy.is_some() {
        digest.policy_profile.clone_from(&change.policy);
    }
    for artifact in &change.protect {
        if !digest.protected_artifacts.contains(artifact) {
            digest.protected_artifacts.push(artifact.clone());
        }
    }
    digest
}

/// Refuses an id that is empty or too long.
fn check_id(id: &str, path: &str) -> Result<(), ValidationError> {
    let message = match id.len() {
        0 => "the id must not be empty".to_owned(),
        n if n > ID => format!("the id has {n} bytes, over the limit of {ID}"),
        _ => return Ok(()),
    };
    Err(ValidationError { path: path.to_owned(), message })
}

/// Refuses text that is empty or too long.
fn check_text(text: &str, path: &str, limits: &SizeLimits) -> Result<(), ValidationError> {
    if text.trim().is_empty() {
        let message = "the text must not be empty".to_owned();
        return Err(ValidationError { path: path.to_owned(), message });
    }
    check_field_size(text, &path, limits)
}

/// Refuses an item that would make its field larger than the limit for a save.
fn check_item_size(item: &Item, working: &WorkingState, limits: &SizeLimits) -> Result<(), ValidationError> {
    let (path, raw) = match item {
        Item::Task(_) | Item::Todo(_) => ("/tasks", RawJson::of(&working.tasks)?),
        Item::Criterion(_) => ("/criteria", RawJson::of(&working.criteria)?),
        Item::Step(_) => ("/step_state", RawJson::of(&working.step_state)?),
        Item::Context(_) => ("/context_digest", RawJson::of(&working.context_digest)?),
        Item::Outcome(outcome) => ("/command_outcomes", RawJson::of(outcome)?),
        Item::Note(_) | Item::Decision(_) | Item::Phase(_) | Item::File(_) | Item::RestorePoint(_) => {
            return Ok(());
        }
    };
    check_field_size(raw.get(), &path, limits)
}
