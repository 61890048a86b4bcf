//! The result of `search`: hits, best first, each with the command that opens it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use milepost::{SearchHit, SearchResults};
use serde::Serialize;

use super::format::{ago, bold, clean, cyan, dim, yellow};
use super::status_all::{UnreadableProject, shell_quote, shown_root};
use super::{Document, Note, Output};
use crate::context::{KnownProject, ProjectError};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// Maximum number of characters of a query in a message.
const SHOWN_QUERY: usize = 80;
/// The indentation of excerpts.
const INDENT: &str = "  ";

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.search/1")]
pub(crate) struct SearchDocument {
    query: String,
    hits: Vec<Hit>,
    /// Whether there are more hits than `--limit` allows.
    more: bool,
    /// Whether the index was still being built, so that hits may be missing.
    incomplete: bool,
    /// Projects that could not be searched, or not completely.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unreadable: Vec<UnreadableProject>,
    /// Whether all projects were searched.
    #[serde(skip)]
    is_all: bool,
    /// Whether a kind, a time, an agent or a run was chosen.
    #[serde(skip)]
    is_filtered: bool,
    #[serde(skip)]
    home: Option<PathBuf>,
    #[serde(skip)]
    now: Timestamp,
}

/// A hit, and the command that shows where it comes from.
#[derive(Serialize)]
struct Hit {
    /// The root of the project, if all projects were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    #[serde(flatten)]
    hit: SearchHit,
    /// The byte ranges of the matches in the excerpt; `None` for agents, whose text gets markers around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<std::ops::Range<usize>>>,
    reference: String,
    /// The command that opens it.
    next: String,
}

impl Hit {
    fn new(hit: SearchHit, project: Option<&KnownProject>) -> Self {
        let reference = hit.reference();
        let verb = if hit.sequence().is_some() && !is_message(&hit) {
            format!("show {reference}")
        } else {
            format!("runs {}", hit.run_id())
        };
        let project = project.map(|project| project.root.to_string_lossy().into_owned());
        let next = match &project {
            Some(root) => format!("milepost -C {} {verb}", shell_quote(root)),
            None => format!("milepost {verb}"),
        };
        Self { project, matches: Some(hit.matches().clone()), hit, reference, next }
    }
}

/// Whether the text is part of a conversation, which belongs to the run.
fn is_message(hit: &SearchHit) -> bool {
    matches!(hit.origin(), "prompt" | "answer" | "plan" | "reply" | "title")
}

impl SearchDocument {
    /// The hits of one store.
    pub(crate) fn of_project(query: String, results: SearchResults, now: Timestamp) -> Self {
        let (more, incomplete) = (results.has_more(), results.is_incomplete());
        let hits = results.hits().iter().map(|hit| Hit::new(hit.clone(), None)).collect();
        Self {
            query,
            hits,
            more,
            incomplete,
            unreadable: Vec::new(),
            is_all: false,
            is_filtered: false,
            home: None,
            now,
        }
    }

    /// The hits of all projects, merged by score.
    pub(crate) fn of_all(
        query: String,
        found: Vec<(KnownProject, SearchResults)>,
        failed: Vec<ProjectError>,
        limit: usize,
        home: Option<PathBuf>,
        now: Timestamp,
    ) -> Self {
        let mut more = found.iter().any(|(_, results)| results.has_more());
        let incomplete = found.iter().any(|(_, results)| results.is_incomplete());
        let mut hits: Vec<Hit> = Vec::new();
        for (project, results) in &found {
            hits.extend(results.hits().iter().map(|hit| Hit::new(hit.clone(), Some(project))));
        }
        hits.sort_by(|a, b| {
            let newest = b.hit.at().cmp(&a.hit.at());
            b.hit.score().total_cmp(&a.hit.score()).then(newest).then_with(|| a.project.cmp(&b.project))
        });
        if limit > 0 && hits.len() > limit {
            more = true;
            hits.truncate(limit);
        }
        let unreadable = failed.into_iter().map(UnreadableProject::from).collect();
        Self { query, hits, more, incomplete, unreadable, is_all: true, is_filtered: false, home, now }
    }

    /// The document of a search with filters, which may have left out every hit.
    pub(crate) fn filtered(mut self, is_filtered: bool) -> Self {
        self.is_filtered = is_filtered;
        self
    }

    /// The document for an agent.
    #[cfg(feature = "mcp")]
    pub(crate) fn for_agent(mut self) -> Self {
        self.hits.iter_mut().for_each(|hit| hit.matches = None);
        self
    }

