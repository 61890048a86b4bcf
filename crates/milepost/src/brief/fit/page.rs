//! The page as it stands on a rung: parts in their order, each with entries that are there, cut short, or gone.
//! What it costs is the sum of what has been weighed, so never more than the truth; entries are weighed, those that go
//! last first, when the page could fit without the others.

use std::borrow::Cow;
use std::ops::ControlFlow;

use super::super::{Kind, QUARTERS, TokenCounter};
use super::entry::{Entry, Shown, Way};
use super::folders::Folders;
use super::notice::{Telling, notice, word};
use super::{Flow, Landing, Omitted};

/// Text and what it costs.
#[derive(Debug, Clone)]
pub(super) struct Text<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) cost: u64,
}

/// A section.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    name: &'a str,
    heading: Text<'a>,
    /// What must be kept, heading included.
    pub(super) verbatim: Option<Text<'a>>,
    /// Its entries, in their order.
    entries: Vec<usize>,
    /// How many of them are there.
    live: usize,
    /// Whether they stand on one line.
    joined: bool,
    folders: Folders<'a>,
}

/// Everything, as it stands.
#[derive(Debug)]
pub(super) struct Page<'a> {
    counter: TokenCounter<'a>,
    budget: u64,
    whole: Option<&'a str>,
    pub(super) front: Text<'a>,
    pub(super) parts: Vec<Part<'a>>,
    pub(super) entries: Vec<Entry<'a>>,
    /// Entries that are not weighed, among others; the last is weighed first.
    unweighed: Vec<usize>,
    total: u64,
    /// Whether something is not all there.
    lossy: bool,
    /// How what is left out is told.
    pub(super) telling: Telling,
}

impl<'a> Page<'a> {
    pub(super) fn new(counter: TokenCounter<'a>, budget: u64, whole: Option<&'a str>, lines: usize) -> Self {
        // A name that is longer than what it leads to does not help.
        let whole = whole.filter(|command| counter.quarters(command) <= 4 * 28);
        Self {
            counter,
            budget,
            whole,
            front: Text { text: Cow::Borrowed(""), cost: 0 },
            parts: Vec::new(),
            entries: Vec::with_capacity(lines),
            unweighed: Vec::with_capacity(lines),
            total: 0,
            lossy: false,
            telling: Telling::Full,
        }
    }

