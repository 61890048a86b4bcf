//! Composes a brief from recorded facts when no written brief exists. Takes facts and returns Markdown, whole
//! or within a size limit. A section without facts says so in one line. Must not invent anything.

mod artifacts;
mod quotes;
mod sections;
mod sentences;

use std::fmt::Write as _;

use jiff::Timestamp;

use self::quotes::Quotes;
use self::sentences::Weight;
use super::blocks::join_words;
use super::single_line::one_line;
use super::{Brief, SectionKind, TokenCounter};
use crate::front_matter::written;
use crate::model::{Body, Message, Outcome, ProjectFacts, RunRecord};

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
    /// What the user and the agent said in the run and in the runs that it continues, oldest first.
    pub messages: &'a [Message],
    /// The commands that failed and have not been seen to succeed since, oldest first.
    pub failures: &'a [Outcome],
    /// Facts about the project as it is now.
    pub project: ProjectFacts,
    /// The previous brief, whose description of the state is quoted.
    pub previous: Option<&'a Brief>,
}

/// The size limits of a brief. It must fit all of those that are set.
#[derive(Debug, Clone, Copy, Default)]
pub struct BriefLimit {
    /// Maximum number of tokens, by the default counter.
    pub tokens: Option<u64>,
    /// Maximum number of bytes.
    pub bytes: Option<usize>,
    /// Maximum number of characters.
    pub chars: Option<usize>,
}

impl BriefLimit {
    /// Whether a text is within the limits.
    pub fn fits(&self, text: &str) -> bool {
        self.bytes.is_none_or(|limit| text.len() <= limit)
            && self.chars.is_none_or(|limit| text.chars().count() <= limit)
            && self.tokens.is_none_or(|limit| TokenCounter::default().tokens(text) <= limit)
    }

    /// What remains of the limits after `text`.
    #[must_use]
    pub fn without(&self, text: &str) -> Self {
        let tokens = TokenCounter::default().tokens(text);
        Self {
            tokens: self.tokens.map(|limit| limit.saturating_sub(tokens)),
            bytes: self.bytes.map(|limit| limit.saturating_sub(text.len())),
            chars: self.chars.map(|limit| limit.saturating_sub(text.chars().count())),
        }
    }
}

/// How much detail a brief contains.
#[derive(Debug, Clone, Copy)]
struct Detail {
    /// Maximum number of commands, commits and notes; the newest are listed.
    newest: usize,
    /// Maximum number of files.
    files: usize,
    /// Whether files are listed in a table with what changed, or by name only.
    file_table: bool,
    /// Whether facts from manifest files are listed.
    manifests: bool,
    /// Whether ids, the folder and other details that the reader can look up are included.
    ids: bool,
    /// Maximum length of a command's output, in characters.
    output: usize,
    /// Maximum length of the agent's last message, in characters.
    reply: usize,
    /// Maximum length of a plan, in characters.
    plan: usize,
    /// Parts of the user's prompts up to this weight may be left out; `None` keeps everything.
    leave_out: Option<Weight>,
}

/// Levels of detail, most detailed first. A brief without a limit uses the first. What the agent did is
/// shortened before what the user said, except that pasted output and confirmations are left out early.
const LEVELS: [Detail; 8] = {
    use Weight::{Acknowledgement, Lead, Question, Rule, Sentence};
    [
        Detail::of(20, 200, 240, 4000, 8000, None),
        Detail::of(10, 120, 240, 2500, 5000, Some(Acknowledgement)),
        Detail::of(5, 120, 200, 1800, 4000, Some(Acknowledgement)),
        Detail::of(3, 100, 160, 1200, 3000, Some(Acknowledgement)),
        Detail::of(0, 80, 120, 900, 2200, Some(Question)),
        Detail::of(0, 60, 100, 600, 1500, Some(Sentence)),
        Detail::of(0, 40, 80, 400, 1000, Some(Lead)),
        Detail::of(0, 25, 60, 300, 700, Some(Rule)),
    ]
};

impl Detail {
    const fn of(
        newest: usize,
        files: usize,
        output: usize,
        reply: usize,
        plan: usize,
        leave_out: Option<Weight>,
    ) -> Self {
        let is_full = newest >= 10;
        Self {
            newest,
            files,
            file_table: is_full,
            manifests: newest > 3,
            ids: newest > 0,
            output,
            reply,
            plan,
            leave_out,
        }
    }
}

/// Maximum length of a recorded text in characters.
const MAX_TEXT_CHARS: usize = 240;

/// What the sections are composed from.
struct Composer<'a> {
    facts: &'a BriefFacts<'a>,
    quotes: &'a Quotes,
    detail: Detail,
    /// Number of parts of the user's prompts to leave out.
    left_out: usize,
}

/// The sections of a composed brief, each with its text if there are no facts.
const SECTIONS: [(SectionKind, &str); 8] = [
    (SectionKind::Problem, "Unknown."),
    (SectionKind::Intent, "Unknown."),
    (SectionKind::Decisions, "None recorded."),
    (SectionKind::Technical, "None recorded."),
    (SectionKind::PlayByPlay, "None recorded."),
    (SectionKind::Artifacts, "None recorded."),
    (SectionKind::State, "Unknown."),
    (SectionKind::Next, "None recorded."),
];

