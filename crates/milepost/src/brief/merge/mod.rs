//! Merges an update into a brief. Takes two briefs and returns one brief and notes for the writer. Text that
//! the update does not change is preserved byte for byte. Deltas, which other tools append, are folded in and
//! never written. Must not shorten text; only fitting does.

mod front_matter;
mod items;
mod list;

use super::check;
use super::section::normalize_heading;
use super::{Brief, Section, SectionKind, Warning};

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedBrief {
    /// The merged brief.
    pub brief: Brief,
    /// Notes for the writer.
    pub notes: Vec<Warning>,
}

#[derive(Debug, Clone)]
struct EditableSection {
    kind: SectionKind,
    name: String,
    level: u8,
    heading: String,
    content: String,
}

impl EditableSection {
    fn from_section(brief: &Brief, section: &Section) -> Self {
        Self {
            kind: section.kind,
            name: normalize_heading(&section.heading),
            level: section.level,
            heading: brief.slice(section.range.start..section.content.start).to_owned(),
            content: brief.content(section).to_owned(),
        }
    }

    fn new(kind: SectionKind, name: &str, level: u8, line_end: &str, content: String) -> Self {
        let heading = format!("{} {name}{line_end}", "#".repeat(usize::from(level.max(1))));
        Self { kind, name: normalize_heading(name), level, heading, content }
    }
}

struct Document {
    head: String,
    sections: Vec<EditableSection>,
    tail: String,
    crlf: bool,
    notes: Vec<Warning>,
}

/// The new content of one section.
struct SectionUpdate<'a> {
    kind: SectionKind,
    heading: &'a str,
    level: u8,
    content: String,
}

pub(super) fn merge(previous: &Brief, update: &Brief) -> MergedBrief {
    let mut document = Document::from_brief(previous);
    let (updates, deltas) = collect_updates(update);
    document.apply_updates(&updates);
    deltas.iter().for_each(|delta| document.apply_updates(delta));
    document.head = front_matter::merge_front_matter(previous, update, &document.head, document.line_end());
    for kind in [SectionKind::State, SectionKind::Next] {
        if !updates.iter().any(|g| g.kind == kind)
            && document.sections.iter().any(|section| section.kind == kind)
        {
            document.notes.push(Warning::new(
                Some(kind.as_str()),
                "is not in the update: the previous content is kept",
            ));
        }
    }
    let notes = std::mem::take(&mut document.notes);
    MergedBrief { brief: Brief::parse(document.into_text()), notes }
}

/// The updates from a brief's own sections, then the updates from each delta. Skips empty sections.
fn collect_updates(brief: &Brief) -> (Vec<SectionUpdate<'_>>, Vec<Vec<SectionUpdate<'_>>>) {
    let mut updates: Vec<SectionUpdate<'_>> = Vec::new();
    let mut deltas: Vec<Vec<SectionUpdate<'_>>> = Vec::new();
    let mut when = String::new();
    for (i, section) in brief.sections().iter().enumerate() {
        let before_delta = brief.sections().get(i + 1).is_some_and(|next| next.kind == SectionKind::Delta);
        let content = brief.content(section);
        let content = if before_delta { strip_delta_rule(content) } else { content };
        if section.kind == SectionKind::Delta {
            when = delta_name(&section.heading);
            deltas.push(Vec::new());
        }
        let has_content = !is_empty(content);
        let into = if section.in_delta || section.kind == SectionKind::Delta {
            deltas.last_mut()
        } else {
            Some(&mut updates)
        };
        let Some(into) = into.filter(|_| has_content && section.kind != SectionKind::Container) else {
            continue;
        };
        let (kind, content) = match section.kind {
            SectionKind::Delta | SectionKind::WhatChanged => {
                (SectionKind::PlayByPlay, items::prose_as_steps(content, &when))
            }
            SectionKind::Transitions => (SectionKind::PlayByPlay, items::transitions_as_steps(content)),
            kind => (kind, content.to_owned()),
        };
        // Sections of one kind are joined if they replace the old content; accumulating ones stay separate.
        let replaces_same = |g: &&mut SectionUpdate<'_>| {
            g.kind == kind
                && !accumulates(kind)
                && (kind != SectionKind::Other || g.heading == section.heading)
        };
        match into.iter_mut().find(replaces_same) {
            Some(first) => {
                end_with_newline(&mut first.content);
                first.content.push_str(&content);
            }
            None => {
                into.push(SectionUpdate { kind, heading: &section.heading, level: section.level, content })
            }
        }
    }
    (updates, deltas)
}

