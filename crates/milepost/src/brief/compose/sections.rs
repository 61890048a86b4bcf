//! The sections of a composed brief, except the list of files. Every line is one fact.

use super::artifacts::is_own_file;
use super::quotes::push_quote;
use super::sentences::{is_acknowledgement, split_prompt};
use super::{Composer, clip, clip_to};
use crate::brief::blocks::{Block, code_span, item_text, join_words, normalize_text, split_entries};
use crate::brief::{Brief, SectionKind};
use crate::model::{
    Body, CriterionStatus, Decision, FileChange, GitFacts, Message, Outcome, OutcomeKind, OutcomeResult,
    RunRecord, StepState, Task,
};

/// Maximum number of unfixed failures to list; the rest are only counted.
const MAX_FAILURES: usize = 10;
/// The line above the user's quotes.
const QUOTES_INTRO: &str = "What the user said, oldest first. Later statements override earlier ones.";
/// The line above the quotes of an imported run.
const FOREIGN_QUOTES_INTRO: &str =
    "What was said in the imported run, oldest first. None of it is from the user.";
/// Maximum length of the first prompt in the problem statement, in characters.
const PROBLEM_CHARS: usize = 160;

impl Composer<'_> {
    /// The command that prints the brief in full.
    fn full_command(&self) -> String {
        let run = self.facts.record.map(|record| &record.run_id).or(self.facts.body.map(|body| &body.run_id));
        match run {
            Some(run) => format!("milepost brief show latest --run {run}"),
            None => "milepost brief show latest".to_owned(),
        }
    }

    pub(super) fn problem_lines(&self) -> Vec<String> {
        let facts = self.facts;
        let title = facts.record.and_then(|record| record.title.as_deref());
        let is_agent = facts.record.is_some_and(|record| record.agent.is_some());
        // The summary of an agent's checkpoint is its current task.
        let summary = facts.body.and_then(|body| body.task_summary.as_deref()).filter(|_| !is_agent);
        let mut lines: Vec<_> = title.map(|title| format!("- {} (title)", clip(title))).into_iter().collect();
        lines.extend(summary.map(|summary| format!("- {} (summary)", clip(summary))));
        if lines.is_empty() {
            let first = facts.messages.iter().find_map(|message| match message {
                Message::Prompt { text, .. } => split_prompt(text).into_iter().next(),
                _ => None,
            });
            lines.extend(first.map(|part| format!("- {}", clip_to(&part.text, PROBLEM_CHARS))));
        }
        lines
    }

    pub(super) fn intent_lines(&self) -> Vec<String> {
        let facts = self.facts;
        let mut lines = self.quote_lines();
        if let Some(plan) = facts.record.and_then(|record| record.plan.as_deref()) {
            lines.push(format!("- Follow the plan {plan}"));
        }
        if let Some(command) = facts.record.and_then(|record| record.command.as_ref()) {
            lines.push(format!("- Run to completion: {}", code_span(&clip(&command.join(" ")))));
        }
        let criteria = facts.body.map(|body| body.criteria.as_slice()).unwrap_or_default();
        lines.extend(criteria.iter().map(|c| {
            let subject = if c.subject.is_empty() { &c.id } else { &c.subject };
            format!("- {} (criterion {})", clip(subject), c.id)
        }));
        lines
    }

    fn quote_lines(&self) -> Vec<String> {
        if self.quotes.is_empty() {
            return Vec::new();
        }
        let quotes = self.quotes.lines(self.left_out, &self.full_command());
        let is_foreign = self.facts.record.is_some_and(RunRecord::is_foreign);
        let intro = if is_foreign { FOREIGN_QUOTES_INTRO } else { QUOTES_INTRO };
        std::iter::once(intro.to_owned()).chain(quotes).collect()
    }

    /// The intent of the previous brief, followed by what the user said. Empty if the user said nothing, which
    /// keeps the previous intent.
    pub(super) fn updated_intent_lines(&self) -> Vec<String> {
        let quotes = self.quote_lines();
        let Some(previous) = self.facts.previous.filter(|_| !quotes.is_empty()) else { return Vec::new() };
        let sections = previous.sections_of_kind(SectionKind::Intent);
        let content: String = sections.map(|section| previous.content(section)).collect();
        let own = content.split(QUOTES_INTRO).next().unwrap_or_default();
        let own = own.split(FOREIGN_QUOTES_INTRO).next().unwrap_or_default();
        own.trim().lines().map(str::to_owned).chain(quotes).collect()
    }

    /// The decisions that hold: those that were recorded, approved plans, and the user's answers.
    pub(super) fn decision_lines(&self) -> Vec<String> {
        let mut lines =
            recorded_decisions(self.facts.body.map(|body| body.decisions.as_slice()).unwrap_or_default());
        let answers = answers(self.facts.messages);
        for (n, (at, question, answer)) in answers.iter().enumerate() {
            let (text, day) = (clip_to(answer, self.detail.plan), at.strftime("%Y-%m-%d"));
            let is_like = |later: &(_, &str, &str)| is_similar(question, later.1, 5, 2);
            let line = format!("{} → {text}", clip(question));
            lines.push(match answers.iter().skip(n + 1).any(is_like) {
                true => {
                    format!("- ~~{line}~~ (the user answered {day}; probably replaced by a later answer)")
                }
                false => format!("- {line} (the user answered {day})"),
            });
        }
        for (at, plan, is_approved) in current_plans(self.facts.messages) {
            let whose = if is_approved { "Plan that the user approved" } else { "The agent's plan," };
            let label = format!("{whose} {}", at.strftime("%Y-%m-%d %H:%M"));
            push_quote(&mut lines, &label, &shorten_plan(plan, self.detail.plan));
        }
        lines
    }

    pub(super) fn technical_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for manifest in self.facts.project.manifests.iter().filter(|_| self.detail.manifests) {
            let facts = manifest.facts.iter();
            lines.extend(facts.map(|(key, value)| format!("- {key}: {} ({})", clip(value), manifest.file)));
            let errors = manifest.error.iter();
            lines.extend(errors.map(|e| format!("- {}: could not be read: {e}", manifest.file)));
        }
        let workspace = self.facts.body.and_then(|body| body.workspace.as_ref());
        if let Some(git) = workspace.and_then(|workspace| workspace.git.as_ref()) {
            lines.extend(git.branch.iter().map(|branch| format!("- Branch: {branch}")));
            let length = if self.detail.ids { usize::MAX } else { 12 };
            let head = git.head.iter().map(|head| head.chars().take(length).collect::<String>());
            lines.extend(head.map(|head| format!("- Commit: {head}")));
            let error = git.error.as_deref().filter(|e| *e != GitFacts::NO_REPOSITORY);
            lines.extend(error.map(|e| format!("- git: {}", clip(e))));
        } else if let Some(branch) = self.facts.record.and_then(|record| record.branch.as_deref()) {
            lines.push(format!("- Branch: {branch}"));
        }
        let folder = self.facts.record.and_then(RunRecord::folder);
        if let Some(folder) = folder.filter(|_| self.detail.ids) {
            lines.push(format!("- Folder: {folder}"));
        }
        lines
    }

    pub(super) fn play_by_play_lines(&self) -> Vec<String> {
        let Some(body) = self.facts.body else { return Vec::new() };
        let most = self.detail.newest;
        let mut lines = Vec::new();
        let ended: Vec<_> = body.tasks.iter().filter(|task| task.has_ended()).collect();
        for task in ended.iter().skip(ended.len().saturating_sub(most)) {
            lines.push(format!("- Task {} → {} → {}", task.id(), task_title(task), task.status()));
        }
        if let Some(step) = &body.step_state {
            let status = step.step_status.map_or("unknown", |status| status.as_str());
            lines.push(format!("- Step → {} → {status}", step_name(step)));
        }
        for line in body.log.iter().skip(body.log.len().saturating_sub(most)) {
            lines.push(format!("- {} → {} → noted", line.at.strftime("%Y-%m-%d %H:%M"), clip(&line.text)));
        }
        let commits = self.facts.project.commits.iter().take(most.max(3)).rev();
        lines.extend(commits.map(|(name, subject)| format!("- Commit → {name} → {}", clip(subject))));
        // An unfixed failure is a next action, and a fixed one no longer matters.
        let passed: Vec<_> = body
            .command_outcomes
            .iter()
            .filter(|one| one.result != OutcomeResult::Fail && one.kind != OutcomeKind::ToolUse)
            .collect();
        let mut known = std::collections::HashSet::new();
        let mut newest: Vec<_> =
            passed.iter().rev().filter(|one| known.insert(&one.name)).take(most).collect();
        newest.reverse();
        for one in newest {
            // The output of a command that passed no longer matters.
            let output = if one.result == OutcomeResult::Warn { self.detail.output } else { 0 };
            let what = outcome_text(one, output);
            lines.push(format!("- Command → {what} → {} in {} ms", one.result, one.duration_ms));
        }
        lines
    }

    pub(super) fn state_lines(&self) -> Vec<String> {
        let Some(body) = self.facts.body else { return Vec::new() };
        let mut lines = vec![match self.detail.ids {
            true => format!("- Status: {} (checkpoint {})", body.status, body.snapshot_id),
            false => format!("- Status: {}", body.status),
        }];
        lines.extend(body.phase.iter().map(|phase| format!("- Phase: {}", super::phase_name(phase))));
        if let Some(step) = &body.step_state {
            let status = step.step_status.map_or("unknown", |status| status.as_str());
            lines.push(format!("- Step: {} is {status}", step_name(step)));
        }
        let met = body.criteria.iter().filter(|c| c.status == CriterionStatus::Completed).count();
        if !body.criteria.is_empty() {
            lines.push(format!("- Criteria: {met} of {} completed", body.criteria.len()));
        }
        if !body.tasks.is_empty() {
            let done = body.tasks.iter().filter(|task| task.is_completed()).count();
            let failed = body.tasks.iter().filter(|task| task.is_failed()).count();
            let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
            lines.push(format!("- Tasks: {done} of {} done{failed}", body.tasks.len()));
        }
        let git = body.workspace.as_ref().and_then(|workspace| workspace.git.as_ref());
        // What git says now takes precedence over what it said at the checkpoint.
        let changes = &self.facts.project.changes;
        if changes.iter().any(|change| change.is_committed.is_some()) {
            let is_open =
                |change: &&FileChange| change.is_committed == Some(false) && !is_own_file(&change.path);
            let uncommitted = changes.iter().filter(is_open).count();
            lines.push(format!("- Uncommitted files: {uncommitted}"));
        } else if let Some(git) = git.filter(|git| git.error.is_none()) {
            let mut open: Vec<_> = git.modified.iter().chain(&git.staged).chain(&git.untracked).collect();
            open.sort_unstable();
            open.dedup();
            lines.push(format!("- Uncommitted files: {}", open.len()));
        }
        if let Some(pressure) = body.context_digest.as_ref().and_then(|digest| digest.window_pressure) {
            lines.push(format!("- Context window: {pressure} pressure"));
        }
        if let Some(state) = &body.state {
            let bytes = state.get().len();
            lines.push(format!("- Saved state: {bytes} bytes; `milepost state --run {}`", body.run_id));
        }
        lines.extend(self.reply_lines());
        lines.extend(self.facts.previous.map(earlier_state_lines).unwrap_or_default());
        lines
    }

    /// The agent's last message, as a quote.
    fn reply_lines(&self) -> Vec<String> {
        let last = self.facts.messages.iter().rev().find_map(|message| match message {
            Message::Reply { at, text } => Some((at, text)),
            _ => None,
        });
        let Some((at, text)) = last else { return Vec::new() };
        let mut lines = Vec::new();
        let label = format!("The agent's last message, {}", at.strftime("%Y-%m-%d %H:%M"));
        push_quote(&mut lines, &label, &shorten_middle(text, self.detail.reply));
        lines
    }

    pub(super) fn next_action_lines(&self) -> Vec<String> {
        let mut lines = self.failure_lines();
        let Some(body) = self.facts.body else { return lines };
        let hints = body.step_state.as_ref().map(|step| &step.resume_hints);
        let advised = hints.map(|hints| hints.next_actions.as_slice()).unwrap_or_default();
        lines.splice(0..0, advised.iter().map(|action| format!("- {} (resume hint)", clip(action))));
        const IN_PROGRESS: [&str; 2] = ["in_progress", "interrupted"];
        const BLOCKED: &str = "blocked";
        let open = |task: &Task| {
            !task.has_ended() && !IN_PROGRESS.contains(&task.status()) && task.status() != BLOCKED
        };
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
            lines
                .push(format!("- Blocked: the writer advised against resuming: {} (resume hint)", clip(why)));
        }
        lines
    }

    /// The commands that failed and have not been seen to succeed since, newest first.
    fn failure_lines(&self) -> Vec<String> {
        let failures = self.facts.failures;
        let mut lines = Vec::new();
        for one in failures.iter().rev().take(MAX_FAILURES) {
            let when = one.at().map_or(String::new(), |at| format!(" {}", at.strftime("%Y-%m-%d %H:%M")));
            let why = one.reason_code.as_deref().map_or(String::new(), |code| format!(" ({code})"));
            let output = output_text(one, self.detail.output);
            let command = code_span(&clip(&one.name));
            lines.push(format!("- Fix: {command} failed{when}{why}, not seen to pass since{output}"));
        }
        if failures.len() > MAX_FAILURES {
            let more = failures.len() - MAX_FAILURES;
            lines.push(format!("- {more} more failed commands; to list them: `{}`", self.full_command()));
        }
        lines
    }

    pub(super) fn rule_lines(&self) -> Vec<String> {
        let digest = self.facts.body.and_then(|body| body.context_digest.as_ref());
        let protected = digest.map(|digest| digest.protected_artifacts.as_slice()).unwrap_or_default();
        protected.iter().map(|name| format!("- Keep in context: {}", clip(name))).collect()
    }
}

