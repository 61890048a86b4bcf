//! Composes a checkpoint's body. Takes the run's working state, the items recorded since, and the caller's
//! draft. Returns a complete body and updates the working state to match it. Pure.

use crate::failures;
use crate::model::{
    Body, CheckpointId, Draft, FileRef, Item, JsonPath, LogLine, Message, Outcome, PAI_PHASES, Phase,
    Profile, RunRecord, SizeLimits, Source, Status, StepState, StepStatus, Task, TaskStatus, ValidationError,
    WorkingState,
};

/// Maximum number of outcomes in a checkpoint.
pub(super) const OUTCOMES: usize = 100;
/// Maximum bytes in the summary of an outcome.
pub const OUTCOME_SUMMARY: usize = 2048;
/// Maximum number of log lines in a checkpoint, and maximum bytes of their text.
const LOG_LINES: usize = 200;
const LOG_BYTES: usize = 128 * 1024;

/// Maximum length of the newest prompt in a run's working state, in characters.
const PROMPT_CHARS: usize = 200;

/// Maximum number of restore points between two checkpoints.
const RESTORE_POINTS: usize = 50;

/// Maximum number of written files in a run's working state.
const FILES: usize = 1000;

impl From<Body> for WorkingState {
    /// The working state after a checkpoint.
    fn from(body: Body) -> Self {
        let mut working = Self {
            phase: body.phase,
            task_summary: body.task_summary,
            criteria: body.criteria,
            tasks: body.tasks,
            files: Vec::new(),
            step_state: body.step_state,
            context_digest: body.context_digest,
            decisions: body.decisions,
            log: body.log,
            open_steps: Vec::new(),
            outcomes_dropped: 0,
            latest_prompt: None,
            restore_points: Vec::new(),
            failures: Vec::new(),
        };
        working.reopen_step();
        working
    }
}

impl WorkingState {
    /// Applies one item. Outcomes belong to the checkpoint and are collected in `outcomes`.
    pub fn apply(&mut self, item: Item, outcomes: &mut Vec<Outcome>) {
        match item {
            Item::Outcome(outcome) => {
                failures::update(&mut self.failures, &outcome);
                outcomes.push(outcome);
            }
            Item::Note(line) => {
                self.log.push(line);
                self.trim_log();
            }
            Item::Decision(decision) => self.decisions.push(decision),
            Item::Task(task) => upsert(&mut self.tasks, task, |a, b| a.id() == b.id()),
            Item::Todo(list) => {
                self.tasks.retain(|task| !task.is_todo());
                self.tasks.extend(list);
            }
            Item::File(file) => {
                self.files.retain(|known| known.path != file.path);
                self.files.push(file);
                self.files.drain(..self.files.len().saturating_sub(FILES));
            }
            Item::Criterion(criterion) => upsert(&mut self.criteria, criterion, |a, b| a.id == b.id),
            Item::Step(step) => self.enter_step(step),
            Item::Phase(phase) => self.phase = Some(phase),
            Item::Context(context) => self.context_digest = Some(context),
            Item::RestorePoint(point) => {
                self.restore_points.push(point);
                self.restore_points.drain(..self.restore_points.len().saturating_sub(RESTORE_POINTS));
            }
        }
    }

    /// Makes a step the current one, and lists it as open while it is in progress.
    pub(super) fn enter_step(&mut self, step: StepState) {
        self.open_steps.retain(|open| open.step_id != step.step_id);
        self.step_state = Some(step);
        self.reopen_step();
    }

    /// Adds the current step to the open ones if it is in progress.
    pub(super) fn reopen_step(&mut self) {
        let under_way = |step: &&StepState| step.step_status == Some(StepStatus::InProgress);
        self.open_steps.extend(self.step_state.as_ref().filter(under_way).cloned());
    }

