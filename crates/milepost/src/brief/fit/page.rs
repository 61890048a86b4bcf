//! The page being fitted: parts in order, each with entries that are shown in full, shortened or removed. The
//! total includes only the entries counted so far, so it is a lower bound on the real cost. Counting starts
//! with the entries that are removed last and stops as soon as the total exceeds the budget.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::super::{QUARTERS_PER_TOKEN, SectionKind, TokenCounter};
use super::entry::{Entry, Shortening, Visibility};
use super::folders::Folders;
use super::notice::{NoticeDetail, format_notice, short_section_name};
use super::{FitFlow, Omitted, RenderedPage};

/// A text and its cost in quarters of a token.
#[derive(Debug, Clone)]
pub(super) struct CountedText<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) cost: u64,
}

#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) kind: SectionKind,
    name: &'a str,
    heading: CountedText<'a>,
    /// The source of a section that must be kept, heading included.
    pub(super) verbatim: Option<CountedText<'a>>,
    entries: Vec<usize>,
    /// Number of entries that are not removed.
    shown: usize,
    joined: bool,
    folders: Folders<'a>,
}

#[derive(Debug)]
pub(super) struct Page<'a> {
    counter: TokenCounter<'a>,
    budget: u64,
    full_command: Option<&'a str>,
    pub(super) front_matter: CountedText<'a>,
    pub(super) parts: Vec<Part<'a>>,
    pub(super) entries: Vec<Entry<'a>>,
    /// Entries that may not be counted yet, counted from the last to the first.
    uncounted: Vec<usize>,
    total: u64,
    /// Whether anything was shortened or removed.
    lossy: bool,
    pub(super) notice_detail: NoticeDetail,
}

impl<'a> Page<'a> {
    pub(super) fn new(
        counter: TokenCounter<'a>,
        budget: u64,
        command: Option<&'a str>,
        lines: usize,
    ) -> Self {
        // A very long command is not worth its tokens.
        let full_command = command.filter(|command| counter.quarters(command) <= 4 * 28);
        Self {
            counter,
            budget,
            full_command,
            front_matter: CountedText { text: Cow::Borrowed(""), cost: 0 },
            parts: Vec::new(),
            entries: Vec::with_capacity(lines),
            uncounted: Vec::with_capacity(lines),
            total: 0,
            lossy: false,
            notice_detail: NoticeDetail::Full,
        }
    }

