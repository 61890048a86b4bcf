//! A brief out of facts, for a checkpoint that has none. Every line says what it rests on; nothing is invented, and a
//! section of which nothing is known says so.

use std::collections::HashSet;
use std::fmt::Write as _;

use jiff::Timestamp;

use super::artifact::plain_path;
use super::blocks::{Block, Grain, blocks, code_span, normal, said};
use super::line::one_line;
use super::{Brief, Kind};
use crate::front_matter::written;
use crate::model::{
    Body, CriterionStatus, Decision, LogLine, Manifest, Outcome, OutcomeResult, PathText, RunRecord,
    StepState, Task,
};

/// What a brief is made of.
#[derive(Debug, Clone, Default)]
pub struct BriefFacts<'a> {
    /// The id that the brief gives itself.
    pub id: String,
    /// When it is made.
    pub created: Timestamp,
    /// The checkpoint it continues.
    pub parent: Option<String>,
    /// The checkpoint, where there is one.
    pub body: Option<&'a Body>,
    /// Its run.
    pub record: Option<&'a RunRecord>,
    /// What the project's manifest files say.
    pub manifests: &'a [Manifest],
    /// The brief that is carried forward: what it said of the state stays, as its word.
    pub before: Option<&'a Brief>,
}

/// So many files are named; the checkpoint has the rest.
const FILES: usize = 200;
/// So many of the newest outcomes and notes are told.
const NEWEST: usize = 20;
/// Characters of a text that was not written for a brief.
const LONG: usize = 240;

/// Makes a brief.
pub fn compose(facts: &BriefFacts<'_>) -> String {
    let mut text = front_matter(facts);
    section(&mut text, Kind::Problem, problem(facts), "no title, summary or prompt was recorded");
    section(&mut text, Kind::Intent, intent(facts), "no prompt, plan or criterion was recorded");
    let _ = write!(text, "\n## {}\n", Kind::Container);
    section(&mut text, Kind::Decisions, decisions(facts), "no decision was recorded");
    section(&mut text, Kind::Technical, technical(facts), "no manifest file and nothing of git was found");
    section(&mut text, Kind::Play, play(facts), "no step, task, note or outcome was recorded");
    section(&mut text, Kind::Artifacts, artifacts(facts), "no file was captured");
    section(&mut text, Kind::State, state(facts), "there is no checkpoint");
    section(
        &mut text,
        Kind::Next,
        next(facts),
        "nothing is pending and nothing failed, as far as was recorded",
    );
    let rules = rules(facts);
    if !rules.is_empty() {
        section(&mut text, Kind::Rules, rules, "");
    }
    text
}

/// Makes what carries a brief forward: what is known beyond problem, intent and rules, which people write.
pub(crate) fn compose_update(facts: &BriefFacts<'_>) -> String {
    let mut text = front_matter(facts);
    type Lines = fn(&BriefFacts<'_>) -> Vec<String>;
    let known: [(Kind, Lines); 6] = [
        (Kind::Decisions, decisions),
        (Kind::Technical, technical),
        (Kind::Play, play),
        (Kind::Artifacts, artifacts),
        (Kind::State, state),
        (Kind::Next, next),
    ];
    for (kind, lines) in known {
        let lines = lines(facts);
        if !lines.is_empty() {
            section(&mut text, kind, lines, "");
        }
    }
    text
}

fn front_matter(facts: &BriefFacts<'_>) -> String {
    let value = |text: &str| written(&one_line(text));
    let mut text = format!("---\ncheckpoint: {}\ncreated: {:.3}\n", value(&facts.id), facts.created);
    if let Some(body) = facts.body {
        let _ = writeln!(text, "anchor: {}", value(&anchor(body)));
    }
    if let Some(parent) = &facts.parent {
        let _ = writeln!(text, "parent: {}", value(parent));
    }
    text + "---\n"
}

/// Adds a section. Every line passes here, so that no recorded value can begin a line or a heading of its own.
fn section(text: &mut String, kind: Kind, lines: Vec<String>, unknown: &str) {
    let _ = write!(text, "\n{} {kind}\n", "#".repeat(usize::from(kind.level())));
    if lines.is_empty() {
        let _ = writeln!(text, "Unknown: {unknown}.");
    }
    for line in &lines {
        let line = one_line(line);
        match line.strip_prefix("- #") {
            // An item that begins like a heading is shown as one.
            Some(rest) => text.extend(["- \\#", rest, "\n"]),
            None => text.extend([&line, "\n"]),
        }
    }
    if kind == Kind::Next && !lines.iter().any(|line| line.starts_with("- Blocked:")) {
        text.push_str("- Blocked: None\n");
    }
}

/// One line, and not without end.
fn flat(text: &str) -> String {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.chars().count() <= LONG {
        return words;
    }
    let cut: String = words.chars().take(LONG).collect();
    format!("{}…", cut.trim_end())
}

fn cell(text: &str) -> String {
    flat(text).replace('|', "\\|")
}

fn path(path: &PathText) -> String {
    match path {
        PathText::Text(text) => text.clone(),
        PathText::Bytes { b64 } => format!("base64:{b64}"),
    }
}

fn anchor(body: &Body) -> String {
    let place = format!("{}@{}", body.run_id, body.sequence);
    match &body.phase {
        Some(phase) => format!("{place}, phase {}", phase_name(phase)),
        None => place,
    }
}

fn phase_name(phase: &crate::model::Phase) -> String {
    match &phase.name {
        Some(name) => format!("{} {name}", phase.number),
        None => phase.number.to_string(),
    }
}

/// What the user said, as hooks note it in the log.
fn prompts<'a>(facts: &BriefFacts<'a>) -> Vec<&'a str> {
    let log = facts.body.map(|body| body.log.as_slice()).unwrap_or_default();
    log.iter().filter_map(LogLine::prompt).collect()
}

