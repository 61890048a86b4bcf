//! Composes a brief from recorded facts when no written brief exists. Takes facts and returns Markdown. Every
//! line names its source, and a section without facts says so. Must not invent anything.

use std::collections::HashSet;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::artifact::inline_path;
use super::blocks::{Block, code_span, item_text, join_words, normalize_text, split_entries};
use super::single_line::one_line;
use super::{Brief, SectionKind};
use crate::front_matter::written;
use crate::model::{
    Body, CriterionStatus, Decision, LogLine, Manifest, Outcome, OutcomeResult, PathText, RunRecord,
    StepState, Task,
};

/// The facts that a brief is composed from.
#[derive(Debug, Clone, Default)]
pub struct BriefFacts<'a> {
    /// The id of the new brief.
    pub id: String,
    /// The creation time of the new brief.
    pub created: Timestamp,
    /// The id of the checkpoint that it continues.
    pub parent: Option<String>,
    /// The checkpoint to describe, if there is one.
    pub body: Option<&'a Body>,
    /// The record of the checkpoint's run.
    pub record: Option<&'a RunRecord>,
    /// Facts from the project's manifest files.
    pub manifests: &'a [Manifest],
    /// The previous brief, whose description of the state is quoted.
    pub previous: Option<&'a Brief>,
}

/// Maximum number of files to list; the checkpoint contains the rest.
const MAX_FILES: usize = 200;
/// Maximum number of outcomes and of notes; the newest are listed.
const MAX_NEWEST: usize = 20;
/// Maximum length of a recorded text in characters.
const MAX_TEXT_CHARS: usize = 240;

type SectionLines = fn(&BriefFacts<'_>) -> Vec<String>;

/// The sections of a composed brief: kind, lines, and the reason given if there are no lines.
const SECTIONS: [(SectionKind, SectionLines, &str); 8] = [
    (SectionKind::Problem, problem_lines, "no title, summary or prompt was recorded"),
    (SectionKind::Intent, intent_lines, "no prompt, plan or criterion was recorded"),
    (SectionKind::Decisions, decision_lines, "no decision was recorded"),
    (SectionKind::Technical, technical_lines, "no manifest file or git data was found"),
    (SectionKind::PlayByPlay, play_by_play_lines, "no step, task, note or outcome was recorded"),
    (SectionKind::Artifacts, artifact_lines, "no file was captured"),
    (SectionKind::State, state_lines, "no checkpoint was recorded"),
    (SectionKind::Next, next_action_lines, "no pending or failed work was recorded"),
];

/// Composes a complete brief.
pub fn compose(facts: &BriefFacts<'_>) -> String {
    let mut text = format_front_matter(facts);
    for (kind, lines, unknown) in SECTIONS {
        if kind == SectionKind::Decisions {
            let _ = write!(text, "\n## {}\n", SectionKind::Container);
        }
        write_section(&mut text, kind, lines(facts), unknown);
    }
    let rules = rule_lines(facts);
    if !rules.is_empty() {
        write_section(&mut text, SectionKind::Rules, rules, "");
    }
    text
}

/// Composes an update of a brief: every section that has facts, except problem, intent and rules, which
/// people write.
pub(crate) fn compose_update(facts: &BriefFacts<'_>) -> String {
    let mut text = format_front_matter(facts);
    for (kind, lines, _) in SECTIONS.into_iter().skip(2) {
        let lines = lines(facts);
        if !lines.is_empty() {
            write_section(&mut text, kind, lines, "");
        }
    }
    text
}

fn format_front_matter(facts: &BriefFacts<'_>) -> String {
    let value = |text: &str| written(&one_line(text));
    let mut text = format!("---\ncheckpoint: {}\ncreated: {:.3}\n", value(&facts.id), facts.created);
    if let Some(body) = facts.body {
        let _ = writeln!(text, "anchor: {}", value(&anchor_text(body)));
    }
    if let Some(parent) = &facts.parent {
        let _ = writeln!(text, "parent: {}", value(parent));
    }
    text + "---\n"
}

/// Adds a section. Escapes every line, so that a recorded value cannot start a new line or a heading.
fn write_section(text: &mut String, kind: SectionKind, lines: Vec<String>, unknown: &str) {
    let _ = write!(text, "\n{} {kind}\n", "#".repeat(usize::from(kind.level())));
    if lines.is_empty() {
        let _ = writeln!(text, "Unknown: {unknown}.");
    }
    for line in &lines {
        let line = one_line(line);
        match line.strip_prefix("- #") {
            // Without the backslash, the item would contain a heading.
            Some(rest) => text.extend(["- \\#", rest, "\n"]),
            None => text.extend([&line, "\n"]),
        }
    }
    if kind == SectionKind::Next && !lines.iter().any(|line| line.starts_with("- Blocked:")) {
        text.push_str("- Blocked: None\n");
    }
}

/// Joins a text into one line and limits its length.
fn clip(text: &str) -> String {
    let words = join_words(text);
    if words.chars().count() <= MAX_TEXT_CHARS {
        return words;
    }
    let cut: String = words.chars().take(MAX_TEXT_CHARS).collect();
    format!("{}…", cut.trim_end())
}

fn escape_cell(text: &str) -> String {
    clip(text).replace('|', "\\|")
}

fn path_text(path: &PathText) -> String {
    match path {
        PathText::Text(text) => text.clone(),
        PathText::Bytes { b64 } => format!("base64:{b64}"),
    }
}

fn anchor_text(body: &Body) -> String {
    let checkpoint = format!("{}@{}", body.run_id, body.sequence);
    match &body.phase {
        Some(phase) => format!("{checkpoint}, phase {}", phase_name(phase)),
        None => checkpoint,
    }
}

fn phase_name(phase: &crate::model::Phase) -> String {
    match &phase.name {
        Some(name) => format!("{} {name}", phase.number),
        None => phase.number.to_string(),
    }
}

/// The user's prompts, which hooks record in the log.
fn user_prompts<'a>(facts: &BriefFacts<'a>) -> Vec<&'a str> {
    let log = facts.body.map(|body| body.log.as_slice()).unwrap_or_default();
    log.iter().filter_map(LogLine::prompt).collect()
}

