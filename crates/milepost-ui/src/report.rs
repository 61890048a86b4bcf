//! The report of a run as one HTML file, to attach or to mail: its timeline, and what a reader asks next. Takes what
//! the library read; returns text. Contains no script and loads nothing. Every recorded text is redacted, bounded and
//! escaped. Its size does not depend on the size of the run.

use data_encoding::BASE64;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use milepost::internal::humanize;
use milepost::model::{Decision, Message, Outcome, PathText, Task};
use milepost::{RunFacts, Summary, Timeline};
use sha2::{Digest as _, Sha256};

use crate::timeline::{self, TimelineOptions, text};

const STYLE: &str = include_str!("../assets/report.css");

/// Maximum number of entries of a list, of columns of an entry, and of lines of a long text.
const ENTRIES: usize = 60;
const COLUMNS: usize = 300;
const LINES: usize = 60;
/// Number of checkpoints at the beginning and at the end of a long table.
const FIRST_CHECKPOINTS: usize = 20;
const LAST_CHECKPOINTS: usize = 80;

/// What a report shows.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    /// The timeline of the run.
    pub timeline: &'a Timeline,
    /// Facts about its checkpoints.
    pub facts: &'a RunFacts,
    /// Its summary.
    pub summary: &'a Summary,
    /// What the user and the agent said in this run.
    pub messages: &'a [Message],
    /// The decisions made.
    pub decisions: &'a [Decision],
    /// Why the run stopped, in words.
    pub stopped: Option<&'a str>,
}

impl Report<'_> {
    /// The report as an HTML file.
    pub fn html(&self, options: &TimelineOptions<'_>) -> String {
        let page = Page { report: self, options };
        let style = format!("{STYLE}{}", timeline::STYLE);
        let digest = BASE64.encode(&Sha256::digest(style.as_bytes()));
        let policy =
            format!("default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'");
        let title = page.title();
        let drawn = timeline::embedded(self.timeline, Some(self.facts), options);
        let markup = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="generator" content="Milepost";
                    meta http-equiv="Content-Security-Policy" content=(policy);
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="referrer" content="no-referrer";
                    title { (title) " · Milepost" }
                    style { (PreEscaped(style)) }
                }
                body {
                    header {
                        h1 { (title) }
                        (page.facts())
                    }
                    div class="timeline" { (PreEscaped(drawn)) }
                    main {
                        (page.tasks()) (page.prompts()) (page.decisions()) (page.failures()) (page.files())
                        (page.last_message()) (page.sessions()) (page.checkpoints())
                    }
                    footer { "Written by Milepost. Values that look like secrets are replaced." }
                }
            }
        };
        markup.into_string()
    }
}

struct Page<'a> {
    report: &'a Report<'a>,
    options: &'a TimelineOptions<'a>,
}