fn problem(facts: &BriefFacts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(title) = facts.record.and_then(|record| record.title.as_deref()) {
        lines.push(format!("- {} (run title)", flat(title)));
    }
    if let Some(summary) = facts.body.and_then(|body| body.task_summary.as_deref()) {
        lines.push(format!("- {} (task summary)", flat(summary)));
    }
    if let (true, Some(prompt)) = (lines.is_empty(), prompts(facts).first()) {
        lines.push(format!("- {} (first prompt)", flat(prompt)));
    }
    lines
}

fn intent(facts: &BriefFacts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let prompts = prompts(facts);
    lines.extend(prompts.first().map(|prompt| format!("- {} (first prompt)", flat(prompt))));
    if prompts.len() > 1 {
        lines.extend(prompts.last().map(|prompt| format!("- {} (newest prompt)", flat(prompt))));
    }
    if let Some(plan) = facts.record.and_then(|record| record.plan.as_deref()) {
        lines.push(format!("- Follow the plan {plan} (run plan)"));
    }
    if let Some(command) = facts.record.and_then(|record| record.command.as_ref()) {
        lines.push(format!("- Run to its end: {} (run command)", code_span(&flat(&command.join(" ")))));
    }
    let criteria = facts.body.map(|body| body.criteria.as_slice()).unwrap_or_default();
    lines.extend(criteria.iter().map(|c| {
        let subject = if c.subject.is_empty() { &c.id } else { &c.subject };
        format!("- {} (criterion {})", flat(subject), c.id)
    }));
    lines
}

