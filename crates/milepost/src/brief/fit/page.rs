//! The page as it stands on a rung: parts in their order, each with entries that are there, cut short, or gone.
//! Costs are kept per piece and summed as pieces change, so that a rung costs what it changes and no more.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::super::{Gauge, Kind, QUARTERS};
use super::{Omitted, Rank};

/// Text and what it costs.
#[derive(Debug, Clone)]
pub(super) struct Text<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) cost: u64,
}

/// How an entry is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of it.
    Whole,
    /// In part.
    Cut,
    /// Its path, among those of its folder.
    Path,
    /// Not at all.
    Gone,
}

#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) text: Text<'a>,
    pub(super) rank: Rank,
    pub(super) shown: Shown,
    pub(super) part: usize,
    /// The path, of a file.
    pub(super) path: Option<String>,
    /// Where its path stands: in which folder, and there where.
    place: (usize, usize),
}

/// Files of one folder, by their names.
#[derive(Debug, Default)]
struct Folder {
    folder: String,
    /// With what each costs; none where it is gone.
    names: Vec<Option<(String, u64)>>,
    live: usize,
    cost: u64,
}

/// A section.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) kind: Kind,
    pub(super) name: Cow<'a, str>,
    pub(super) heading: Text<'a>,
    /// What must be kept, heading included.
    pub(super) verbatim: Option<Text<'a>>,
    /// Its entries, in their order.
    pub(super) entries: Vec<usize>,
    /// How many of them are there.
    live: usize,
    /// Whether they stand on one line.
    joined: bool,
    folders: Vec<Folder>,
    /// Which folder is where.
    known: HashMap<String, usize>,
    /// The paths that stand there.
    paths: HashSet<String>,
}

/// Everything, as it stands.
#[derive(Debug)]
pub(super) struct Page<'a> {
    gauge: Gauge<'a>,
    budget: u64,
    whole: Option<String>,
    pub(super) front: Text<'a>,
    pub(super) parts: Vec<Part<'a>>,
    pub(super) entries: Vec<Entry<'a>>,
    total: u64,
    /// Whether something is not all there.
    lossy: bool,
    /// Whether what is left out is told in few words.
    pub(super) brief_notice: bool,
    pub(super) shrunk: bool,
    /// What telling it costs at most, in many words and in few.
    notices: [u64; 2],
}

impl<'a> Page<'a> {
    pub(super) fn new(gauge: Gauge<'a>, budget: u64, whole: Option<&str>) -> Self {
        // A name that is longer than what it leads to does not help.
        let whole = whole.filter(|command| gauge.quarters(command) <= 4 * 28).map(str::to_owned);
        Self {
            gauge,
            budget,
            whole,
            front: Text { text: Cow::Borrowed(""), cost: 0 },
            parts: Vec::new(),
            entries: Vec::new(),
            total: 0,
            lossy: false,
            brief_notice: false,
            shrunk: false,
            notices: [0; 2],
        }
    }

