//! The facts above a brief, in a few lines: what the run was doing, why it stopped, and what comes next.
//! Takes an assessed run. Compares the recorded git state with the current one and changes nothing.

use std::path::Path;

use milepost::Milepost;
use milepost::internal::brief::one_line;
use milepost::internal::capture::commit_distance::{CommitDistance, commit_distance};
use milepost::internal::capture::{CaptureBaseline, CaptureOptions, capture_workspace};
use milepost::internal::engine::{RunAssessment, RunState};
use milepost::model::{CheckpointId, GitFacts, InterruptionKind, Outcome, Phase, RunId, RunRecord, Task};
use serde::Serialize;

use crate::present::format;

/// Maximum number of next actions to list.
const ACTIONS: usize = 5;

/// Facts about a run that stopped.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Overview {
    pub(crate) run_id: RunId,
    pub(crate) snapshot_id: Option<CheckpointId>,
    pub(crate) title: Option<String>,
    pub(crate) phase: Option<Phase>,
    pub(crate) agent: Option<String>,
    /// Where the run came from, if not from work on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    pub(crate) worktree: Option<String>,
    pub(crate) branch: Option<String>,
    pub(crate) class: InterruptionKind,
    pub(crate) detail: Option<String>,
    pub(crate) stopped: String,
    pub(crate) lasted: String,
    pub(crate) sessions: u64,
    pub(crate) doing: Option<String>,
    pub(crate) failed: Option<String>,
    pub(crate) next_actions: Vec<String>,
    /// The command with which the agent resumes its own conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent_resume: Option<String>,
    /// The agent's transcript of the conversation, if the file exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transcript: Option<String>,
    /// Whether the run has no owner and has not ended.
    #[serde(skip)]
    is_open: bool,
}

impl Overview {
    /// Collects the facts about a run.
    pub(crate) fn of(mp: &Milepost, from: &RunAssessment) -> Self {
        let summary = &from.detail.summary();
        let record = summary.intact();
        let working = record.map(|record| record.working());
        let header = from.shown.as_ref().map(|shown| &shown.entry().header);
        let tasks = working.map(|working| working.tasks().as_slice()).unwrap_or_default();
        let now = mp.now();
        Self {
            run_id: summary.run_id().clone(),
            snapshot_id: header.map(|header| header.snapshot_id().clone()),
            title: record.and_then(|record| record.title().clone()),
            phase: working.and_then(|working| working.phase().clone()),
            agent: record.and_then(|record| record.agent().clone()),
            origin: record
                .and_then(|record| record.origin())
                .map(|origin| format!("{} {}", origin.kind, origin.from)),
            worktree: record
                .and_then(|record| record.worktree().clone().or_else(|| record.project().clone())),
            branch: record.and_then(|record| record.branch().clone()),
            class: from.decision.class,
            detail: record.and_then(|record| record.interruption().as_ref()?.detail.clone()),
            stopped: record.map_or_else(String::new, |record| format::ago(record.updated_at(), now)),
            lasted: format::worked(record.map_or(0, RunRecord::total_ms)),
            sessions: record.map_or(0, |record| record.sessions()),
            doing: doing(record, tasks),
            failed: working.and_then(|working| working.failures().last()).map(describe_failure),
            next_actions: next_actions(record, tasks),
            agent_resume: None,
            transcript: None,
            is_open: from.decision.run_state == RunState::Open,
        }
    }

    /// A name for display: the title and phase, or the run id.
    pub(crate) fn name(&self) -> String {
        let phase = self.phase.as_ref().map(|phase| match &phase.name {
            Some(name) => format!("phase {} ({})", phase.number, one_line(name)),
            None => format!("phase {}", phase.number),
        });
        match (&self.title, phase) {
            (Some(title), Some(phase)) => format!("{} from {phase}", one_line(title)),
            (Some(title), None) => one_line(title).into_owned(),
            (None, Some(phase)) => phase,
            (None, None) => self.run_id.to_string(),
        }
    }