/// Decisions as they stand, each with those it replaced struck.
fn decisions(facts: &BriefFacts<'_>) -> Vec<String> {
    let all = facts.body.map(|body| body.decisions.as_slice()).unwrap_or_default();
    let replaces =
        |later: &Decision, text: &str| later.supersedes.as_deref().map(normal) == Some(normal(text));
    let mut lines: Vec<String> = Vec::new();
    for (i, decision) in all.iter().enumerate() {
        if all.iter().skip(i + 1).any(|later| replaces(later, &decision.text)) {
            continue;
        }
        let mut struck = Vec::new();
        let mut current = decision;
        // Each step goes back in the list, so that it ends.
        let mut before = i;
        while let Some(old) = &current.supersedes {
            struck.push(flat(old));
            let Some(at) = all.iter().take(before).rposition(|d| normal(&d.text) == normal(old)) else {
                break;
            };
            let Some(next) = all.get(at) else { break };
            (current, before) = (next, at);
        }
        let struck: String = struck.iter().rev().map(|old| format!("~~{old}~~ → ")).collect();
        let text = decision.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("- {struck}{text} (decided {})", decision.at.strftime("%Y-%m-%d"));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn technical(facts: &BriefFacts<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for manifest in facts.manifests {
        lines.extend(
            manifest.facts.iter().map(|(key, value)| format!("- {key}: {} ({})", flat(value), manifest.file)),
        );
        lines.extend(manifest.error.iter().map(|e| format!("- {}: could not be read: {e}", manifest.file)));
    }
    let git =
        facts.body.and_then(|body| body.workspace.as_ref()).and_then(|workspace| workspace.git.as_ref());
    if let Some(git) = git {
        lines.extend(git.branch.iter().map(|branch| format!("- Branch: {branch} (git)")));
        lines.extend(git.head.iter().map(|head| format!("- Commit: {head} (git)")));
        lines.extend(git.error.iter().map(|e| format!("- git: {} (git)", flat(e))));
    } else if let Some(branch) = facts.record.and_then(|record| record.branch.as_deref()) {
        lines.push(format!("- Branch: {branch} (at the session's start)"));
    }
    if let Some(worktree) = facts.record.and_then(RunRecord::place) {
        lines.push(format!("- Folder: {worktree} (run)"));
    }
    lines
}

fn title(task: &Task) -> String {
    task.title().map_or_else(|| task.id().to_owned(), |title| flat(&title))
}

fn step_name(step: &StepState) -> String {
    let ordinal = step.step_ordinal.map_or(String::new(), |n| format!("{n}. "));
    let title = step.extra.get("step_title").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let title = title.map_or(String::new(), |title| format!(" {}", flat(&title)));
    format!("{ordinal}{}{title}", step.step_id.as_deref().unwrap_or("unnamed"))
}

/// A command and its output, which is quoted because it is not part of the conversation.
fn outcome(outcome: &Outcome) -> String {
    let output = flat(&outcome.summary).replace('"', "'");
    let output = if output.is_empty() { output } else { format!(", output: \"{output}\"") };
    format!("{} {}{output}", outcome.kind, code_span(&flat(&outcome.name)))
}

fn play(facts: &BriefFacts<'_>) -> Vec<String> {
    let Some(body) = facts.body else { return Vec::new() };
    let mut lines = Vec::new();
    for task in body.tasks.iter().filter(|task| task.has_ended()) {
        lines.push(format!("- Task {} → {} → {} (task)", task.id(), title(task), task.status()));
    }
    if let Some(step) = &body.step_state {
        let status = step.step_status.map_or("unknown", |status| status.as_str());
        lines.push(format!("- Step → {} → {status} (step)", step_name(step)));
    }
    let notes: Vec<_> = body.log.iter().filter(|line| line.prompt().is_none()).collect();
    for line in notes.iter().skip(notes.len().saturating_sub(NEWEST)) {
        lines.push(format!("- {} → {} → noted (log)", line.at.strftime("%Y-%m-%d %H:%M"), flat(&line.text)));
    }
    let outcomes = &body.command_outcomes;
    for one in outcomes.iter().skip(outcomes.len().saturating_sub(NEWEST)) {
        lines.push(format!(
            "- Command → {} → {} in {} ms (outcome)",
            outcome(one),
            one.result,
            one.duration_ms
        ));
    }
    lines
}

fn artifacts(facts: &BriefFacts<'_>) -> Vec<String> {
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
                add(path(&renamed.to), "renamed", format!("from {} (git)", plain_path(&path(&renamed.from))));
            }
            git.untracked.iter().for_each(|p| add(path(p), "created", "untracked (git)".to_owned()));
            git.staged.iter().for_each(|p| add(path(p), "modified", "staged (git)".to_owned()));
            git.modified.iter().for_each(|p| add(path(p), "modified", "not committed (git)".to_owned()));
        }
        let touched = workspace.files_modified.iter();
        touched.for_each(|p| add(path(p), "modified", "touched since the run began (git)".to_owned()));
        let watched = workspace.watched.iter().flat_map(|watched| &watched.files);
        watched.for_each(|p| add(path(p), "watched", "in a watched folder".to_owned()));
    }
    for file in &body.files {
        if file.sha256.is_none() && file.size.is_none() {
            add(file.path.clone(), "modified", "written by a tool (recorded)".to_owned());
            continue;
        }
        let digest = file.sha256.as_deref().map_or(String::new(), |sha| format!(", sha256 {}", flat(sha)));
        add(file.path.clone(), "referenced", format!("named by the checkpoint{digest}"));
    }
    if rows.is_empty() {
        return Vec::new();
    }
    let mut lines =
        vec![String::new(), "| File | Status | Key Change |".into(), "|------|--------|------------|".into()];
    let row = |(path, status, change): &(String, &str, String)| {
        format!("| {} | {status} | {} |", code_span(path).replace('|', "\\|"), cell(change))
    };
    lines.extend(rows.iter().take(FILES).map(row));
    if rows.len() > FILES {
        let more = rows.len() - FILES;
        lines.push(String::new());
        lines.push(format!("{more} more files are in the checkpoint: `milepost show {}`", body.snapshot_id));
    }
    lines
}