    /// What an agent is doing: its current task, or what the user asked for last.
    pub(super) fn current_work(&self) -> Option<String> {
        let task = self.tasks.iter().find(|task| task.status() == TaskStatus::InProgress.as_str());
        task.and_then(Task::title).or_else(|| self.latest_prompt.clone())
    }

    /// Takes note of the messages that a commit adds.
    pub(super) fn note_messages(&mut self, messages: &[Message]) {
        let prompts = messages.iter().filter(|message| matches!(message, Message::Prompt { .. }));
        let mut lines =
            prompts.filter_map(|prompt| prompt.text().lines().find(|line| !line.trim().is_empty()));
        if let Some(line) = lines.next_back() {
            self.latest_prompt = Some(line.trim().chars().take(PROMPT_CHARS).collect());
        }
    }

    /// Drops the oldest log lines beyond the limits. The newest line always stays.
    fn trim_log(&mut self) {
        let mut bytes = 0;
        let fits = |line: &&LogLine| {
            bytes += line.text.len();
            bytes <= LOG_BYTES
        };
        let kept = self.log.iter().rev().take(LOG_LINES).take_while(fits).count().max(1);
        self.log.drain(..self.log.len().saturating_sub(kept));
    }
}

fn upsert<T>(list: &mut Vec<T>, new: T, same: impl Fn(&T, &T) -> bool) {
    match list.iter_mut().find(|old| same(old, &new)) {
        Some(old) => *old = new,
        None => list.push(new),
    }
}

/// The fields of a body that come from neither the working state nor the draft.
pub(super) struct CheckpointContext<'a> {
    pub(super) id: &'a CheckpointId,
    pub(super) created_at: jiff::Timestamp,
    pub(super) elapsed_ms: u64,
    pub(super) status: Status,
    pub(super) session_id: &'a str,
    pub(super) parent: Option<CheckpointId>,
}

/// Composes a body and updates the run's working state to match it.
pub(super) fn compose(
    record: &mut RunRecord,
    items: &[Item],
    draft: &Draft,
    frame: CheckpointContext<'_>,
) -> Result<Body, ValidationError> {
    let working = &mut record.working;
    let mut outcomes = Vec::new();
    for item in items {
        working.apply(item.clone(), &mut outcomes);
    }
    for outcome in &draft.command_outcomes {
        working.apply(Item::Outcome(outcome.clone().ended_at(frame.created_at)?), &mut outcomes);
    }
    working.decisions.extend(draft.decisions.iter().cloned());
    working.log.extend(draft.log.iter().cloned());
    working.trim_log();
    macro_rules! set_given {
        ($($name:ident),*) => { $( if draft.$name.is_some() { working.$name.clone_from(&draft.$name); } )* };
    }
    set_given![phase, task_summary, context_digest];
    // The summary of an agent's checkpoint says what it is doing.
    if draft.task_summary.is_none() && record.agent.is_some() {
        working.task_summary = working.current_work().or(working.task_summary.take());
    }
    if let Some(step) = &draft.step_state {
        working.enter_step(step.clone());
    }
    if let Some(criteria) = &draft.criteria {
        working.criteria.clone_from(criteria);
    }
    if let Some(tasks) = &draft.tasks {
        working.tasks.clone_from(tasks);
    }
    let surplus = outcomes.len().saturating_sub(OUTCOMES);
    outcomes.drain(..surplus);
    let dropped = std::mem::take(&mut working.outcomes_dropped) + surplus as u64;
    let source = draft.source.unwrap_or(Source::Manual);
    let mut source_details = vec![source.as_str().to_owned()];
    source_details.extend(draft.reasons.iter().cloned());
    let body = Body {
        brief: draft.brief.clone(),
        command_outcomes: outcomes,
        context_digest: working.context_digest.clone(),
        created_at: frame.created_at,
        criteria: working.criteria.clone(),
        decisions: working.decisions.clone(),
        elapsed_ms: frame.elapsed_ms,
        files: {
            let given = |file: &&FileRef| !draft.files.iter().any(|given| given.path == file.path);
            working.files.iter().filter(given).chain(&draft.files).cloned().collect()
        },
        log: working.log.clone(),
        metadata: draft.metadata.clone(),
        outcomes_dropped: draft.outcomes_dropped + dropped,
        parent: draft.parent.clone().or(frame.parent),
        phase: working.phase.clone(),
        redacted: draft.redacted.clone(),
        restore_points: Some(std::mem::take(&mut working.restore_points)).filter(|points| !points.is_empty()),
        run_id: record.run_id.clone(),
        sequence: 0,
        session_id: frame.session_id.to_owned(),
        snapshot_id: frame.id.clone(),
        source,
        source_details,
        state: draft.state.clone(),
        status: frame.status,
        step_state: working.step_state.clone(),
        task_summary: working.task_summary.clone(),
        tasks: working.tasks.clone(),
        thread: None,
        values: None,
        workspace: draft.workspace.clone(),
        extra: draft.extra.clone(),
    };
    check(&body, record.profile)?;
    Ok(body)
}