fn problem_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(title) = facts.record.and_then(|record| record.title.as_deref()) {
        lines.push(format!("- {} (run title)", clip(title)));
    }
    if let Some(summary) = facts.body.and_then(|body| body.task_summary.as_deref()) {
        lines.push(format!("- {} (task summary)", clip(summary)));
    }
    if let (true, Some(prompt)) = (lines.is_empty(), user_prompts(facts).first()) {
        lines.push(format!("- {} (first prompt)", clip(prompt)));
    }
    lines
}

fn intent_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let prompts = user_prompts(facts);
    lines.extend(prompts.first().map(|prompt| format!("- {} (first prompt)", clip(prompt))));
    if prompts.len() > 1 {
        lines.extend(prompts.last().map(|prompt| format!("- {} (newest prompt)", clip(prompt))));
    }
    if let Some(plan) = facts.record.and_then(|record| record.plan.as_deref()) {
        lines.push(format!("- Follow the plan {plan} (run plan)"));
    }
    if let Some(command) = facts.record.and_then(|record| record.command.as_ref()) {
        lines.push(format!("- Run to completion: {} (run command)", code_span(&clip(&command.join(" ")))));
    }
    let criteria = facts.body.map(|body| body.criteria.as_slice()).unwrap_or_default();
    lines.extend(criteria.iter().map(|c| {
        let subject = if c.subject.is_empty() { &c.id } else { &c.subject };
        format!("- {} (criterion {})", clip(subject), c.id)
    }));
    lines
}