    /// Why it stopped, in words.
    pub(crate) fn why(&self) -> &'static str {
        match self.class {
            // Only the end by a signal has a detail, which is the signal's name.
            InterruptionKind::ProcessCrash if self.detail.is_some() => "the process was stopped by a signal",
            InterruptionKind::ProcessCrash => "the process died unexpectedly",
            InterruptionKind::Interrupted => "you interrupted it",
            InterruptionKind::ToolFailure => "a command failed and stopped it",
            InterruptionKind::Timeout => "an operation timed out",
            InterruptionKind::ContextReset => "the agent's context was full",
            InterruptionKind::UsageLimit => "a usage limit was reached",
            InterruptionKind::ApiError => "a request to the model failed",
            InterruptionKind::WaitingForUser => "it was waiting for you",
            InterruptionKind::Stalled => "the process is alive but has been silent for a long time",
            InterruptionKind::CleanStop if self.is_open => "it was saved by hand and not ended",
            InterruptionKind::CleanStop => "it was paused",
            InterruptionKind::Unknown => "the reason is unknown",
        }
    }

    /// The introduction for an agent, in Milepost's own words.
    pub(crate) fn introduction(&self) -> String {
        format!(
            "Milepost: earlier work in this project was interrupted and is continued here. Run {} stopped {}: {}. \
             It had run for {}.\n",
            self.run_id,
            self.stopped,
            self.why(),
            self.lasted,
        )
    }

    /// One line for the person who starts the agent.
    pub(crate) fn for_a_person(&self) -> String {
        format!("milepost: continuing {} ({}, stopped {})", self.run_id, self.why(), self.stopped)
    }
}

fn doing(record: Option<&RunRecord>, tasks: &[Task]) -> Option<String> {
    let working = &record?.working();
    let step = working.open_steps().last().and_then(|step| step.step_id.clone());
    let task = tasks.iter().find(|task| task.status() == "in_progress");
    let task = task.map(|task| task.title().unwrap_or_else(|| task.id().to_owned()));
    let prompt = working.latest_prompt().clone();
    task.or(step).or_else(|| working.task_summary().clone()).or(prompt).map(|text| first_line(&text))
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(200).collect()
}

/// One line about a failed outcome: its name, its reason code and the end of its output.
fn describe_failure(failed: &Outcome) -> String {
    let code = failed.reason_code.as_deref().map_or(String::new(), |code| format!(" ({code})"));
    let output = failed.summary.trim().lines().next_back().unwrap_or_default().replace('"', "'");
    let output = if output.is_empty() { output } else { format!(", output: \"{output}\"") };
    format!("{}{code}{output}", failed.name)
}

fn next_actions(record: Option<&RunRecord>, tasks: &[Task]) -> Vec<String> {
    let hints = record.and_then(|record| record.working().step_state().as_ref());
    let hints = hints.map(|step| step.resume_hints.next_actions.clone()).unwrap_or_default();
    let open = |task: &&Task| !task.has_ended();
    let titles = tasks.iter().filter(open).map(|task| task.title().unwrap_or_else(|| task.id().to_owned()));
    hints.into_iter().chain(titles).take(ACTIONS).collect()
}

/// The current state of the workspace in two lines: uncommitted changes, and the branch compared with the
/// checkpoint's.
pub(crate) fn workspace(from: &RunAssessment, root: &Path) -> Option<(String, String)> {
    let git = capture_workspace(&CaptureOptions::at(root), &CaptureBaseline::default()).git;
    if git.error.is_some() {
        return None;
    }
    let counts =
        [(git.modified.len(), "modified"), (git.staged.len(), "staged"), (git.untracked.len(), "untracked")];
    let some: Vec<_> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    let uncommitted = if some.is_empty() { "nothing".to_owned() } else { some.join(", ") };
    let before = from.shown.as_ref().and_then(|shown| shown.body().ok());
    let before = before.and_then(|body| body.workspace).and_then(|workspace| workspace.git);
    let short = |head: &str| head.chars().take(10).collect::<String>();
    let name = git.branch.as_deref().unwrap_or("no branch");
    let branch = match (before, &git.head) {
        (Some(before), Some(now)) if before.branch != git.branch => {
            let earlier = before.branch.as_deref().unwrap_or("no branch");
            format!("on {name} at {}, was on {earlier}", short(now))
        }
        (Some(GitFacts { head: Some(then), .. }), Some(now)) if then == *now => format!("{name}, unchanged"),
        (Some(GitFacts { head: Some(then), .. }), Some(now)) => {
            let distance = commit_distance(root, &then);
            format!("{name} has moved: {} → {} ({distance})", short(&then), short(now))
        }
        (_, Some(now)) => format!("{name} at {}", short(now)),
        (_, None) => name.to_owned(),
    };
    Some((uncommitted, one_line(&branch).into_owned()))
}

/// How far the commit that is checked out in `root` is from the commit of the run's checkpoint.
pub(crate) fn distance(from: &RunAssessment, root: &Path) -> Option<CommitDistance> {
    let body = from.shown.as_ref()?.body().ok()?;
    let then = body.workspace?.git?.head?;
    Some(commit_distance(root, &then))
}