    fn text(&self, text: impl Into<Cow<'a, str>>) -> Text<'a> {
        let text = text.into();
        Text { cost: self.counter.quarters(&text), text }
    }

    pub(super) fn set_front(&mut self, text: impl Into<Cow<'a, str>>) {
        let text = self.text(text);
        self.total = self.total + text.cost - self.front.cost;
        self.front = text;
    }

    /// Adds a part; one that must be kept comes as it stands.
    pub(super) fn add_part(
        &mut self,
        kind: Kind,
        name: &'a str,
        heading: &'a str,
        verbatim: Option<&'a str>,
    ) -> usize {
        let verbatim = verbatim.map(|text| self.text(ended(text)));
        self.total += verbatim.as_ref().map_or(0, |text| text.cost);
        let heading = self.text(if heading.is_empty() { Cow::Borrowed("") } else { ended(heading) });
        if kind == Kind::Container {
            self.total += heading.cost;
        }
        let (entries, folders) = (Vec::new(), Folders::default());
        self.parts.push(Part { kind, name, heading, verbatim, entries, live: 0, joined: false, folders });
        self.parts.len() - 1
    }

    /// Adds an entry to its part.
    pub(super) fn add_entry(&mut self, entry: Entry<'a>) {
        let Some(into) = self.parts.get_mut(entry.part) else { return };
        self.total += if into.live == 0 { into.heading.cost } else { 0 };
        into.live += 1;
        into.entries.push(self.entries.len());
        self.unweighed.push(self.entries.len());
        self.entries.push(entry);
    }

    /// Takes what must be kept apart, so that it can shrink; its heading stays while something is below it.
    pub(super) fn open(&mut self, part: usize) {
        let Some(part) = self.parts.get_mut(part) else { return };
        self.total -= part.verbatim.take().map_or(0, |text| text.cost);
    }

    /// Removes headings that only hold others.
    pub(super) fn drop_containers(&mut self) {
        for part in self.parts.iter_mut().filter(|part| part.kind == Kind::Container) {
            self.total -= part.heading.cost;
            part.heading = Text { text: Cow::Borrowed(""), cost: 0 };
        }
    }

    /// Quarters of a token, as far as they are known: all of them once everything that is there is weighed.
    pub(super) fn total(&self) -> u64 {
        self.total + self.notice().map_or(0, |notice| self.counter.quarters(&notice))
    }

    /// What is told of omissions, where there are some.
    fn notice(&self) -> Option<String> {
        // A page that was shrunk says so, whatever that took.
        let is_marked = matches!(self.telling, Telling::Marked | Telling::Shrunk);
        (self.lossy || is_marked).then(|| notice(&self.omitted(), self.whole, self.telling))
    }

    pub(super) fn tokens(&self) -> u64 {
        self.counter.whole(self.total())
    }

    /// Sets the order in which entries are weighed, from the last to the first.
    pub(super) fn weigh_last(&mut self, first: Vec<usize>) {
        self.unweighed = first;
    }

    /// Weighs everything that is there.
    pub(super) fn weigh_all(&mut self) {
        while let Some(at) = self.unweighed.pop() {
            self.weigh(at);
        }
    }

    /// Quarters of a token that an entry takes, once it is weighed.
    pub(super) fn cost(&self, at: usize) -> u64 {
        self.entries.get(at).map_or(0, Entry::cost)
    }

    fn weigh(&mut self, at: usize) {
        let Some(entry) = self.entries.get_mut(at).filter(|entry| !entry.is_weighed()) else { return };
        match entry.shown {
            Shown::Gone => {}
            Shown::Noted(place) | Shown::Path(place) => {
                let Some(part) = self.parts.get_mut(entry.part) else { return };
                let (name, folder) = part.folders.weigh(place, &self.counter);
                entry.set_cost(name);
                self.total += name + folder;
            }
            Shown::Whole | Shown::Cut => {
                entry.weigh(&self.counter);
                self.total += entry.cost();
                self.lossy |= entry.shown == Shown::Cut;
            }
        }
    }

    /// Ends the descent where it fits.
    pub(super) fn landed(&mut self) -> Flow {
        // What is told of omissions costs something too, but is not worth its words before the rest fits.
        while self.counter.whole(self.total) <= self.budget {
            if let Some(at) = self.unweighed.pop() {
                self.weigh(at);
                continue;
            }
            // Pieces together may cost a little less than each by itself.
            if self.tokens() > self.budget + self.budget / 32 {
                break;
            }
            let landing = self.landing();
            // A counter of somebody else's may see more in the whole than in its parts.
            if landing.tokens <= self.budget {
                return ControlFlow::Break(landing);
            }
            break;
        }
        ControlFlow::Continue(())
    }

    /// Does something to an entry that is a line of its own.
    pub(super) fn change(&mut self, at: usize, way: Way) {
        let Some(entry) = self.entries.get_mut(at).filter(|entry| entry.shown.is_line()) else { return };
        let before = entry.cost();
        entry.change(way, &self.counter);
        self.total = self.total + entry.cost() - before;
        self.lossy |= entry.shown == Shown::Cut;
    }

    /// What an entry that is weighed costs less after something.
    pub(super) fn saved(&self, at: usize, way: Way) -> u64 {
        self.entries.get(at).map_or(0, |entry| entry.saved(way, &self.counter))
    }

    /// Lets the lines of a part stand on one line, under a heading of one word.
    pub(super) fn densify(&mut self, part: usize) {
        let Some(into) = self.parts.get_mut(part).filter(|part| !part.joined) else { return };
        into.joined = true;
        let kind = into.kind;
        let entries = std::mem::take(&mut into.entries);
        entries.iter().for_each(|at| self.change(*at, Way::Joined));
        let new = word(kind).map(|word| self.text(format!("# {word}\n")));
        let Some(part) = self.parts.get_mut(part) else { return };
        part.entries = entries;
        let old = part.heading.cost;
        if let Some(new) = new.filter(|new| new.cost < old) {
            part.heading = new;
        }
        // The end of the line; files have lines of their own.
        let is_line = |at: &usize| self.entries.get(*at).is_some_and(|entry| entry.shown.is_line());
        if part.entries.iter().any(is_line) {
            part.heading.cost += QUARTERS;
        }
        if part.live > 0 {
            self.total = self.total + part.heading.cost - old;
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, at: usize) -> Flow {
        let Some(entry) = self.entries.get_mut(at) else { return ControlFlow::Continue(()) };
        let Some(part) = self.parts.get_mut(entry.part) else { return ControlFlow::Continue(()) };
        match entry.shown {
            Shown::Gone => return ControlFlow::Continue(()),
            Shown::Whole | Shown::Cut => {}
            Shown::Noted(place) | Shown::Path(place) => {
                if entry.is_weighed() {
                    self.total -= part.folders.unweigh(place);
                }
                part.folders.remove(place);
            }
        }
        self.total -= entry.cost();
        entry.shown = Shown::Gone;
        part.live -= 1;
        if part.live == 0 && part.kind != Kind::Container {
            self.total -= part.heading.cost;
        }
        self.lossy = true;
        self.landed()
    }

    /// Prepares the lines in which files will stand.
    pub(super) fn expect_files(&mut self) {
        for part in &mut self.parts {
            let entries = part.entries.iter().filter_map(|at| Some((*at, self.entries.get(*at)?)));
            part.folders.expect(entries.filter_map(|(at, entry)| Some((at, &entry.file.as_ref()?.path))));
        }
    }

    /// Puts a file among those of its folder, with what changed in it.
    pub(super) fn group(&mut self, at: usize) -> Flow {
        self.regroup(at, true)
    }

    /// Leaves of a file nothing but its path, among those of its folder.
    pub(super) fn leave_path(&mut self, at: usize) -> Flow {
        self.regroup(at, false)
    }

    fn regroup(&mut self, at: usize, noted: bool) -> Flow {
        let Some(entry) = self.entries.get_mut(at) else { return ControlFlow::Continue(()) };
        let Some(part) = self.parts.get_mut(entry.part) else { return ControlFlow::Continue(()) };
        let Some(file) = &entry.file else { return ControlFlow::Continue(()) };
        let was_weighed = entry.is_weighed();
        let cost = entry.cost();
        let place = match entry.shown {
            Shown::Whole | Shown::Cut => {
                let note = if noted { file.note() } else { Cow::Borrowed("") };
                let place = part.folders.add(at, file.path.clone(), note);
                // What changed in a file another time has to be told.
                if noted && place.is_none() {
                    return ControlFlow::Continue(());
                }
                place
            }
            Shown::Noted(place) if !noted => {
                part.folders.drop_note(place);
                if was_weighed {
                    self.total -= part.folders.unweigh(place);
                }
                Some(place)
            }
            _ => return ControlFlow::Continue(()),
        };
        self.lossy = true;
        self.total -= cost;
        match place {
            Some(place) => {
                entry.show(if noted { Shown::Noted(place) } else { Shown::Path(place) });
                if was_weighed {
                    self.weigh(at);
                }
            }
            // The same path twice is one.
            None => {
                part.live -= 1;
                entry.shown = Shown::Gone;
            }
        }
        self.landed()
    }

    /// The page as text, and what it lacks.
    pub(super) fn landing(&self) -> Landing {
        let mut out = String::with_capacity(usize::try_from(self.total).unwrap_or_default() + 256);
        out.push_str(&self.front.text);
        for part in &self.parts {
            if let Some(text) = &part.verbatim {
                out.push_str(&text.text);
            }
            if part.live > 0 || part.kind == Kind::Container {
                out.push_str(&part.heading.text);
            }
            let lines = part.entries.iter().filter_map(|at| self.entries.get(*at));
            out.extend(lines.filter(|entry| entry.shown.is_line()).map(Entry::text));
            if part.joined && part.live > 0 && !out.ends_with('\n') {
                out.truncate(out.trim_end_matches([';', ' ']).len());
                out.push('\n');
            }
            part.folders.write(&mut out);
        }
        out.extend(self.notice());
        Landing { tokens: self.counter.tokens(&out), markdown: out, omitted: self.omitted() }
    }

    /// Counts section by section what is gone and what is cut.
    fn omitted(&self) -> Vec<Omitted> {
        let mut found: Vec<Omitted> = Vec::new();
        for part in &self.parts {
            let entries = part.entries.iter().filter_map(|at| self.entries.get(*at));
            let (mut left_out, mut cut_short) = (0, 0);
            for entry in entries {
                left_out += u64::from(entry.shown == Shown::Gone);
                cut_short += u64::from(matches!(entry.shown, Shown::Cut | Shown::Noted(_) | Shown::Path(_)));
            }
            if left_out + cut_short > 0 {
                let (section, entries) = (part.name.to_owned(), part.entries.len() as u64);
                found.push(Omitted { kind: part.kind, section, entries, left_out, cut_short });
            }
        }
        found
    }
}

/// A text with the end of its last line, which what stands last in a document may lack.
fn ended(text: &str) -> Cow<'_, str> {
    if text.ends_with(['\n', '\r']) { Cow::Borrowed(text) } else { Cow::Owned([text, "\n"].concat()) }
}