impl Page<'_> {
    fn text(&self, recorded: &str) -> String {
        text::one_line(&self.options.redacted(recorded), COLUMNS)
    }

    fn time(&self, at: Timestamp) -> String {
        let zone: &TimeZone = self.options.zone();
        at.to_zoned(zone.clone()).strftime("%-d %b %Y %H:%M:%S").to_string()
    }

    fn title(&self) -> String {
        let timeline = self.report.timeline;
        let title = timeline.about().as_deref().filter(|about| !about.is_empty());
        self.text(title.unwrap_or(timeline.run_id().as_str()))
    }

    fn facts(&self) -> Markup {
        let Report { timeline, summary, stopped, .. } = self.report;
        let status = timeline.status().map_or("record damaged", |status| status.as_str()).replace('_', " ");
        let lasted = humanize::duration(text::between(timeline.started_at(), timeline.ended_at()));
        let worked = humanize::duration(std::time::Duration::from_millis(summary.total_duration()));
        let class = match status.as_str() {
            "completed" => "good",
            "failed" => "bad",
            _ => "",
        };
        let sessions = humanize::counted(timeline.sessions().len() as u64, "session");
        let pending = timeline.pending().changes;
        html! {
            p {
                "Run " code { (self.text(timeline.run_id().as_str())) } " · "
                span class=(class) { (status) @if timeline.is_live() { ", running" } }
                " · " (humanize::counted(timeline.checkpoints().len() as u64, "checkpoint"))
                " · " (worked) " in " (sessions)
            }
            p class="muted" {
                (self.time(timeline.started_at())) " – " (self.time(timeline.ended_at())) " ("
                (lasted) ", " (text::zone_name(timeline.ended_at(), self.options.zone())) ")"
            }
            @if let Some(stopped) = stopped { p class="bad" { "It stopped because " (self.text(stopped)) "." } }
            @if pending > 0 { p { (humanize::counted(pending, "change")) " since the newest checkpoint." } }
        }
    }

    /// A section with a list; nothing if the list is empty. Shows the last entries of a long list.
    fn list(&self, heading: &str, entries: &[Markup]) -> Markup {
        let hidden = entries.len().saturating_sub(ENTRIES);
        html! {
            @if !entries.is_empty() {
                section {
                    h2 { (heading) }
                    @if hidden > 0 { p class="muted" { (humanize::count(hidden as u64)) " earlier ones are not shown." } }
                    ul class="plain" { @for entry in &entries[hidden..] { li { (entry) } } }
                }
            }
        }
    }

    fn tasks(&self) -> Markup {
        let line = |task: &Task, indent: &str| {
            let sign = match (task.is_completed(), task.is_failed(), task.status()) {
                (true, ..) => "☑",
                (_, true, _) => "☒",
                (.., "in_progress") => "◐",
                _ => "☐",
            };
            let title = task.title().unwrap_or_default();
            html! {
                (indent) (sign) " " (self.text(task.id())) " " (self.text(&title)) " "
                span class="muted" { "(" (self.text(task.status())) ")" }
            }
        };
        let mut entries = Vec::new();
        for task in self.report.summary.tasks() {
            entries.push(line(task, ""));
            entries.extend(task.subtasks().iter().map(|subtask| line(subtask, "\u{2003}")));
        }
        self.list("Tasks", &entries)
    }

    fn prompts(&self) -> Markup {
        let said = self.report.messages.iter().filter(|message| message.is_from_user());
        let entries: Vec<_> = said
            .map(|message| {
                let (question, answer) = match message {
                    Message::Answer { question, text, .. } => (Some(question), text.as_str()),
                    other => (None, other.text()),
                };
                html! {
                    span class="when" { (self.time(message.at())) } " "
                    @if let Some(question) = question { span class="muted" { (self.text(question)) } " " }
                    (self.text(answer.trim()))
                }
            })
            .collect();
        self.list("What the user said", &entries)
    }

    fn decisions(&self) -> Markup {
        let decisions = self.report.decisions.iter();
        let entries: Vec<_> = decisions
            .map(|decision| html! { span class="when" { (self.time(decision.at)) } " " (self.text(&decision.text)) })
            .collect();
        self.list("Decisions", &entries)
    }

    fn failures(&self) -> Markup {
        let line = |outcome: &Outcome| {
            let reason = outcome.reason_code.as_deref().unwrap_or_default();
            html! {
                code { (self.text(&outcome.name)) }
                @if !reason.is_empty() { " " span class="bad" { "(" (self.text(reason)) ")" } }
                @if let Some(at) = outcome.at() { " " span class="when" { (self.time(at)) } }
            }
        };
        let entries: Vec<_> = self.report.summary.unfixed().iter().map(line).collect();
        self.list("Failed and not seen to pass since", &entries)
    }

    fn files(&self) -> Markup {
        let entries: Vec<_> = self
            .report
            .summary
            .files_modified()
            .iter()
            .map(|path| match path {
                PathText::Text(path) => html! { code { (self.text(path)) } },
                PathText::Bytes { b64 } => html! { code { "b64:" (self.text(b64)) } },
            })
            .collect();
        self.list("Changed files", &entries)
    }

    fn last_message(&self) -> Markup {
        let last = self.report.messages.iter().rfind(|message| matches!(message, Message::Reply { .. }));
        let Some(message) = last else { return html! {} };
        let redacted = self.options.redacted(message.text());
        let mut lines: Vec<_> =
            redacted.lines().take(LINES).map(|line| text::one_line(line, COLUMNS)).collect();
        if redacted.lines().nth(LINES).is_some() {
            lines.push("…".to_owned());
        }
        html! {
            section {
                h2 { "The agent's last message" }
                p class="when" { (self.time(message.at())) }
                pre { (lines.join("\n")) }
            }
        }
    }

    fn sessions(&self) -> Markup {
        let sessions = self.report.timeline.sessions();
        let hidden = sessions.len().saturating_sub(ENTRIES);
        html! {
            @if sessions.len() > 1 {
                section {
                    h2 { "Sessions" }
                    @if hidden > 0 { p class="muted" { (humanize::count(hidden as u64)) " earlier ones are not shown." } }
                    div class="scroll" { table {
                        thead { tr { th { "Session" } th { "Started" } th { "Lasted" } th class="n" { "Checkpoints" } th { "Ended by" } } }
                        tbody { @for session in &sessions[hidden..] { tr {
                            td { (self.text(session.session_id())) }
                            td class="t" { (self.time(session.started_at())) }
                            td class="t" { (session.ended_at().map_or("running".to_owned(), |end| humanize::duration(text::between(session.started_at(), end)))) }
                            td class="n" { (humanize::count(session.checkpoints())) }
                            td { (session.ended_by().map(|kind| kind.as_str().replace('_', " ")).unwrap_or_default()) }
                        } } }
                    } }
                }
            }
        }
    }

    fn checkpoints(&self) -> Markup {
        let all = self.report.timeline.checkpoints();
        let facts = self.report.facts.checkpoints();
        let (first, last) = if all.len() > FIRST_CHECKPOINTS + LAST_CHECKPOINTS {
            (&all[..FIRST_CHECKPOINTS], &all[all.len() - LAST_CHECKPOINTS..])
        } else {
            (&all[..], &all[..0])
        };
        let hidden = all.len() - first.len() - last.len();
        let row = |checkpoint: &milepost::TimelineCheckpoint| {
            let at = facts.binary_search_by_key(&checkpoint.sequence(), |facts| facts.sequence());
            let facts = at.ok().and_then(|index| facts.get(index));
            let name = |value: Option<&'static str>| value.unwrap_or("damaged").replace('_', " ");
            html! {
                tr {
                    td class="n" { (checkpoint.sequence()) }
                    td class="t" { (self.time(checkpoint.at())) }
                    td class="t" { (name(checkpoint.source().map(|source| source.as_str()))) }
                    td class="t" { (name(checkpoint.status().map(|status| status.as_str()))) }
                    td class="n" { (facts.and_then(|facts| facts.files_changed()).map(humanize::count).unwrap_or_default()) }
                    td class="n" { (facts.and_then(|facts| facts.rss()).map(humanize::bytes).unwrap_or_default()) }
                    td {
                        (self.text(checkpoint.summary().as_deref().unwrap_or_default()))
                        @for tag in checkpoint.tags().iter().take(5) { " " span class="muted" { "#" (self.text(tag)) } }
                    }
                }
            }
        };
        html! {
            @if !all.is_empty() {
                section {
                    h2 { "Checkpoints" }
                    div class="scroll" { table {
                        thead { tr { th class="n" { "#" } th { "Saved" } th { "Source" } th { "Status" } th class="n" { "Files" } th class="n" { "Memory" } th { "Summary" } } }
                        tbody {
                            @for checkpoint in first { (row(checkpoint)) }
                            @if hidden > 0 { tr { td {} td colspan="6" class="muted" { (humanize::count(hidden as u64)) " checkpoints are not shown." } } }
                            @for checkpoint in last { (row(checkpoint)) }
                        }
                    } }
                }
            }
        }
    }
}