/// Whether an update adds entries to a section instead of replacing its content.
fn accumulates(kind: SectionKind) -> bool {
    matches!(
        kind,
        SectionKind::Decisions
            | SectionKind::Technical
            | SectionKind::PlayByPlay
            | SectionKind::Artifacts
            | SectionKind::Breadcrumbs
    )
}

/// Whether content is empty or only says that nothing is known, as composed briefs do.
fn is_empty(content: &str) -> bool {
    let bare = content.trim();
    check::is_empty(content) || bare.starts_with("Unknown: ") && bare.lines().count() == 1
}

/// The date in a delta's heading, as in `Delta: 2026-01-01`.
fn delta_name(heading: &str) -> String {
    heading.split_once(':').map_or("Delta", |(_, when)| when.trim()).to_owned()
}

/// Removes the thematic break between content and a following delta.
fn strip_delta_rule(content: &str) -> &str {
    let rest = content.trim_end().strip_suffix("---");
    rest.filter(|rest| rest.is_empty() || rest.ends_with('\n')).map_or(content, str::trim_end)
}

/// Converts all line ends to CRLF or to LF.
fn with_line_ends(text: &str, crlf: bool) -> String {
    let plain = text.replace("\r\n", "\n");
    if crlf { plain.replace('\n', "\r\n") } else { plain }
}