    fn count_text(&self, text: impl Into<Cow<'a, str>>) -> CountedText<'a> {
        let text = text.into();
        CountedText { cost: self.counter.quarters(&text), text }
    }

    pub(super) fn set_front_matter(&mut self, text: impl Into<Cow<'a, str>>) {
        let text = self.count_text(text);
        self.total = self.total + text.cost - self.front_matter.cost;
        self.front_matter = text;
    }

    /// Adds a part; `verbatim` is the source of a section that must be kept.
    pub(super) fn add_part(
        &mut self,
        kind: SectionKind,
        name: &'a str,
        heading: &'a str,
        verbatim: Option<&'a str>,
    ) -> usize {
        let verbatim = verbatim.map(|text| self.count_text(with_final_newline(text)));
        self.total += verbatim.as_ref().map_or(0, |text| text.cost);
        let heading =
            self.count_text(if heading.is_empty() { Cow::Borrowed("") } else { with_final_newline(heading) });
        if kind == SectionKind::Container {
            self.total += heading.cost;
        }
        let (entries, folders) = (Vec::new(), Folders::default());
        self.parts.push(Part { kind, name, heading, verbatim, entries, shown: 0, joined: false, folders });
        self.parts.len() - 1
    }

    pub(super) fn add_entry(&mut self, entry: Entry<'a>) {
        let Some(into) = self.parts.get_mut(entry.part) else { return };
        self.total += if into.shown == 0 { into.heading.cost } else { 0 };
        into.shown += 1;
        into.entries.push(self.entries.len());
        self.uncounted.push(self.entries.len());
        self.entries.push(entry);
    }

    /// Removes a part's verbatim text, so that entries can replace it.
    pub(super) fn clear_verbatim(&mut self, part: usize) {
        let Some(part) = self.parts.get_mut(part) else { return };
        self.total -= part.verbatim.take().map_or(0, |text| text.cost);
    }

    pub(super) fn drop_containers(&mut self) {
        for part in self.parts.iter_mut().filter(|part| part.kind == SectionKind::Container) {
            self.total -= part.heading.cost;
            part.heading = CountedText { text: Cow::Borrowed(""), cost: 0 };
        }
    }

    /// The cost of all counted entries and the notice, in quarters of a token.
    pub(super) fn total_quarters(&self) -> u64 {
        self.total + self.omission_notice().map_or(0, |notice| self.counter.quarters(&notice))
    }

    fn omission_notice(&self) -> Option<String> {
        // A shrunk page always has a notice.
        let is_marked = matches!(self.notice_detail, NoticeDetail::BriefShrunk | NoticeDetail::Minimal);
        (self.lossy || is_marked)
            .then(|| format_notice(&self.count_omissions(), self.full_command, self.notice_detail))
    }

    pub(super) fn tokens(&self) -> u64 {
        self.counter.round_up(self.total_quarters())
    }

    /// Sets the order in which entries are counted, from the last to the first.
    pub(super) fn set_count_order(&mut self, first: Vec<usize>) {
        self.uncounted = first;
    }

    pub(super) fn count_all_entries(&mut self) {
        while let Some(at) = self.uncounted.pop() {
            self.count_entry(at);
        }
    }

    /// The cost of an entry in quarters of a token; 0 until it is counted.
    pub(super) fn cost(&self, at: usize) -> u64 {
        self.entries.get(at).map_or(0, Entry::cost)
    }

    fn count_entry(&mut self, at: usize) {
        let Some(entry) = self.entries.get_mut(at).filter(|entry| !entry.is_counted()) else { return };
        match entry.visibility {
            Visibility::Removed => {}
            Visibility::FolderNote(slot) | Visibility::FolderPath(slot) => {
                let Some(part) = self.parts.get_mut(entry.part) else { return };
                let (name, folder) = part.folders.count_tokens(slot, &self.counter);
                entry.set_cost(name);
                self.total += name + folder;
            }
            Visibility::Full | Visibility::Shortened => {
                entry.count_tokens(&self.counter);
                self.total += entry.cost();
                self.lossy |= entry.visibility == Visibility::Shortened;
            }
        }
    }

    /// Breaks with the rendered page if it fits.
    pub(super) fn stop_if_fits(&mut self) -> FitFlow {
        // The notice costs tokens too, but it only matters once the rest fits.
        while self.counter.round_up(self.total) <= self.budget {
            if let Some(at) = self.uncounted.pop() {
                self.count_entry(at);
                continue;
            }
            // The rendered page may cost slightly less than the sum of its parts.
            if self.tokens() > self.budget + self.budget / 32 {
                break;
            }
            let rendered = self.render();
            // A custom tokenizer may count more for the whole page than for its parts.
            if rendered.tokens <= self.budget {
                return ControlFlow::Break(rendered);
            }
            break;
        }
        ControlFlow::Continue(())
    }

    pub(super) fn shorten_entry(&mut self, at: usize, shortening: Shortening) {
        let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.visibility.is_own_line()) else {
            return;
        };
        let before = entry.cost();
        entry.shorten(shortening, &self.counter);
        self.total = self.total + entry.cost() - before;
        self.lossy |= entry.visibility == Visibility::Shortened;
    }

    /// The cost that a shortening would save on a counted entry.
    pub(super) fn savings(&self, at: usize, shortening: Shortening) -> u64 {
        self.entries.get(at).map_or(0, |entry| entry.savings(shortening, &self.counter))
    }

    /// Joins the lines of a part into one line, under a one-word heading.
    pub(super) fn compact_part(&mut self, part: usize) {
        let Some(into) = self.parts.get_mut(part).filter(|part| !part.joined) else { return };
        into.joined = true;
        let kind = into.kind;
        let entries = std::mem::take(&mut into.entries);
        entries.iter().for_each(|at| self.shorten_entry(*at, Shortening::JoinLines));
        let new = short_section_name(kind).map(|word| self.count_text(format!("# {word}\n")));
        let Some(part) = self.parts.get_mut(part) else { return };
        part.entries = entries;
        let old = part.heading.cost;
        if let Some(new) = new.filter(|new| new.cost < old) {
            part.heading = new;
        }
        // The newline of the joined line; the cost of folder lines includes theirs.
        let is_line = |at: &usize| self.entries.get(*at).is_some_and(|entry| entry.visibility.is_own_line());
        if part.entries.iter().any(is_line) {
            part.heading.cost += QUARTERS_PER_TOKEN;
        }
        if part.shown > 0 {
            self.total = self.total + part.heading.cost - old;
        }
    }

    pub(super) fn remove_entry(&mut self, at: usize) -> FitFlow {
        let Some(entry) = self.entries.get_mut(at) else { return ControlFlow::Continue(()) };
        let Some(part) = self.parts.get_mut(entry.part) else { return ControlFlow::Continue(()) };
        match entry.visibility {
            Visibility::Removed => return ControlFlow::Continue(()),
            Visibility::Full | Visibility::Shortened => {}
            Visibility::FolderNote(slot) | Visibility::FolderPath(slot) => {
                if entry.is_counted() {
                    self.total -= part.folders.uncount_tokens(slot);
                }
                part.folders.remove(slot);
            }
        }
        self.total -= entry.cost();
        entry.visibility = Visibility::Removed;
        part.shown -= 1;
        if part.shown == 0 && part.kind != SectionKind::Container {
            self.total -= part.heading.cost;
        }
        self.lossy = true;
        self.stop_if_fits()
    }