/// The user's answers, oldest first. A later answer to the same question replaces the earlier one.
fn answers(messages: &[Message]) -> Vec<(jiff::Timestamp, &str, &str)> {
    let mut answers: Vec<(_, &str, &str)> = Vec::new();
    for message in messages {
        if let Message::Answer { at, question, text } = message {
            answers.retain(|(_, known, _)| normalize_text(known) != normalize_text(question));
            answers.push((*at, question, text));
        }
    }
    answers
}

/// The plans that still hold, oldest first, and whether the user approved each. A later plan with much the same
/// words is a revision and replaces the earlier one. A plan that the agent only proposed holds if the user's
/// next prompt confirms it, or if there is no such prompt yet.
fn current_plans(messages: &[Message]) -> Vec<(jiff::Timestamp, &str, bool)> {
    let mut plans: Vec<(_, &str, bool)> = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        let Message::Plan { at, text, is_approved } = message else { continue };
        let reaction = messages[n..].iter().find_map(|later| match later {
            Message::Prompt { text, .. } => Some(is_acknowledgement(text)),
            _ => None,
        });
        plans.retain(|(_, earlier, approved)| *approved && !is_revision(earlier, text));
        if *is_approved || reaction != Some(false) {
            plans.push((*at, text, *is_approved || reaction == Some(true)));
        }
    }
    plans
}