fn end_with_newline(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

impl Document {
    /// A brief as an editable document, with its deltas folded in.
    fn from_brief(brief: &Brief) -> Self {
        let end = brief.sections().last().map_or(brief.first_section_start(), |last| last.range.end);
        let is_outside_deltas = |section: &&Section| !section.in_delta && section.kind != SectionKind::Delta;
        let mut document = Self {
            head: brief.slice(0..brief.first_section_start()).to_owned(),
            sections: brief
                .sections()
                .iter()
                .filter(is_outside_deltas)
                .map(|section| EditableSection::from_section(brief, section))
                .collect(),
            tail: brief.slice(end..brief.text().len()).to_owned(),
            crlf: brief.text().contains("\r\n"),
            notes: Vec::new(),
        };
        let (_, deltas) = collect_updates(brief);
        if brief.sections().iter().any(|section| section.kind == SectionKind::Delta) {
            // The thematic break before a delta is removed with it.
            if let Some(last) = document.sections.last_mut() {
                let kept = strip_delta_rule(&last.content).len();
                if kept < last.content.len() {
                    last.content.truncate(kept);
                    end_with_newline(&mut last.content);
                }
            }
            deltas.iter().for_each(|delta| document.apply_updates(delta));
        }
        document
    }

    fn into_text(self) -> String {
        let mut text = self.head;
        for section in &self.sections {
            end_with_newline(&mut text);
            text.push_str(&section.heading);
            text.push_str(&section.content);
        }
        if !self.tail.is_empty() {
            end_with_newline(&mut text);
        }
        text + &self.tail
    }

    fn line_end(&self) -> &'static str {
        if self.crlf { "\r\n" } else { "\n" }
    }

    fn apply_updates(&mut self, all: &[SectionUpdate<'_>]) {
        for update in all {
            match accumulates(update.kind) {
                true => self.accumulate(update),
                false => self.replace(update),
            }
        }
    }

    fn is_updated_by<'g>(update: &'g SectionUpdate<'_>) -> impl Fn(&EditableSection) -> bool + 'g {
        let name = normalize_heading(update.heading);
        move |section| {
            section.kind == update.kind && (update.kind != SectionKind::Other || section.name == name)
        }
    }

    fn replace(&mut self, update: &SectionUpdate<'_>) {
        let content = with_line_ends(update.content.trim_end(), self.crlf);
        let same = Self::is_updated_by(update);
        let Some(first) = self.sections.iter().position(&same) else { return self.insert(update) };
        let before: Vec<_> = self.sections.iter().filter(|p| same(p) && !is_empty(&p.content)).collect();
        let before = before.iter().map(|section| section.content.trim()).collect::<Vec<_>>().join("\n");
        if before == content.trim() {
            return;
        }
        let mut seen = 0;
        self.sections.retain(|section| {
            seen += usize::from(same(section));
            !same(section) || seen == 1
        });
        let is_last = first + 1 == self.sections.len();
        let end = self.line_end();
        if let Some(section) = self.sections.get_mut(first) {
            let after = section.content.get(section.content.trim_end().len()..).unwrap_or_default();
            let after = match after.matches('\n').count() {
                0 if is_last => after.to_owned(),
                0 | 1 if !is_last => end.repeat(2),
                _ => after.to_owned(),
            };
            end_with_newline(&mut section.heading);
            section.content = content + &after;
        }
    }

    /// Adds the entries of an update to a section.
    fn accumulate(&mut self, update: &SectionUpdate<'_>) {
        let same = Self::is_updated_by(update);
        // An empty section is replaced first; merging then only removes duplicates within the update.
        let filled = self.sections.iter().any(|section| same(section) && !is_empty(&section.content));
        if !filled {
            self.replace(update);
        }
        let content = with_line_ends(&update.content, self.crlf);
        let sections = self.sections.iter().enumerate().filter(|(_, section)| same(section));
        let mut parsed: Vec<_> =
            sections.map(|(i, section)| (i, list::EntryList::parse(&section.content))).collect();
        let mut all: Vec<&mut list::EntryList> = parsed.iter_mut().map(|(_, list)| list).collect();
        let notes = items::merge_entries(update.kind, &mut all, &content);
        self.notes.extend(notes.into_iter().map(|note| Warning::new(Some(update.kind.as_str()), note)));
        for (i, list) in parsed {
            if let (true, Some(section)) = (list.changed, self.sections.get_mut(i)) {
                end_with_newline(&mut section.heading);
                section.content = with_line_ends(&list.text(), self.crlf);
            }
        }
    }

    /// Inserts a missing section at its position in the section order.
    fn insert(&mut self, update: &SectionUpdate<'_>) {
        let end = self.line_end();
        let kind = update.kind;
        let inner = |section: &&EditableSection| {
            section.kind.level() == 3 && section.kind.position() < super::SECTION_ORDER.len()
        };
        let sibling = self.sections.iter().find(inner).map(|section| section.level);
        let has_container = self.sections.iter().any(|section| section.kind == SectionKind::Container);
        let level = match kind {
            SectionKind::Other | SectionKind::LeftOut => update.level,
            kind if kind.level() == 3 => sibling.unwrap_or(3),
            kind => kind.level(),
        };
        let unordered = super::SECTION_ORDER.len();
        let at = match kind.position() {
            position if position == unordered => self.sections.len(),
            position => {
                let mut positions = self.sections.iter().map(|section| section.kind.position());
                let later = positions.clone().position(|other| other > position && other < unordered);
                let after_earlier = positions.rposition(|other| other < position).map(|at| at + 1);
                later.or(after_earlier).unwrap_or(0)
            }
        };
        let name = match kind {
            SectionKind::Other => update.heading,
            kind => kind.as_str(),
        };
        // Empty lines surround the section, except at the end of the document.
        let blank = if at == self.sections.len() { "" } else { end };
        let content = with_line_ends(update.content.trim_end(), self.crlf) + end + blank;
        let mut new = vec![EditableSection::new(kind, name, level, end, content)];
        if level == 3 && kind.level() == 3 && sibling.is_none() && !has_container {
            let container = SectionKind::Container;
            new.insert(0, EditableSection::new(container, container.as_str(), 2, end, end.to_owned()));
        }
        match at.checked_sub(1).and_then(|before| self.sections.get_mut(before)) {
            Some(section) => end_with_blank_line(&mut section.content, end),
            None if !self.head.is_empty() => end_with_blank_line(&mut self.head, end),
            None => {}
        }
        self.sections.splice(at..at, new);
    }
}

fn end_with_blank_line(text: &mut String, end: &str) {
    if text.trim().is_empty() && text.contains('\n') {
        return;
    }
    end_with_newline(text);
    if !text.ends_with("\n\n") && !text.ends_with("\n\r\n") {
        text.push_str(end);
    }
}
