//! The texts of a run that can be searched, each with its kind and origin. Takes bodies of checkpoints, pending
//! items, messages and records. Long texts are split into parts, so that a brief in which one section changes is
//! not stored again. Pure.

use jiff::Timestamp;

use super::SearchKind;
use crate::model::{
    Body, Criterion, Decision, FileRef, Item, LogLine, Message, Outcome, OutcomeResult, PathText, RunRecord,
    Task, closed_enum,
};

/// Maximum number of bytes of one text that are searched.
const LONGEST_TEXT: usize = 64 << 10;
/// Number of bytes after which a text is split at the next line.
const PART: usize = 2 << 10;
/// Number of bytes at which a text without lines is split.
const LONGEST_PART: usize = 4 << 10;
/// Maximum number of captured paths of one checkpoint that are searched.
const MOST_PATHS: usize = 2_000;

closed_enum! {
    /// Where the text of a document was recorded.
    pub enum Origin {
        /// A prompt of the user.
        Prompt = "prompt",
        /// An answer of the user to a question of the agent.
        Answer = "answer",
        /// A decision.
        Decision = "decision",
        /// A command that failed.
        Failure = "failure",
        /// A file that the run reported.
        File = "file",
        /// A file that changed while the run was working.
        ChangedFile = "changed_file",
        /// A section of a brief.
        Brief = "brief",
        /// The summary of a checkpoint.
        Summary = "summary",
        /// The title of a run.
        Title = "title",
        /// A line of the log.
        Note = "note",
        /// A plan of the agent.
        Plan = "plan",
        /// The last message of a turn.
        Reply = "reply",
        /// A task.
        Task = "task",
        /// A success criterion.
        Criterion = "criterion",
        /// A command that did not fail.
        Outcome = "outcome",
    }
}

impl Origin {
    /// Whether the text belongs to the run rather than to its checkpoints, so that it outlives them.
    pub(crate) fn is_of_run(self) -> bool {
        matches!(self, Self::Prompt | Self::Answer | Self::Plan | Self::Reply | Self::Title)
    }

    /// The kind that users filter by.
    pub(crate) fn kind(self) -> SearchKind {
        match self {
            Self::Prompt | Self::Answer => SearchKind::Prompt,
            Self::Decision => SearchKind::Decision,
            Self::Failure => SearchKind::Failure,
            Self::File | Self::ChangedFile => SearchKind::File,
            Self::Brief => SearchKind::Brief,
            _ => SearchKind::Summary,
        }
    }
}

/// A text of a run, before redaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Document {
    pub(crate) origin: Origin,
    /// When it was recorded; `None` for the time of its checkpoint.
    pub(crate) at: Option<Timestamp>,
    pub(crate) text: String,
}

/// Collects documents, without empty ones.
#[derive(Default)]
struct Documents(Vec<Document>);

impl Documents {
    fn add(&mut self, origin: Origin, at: Option<Timestamp>, text: &str) {
        if !text.trim().is_empty() {
            self.0.push(Document { origin, at, text: text.to_owned() });
        }
    }

    fn add_decision(&mut self, decision: &Decision) {
        self.add(Origin::Decision, Some(decision.at), &decision.text);
    }

    fn add_note(&mut self, line: &LogLine) {
        self.add(Origin::Note, Some(line.at), &line.text);
    }

    fn add_outcome(&mut self, outcome: &Outcome) {
        let origin = if outcome.result == OutcomeResult::Fail { Origin::Failure } else { Origin::Outcome };
        let mut text = outcome.name.clone();
        for more in outcome.reason_code.iter().chain([&outcome.summary]).filter(|more| !more.is_empty()) {
            text.push('\n');
            text.push_str(more);
        }
        self.add(origin, outcome.at(), &text);
    }

    fn add_task(&mut self, task: &Task) {
        let title = task.title().unwrap_or_default();
        self.add(Origin::Task, None, if title.is_empty() { task.id() } else { &title });
        task.subtasks().iter().for_each(|task| self.add_task(task));
    }

    fn add_criterion(&mut self, criterion: &Criterion) {
        self.add(Origin::Criterion, None, &criterion.subject);
    }

    fn add_file(&mut self, file: &FileRef) {
        self.add(Origin::File, None, &file.path);
    }

    fn add_path(&mut self, path: &PathText) {
        if let PathText::Text(path) = path {
            self.add(Origin::ChangedFile, None, path);
        }
    }
}