/// Checks the rules that the types cannot express.
fn check(body: &Body, profile: Profile) -> Result<(), ValidationError> {
    let root = JsonPath::Root;
    let outcomes = root.key("command_outcomes");
    for (i, outcome) in body.command_outcomes.iter().enumerate() {
        check_outcome(outcome, &outcomes.index(i))?;
    }
    body.phase.as_ref().map_or(Ok(()), |phase| check_phase(phase, profile))
}

/// Refuses an outcome whose summary is too long.
pub(super) fn check_outcome(outcome: &Outcome, path: &JsonPath<'_>) -> Result<(), ValidationError> {
    if outcome.summary.len() > OUTCOME_SUMMARY {
        let message = format!("{} bytes, over the limit of {OUTCOME_SUMMARY}", outcome.summary.len());
        return Err(ValidationError::at(&path.key("summary"), message));
    }
    Ok(())
}

/// Refuses a phase that the profile does not have.
pub(super) fn check_phase(phase: &Phase, profile: Profile) -> Result<(), ValidationError> {
    let root = JsonPath::Root;
    if profile == Profile::Pai {
        let path = root.key("phase");
        if phase.number < 1 || phase.number > PAI_PHASES.len() as u64 {
            let names = PAI_PHASES.iter().enumerate().map(|(i, name)| format!("{} {name}", i + 1));
            let message = format!(
                "{} is not a phase of the pai profile; its phases are {}",
                phase.number,
                names.collect::<Vec<_>>().join(", ")
            );
            return Err(ValidationError::at(&path.key("number"), message));
        }
        if phase.name.as_deref().unwrap_or_default().is_empty() {
            return Err(ValidationError::at(&path.key("name"), "is required by the pai profile"));
        }
    }
    Ok(())
}

/// Refuses a field whose text is too large.
pub(super) fn check_field_size(
    text: &str,
    path: &dyn std::fmt::Display,
    limits: &SizeLimits,
) -> Result<(), ValidationError> {
    let size = text.len() as u64;
    if limits.field > 0 && size > limits.field {
        let message = format!("{size} bytes, over the limit of {} for one field", limits.field);
        return Err(ValidationError { path: path.to_string(), message });
    }
    Ok(())
}

/// Refuses a draft whose fields are too large; nothing is ever truncated. Captured data has its own limits.
pub(super) fn check_limits(draft: &Draft, limits: &SizeLimits) -> Result<(), ValidationError> {
    let mut total = 0;
    for (name, raw) in draft.caller_fields()?.iter() {
        check_field_size(raw.get(), &JsonPath::Root.key(name), limits)?;
        total += raw.get().len() as u64;
    }
    if limits.checkpoint > 0 && total > limits.checkpoint {
        let message =
            format!("{total} bytes in total, over the limit of {} for a checkpoint", limits.checkpoint);
        return Err(ValidationError::at(&JsonPath::Root, message));
    }
    Ok(())
}