    pub(super) fn plan_folder_lines(&mut self) {
        for part in &mut self.parts {
            let entries = part.entries.iter().filter_map(|at| Some((*at, self.entries.get(*at)?)));
            part.folders.plan_lines(entries.filter_map(|(at, entry)| Some((at, &entry.file.as_ref()?.path))));
        }
    }

    /// Moves a file into its folder's line, with a note on what changed.
    pub(super) fn group_file(&mut self, at: usize) -> FitFlow {
        self.move_to_folder(at, true)
    }

    /// Reduces a file to its path in its folder's line.
    pub(super) fn keep_only_path(&mut self, at: usize) -> FitFlow {
        self.move_to_folder(at, false)
    }

    fn move_to_folder(&mut self, at: usize, with_note: bool) -> FitFlow {
        let Some(entry) = self.entries.get_mut(at) else { return ControlFlow::Continue(()) };
        let Some(part) = self.parts.get_mut(entry.part) else { return ControlFlow::Continue(()) };
        let Some(file) = &entry.file else { return ControlFlow::Continue(()) };
        let was_counted = entry.is_counted();
        let cost = entry.cost();
        let slot = match entry.visibility {
            Visibility::Full | Visibility::Shortened => {
                let note = if with_note { file.folder_note() } else { Cow::Borrowed("") };
                let slot = part.folders.add_file(at, file.path.clone(), note);
                // An older entry for the same file keeps its own line.
                if with_note && slot.is_none() {
                    return ControlFlow::Continue(());
                }
                slot
            }
            Visibility::FolderNote(slot) if !with_note => {
                part.folders.drop_note(slot);
                if was_counted {
                    self.total -= part.folders.uncount_tokens(slot);
                }
                Some(slot)
            }
            _ => return ControlFlow::Continue(()),
        };
        self.lossy = true;
        self.total -= cost;
        match slot {
            Some(slot) => {
                entry.set_visibility(if with_note {
                    Visibility::FolderNote(slot)
                } else {
                    Visibility::FolderPath(slot)
                });
                if was_counted {
                    self.count_entry(at);
                }
            }
            // A newer entry already shows this path.
            None => {
                part.shown -= 1;
                entry.visibility = Visibility::Removed;
            }
        }
        self.stop_if_fits()
    }

    /// Renders the page and lists what was omitted.
    pub(super) fn render(&self) -> RenderedPage {
        let mut out = String::with_capacity(usize::try_from(self.total).unwrap_or_default() + 256);
        out.push_str(&self.front_matter.text);
        for part in &self.parts {
            if let Some(text) = &part.verbatim {
                out.push_str(&text.text);
            }
            if part.shown > 0 || part.kind == SectionKind::Container {
                out.push_str(&part.heading.text);
            }
            let lines = part.entries.iter().filter_map(|at| self.entries.get(*at));
            out.extend(lines.filter(|entry| entry.visibility.is_own_line()).map(Entry::text));
            if part.joined && part.shown > 0 && !out.ends_with('\n') {
                out.truncate(out.trim_end_matches([';', ' ']).len());
                out.push('\n');
            }
            part.folders.write(&mut out);
        }
        out.extend(self.omission_notice());
        RenderedPage { tokens: self.counter.tokens(&out), markdown: out, omitted: self.count_omissions() }
    }

    /// Counts the removed and the shortened entries of each section.
    fn count_omissions(&self) -> Vec<Omitted> {
        let mut found: Vec<Omitted> = Vec::new();
        for part in &self.parts {
            let entries = part.entries.iter().filter_map(|at| self.entries.get(*at));
            let (mut left_out, mut cut_short) = (0, 0);
            for entry in entries {
                left_out += u64::from(entry.visibility == Visibility::Removed);
                cut_short += u64::from(matches!(
                    entry.visibility,
                    Visibility::Shortened | Visibility::FolderNote(_) | Visibility::FolderPath(_)
                ));
            }
            if left_out + cut_short > 0 {
                let (section, entries) = (part.name.to_owned(), part.entries.len() as u64);
                found.push(Omitted { kind: part.kind, section, entries, left_out, cut_short });
            }
        }
        found
    }
}

/// Adds a newline if it is missing, as it may be at the end of a document.
fn with_final_newline(text: &str) -> Cow<'_, str> {
    if text.ends_with(['\n', '\r']) { Cow::Borrowed(text) } else { Cow::Owned([text, "\n"].concat()) }
}