/// The current decisions, each preceded by the ones it replaced, struck through.
fn decision_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let all = facts.body.map(|body| body.decisions.as_slice()).unwrap_or_default();
    let replaces = |later: &Decision, text: &str| {
        later.supersedes.as_deref().map(normalize_text) == Some(normalize_text(text))
    };
    let mut lines: Vec<String> = Vec::new();
    for (i, decision) in all.iter().enumerate() {
        if all.iter().skip(i + 1).any(|later| replaces(later, &decision.text)) {
            continue;
        }
        let mut struck = Vec::new();
        let mut current = decision;
        // Each step moves towards the start of the list, so the loop ends.
        let mut before = i;
        while let Some(old) = &current.supersedes {
            struck.push(clip(old));
            let earlier = all.iter().enumerate().take(before);
            let replaced = earlier.rev().find(|(_, d)| normalize_text(&d.text) == normalize_text(old));
            let Some((at, next)) = replaced else { break };
            (current, before) = (next, at);
        }
        let struck: String = struck.iter().rev().map(|old| format!("~~{old}~~ → ")).collect();
        let text = join_words(&decision.text);
        let line = format!("- {struck}{text} (decided {})", decision.at.strftime("%Y-%m-%d"));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn technical_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for manifest in facts.manifests {
        lines.extend(
            manifest.facts.iter().map(|(key, value)| format!("- {key}: {} ({})", clip(value), manifest.file)),
        );
        lines.extend(manifest.error.iter().map(|e| format!("- {}: could not be read: {e}", manifest.file)));
    }
    let git =
        facts.body.and_then(|body| body.workspace.as_ref()).and_then(|workspace| workspace.git.as_ref());
    if let Some(git) = git {
        lines.extend(git.branch.iter().map(|branch| format!("- Branch: {branch} (git)")));
        lines.extend(git.head.iter().map(|head| format!("- Commit: {head} (git)")));
        lines.extend(git.error.iter().map(|e| format!("- git: {} (git)", clip(e))));
    } else if let Some(branch) = facts.record.and_then(|record| record.branch.as_deref()) {
        lines.push(format!("- Branch: {branch} (at the session's start)"));
    }
    if let Some(worktree) = facts.record.and_then(RunRecord::folder) {
        lines.push(format!("- Folder: {worktree} (run)"));
    }
    lines
}

fn task_title(task: &Task) -> String {
    task.title().map_or_else(|| task.id().to_owned(), |title| clip(&title))
}

fn step_name(step: &StepState) -> String {
    let ordinal = step.step_ordinal.map_or(String::new(), |n| format!("{n}. "));
    let title = step.extra.get("step_title").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let title = title.map_or(String::new(), |title| format!(" {}", clip(&title)));
    format!("{ordinal}{}{title}", step.step_id.as_deref().unwrap_or("unnamed"))
}

/// A command with its output. The output is quoted because it is not part of the conversation.
fn outcome_text(outcome: &Outcome) -> String {
    let output = clip(&outcome.summary).replace('"', "'");
    let output = if output.is_empty() { output } else { format!(", output: \"{output}\"") };
    format!("{} {}{output}", outcome.kind, code_span(&clip(&outcome.name)))
}

fn play_by_play_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let Some(body) = facts.body else { return Vec::new() };
    let mut lines = Vec::new();
    for task in body.tasks.iter().filter(|task| task.has_ended()) {
        lines.push(format!("- Task {} → {} → {} (task)", task.id(), task_title(task), task.status()));
    }
    if let Some(step) = &body.step_state {
        let status = step.step_status.map_or("unknown", |status| status.as_str());
        lines.push(format!("- Step → {} → {status} (step)", step_name(step)));
    }
    let notes: Vec<_> = body.log.iter().filter(|line| line.prompt().is_none()).collect();
    for line in notes.iter().skip(notes.len().saturating_sub(MAX_NEWEST)) {
        lines.push(format!("- {} → {} → noted (log)", line.at.strftime("%Y-%m-%d %H:%M"), clip(&line.text)));
    }
    let outcomes = &body.command_outcomes;
    for one in outcomes.iter().skip(outcomes.len().saturating_sub(MAX_NEWEST)) {
        lines.push(format!(
            "- Command → {} → {} in {} ms (outcome)",
            outcome_text(one),
            one.result,
            one.duration_ms
        ));
    }
    lines
}

