//! Files as paths, grouped by their folders: `- src/: a.rs, b.rs`. Each path stands there once.

use std::borrow::Cow;

use super::super::Gauge;
use super::seeded::{Map, Set};

/// Where a path stands: in which folder, and there where.
pub(super) type Place = (usize, usize);

/// Files of one folder, by their names.
#[derive(Debug)]
struct Folder<'a> {
    folder: Cow<'a, str>,
    /// None where it is gone.
    names: Vec<Option<Cow<'a, str>>>,
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
    /// Adds a path, unless it stood there before; there will be no more than so many files.
    pub(super) fn add(&mut self, path: Cow<'a, str>, files: usize) -> Option<Place> {
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
        folder.names.push(Some(name));
        Some((n, folder.names.len() - 1))
    }

    /// What a name costs, and what its folder costs where that has not been weighed yet.
    pub(super) fn weigh(&mut self, (folder, name): Place, gauge: &Gauge<'_>) -> (u64, u64) {
        let Some(folder) = self.all.get_mut(folder) else { return (0, 0) };
        let Some(Some(name)) = folder.names.get(name) else { return (0, 0) };
        let mut cost = |parts: [&str; 3]| {
            self.line.clear();
            self.line.extend(parts);
            gauge.quarters(&self.line)
        };
        let name = cost([", ", name, ""]);
        folder.weighed += 1;
        if folder.weighed > 1 {
            return (name, 0);
        }
        folder.cost = cost(["- ", &folder.folder, ": \n"]);
        (name, folder.cost)
    }

    /// Removes a name; of one that is weighed, gives back what its folder cost if it was the last of them.
    pub(super) fn remove(&mut self, (folder, name): Place, is_weighed: bool) -> u64 {
        let Some(folder) = self.all.get_mut(folder) else { return 0 };
        if folder.names.get_mut(name).and_then(Option::take).is_none() {
            return 0;
        }
        folder.live -= 1;
        folder.weighed -= usize::from(is_weighed);
        if is_weighed && folder.weighed == 0 { folder.cost } else { 0 }
    }

    pub(super) fn write(&self, out: &mut String) {
        for folder in self.all.iter().filter(|folder| folder.live > 0) {
            out.push_str("- ");
            out.push_str(&folder.folder);
            let mut between = if folder.folder.is_empty() { "" } else { ": " };
            for name in folder.names.iter().flatten() {
                out.push_str(between);
                out.push_str(name);
                between = ", ";
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
