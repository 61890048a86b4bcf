//! Carry-forward: a brief and an update of it become one. Merging accumulates; only fitting compresses.
//! In: two briefs. Out: one. What the update does not change stays as it stands, byte for byte. Deltas, which other
//! tools append, are folded in and never written.

mod head;
mod items;
mod list;

use super::check;
use super::section::plain;
use super::{Brief, Kind, Section, Warning};

/// Two briefs made one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The result.
    pub brief: Brief,
    /// What the writer should know.
    pub notes: Vec<Warning>,
}

/// A section that may change.
#[derive(Debug, Clone)]
struct Piece {
    kind: Kind,
    name: String,
    level: u8,
    /// The heading's line.
    heading: String,
    content: String,
}

impl Piece {
    fn of(brief: &Brief, section: &Section) -> Self {
        Self {
            kind: section.kind,
            name: plain(&section.heading),
            level: section.level,
            heading: brief.slice(section.range.start..section.content.start).to_owned(),
            content: brief.content(section).to_owned(),
        }
    }
}

/// A document that may change.
struct Document {
    head: String,
    pieces: Vec<Piece>,
    tail: String,
    crlf: bool,
    notes: Vec<Warning>,
}

/// What one update says of a section.
struct Given<'a> {
    kind: Kind,
    heading: &'a str,
    level: u8,
    content: String,
}

pub(super) fn merge(previous: &Brief, update: &Brief) -> Merged {
    let mut document = Document::of(previous);
    let (given, deltas) = given(update);
    document.apply(&given);
    deltas.iter().for_each(|delta| document.apply(delta));
    document.head = head::merged(previous, update, &document.head, document.crlf);
    for kind in [Kind::State, Kind::Next] {
        if !given.iter().any(|g| g.kind == kind) && document.pieces.iter().any(|piece| piece.kind == kind) {
            document.notes.push(Warning::new(
                Some(kind.as_str()),
                "is not in the update: what stood there before is carried over",
            ));
        }
    }
    let notes = std::mem::take(&mut document.notes);
    Merged { brief: Brief::parse(document.text()), notes }
}

/// What a brief gives: its own sections, then those of each delta. Empty ones are not given.
fn given(brief: &Brief) -> (Vec<Given<'_>>, Vec<Vec<Given<'_>>>) {
    let mut own: Vec<Given<'_>> = Vec::new();
    let mut deltas: Vec<Vec<Given<'_>>> = Vec::new();
    let mut when = String::new();
    for (i, section) in brief.sections().iter().enumerate() {
        let before_delta = brief.sections().get(i + 1).is_some_and(|next| next.kind == Kind::Delta);
        let content = brief.content(section);
        let content = if before_delta { without_rule(content) } else { content };
        if section.kind == Kind::Delta {
            when = delta_name(&section.heading);
            deltas.push(Vec::new());
        }
        let said = !is_empty(content);
        let into =
            if section.in_delta || section.kind == Kind::Delta { deltas.last_mut() } else { Some(&mut own) };
        let Some(into) = into.filter(|_| said && section.kind != Kind::Container) else { continue };
        let (kind, content) = match section.kind {
            Kind::Delta | Kind::Changed => (Kind::Play, items::prose_as_steps(content, &when)),
            Kind::Transitions => (Kind::Play, items::transitions_as_steps(content)),
            kind => (kind, content.to_owned()),
        };
        // What replaces replaces all at once; what accumulates comes piece by piece.
        let same = |g: &&mut Given<'_>| {
            g.kind == kind && !accumulates(kind) && (kind != Kind::Other || g.heading == section.heading)
        };
        match into.iter_mut().find(same) {
            Some(first) => {
                end_line(&mut first.content);
                first.content.push_str(&content);
            }
            None => into.push(Given { kind, heading: &section.heading, level: section.level, content }),
        }
    }
    (own, deltas)
}

/// Whether a section grows entry by entry.
fn accumulates(kind: Kind) -> bool {
    matches!(kind, Kind::Decisions | Kind::Technical | Kind::Play | Kind::Artifacts | Kind::Breadcrumbs)
}