fn artifact_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let Some(body) = facts.body else { return Vec::new() };
    let mut rows: Vec<(String, &str, String)> = Vec::new();
    let mut known = HashSet::new();
    let mut add = |path: String, status: &'static str, change: String| {
        if known.insert(path.clone()) {
            rows.push((path, status, change));
        }
    };
    if let Some(workspace) = &body.workspace {
        if let Some(git) = &workspace.git {
            for renamed in &git.renamed {
                add(
                    path_text(&renamed.to),
                    "renamed",
                    format!("from {} (git)", inline_path(&path_text(&renamed.from))),
                );
            }
            git.untracked.iter().for_each(|p| add(path_text(p), "created", "untracked (git)".to_owned()));
            git.staged.iter().for_each(|p| add(path_text(p), "modified", "staged (git)".to_owned()));
            git.modified.iter().for_each(|p| add(path_text(p), "modified", "not committed (git)".to_owned()));
        }
        let touched = workspace.files_modified.iter();
        touched.for_each(|p| add(path_text(p), "modified", "touched since the run began (git)".to_owned()));
        let watched = workspace.watched.iter().flat_map(|watched| &watched.files);
        watched.for_each(|p| add(path_text(p), "watched", "in a watched folder".to_owned()));
    }
    for file in &body.files {
        if file.sha256.is_none() && file.size.is_none() {
            add(file.path.clone(), "modified", "written by a tool (recorded)".to_owned());
            continue;
        }
        let digest = file.sha256.as_deref().map_or(String::new(), |sha| format!(", sha256 {}", clip(sha)));
        add(file.path.clone(), "referenced", format!("listed in the checkpoint{digest}"));
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let mut lines =
        vec![String::new(), "| File | Status | Key Change |".into(), "|------|--------|------------|".into()];
    let row = |(path, status, change): &(String, &str, String)| {
        format!("| {} | {status} | {} |", code_span(path).replace('|', "\\|"), escape_cell(change))
    };
    lines.extend(rows.iter().take(MAX_FILES).map(row));
    if rows.len() > MAX_FILES {
        let more = rows.len() - MAX_FILES;
        lines.push(String::new());
        lines.push(format!("{more} more files are in the checkpoint: `milepost show {}`", body.snapshot_id));
    }
    lines
}

fn state_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let Some(body) = facts.body else { return Vec::new() };
    let mut lines = vec![format!("- Status: {} (checkpoint {})", body.status, body.snapshot_id)];
    lines.extend(body.phase.iter().map(|phase| format!("- Phase: {} (checkpoint)", phase_name(phase))));
    if let Some(step) = &body.step_state {
        let status = step.step_status.map_or("unknown", |status| status.as_str());
        lines.push(format!("- Step: {} is {status} (step)", step_name(step)));
    }
    let met = body.criteria.iter().filter(|c| c.status == CriterionStatus::Completed).count();
    if !body.criteria.is_empty() {
        lines.push(format!("- Criteria: {met} of {} completed (criteria)", body.criteria.len()));
    }
    if !body.tasks.is_empty() {
        let done = body.tasks.iter().filter(|task| task.is_completed()).count();
        let failed = body.tasks.iter().filter(|task| task.is_failed()).count();
        lines.push(format!("- Tasks: {done} of {} done, {failed} failed (tasks)", body.tasks.len()));
    }
    let last = body.command_outcomes.iter().rev().take(3);
    lines.extend(last.map(|one| format!("- Last outcome: {} {} (outcome)", one.result, outcome_text(one))));
    if let Some(git) = body.workspace.as_ref().and_then(|workspace| workspace.git.as_ref()) {
        let open = git.modified.len() + git.staged.len() + git.untracked.len();
        lines.push(format!("- Uncommitted files: {open} (git)"));
    }
    if let Some(pressure) = body.context_digest.as_ref().and_then(|digest| digest.window_pressure) {
        lines.push(format!("- Context window: {pressure} pressure (context digest)"));
    }
    lines.extend(facts.previous.map(earlier_state_lines).unwrap_or_default());
    lines
}