/// Composes a complete brief, with all details.
pub fn compose(facts: &BriefFacts<'_>) -> String {
    let quotes = Quotes::of(facts.messages);
    Composer { facts, quotes: &quotes, detail: LEVELS[0], left_out: 0 }.compose()
}

/// Composes a brief within a limit: with as many details as fit, and with as much as possible of what the
/// user said. `finish` completes the text before it is measured. Returns the smallest brief if none fits.
pub(crate) fn compose_within(
    facts: &BriefFacts<'_>,
    limit: &BriefLimit,
    finish: impl Fn(&Composed<'_>) -> String,
) -> String {
    let quotes = Quotes::of(facts.messages);
    let with = |detail: Detail, left_out: usize| {
        finish(&Composed(Composer { facts, quotes: &quotes, detail, left_out }))
    };
    let mut text = String::new();
    for detail in LEVELS {
        let most = detail.leave_out.map_or(0, |weight| quotes.count_up_to(weight));
        text = with(detail, most);
        if !limit.fits(&text) {
            continue;
        }
        // Leave out as little as possible.
        let (mut too_few, mut enough) = (None, most);
        while enough > 0 && too_few.is_none_or(|few: usize| few + 1 < enough) {
            let middle = too_few.map_or(0, |few| usize::midpoint(few, enough));
            let tried = with(detail, middle);
            if limit.fits(&tried) {
                (enough, text) = (middle, tried);
            } else {
                too_few = Some(middle);
            }
        }
        return text;
    }
    text
}

/// A brief at one level of detail.
pub(crate) struct Composed<'a>(Composer<'a>);

impl Composed<'_> {
    /// The complete brief.
    pub(crate) fn whole(&self) -> String {
        self.0.compose()
    }

    /// An update of a previous brief.
    pub(crate) fn update(&self) -> String {
        self.0.compose_update()
    }
}

/// Composes an update of a brief: every section that has facts, except the problem and rules, which people
/// write.
pub(crate) fn compose_update(facts: &BriefFacts<'_>) -> String {
    let quotes = Quotes::of(facts.messages);
    Composer { facts, quotes: &quotes, detail: LEVELS[0], left_out: 0 }.compose_update()
}

impl Composer<'_> {
    fn section_lines(&self, kind: SectionKind) -> Vec<String> {
        match kind {
            SectionKind::Problem => self.problem_lines(),
            SectionKind::Intent => self.intent_lines(),
            SectionKind::Decisions => self.decision_lines(),
            SectionKind::Technical => self.technical_lines(),
            SectionKind::PlayByPlay => self.play_by_play_lines(),
            SectionKind::Artifacts => self.artifact_lines(),
            SectionKind::State => self.state_lines(),
            SectionKind::Next => self.next_action_lines(),
            _ => Vec::new(),
        }
    }

    fn compose(&self) -> String {
        let mut text = format_front_matter(self.facts, self.detail.ids);
        for (kind, empty) in SECTIONS {
            if kind == SectionKind::Decisions {
                let _ = write!(text, "\n## {}\n", SectionKind::Container);
            }
            write_section(&mut text, kind, self.section_lines(kind), empty);
        }
        let rules = self.rule_lines();
        if !rules.is_empty() {
            write_section(&mut text, SectionKind::Rules, rules, "");
        }
        text
    }

    fn compose_update(&self) -> String {
        let mut text = format_front_matter(self.facts, self.detail.ids);
        for (kind, _) in SECTIONS.into_iter().skip(1) {
            let lines = match kind {
                SectionKind::Intent => self.updated_intent_lines(),
                _ => self.section_lines(kind),
            };
            if !lines.is_empty() {
                write_section(&mut text, kind, lines, "");
            }
        }
        text
    }
}

fn format_front_matter(facts: &BriefFacts<'_>, with_ids: bool) -> String {
    let value = |text: &str| written(&one_line(text));
    let mut text = format!("---\ncheckpoint: {}\ncreated: {:.3}\n", value(&facts.id), facts.created);
    if !with_ids {
        return text + "---\n";
    }
    if let Some(body) = facts.body {
        let _ = writeln!(text, "anchor: {}", value(&anchor_text(body)));
    }
    if let Some(parent) = &facts.parent {
        let _ = writeln!(text, "parent: {}", value(parent));
    }
    text + "---\n"
}

/// Adds a section. Escapes every line, so that a recorded value cannot start a new line or a heading.
fn write_section(text: &mut String, kind: SectionKind, lines: Vec<String>, empty: &str) {
    let _ = write!(text, "\n{} {kind}\n", "#".repeat(usize::from(kind.level())));
    if lines.is_empty() {
        let _ = writeln!(text, "{empty}");
    }
    for line in &lines {
        let line = one_line(line);
        match line.strip_prefix("- #") {
            // Without the backslash, the item would contain a heading.
            Some(rest) => text.extend(["- \\#", rest, "\n"]),
            None => text.extend([&line, "\n"]),
        }
    }
}

/// Joins a text into one line and limits its length.
fn clip(text: &str) -> String {
    clip_to(text, MAX_TEXT_CHARS)
}

fn clip_to(text: &str, limit: usize) -> String {
    let words = join_words(text);
    if words.chars().count() <= limit {
        return words;
    }
    let cut: String = words.chars().take(limit).collect();
    format!("{}…", cut.trim_end())
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