/// The documents of a checkpoint.
pub(crate) fn of_checkpoint(body: &Body) -> Vec<Document> {
    let mut all = Documents::default();
    // The summaries of a thread only number its steps.
    if body.thread.is_none() {
        all.add(Origin::Summary, None, body.task_summary.as_deref().unwrap_or_default());
    }
    body.decisions.iter().for_each(|decision| all.add_decision(decision));
    body.log.iter().for_each(|line| all.add_note(line));
    body.command_outcomes.iter().for_each(|outcome| all.add_outcome(outcome));
    body.tasks.iter().for_each(|task| all.add_task(task));
    body.criteria.iter().for_each(|criterion| all.add_criterion(criterion));
    body.files.iter().for_each(|file| all.add_file(file));
    if let Some(workspace) = &body.workspace {
        let git = workspace.git.iter().flat_map(|git| [&git.modified, &git.staged, &git.untracked]).flatten();
        let renamed = workspace.git.iter().flat_map(|git| &git.renamed).map(|renamed| &renamed.to);
        let paths = workspace.files_modified.iter().chain(git).chain(renamed);
        paths.take(MOST_PATHS).for_each(|path| all.add_path(path));
    }
    all.add(Origin::Brief, None, body.brief.as_deref().unwrap_or_default());
    all.0
}

/// The documents of items that no checkpoint contains yet.
pub(crate) fn of_items(items: &[Item]) -> Vec<Document> {
    let mut all = Documents::default();
    for item in items {
        match item {
            Item::Outcome(outcome) => all.add_outcome(outcome),
            Item::Note(line) => all.add_note(line),
            Item::Decision(decision) => all.add_decision(decision),
            Item::Task(task) => all.add_task(task),
            Item::Todo(tasks) => tasks.iter().for_each(|task| all.add_task(task)),
            Item::File(file) => all.add_file(file),
            Item::Criterion(criterion) => all.add_criterion(criterion),
            _ => {}
        }
    }
    all.0
}

/// The documents of what the user and the agent said.
pub(crate) fn of_message(message: &Message) -> Vec<Document> {
    let mut all = Documents::default();
    let at = Some(message.at());
    match message {
        Message::Prompt { text, .. } => all.add(Origin::Prompt, at, text),
        Message::Answer { question, text, .. } => all.add(Origin::Answer, at, &format!("{question}\n{text}")),
        Message::Plan { text, .. } => all.add(Origin::Plan, at, text),
        Message::Reply { text, .. } => all.add(Origin::Reply, at, text),
    }
    all.0
}

/// The documents of the run itself.
pub(crate) fn of_record(record: &RunRecord) -> Vec<Document> {
    let mut all = Documents::default();
    all.add(Origin::Title, Some(record.started_at), record.title.as_deref().unwrap_or_default());
    all.0
}

/// The documents of what a run without checkpoints took over from the run that it continues.
pub(crate) fn of_inherited(record: &RunRecord) -> Vec<Document> {
    let mut all = Documents::default();
    let working = record.working();
    working.decisions().iter().for_each(|decision| all.add_decision(decision));
    working.log().iter().for_each(|line| all.add_note(line));
    working.tasks().iter().for_each(|task| all.add_task(task));
    working.criteria().iter().for_each(|criterion| all.add_criterion(criterion));
    all.0
}

/// Splits a redacted text at lines, and before headings. A short text is one part. Parts of a text are not redacted on
/// their own, because a secret can be longer than a part.
pub(crate) fn parts(text: &str) -> Vec<&str> {
    let text = &text[..text.floor_char_boundary(LONGEST_TEXT)];
    let mut parts = Vec::new();
    let (mut start, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        let is_heading = line.starts_with('#') && text.len() > PART / 4;
        if end > start && (is_heading || end - start > PART) {
            parts.push(&text[start..end]);
            start = end;
        }
        end += line.len();
        while end - start > LONGEST_PART {
            let cut = text.floor_char_boundary(start + LONGEST_PART);
            parts.push(&text[start..cut]);
            start = cut;
        }
    }
    parts.push(&text[start..]);
    parts.retain(|part| part.chars().any(char::is_alphanumeric));
    parts.into_iter().map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_split_at_headings_and_lines() {
        assert_eq!(parts("one line"), ["one line"]);
        assert!(parts(" \n--\n").is_empty());
        let section = "word ".repeat(150);
        let text = format!("# A\n{section}\n# B\n{section}\n");
        assert_eq!(parts(&text).len(), 2);
        assert!(parts(&text)[1].starts_with("# B"));
        let lines = "a line of a pasted log\n".repeat(10_000);
        assert!(parts(&lines).len() > 20 && parts(&lines).len() < 40);
        let long = "é".repeat(100_000);
        assert!(parts(&long).iter().all(|part| part.len() <= LONGEST_PART));
        assert_eq!(parts(&long).concat().len(), LONGEST_TEXT);
    }
}