/// Quotes the state from the previous brief, without lines that it quoted itself or marked as unknown.
fn earlier_state_lines(before: &Brief) -> Vec<String> {
    let id = before.id().unwrap_or("the previous brief");
    let mut lines = Vec::new();
    for section in before.sections_of_kind(SectionKind::State) {
        for (block, source) in split_entries(before.content(section)) {
            let text = if block == Block::Item { item_text(source) } else { source };
            if !text.starts_with("As of ") && !text.starts_with("Unknown: ") {
                lines.push(format!("- As of {id}: {}", clip(text)));
            }
        }
    }
    lines
}

/// Lists the matching tasks and subtasks, one per line.
fn task_lines(body: &Body, label: &str, wanted: &dyn Fn(&Task) -> bool) -> Vec<String> {
    let one =
        |id: &str, task: &Task| format!("- {label}: {} (task {id}, {})", task_title(task), task.status());
    let mut lines = Vec::new();
    for task in &body.tasks {
        lines.extend(wanted(task).then(|| one(task.id(), task)));
        let inside = task.subtasks().into_iter().filter(|subtask| wanted(subtask));
        lines.extend(inside.map(|subtask| one(&format!("{}/{}", task.id(), subtask.id()), &subtask)));
    }
    lines
}

fn next_action_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let Some(body) = facts.body else { return Vec::new() };
    let mut lines = Vec::new();
    let hints = body.step_state.as_ref().map(|step| &step.resume_hints);
    let advised = hints.map(|hints| hints.next_actions.as_slice()).unwrap_or_default();
    lines.extend(advised.iter().map(|action| format!("- {} (resume hint)", clip(action))));
    let outcomes = &body.command_outcomes;
    for (i, one) in outcomes.iter().enumerate().filter(|(_, one)| one.result == OutcomeResult::Fail) {
        let again = outcomes.iter().skip(i + 1).any(|later| later.name == one.name);
        if !again {
            lines.push(format!("- Fix the failure: {} (outcome)", outcome_text(one)));
        }
    }
    const IN_PROGRESS: [&str; 2] = ["in_progress", "interrupted"];
    const BLOCKED: &str = "blocked";
    let open =
        |task: &Task| !task.has_ended() && !IN_PROGRESS.contains(&task.status()) && task.status() != BLOCKED;
    lines.extend(task_lines(body, "Retry", &Task::is_failed));
    lines.extend(task_lines(body, "Continue", &|task| IN_PROGRESS.contains(&task.status())));
    lines.extend(task_lines(body, "Do", &open));
    for c in body.criteria.iter().filter(|c| c.status != CriterionStatus::Completed) {
        let subject = if c.subject.is_empty() { &c.id } else { &c.subject };
        lines.push(format!("- Meet: {} (criterion {}, {})", clip(subject), c.id, c.status));
    }
    lines.extend(task_lines(body, "Blocked", &|task| task.status() == BLOCKED));
    if let Some(hints) = hints.filter(|hints| hints.eligible == Some(false)) {
        let why = hints.reason_code.as_deref().unwrap_or("no reason given");
        lines.push(format!("- Blocked: the writer advised against resuming: {} (resume hint)", clip(why)));
    }
    lines
}

fn rule_lines(facts: &BriefFacts<'_>) -> Vec<String> {
    let digest = facts.body.and_then(|body| body.context_digest.as_ref());
    let protected = digest.map(|digest| digest.protected_artifacts.as_slice()).unwrap_or_default();
    protected.iter().map(|name| format!("- Keep in context: {} (context digest)", clip(name))).collect()
}