/// Whether content says nothing: none, or only that nothing is known, as a brief made of facts says it.
fn is_empty(content: &str) -> bool {
    let bare = content.trim();
    check::is_empty(content) || bare.starts_with("Unknown: ") && bare.lines().count() == 1
}

/// `Delta: 2026-01-01` is called by its date.
fn delta_name(heading: &str) -> String {
    heading.split_once(':').map_or("Delta", |(_, when)| when.trim()).to_owned()
}

/// Content without the line across that stands between it and a delta.
fn without_rule(content: &str) -> &str {
    let rest = content.trim_end().strip_suffix("---");
    rest.filter(|rest| rest.is_empty() || rest.ends_with('\n')).map_or(content, str::trim_end)
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

impl Document {
    /// A brief that may change, its deltas folded in.
    fn of(brief: &Brief) -> Self {
        let end = brief.sections().last().map_or(brief.first(), |last| last.range.end);
        let own = |section: &&Section| !section.in_delta && section.kind != Kind::Delta;
        let mut document = Self {
            head: brief.slice(0..brief.first()).to_owned(),
            pieces: brief.sections().iter().filter(own).map(|section| Piece::of(brief, section)).collect(),
            tail: brief.slice(end..brief.text().len()).to_owned(),
            crlf: brief.text().contains("\r\n"),
            notes: Vec::new(),
        };
        let (_, deltas) = given(brief);
        if brief.sections().iter().any(|section| section.kind == Kind::Delta) {
            // The line across that stands before a delta goes with it.
            if let Some(last) = document.pieces.last_mut() {
                let kept = without_rule(&last.content).len();
                if kept < last.content.len() {
                    last.content.truncate(kept);
                    end_line(&mut last.content);
                }
            }
            deltas.iter().for_each(|delta| document.apply(delta));
        }
        document
    }

    fn text(self) -> String {
        let mut text = self.head;
        for piece in &self.pieces {
            end_line(&mut text);
            text.push_str(&piece.heading);
            text.push_str(&piece.content);
        }
        if !self.tail.is_empty() {
            end_line(&mut text);
        }
        text + &self.tail
    }

    /// Text in this document's ends of line.
    fn local(&self, text: &str) -> String {
        let plain = text.replace("\r\n", "\n");
        if self.crlf { plain.replace('\n', "\r\n") } else { plain }
    }

    fn apply(&mut self, all: &[Given<'_>]) {
        for given in all {
            match accumulates(given.kind) {
                true => self.accumulate(given),
                false => self.replace(given),
            }
        }
    }

    fn same<'g>(given: &'g Given<'_>) -> impl Fn(&Piece) -> bool + 'g {
        let name = plain(given.heading);
        move |piece| piece.kind == given.kind && (given.kind != Kind::Other || piece.name == name)
    }

    /// Puts a section in the place of the one that stood there.
    fn replace(&mut self, given: &Given<'_>) {
        let content = self.local(given.content.trim_end());
        let same = Self::same(given);
        let Some(first) = self.pieces.iter().position(&same) else { return self.insert(given) };
        let before: Vec<_> = self.pieces.iter().filter(|p| same(p) && !is_empty(&p.content)).collect();
        let before = before.iter().map(|piece| piece.content.trim()).collect::<Vec<_>>().join("\n");
        if before == content.trim() {
            return;
        }
        let mut seen = 0;
        self.pieces.retain(|piece| {
            seen += usize::from(same(piece));
            !same(piece) || seen == 1
        });
        let is_last = first + 1 == self.pieces.len();
        let end = if self.crlf { "\r\n" } else { "\n" };
        if let Some(piece) = self.pieces.get_mut(first) {
            let after = piece.content.get(piece.content.trim_end().len()..).unwrap_or_default();
            let after = match after.matches('\n').count() {
                0 if is_last => after.to_owned(),
                0 | 1 if !is_last => end.repeat(2),
                _ => after.to_owned(),
            };
            end_line(&mut piece.heading);
            piece.content = content + &after;
        }
    }

    /// Adds to a section, entry by entry.
    fn accumulate(&mut self, given: &Given<'_>) {
        let same = Self::same(given);
        // What only holds a place gives way; what comes is settled with itself.
        let filled = self.pieces.iter().any(|piece| same(piece) && !is_empty(&piece.content));
        if !filled {
            self.replace(given);
        }
        let content = self.local(&given.content);
        let mut lists: Vec<_> = self.pieces.iter().enumerate().filter(|(_, piece)| same(piece)).collect();
        let mut parsed: Vec<_> = lists.drain(..).map(|(i, p)| (i, list::List::of(&p.content))).collect();
        let mut all: Vec<&mut list::List> = parsed.iter_mut().map(|(_, list)| list).collect();
        let notes = items::accumulate(given.kind, &mut all, &content);
        self.notes.extend(notes.into_iter().map(|note| Warning::new(Some(given.kind.as_str()), note)));
        for (i, list) in parsed {
            if let (true, Some(piece)) = (list.changed, self.pieces.get_mut(i)) {
                end_line(&mut piece.heading);
                piece.content = list.text();
                if self.crlf {
                    piece.content = piece.content.replace("\r\n", "\n").replace('\n', "\r\n");
                }
            }
        }
    }

    /// Adds a section that is not there, in the order of writing.
    fn insert(&mut self, given: &Given<'_>) {
        let end = if self.crlf { "\r\n" } else { "\n" };
        let kind = given.kind;
        let inner = |piece: &Piece| piece.kind.level() == 3 && piece.kind.place() < super::ORDER.len();
        let sibling = self.pieces.iter().find(|piece| inner(piece)).map(|piece| piece.level);
        let has_container = self.pieces.iter().any(|piece| piece.kind == Kind::Container);
        let level = match kind {
            Kind::Other | Kind::LeftOut => given.level,
            kind if kind.level() == 3 => sibling.unwrap_or(3),
            kind => kind.level(),
        };
        let at = match kind.place() {
            place if place == super::ORDER.len() => self.pieces.len(),
            place => {
                let later =
                    |piece: &Piece| piece.kind.place() > place && piece.kind.place() < super::ORDER.len();
                let earlier = |piece: &Piece| piece.kind.place() < place;
                let after_earlier = self.pieces.iter().rposition(earlier).map(|at| at + 1);
                self.pieces.iter().position(later).or(after_earlier).unwrap_or(0)
            }
        };
        let name = match kind {
            Kind::Other => given.heading,
            kind => kind.as_str(),
        };
        let content = self.local(given.content.trim_end());
        let mut new = vec![Piece {
            kind,
            name: plain(given.heading),
            level,
            heading: format!("{} {name}{end}", "#".repeat(usize::from(level.max(1)))),
            content: format!("{content}{end}{end}"),
        }];
        if level == 3 && kind.level() == 3 && sibling.is_none() && !has_container {
            new.insert(
                0,
                Piece {
                    kind: Kind::Container,
                    name: plain(Kind::Container.as_str()),
                    level: 2,
                    heading: format!("## {}{end}", Kind::Container.as_str()),
                    content: end.to_owned(),
                },
            );
        }
        // An empty line before it, and none too many at the end of the document.
        match at.checked_sub(1).and_then(|before| self.pieces.get_mut(before)) {
            Some(piece) => space_out(&mut piece.content, end),
            None if !self.head.is_empty() => space_out(&mut self.head, end),
            None => {}
        }
        if at == self.pieces.len()
            && let Some(last) = new.last_mut()
        {
            last.content = format!("{content}{end}");
        }
        self.pieces.splice(at..at, new);
    }
}

/// Ends text with an empty line.
fn space_out(text: &mut String, end: &str) {
    if text.trim().is_empty() && text.contains('\n') {
        return;
    }
    end_line(text);
    if !text.ends_with("\n\n") && !text.ends_with("\n\r\n") {
        text.push_str(end);
    }
}