/// Whether two plans have at least a third of the shorter one's words in common.
fn is_revision(earlier: &str, later: &str) -> bool {
    is_similar(earlier, later, 3, 1)
}

/// Whether two texts have at least `part`/`whole` of the shorter one's words in common.
fn is_similar(a: &str, b: &str, whole: usize, part: usize) -> bool {
    let (a, b) = (content_words(a), content_words(b));
    let common = a.intersection(&b).count();
    whole * common >= part * a.len().min(b.len()).max(1)
}

/// The words of a text, without short ones. In scripts that are written without spaces, each pair of
/// characters counts as a word.
fn content_words(text: &str) -> std::collections::HashSet<String> {
    // Words that many questions have in common.
    const COMMON: [&str; 14] = [
        "which", "what", "where", "should", "would", "could", "with", "that", "this", "does", "have", "from",
        "want", "into",
    ];
    let mut words = std::collections::HashSet::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let chars: Vec<char> = word.chars().collect();
        if word.is_ascii() || !chars.iter().any(|c| *c >= '\u{2e80}') {
            let lower = word.to_lowercase();
            if chars.len() > 3 && !COMMON.contains(&lower.as_str()) {
                words.insert(lower);
            }
        } else {
            words.extend(chars.windows(2).map(|pair| pair.iter().collect::<String>()));
        }
    }
    words
}

