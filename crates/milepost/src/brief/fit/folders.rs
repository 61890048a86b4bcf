//! Files grouped by their folders, some with what changed in them: `- src/: a.rs: parses; b.rs, io/c.rs`. A folder with few
//! files stands in the line of the one at its top, or of none. Each path stands there once.

use std::borrow::Cow;

use foldhash::HashMap;

use super::super::TokenCounter;
use super::super::blocks::code_span;
use super::gather::in_one_line;

/// What a line costs beside its folder and names, in letters: one of its own has to save more.
const LINE: usize = 8;

/// Where a path stands: in which folder, and there where.
pub(super) type Place = (usize, usize);

/// A file in its folder.
#[derive(Debug)]
struct Name<'a> {
    name: Cow<'a, str>,
    /// What changed in it; may be empty.
    note: Cow<'a, str>,
}

/// Files of one folder, by their names.
#[derive(Debug)]
struct Folder<'a> {
    folder: Cow<'a, str>,
    /// None where it is gone.
    names: Vec<Option<Name<'a>>>,
    /// How many of them are there.
    live: usize,
    /// How many of them are weighed.
    weighed: usize,
    /// What the line costs without names, once one of them is weighed.
    cost: u64,
}

/// Where the files of a folder stand.
#[derive(Debug, Default)]
struct Home {
    files: usize,
    /// Where their paths are cut: behind the folder, behind the one at its top, or not at all.
    cut: usize,
    /// In which line, once one of them stands there.
    line: Option<usize>,
}

/// The lines of a section, in the order in which their first files came.
#[derive(Debug, Default)]
pub(super) struct Folders<'a> {
    all: Vec<Folder<'a>>,
    known: HashMap<Cow<'a, str>, usize>,
    homes: HashMap<Cow<'a, str>, Home>,
    /// Which entry of several tells of a path: the newest.
    owners: HashMap<Cow<'a, str>, usize>,
    /// Room to put together what is weighed.
    line: String,
}

impl<'a> Folders<'a> {
    /// Says which files there will be, entry by entry, so that folders with few of them share a line.
    pub(super) fn expect<'b>(&mut self, paths: impl Iterator<Item = (usize, &'b Cow<'a, str>)>)
    where
        'a: 'b,
    {
        let most = paths.size_hint().1.unwrap_or(0);
        self.homes.reserve(most);
        self.owners.reserve(most);
        for (entry, path) in paths {
            self.owners.insert(path.clone(), entry);
            self.homes.entry(split(path, folder_of(path).len()).0).or_default().files += 1;
        }
        let mut shared: HashMap<Cow<'a, str>, usize> = HashMap::default();
        for (folder, home) in &mut self.homes {
            let top = top_of(folder).len();
            if top < folder.len() && (home.files - 1) * (folder.len() - top) > top + LINE {
                home.cut = folder.len();
            } else {
                *shared.entry(split(folder, top).0).or_default() += home.files;
            }
        }
        for (folder, home) in self.homes.iter_mut().filter(|(_, home)| home.cut == 0) {
            let top = top_of(folder);
            home.cut = if shared.get(top).is_some_and(|files| *files > 1) { top.len() } else { 0 };
        }
    }

    /// Adds the path of an entry that was expected, with a note, unless a newer one tells of the same file.
    pub(super) fn add(&mut self, entry: usize, path: Cow<'a, str>, note: Cow<'a, str>) -> Option<Place> {
        if self.owners.get(&path) != Some(&entry) {
            return None;
        }
        let home = self.homes.get_mut(folder_of(&path))?;
        let (folder, mut name) = split(&path, home.cut);
        // Among others, a comma would make two of it, and a backtick would begin code.
        if name.contains([',', ';', '`']) {
            name = Cow::Owned(code_span(&name));
        }
        let note = if note.contains('\n') { Cow::Owned(in_one_line(&note)) } else { note };
        let n = *home.line.get_or_insert_with(|| {
            *self.known.entry(folder).or_insert_with_key(|folder| {
                let (names, live, weighed, cost) = (Vec::new(), 0, 0, 0);
                self.all.push(Folder { folder: folder.clone(), names, live, weighed, cost });
                self.all.len() - 1
            })
        });
        let folder = self.all.get_mut(n)?;
        folder.live += 1;
        folder.names.push(Some(Name { name, note }));
        Some((n, folder.names.len() - 1))
    }

