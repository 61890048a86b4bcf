//! Files grouped by their folders, some with what changed in them: `- src/: a.rs: parses; b.rs, c.rs`. Each path stands
//! there once.

use std::borrow::Cow;

use super::super::Gauge;
use super::seeded::{Map, Set};

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

/// The folders of a section, in the order in which their first files came.
#[derive(Debug, Default)]
pub(super) struct Folders<'a> {
    all: Vec<Folder<'a>>,
    known: Map<Cow<'a, str>, usize>,
    paths: Set<Cow<'a, str>>,
    /// Room to put together what is weighed.
    line: String,
}

impl<'a> Folders<'a> {
    /// Adds a path with a note, unless it stood there before; there will be no more than so many files.
    pub(super) fn add(&mut self, path: Cow<'a, str>, note: Cow<'a, str>, files: usize) -> Option<Place> {
        if self.paths.is_empty() {
            self.paths.reserve(files);
            self.known.reserve(files);
        }
        let (folder, name) = split(&path);
        if !self.paths.insert(path) {
            return None;
        }
        let n = *self.known.entry(folder).or_insert_with_key(|folder| {
            let (names, live, weighed, cost) = (Vec::new(), 0, 0, 0);
            self.all.push(Folder { folder: folder.clone(), names, live, weighed, cost });
            self.all.len() - 1
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
    pub(super) fn weigh(&mut self, (folder, name): Place, gauge: &Gauge<'_>) -> (u64, u64) {
        let Some(folder) = self.all.get_mut(folder) else { return (0, 0) };
        let Some(Some(name)) = folder.names.get(name) else { return (0, 0) };
        let mut cost = |parts: [&str; 4]| {
            self.line.clear();
            self.line.extend(parts);
            gauge.quarters(&self.line)
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

/// A path as a folder and a name; one whose marks would be misread has no folder.
fn split<'a>(path: &Cow<'a, str>) -> (Cow<'a, str>, Cow<'a, str>) {
    let at = match path.rfind('/') {
        Some(slash) if slash + 1 < path.len() && !path.bytes().any(|b| matches!(b, b',' | b':')) => slash + 1,
        _ => 0,
    };
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
