//! Formats the work of a run or a checkpoint as lines for people: criteria, tasks, steps, outcomes, decisions
//! and the log.

use milepost::model::{
    Criterion, CriterionStatus, Decision, FileRef, LogLine, Message, Outcome, StepState, Task,
};

use super::format;

/// One line per criterion, with a checkbox.
pub(crate) fn criteria(criteria: &[Criterion]) -> Vec<String> {
    let line = |c: &Criterion| {
        let sign = match c.status {
            CriterionStatus::Completed => "[x]",
            CriterionStatus::InProgress => "[~]",
            CriterionStatus::Pending => "[ ]",
        };
        format!("{sign} {} {}", c.id, c.subject)
    };
    criteria.iter().map(line).collect()
}

/// One line per task, with a checkbox, followed by its subtasks.
pub(crate) fn tasks(tasks: &[Task]) -> Vec<String> {
    let line = |indent: &str, t: &Task| {
        let sign = match (t.is_completed(), t.is_failed(), t.status()) {
            (true, ..) => "[x]",
            (_, true, _) => "[!]",
            (.., "in_progress") => "[~]",
            (.., "skipped") => "[-]",
            _ => "[ ]",
        };
        let title = t.title().map_or(String::new(), |title| format!(" {title}"));
        format!("{indent}{sign} {}{title} ({})", t.id(), t.status())
    };
    let mut lines = Vec::new();
    for task in tasks {
        lines.push(line("", task));
        lines.extend(task.subtasks().iter().map(|subtask| line("  ", subtask)));
    }
    lines
}

/// The step, its plan and its next actions.
pub(crate) fn step(step: &StepState) -> Vec<String> {
    let ordinal = step.step_ordinal.map_or(String::new(), |n| format!("{n}. "));
    let status = step.step_status.map_or(String::new(), |s| format!(" ({s})"));
    let title = step.extra.get("step_title").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let title = title.map_or(String::new(), |title| format!(" {title}"));
    let mut lines = vec![format!("{ordinal}{}{title}{status}", step.step_id.as_deref().unwrap_or("-"))];
    lines.extend(step.plan_path.iter().map(|plan| format!("plan {plan}")));
    lines.extend(step.resume_hints.next_actions.iter().map(|next| format!("next: {next}")));
    lines
}

/// One line per outcome. Output of several lines follows, indented.
pub(crate) fn outcomes(outcomes: &[Outcome]) -> Vec<String> {
    let lines = |o: &Outcome| {
        let name = format!("{} {} {} ({} ms)", o.result, o.kind, o.name, o.duration_ms);
        match o.summary.lines().count() {
            0 => vec![name],
            1 => vec![format!("{name}: {}", o.summary)],
            _ => {
                let output = o.summary.lines().map(|line| format!("  {line}"));
                std::iter::once(format!("{name}:")).chain(output).collect()
            }
        }
    };
    outcomes.iter().flat_map(lines).collect()
}

/// One line per decision, with the decision it replaces.
pub(crate) fn decisions(decisions: &[Decision]) -> Vec<String> {
    let line = |d: &Decision| match &d.supersedes {
        Some(old) => format!("{} (replaces: {old})", d.text),
        None => d.text.clone(),
    };
    decisions.iter().map(line).collect()
}

/// Maximum number of files and of messages to list; the newest are listed.
const NEWEST: usize = 20;
/// Maximum length of a message, in characters.
const MESSAGE_CHARS: usize = 300;

/// The newest messages, one line each.
pub(crate) fn messages(messages: &[Message]) -> Vec<String> {
    let line = |message: &Message| {
        let text = message.text().split_whitespace().collect::<Vec<_>>().join(" ");
        let text = match text.char_indices().nth(MESSAGE_CHARS) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        };
        let said = match message {
            Message::Prompt { .. } => "user:".to_owned(),
            Message::Answer { question, .. } => format!("user, asked \"{question}\":"),
            Message::Plan { is_approved: true, .. } => "plan, approved by the user:".to_owned(),
            Message::Plan { .. } => "agent's plan:".to_owned(),
            _ => "agent:".to_owned(),
        };
        format!("{} {said} {text}", format::time(message.at()))
    };
    newest(messages.iter().map(line).collect(), "earlier messages")
}

/// The newest files that tools wrote, one line each.
pub(crate) fn files(files: &[FileRef]) -> Vec<String> {
    newest(files.iter().map(|file| file.path.clone()).collect(), "earlier files")
}

fn newest(mut lines: Vec<String>, what: &str) -> Vec<String> {
    let more = lines.len().saturating_sub(NEWEST);
    lines.drain(..more);
    if more > 0 {
        lines.insert(0, format!("({more} {what}; --json has all)"));
    }
    lines
}

/// One line per log entry.
pub(crate) fn log(log: &[LogLine]) -> Vec<String> {
    log.iter().map(|line| format!("{} {}", format::time(line.at), line.text)).collect()
}