fn state(facts: &BriefFacts<'_>) -> Vec<String> {
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
    lines.extend(last.map(|one| format!("- Last outcome: {} {} (outcome)", one.result, outcome(one))));
    if let Some(git) = body.workspace.as_ref().and_then(|workspace| workspace.git.as_ref()) {
        let open = git.modified.len() + git.staged.len() + git.untracked.len();
        lines.push(format!("- Uncommitted files: {open} (git)"));
    }
    if let Some(pressure) = body.context_digest.as_ref().and_then(|digest| digest.window_pressure) {
        lines.push(format!("- Context window: {pressure} pressure (context digest)"));
    }
    lines.extend(facts.before.map(earlier).unwrap_or_default());
    lines
}

/// The state as the brief before said it; what that one had from another before it is gone by now.
fn earlier(before: &Brief) -> Vec<String> {
    let id = before.id().unwrap_or("the brief before");
    let mut lines = Vec::new();
    for section in before.of_kind(Kind::State) {
        let content = before.content(section);
        for (block, range) in
            blocks(content, Grain::Items).into_iter().filter(|(block, _)| block.says_something())
        {
            let source = content.get(range).unwrap_or_default();
            let text = if block == Block::Item { said(source) } else { source };
            if !text.starts_with("As of ") && !text.starts_with("Unknown: ") {
                lines.push(format!("- As of {id}: {}", flat(text)));
            }
        }
    }
    lines
}

/// Tasks and subtasks that stand so, each in a line.
fn tasks(body: &Body, label: &str, wanted: &dyn Fn(&Task) -> bool) -> Vec<String> {
    let one = |id: &str, task: &Task| format!("- {label}: {} (task {id}, {})", title(task), task.status());
    let mut lines = Vec::new();
    for task in &body.tasks {
        lines.extend(wanted(task).then(|| one(task.id(), task)));
        let inside = task.subtasks().into_iter().filter(|subtask| wanted(subtask));
        lines.extend(inside.map(|subtask| one(&format!("{}/{}", task.id(), subtask.id()), &subtask)));
    }
    lines
}

fn next(facts: &BriefFacts<'_>) -> Vec<String> {
    let Some(body) = facts.body else { return Vec::new() };
    let mut lines = Vec::new();
    let hints = body.step_state.as_ref().map(|step| &step.resume_hints);
    let advised = hints.map(|hints| hints.next_actions.as_slice()).unwrap_or_default();
    lines.extend(advised.iter().map(|action| format!("- {} (resume hint)", flat(action))));
    let outcomes = &body.command_outcomes;
    for (i, one) in outcomes.iter().enumerate().filter(|(_, one)| one.result == OutcomeResult::Fail) {
        let again = outcomes.iter().skip(i + 1).any(|later| later.name == one.name);
        if !again {
            lines.push(format!("- Mend what failed: {} (outcome)", outcome(one)));
        }
    }
    const UNDER_WAY: [&str; 2] = ["in_progress", "interrupted"];
    const BLOCKED: &str = "blocked";
    let open =
        |task: &Task| !task.has_ended() && !UNDER_WAY.contains(&task.status()) && task.status() != BLOCKED;
    lines.extend(tasks(body, "Try again", &Task::is_failed));
    lines.extend(tasks(body, "Go on with", &|task| UNDER_WAY.contains(&task.status())));
    lines.extend(tasks(body, "Do", &open));
    for c in body.criteria.iter().filter(|c| c.status != CriterionStatus::Completed) {
        let subject = if c.subject.is_empty() { &c.id } else { &c.subject };
        lines.push(format!("- Meet: {} (criterion {}, {})", flat(subject), c.id, c.status));
    }
    lines.extend(tasks(body, "Blocked", &|task| task.status() == BLOCKED));
    if let Some(hints) = hints.filter(|hints| hints.eligible == Some(false)) {
        let why = hints.reason_code.as_deref().unwrap_or("no reason given");
        lines.push(format!("- Blocked: the writer advised against resuming: {} (resume hint)", flat(why)));
    }
    lines
}

fn rules(facts: &BriefFacts<'_>) -> Vec<String> {
    let digest = facts.body.and_then(|body| body.context_digest.as_ref());
    let protected = digest.map(|digest| digest.protected_artifacts.as_slice()).unwrap_or_default();
    protected.iter().map(|what| format!("- Keep in context: {} (context digest)", flat(what))).collect()
}