    pub(super) fn text(&self, text: impl Into<Cow<'a, str>>) -> Text<'a> {
        let text = text.into();
        Text { cost: self.gauge.quarters(&text), text }
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
        let verbatim = verbatim.map(|text| self.text(text));
        self.total += verbatim.as_ref().map_or(0, |text| text.cost);
        let heading = self.text(heading);
        if kind == Kind::Container {
            self.total += heading.cost;
        }
        let part = Part {
            kind,
            name: Cow::Borrowed(name),
            heading,
            verbatim,
            entries: Vec::new(),
            live: 0,
            joined: false,
            folders: Vec::new(),
            known: HashMap::new(),
            paths: HashSet::new(),
        };
        self.parts.push(part);
        self.parts.len() - 1
    }

    /// Adds an entry to a part.
    pub(super) fn add_entry(&mut self, part: usize, rank: Rank, text: Cow<'a, str>, path: Option<String>) {
        let text = self.text(text);
        let Some(into) = self.parts.get_mut(part) else { return };
        self.total += text.cost + if into.live == 0 { into.heading.cost } else { 0 };
        into.live += 1;
        into.entries.push(self.entries.len());
        self.entries.push(Entry { text, rank, shown: Shown::Whole, part, path, place: (0, 0) });
    }

    /// Takes what must be kept apart, so that it can shrink; its heading stays while something is below it.
    pub(super) fn open(&mut self, part: usize) {
        let Some(part) = self.parts.get_mut(part) else { return };
        self.total -= part.verbatim.take().map_or(0, |text| text.cost);
    }

    /// Removes a heading that only holds others.
    pub(super) fn drop_heading(&mut self, part: usize) {
        if let Some(part) = self.parts.get_mut(part)
            && part.kind == Kind::Container
        {
            self.total -= part.heading.cost;
            part.heading = Text { text: Cow::Borrowed(""), cost: 0 };
        }
    }

    /// Fixes what telling of omissions costs at most, once all entries are known.
    pub(super) fn reserve(&mut self) {
        let most = |page: &Self, shrunk: bool, brief: bool| {
            let all: Vec<_> = page.possible();
            page.gauge.quarters(&page.notice_of(&all, shrunk, brief))
        };
        let brief = most(self, false, true).max(most(self, true, true));
        self.notices = [most(self, false, false).max(brief), brief];
    }

    fn notice_cost(&self) -> u64 {
        match (self.lossy, self.brief_notice) {
            (false, _) => 0,
            (true, brief) => self.notices[usize::from(brief)],
        }
    }

    /// Quarters of a token, at most.
    pub(super) fn total(&self) -> u64 {
        self.total + self.notice_cost()
    }

    pub(super) fn tokens(&self) -> u64 {
        self.gauge.whole(self.total())
    }

    /// Ends the descent where it fits.
    pub(super) fn landed(&self) -> ControlFlow<()> {
        let fits = self.tokens() <= self.budget;
        // A counter of somebody else's may see more in the whole than in its parts.
        if fits && self.gauge.tokens(&self.markdown()) <= self.budget {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// Whether it does not fit even without some entries: then how they are cut before they go makes no difference.
    pub(super) fn exceeds_without(&self, entries: &[usize]) -> bool {
        let all: u64 =
            entries.iter().filter_map(|at| self.entries.get(*at)).map(|entry| entry.text.cost).sum();
        let headings: u64 = self.parts.iter().map(|part| part.heading.cost).sum();
        self.gauge.whole(self.total().saturating_sub(all + headings)) > self.budget
    }

    /// Cuts an entry short, where that makes it cheaper.
    pub(super) fn cut(&mut self, at: usize, text: String) -> ControlFlow<()> {
        let text = self.text(text);
        let Some(entry) = self.entries.get_mut(at) else { return ControlFlow::Continue(()) };
        if !matches!(entry.shown, Shown::Whole | Shown::Cut) || text.cost >= entry.text.cost {
            return ControlFlow::Continue(());
        }
        self.total -= entry.text.cost - text.cost;
        entry.text = text;
        entry.shown = Shown::Cut;
        self.lossy = true;
        self.landed()
    }

    /// Lets the entries of a part stand on one line, under a heading of its own where one is given.
    pub(super) fn join(&mut self, part: usize, heading: Option<&'static str>) {
        let Some(entries) = self.parts.get(part).filter(|part| !part.joined).map(|part| part.entries.clone())
        else {
            return;
        };
        for at in entries {
            let Some(entry) = self.entries.get(at) else { continue };
            let line = entry.text.text.trim_end();
            if !matches!(entry.shown, Shown::Whole | Shown::Cut) || line.contains('\n') {
                continue;
            }
            let bare = ["- ", "* ", "+ "].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
            let text = self.text(format!("{}; ", bare.unwrap_or(line).trim_end_matches(['.', ';'])));
            if let Some(entry) = self.entries.get_mut(at) {
                self.total = self.total + text.cost - entry.text.cost;
                entry.text = text;
            }
        }
        let new = heading.map(|heading| self.text(heading));
        if let Some(part) = self.parts.get_mut(part) {
            let old = part.heading.cost;
            part.joined = true;
            part.heading = new.filter(|new| new.cost < old).unwrap_or_else(|| part.heading.clone());
            // The end of the line.
            part.heading.cost += QUARTERS;
            if part.live > 0 {
                self.total = self.total + part.heading.cost - old;
            }
        }
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, at: usize) -> ControlFlow<()> {
        let Some(entry) = self.entries.get_mut(at) else { return ControlFlow::Continue(()) };
        let Some(part) = self.parts.get_mut(entry.part) else { return ControlFlow::Continue(()) };
        match entry.shown {
            Shown::Gone => return ControlFlow::Continue(()),
            Shown::Whole | Shown::Cut => self.total -= entry.text.cost,
            Shown::Path => {
                let (folder, name) = entry.place;
                let Some(folder) = part.folders.get_mut(folder) else { return ControlFlow::Continue(()) };
                let name = folder.names.get_mut(name).and_then(Option::take);
                folder.live -= 1;
                self.total -=
                    name.map_or(0, |(_, cost)| cost) + if folder.live == 0 { folder.cost } else { 0 };
            }
        }
        entry.shown = Shown::Gone;
        part.live -= 1;
        if part.live == 0 && part.kind != Kind::Container {
            self.total -= part.heading.cost;
        }
        self.lossy = true;
        self.landed()
    }

    /// Leaves of a file nothing but its path, among those of its folder.
    pub(super) fn leave_path(&mut self, at: usize) -> ControlFlow<()> {
        let gauge = self.gauge;
        let Some(entry) = self.entries.get_mut(at) else { return ControlFlow::Continue(()) };
        let Some(part) = self.parts.get_mut(entry.part) else { return ControlFlow::Continue(()) };
        let Some(path) = entry.path.as_deref().filter(|_| matches!(entry.shown, Shown::Whole | Shown::Cut))
        else {
            return ControlFlow::Continue(());
        };
        let (folder, name) = match path.rfind('/') {
            Some(slash) if slash + 1 < path.len() && !path.contains([',', ':']) => path.split_at(slash + 1),
            _ => ("", path),
        };
        self.total -= entry.text.cost;
        self.lossy = true;
        // The same path twice is one.
        if !part.paths.insert(path.to_owned()) {
            part.live -= 1;
            entry.shown = Shown::Gone;
            return self.landed();
        }
        let n = *part.known.entry(folder.to_owned()).or_insert_with(|| {
            part.folders.push(Folder { folder: folder.to_owned(), ..Folder::default() });
            part.folders.len() - 1
        });
        let Some(into) = part.folders.get_mut(n) else { return ControlFlow::Continue(()) };
        if into.live == 0 {
            into.cost = gauge.quarters(&format!("- {folder}: \n"));
            self.total += into.cost;
        }
        let cost = gauge.quarters(&format!(", {name}"));
        entry.shown = Shown::Path;
        entry.place = (n, into.names.len());
        into.names.push(Some((name.to_owned(), cost)));
        into.live += 1;
        self.total += cost;
        self.landed()
    }

    /// The page as text.
    pub(super) fn markdown(&self) -> String {
        let mut out = String::with_capacity(usize::try_from(self.total).unwrap_or_default() + 256);
        out.push_str(&self.front.text);
        for part in &self.parts {
            if let Some(text) = &part.verbatim {
                out.push_str(&text.text);
            }
            if part.live > 0 || part.kind == Kind::Container {
                out.push_str(&part.heading.text);
            }
            for at in &part.entries {
                if let Some(entry) = self.entries.get(*at)
                    && matches!(entry.shown, Shown::Whole | Shown::Cut)
                {
                    out.push_str(&entry.text.text);
                }
            }
            if part.joined && part.live > 0 && !out.ends_with('\n') {
                out.truncate(out.trim_end_matches([';', ' ']).len());
                out.push('\n');
            }
            for folder in part.folders.iter().filter(|folder| folder.live > 0) {
                let names: Vec<_> = folder.names.iter().flatten().map(|(name, _)| name.as_str()).collect();
                let colon = if folder.folder.is_empty() { "" } else { ": " };
                out.push_str(&format!("- {}{colon}{}\n", folder.folder, names.join(", ")));
            }
        }
        if self.lossy {
            out.push_str(&self.notice_of(&self.omitted(), self.shrunk, self.brief_notice));
        }
        out
    }

    /// What is not all there, section by section.
    pub(super) fn omitted(&self) -> Vec<Omitted> {
        self.count(|entry| (entry.shown == Shown::Gone, matches!(entry.shown, Shown::Cut | Shown::Path)))
    }

    /// The most that can be left out.
    fn possible(&self) -> Vec<Omitted> {
        self.count(|_| (true, true))
    }

    fn count(&self, how: impl Fn(&Entry<'_>) -> (bool, bool)) -> Vec<Omitted> {
        let mut found: Vec<Omitted> = Vec::new();
        for part in &self.parts {
            let entries = part.entries.iter().filter_map(|at| self.entries.get(*at));
            let (mut left_out, mut cut_short) = (0, 0);
            for (gone, cut) in entries.map(&how) {
                left_out += u64::from(gone);
                cut_short += u64::from(cut);
            }
            if left_out + cut_short > 0 {
                let entries = part.entries.len() as u64;
                found.push(Omitted { section: part.name.to_string(), entries, left_out, cut_short });
            }
        }
        found
    }

    /// What is told at the end of the page.
    fn notice_of(&self, omitted: &[Omitted], shrunk: bool, brief: bool) -> String {
        const NAMED: usize = 6;
        let command =
            self.whole.as_deref().map_or("see the original".to_owned(), |whole| format!("`{whole}`"));
        if shrunk {
            let lines: u64 = omitted.iter().map(|o| o.left_out + o.cut_short).sum();
            return format!("# Left Out\nShrunk, {lines} lines: {command}\n");
        }
        let mut told: Vec<String> = Vec::new();
        for o in omitted.iter().take(NAMED) {
            let name: String = o.section.chars().take(32).collect();
            told.push(match (brief, o.left_out, o.cut_short) {
                (true, gone, cut) => format!("{name} {}", gone + cut),
                (false, 0, cut) => format!("{name} {cut} cut"),
                (false, gone, 0) => format!("{name} {gone} of {}", o.entries),
                (false, gone, cut) => format!("{name} {gone} of {}, {cut} cut", o.entries),
            });
        }
        if omitted.len() > NAMED {
            told.push(format!("{} more sections", omitted.len() - NAMED));
        }
        format!("## Left Out\n{}; all: {command}\n", told.join("; "))
    }
}