    fn hit_lines(&self, one: &Hit, output: &Output) -> String {
        let hit = &one.hit;
        let mut facts = vec![ago(hit.at(), self.now)];
        if let Some(root) = &one.project {
            facts.push(clean(
                Path::new(root).file_name().map_or(root.as_str(), |name| name.to_str().unwrap_or(root)),
            ));
        }
        facts.extend(hit.agent().as_deref().map(clean));
        let kind = if hit.origin() == hit.kind().as_str() {
            hit.kind().to_string()
        } else {
            format!("{} ({})", hit.kind(), hit.origin().replace('_', " "))
        };
        let mut text =
            format!("{}  {}  {}\n", cyan(&kind), bold(&clean(&one.reference)), dim(&facts.join(", ")));
        for (line, matches) in excerpt_lines(hit) {
            for piece in wrapped(line, &matches, output.width()) {
                let _ = writeln!(text, "{INDENT}{piece}");
            }
        }
        let next = match &one.project {
            Some(root) => one.next.replacen(
                &shell_quote(root),
                &shown_root(&shell_quote(root), self.home.as_deref()),
                1,
            ),
            None => one.next.clone(),
        };
        let _ = writeln!(text, "{INDENT}{}", dim(&clean(&next)));
        text
    }
}

/// The lines of an excerpt, with the matches in each.
fn excerpt_lines(hit: &SearchHit) -> Vec<(&str, Vec<std::ops::Range<usize>>)> {
    let mut start = 0;
    let mut lines = Vec::new();
    for line in hit.excerpt().split('\n') {
        let end = start + line.len();
        let inside = hit.matches().iter().filter(|range| start <= range.start && range.end <= end);
        lines.push((line, inside.map(|range| range.start - start..range.end - start).collect()));
        start = end + 1;
    }
    lines
}

/// A line with its matches highlighted, broken to fit the width.
fn wrapped(line: &str, matches: &[std::ops::Range<usize>], width: Option<usize>) -> Vec<String> {
    let width = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT.len()).max(20));
    let safe = clean(line);
    // Replaced characters have another length, so the positions are counted in characters.
    let position = |at: usize| line[..at].chars().count();
    let chars: Vec<(usize, char)> = safe.char_indices().collect();
    let byte = |n: usize| chars.get(n).map_or(safe.len(), |(at, _)| *at);
    let ranges: Vec<_> =
        matches.iter().map(|range| byte(position(range.start))..byte(position(range.end))).collect();
    let pieces: Vec<String> = match width {
        usize::MAX => vec![safe.clone()],
        width => textwrap::wrap(&safe, width).into_iter().map(std::borrow::Cow::into_owned).collect(),
    };
    let (mut from, mut lines) = (0, Vec::new());
    for piece in pieces {
        let Some(found) = safe[from..].find(piece.as_str()) else {
            lines.push(piece);
            continue;
        };
        let (start, end) = (from + found, from + found + piece.len());
        let (mut text, mut copied) = (String::new(), start);
        for range in ranges.iter().filter(|range| range.start < end && range.end > start) {
            let (first, last) = (range.start.max(start), range.end.min(end));
            text.push_str(&safe[copied..first]);
            text.push_str(&yellow(&safe[first..last]));
            copied = last;
        }
        text.push_str(&safe[copied..end]);
        lines.push(text);
        from = end;
    }
    lines
}

impl Document for SearchDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.hits.is_empty() {
            let filters = if self.is_filtered { ", or leave out filters such as --kind" } else { "" };
            let wider = if self.is_all { "" } else { ", or --all for all your projects" };
            let query: String = self.query.chars().take(SHOWN_QUERY).collect();
            let end = if query.len() < self.query.len() { "…" } else { "" };
            output.message(&format!(
                "Nothing found for {query}{end}. Try fewer or other words, or the start of a word such as \
                 `migrat*`{filters}{wider}"
            ));
            return Ok(());
        }
        let hits: Vec<String> = self.hits.iter().map(|hit| self.hit_lines(hit, output)).collect();
        output.write_text(&hits.join("\n"))?;
        if self.more {
            let n = self.hits.len();
            output.message(&format!("Showing the best {n}; add --limit 0 to show all"));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.incomplete {
            notes.push(Note::Message(
                "Another process is building the search index, so results may be missing; search again in a moment"
                    .to_owned(),
            ));
        }
        notes.extend(self.unreadable.iter().map(|one| {
            Note::Message(format!("Warning: {} is not searched completely: {}", one.root, one.message))
        }));
        notes
    }

    fn error(&self) -> Option<CommandError> {
        if !self.unreadable.is_empty() {
            return Some(CommandError::ExitOnly(Exit::Partly));
        }
        self.hits.is_empty().then_some(CommandError::ExitOnly(Exit::Nothing))
    }
}