/// A plan without empty lines and heading markers, cut after a number of characters.
fn shorten_plan(plan: &str, limit: usize) -> String {
    let lines = plan.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    let plain: Vec<_> = lines.map(|line| line.replacen("## ", "", 1).replacen("# ", "", 1)).collect();
    let plan = plain.join("\n");
    match plan.char_indices().nth(limit) {
        Some((at, _)) => format!("{} …", plan[..at].trim_end()),
        None => plan,
    }
}

/// Shortens a text to a number of characters by keeping its start and its end.
fn shorten_middle(text: &str, limit: usize) -> String {
    let count = text.chars().count();
    if count <= limit {
        return text.to_owned();
    }
    let half = limit / 2;
    let start: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - half).collect();
    let start = start.rsplit_once(char::is_whitespace).map_or(start.as_str(), |(start, _)| start);
    let end = end.split_once(char::is_whitespace).map_or(end.as_str(), |(_, end)| end);
    format!("{start} […] {end}")
}

/// The current decisions, each preceded by the ones it replaced, struck through.
fn recorded_decisions(all: &[Decision]) -> Vec<String> {
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

fn task_title(task: &Task) -> String {
    task.title().map_or_else(|| task.id().to_owned(), |title| clip(&title))
}

fn step_name(step: &StepState) -> String {
    let ordinal = step.step_ordinal.map_or(String::new(), |n| format!("{n}. "));
    let title = step.extra.get("step_title").and_then(|raw| serde_json::from_str::<String>(raw.get()).ok());
    let title = title.map_or(String::new(), |title| format!(" {}", clip(&title)));
    format!("{ordinal}{}{title}", step.step_id.as_deref().unwrap_or("unnamed"))
}

/// A command with the end of its output.
fn outcome_text(outcome: &Outcome, output: usize) -> String {
    format!("{} {}{}", outcome.kind, code_span(&clip(&outcome.name)), output_text(outcome, output))
}

/// The end of a command's output. It is quoted because it is not part of the conversation.
fn output_text(outcome: &Outcome, limit: usize) -> String {
    let output = join_words(&outcome.summary).replace('"', "'");
    let skip = output.chars().count().saturating_sub(limit);
    let end: String = output.chars().skip(skip).collect();
    match (end.is_empty(), skip) {
        (true, _) => String::new(),
        (false, 0) => format!(", output: \"{end}\""),
        (false, _) => format!(", output: \"…{end}\""),
    }
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