    /// Lets a note go.
    pub(super) fn drop_note(&mut self, (folder, name): Place) {
        let name = self.all.get_mut(folder).and_then(|folder| folder.names.get_mut(name));
        if let Some(Some(name)) = name {
            name.note = Cow::Borrowed("");
        }
    }

    /// What a name costs with its note, and what its folder costs where nothing in it was weighed before.
    pub(super) fn weigh(&mut self, (folder, name): Place, counter: &TokenCounter<'_>) -> (u64, u64) {
        let Some(folder) = self.all.get_mut(folder) else { return (0, 0) };
        let Some(Some(name)) = folder.names.get(name) else { return (0, 0) };
        let mut cost = |parts: [&str; 4]| {
            self.line.clear();
            self.line.extend(parts);
            counter.quarters(&self.line)
        };
        let colon = if name.note.is_empty() { "" } else { ": " };
        let name = cost(["; ", &name.name, colon, &name.note]);
        folder.weighed += 1;
        if folder.weighed > 1 {
            return (name, 0);
        }
        folder.cost = cost(["- ", &folder.folder, ": \n", ""]);
        (name, folder.cost)
    }

    /// Takes a name off those that are weighed; gives what its folder cost if it was the last of them.
    pub(super) fn unweigh(&mut self, (folder, _): Place) -> u64 {
        let Some(folder) = self.all.get_mut(folder) else { return 0 };
        folder.weighed -= 1;
        if folder.weighed == 0 { folder.cost } else { 0 }
    }

    /// Removes a name that is not weighed.
    pub(super) fn remove(&mut self, (folder, name): Place) {
        if let Some(folder) = self.all.get_mut(folder)
            && folder.names.get_mut(name).and_then(Option::take).is_some()
        {
            folder.live -= 1;
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        for folder in self.all.iter().filter(|folder| folder.live > 0) {
            out.push_str("- ");
            out.push_str(&folder.folder);
            let mut between = if folder.folder.is_empty() { "" } else { ": " };
            for Name { name, note } in folder.names.iter().flatten() {
                out.push_str(between);
                out.push_str(name);
                between = ", ";
                if !note.is_empty() {
                    out.extend([": ", note]);
                    between = "; ";
                }
            }
            out.push('\n');
        }
    }
}

/// The folder of a path, with its slash; one whose marks would be misread has none.
fn folder_of(path: &str) -> &str {
    let end = match path.rfind('/') {
        Some(slash) if slash + 1 < path.len() && !path.bytes().any(|b| matches!(b, b',' | b':' | b';')) => {
            slash + 1
        }
        _ => 0,
    };
    path.get(..end).unwrap_or_default()
}

/// The first folder of several, with its slash.
fn top_of(folder: &str) -> &str {
    let root = usize::from(folder.starts_with('/'));
    let end = folder.get(root..).and_then(|rest| rest.find('/')).map_or(0, |slash| root + slash + 1);
    folder.get(..end).unwrap_or_default()
}

/// A path in two.
fn split<'a>(path: &Cow<'a, str>, at: usize) -> (Cow<'a, str>, Cow<'a, str>) {
    match path {
        Cow::Borrowed(path) => {
            let (folder, name) = path.split_at(at);
            (Cow::Borrowed(folder), Cow::Borrowed(name))
        }
        Cow::Owned(path) => {
            let (folder, name) = path.split_at(at);
            (Cow::Owned(folder.to_owned()), Cow::Owned(name.to_owned()))
        }
    }
}
