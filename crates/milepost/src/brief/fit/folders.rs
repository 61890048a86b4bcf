//! Groups files by folder, with notes on what changed: `- src/: a.rs: parses; b.rs, io/c.rs`. A folder with
//! few files shares the line of its top-level folder, or a line of full paths. Each path appears once.

use std::borrow::Cow;

use foldhash::HashMap;

use super::super::TokenCounter;
use super::super::blocks::{code_span, join_words};

/// The overhead of a folder line in bytes; a separate line must save more than this.
const LINE_OVERHEAD: usize = 8;

/// The index of a folder line, and of a file in it.
pub(super) type Slot = (usize, usize);

#[derive(Debug)]
struct FileName<'a> {
    name: Cow<'a, str>,
    /// What changed in the file; may be empty.
    note: Cow<'a, str>,
}

/// The line of one folder, with the names of its files.
#[derive(Debug)]
struct FolderLine<'a> {
    folder: Cow<'a, str>,
    /// `None` for removed files.
    names: Vec<Option<FileName<'a>>>,
    /// Number of files that are not removed.
    shown: usize,
    counted: usize,
    /// The cost of the line without names; set when the first name is counted.
    cost: u64,
}

/// The line that the files of a folder are assigned to.
#[derive(Debug, Default)]
struct FolderLayout {
    files: usize,
    /// The offset at which the files' paths are split: after the folder, after its top-level folder, or 0.
    cut: usize,
    /// The index of the files' line, once a file has been added to the line.
    line: Option<usize>,
}

/// The folder lines of a section, in the order of their first files.
#[derive(Debug, Default)]
pub(super) struct Folders<'a> {
    all: Vec<FolderLine<'a>>,
    known: HashMap<Cow<'a, str>, usize>,
    layouts: HashMap<Cow<'a, str>, FolderLayout>,
    /// The newest entry for each path.
    owners: HashMap<Cow<'a, str>, usize>,
    line: String,
}

impl<'a> Folders<'a> {
    /// Plans the lines for the files of these entries, so that folders with few files share a line.
    pub(super) fn plan_lines<'b>(&mut self, paths: impl Iterator<Item = (usize, &'b Cow<'a, str>)>)
    where
        'a: 'b,
    {
        let most = paths.size_hint().1.unwrap_or(0);
        self.layouts.reserve(most);
        self.owners.reserve(most);
        for (entry, path) in paths {
            self.owners.insert(path.clone(), entry);
            self.layouts.entry(split_path(path, parent_folder(path).len()).0).or_default().files += 1;
        }
        let mut shared: HashMap<Cow<'a, str>, usize> = HashMap::default();
        for (folder, layout) in &mut self.layouts {
            let top = top_folder(folder).len();
            if top < folder.len() && (layout.files - 1) * (folder.len() - top) > top + LINE_OVERHEAD {
                layout.cut = folder.len();
            } else {
                *shared.entry(split_path(folder, top).0).or_default() += layout.files;
            }
        }
        for (folder, layout) in self.layouts.iter_mut().filter(|(_, layout)| layout.cut == 0) {
            let top = top_folder(folder);
            layout.cut = if shared.get(top).is_some_and(|files| *files > 1) { top.len() } else { 0 };
        }
    }

    /// Adds the path of a planned entry with a note, unless a newer entry has the same path.
    pub(super) fn add_file(&mut self, entry: usize, path: Cow<'a, str>, note: Cow<'a, str>) -> Option<Slot> {
        if self.owners.get(&path) != Some(&entry) {
            return None;
        }
        let layout = self.layouts.get_mut(parent_folder(&path))?;
        let (folder, mut name) = split_path(&path, layout.cut);
        // In a list, a comma or semicolon would split the name, and a backtick would start a code span.
        if name.contains([',', ';', '`']) {
            name = Cow::Owned(code_span(&name));
        }
        let note = if note.contains('\n') { Cow::Owned(join_words(&note)) } else { note };
        let n = *layout.line.get_or_insert_with(|| {
            *self.known.entry(folder).or_insert_with_key(|folder| {
                let (names, shown, counted, cost) = (Vec::new(), 0, 0, 0);
                self.all.push(FolderLine { folder: folder.clone(), names, shown, counted, cost });
                self.all.len() - 1
            })
        });
        let folder = self.all.get_mut(n)?;
        folder.shown += 1;
        folder.names.push(Some(FileName { name, note }));
        Some((n, folder.names.len() - 1))
    }

    pub(super) fn drop_note(&mut self, (folder, name): Slot) {
        let name = self.all.get_mut(folder).and_then(|folder| folder.names.get_mut(name));
        if let Some(Some(name)) = name {
            name.note = Cow::Borrowed("");
        }
    }

    /// The cost of a name with its note, and of its folder line if this is the first name counted.
    pub(super) fn count_tokens(&mut self, (folder, name): Slot, counter: &TokenCounter<'_>) -> (u64, u64) {
        let Some(folder) = self.all.get_mut(folder) else { return (0, 0) };
        let Some(Some(name)) = folder.names.get(name) else { return (0, 0) };
        let mut cost = |parts: [&str; 4]| {
            self.line.clear();
            self.line.extend(parts);
            counter.quarters(&self.line)
        };
        let colon = if name.note.is_empty() { "" } else { ": " };
        let name = cost(["; ", &name.name, colon, &name.note]);
        folder.counted += 1;
        if folder.counted > 1 {
            return (name, 0);
        }
        folder.cost = cost(["- ", &folder.folder, ": \n", ""]);
        (name, folder.cost)
    }

    /// Uncounts a name; returns the cost of its folder line if no counted name remains.
    pub(super) fn uncount_tokens(&mut self, (folder, _): Slot) -> u64 {
        let Some(folder) = self.all.get_mut(folder) else { return 0 };
        folder.counted -= 1;
        if folder.counted == 0 { folder.cost } else { 0 }
    }

    pub(super) fn remove(&mut self, (folder, name): Slot) {
        if let Some(folder) = self.all.get_mut(folder)
            && folder.names.get_mut(name).and_then(Option::take).is_some()
        {
            folder.shown -= 1;
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        for folder in self.all.iter().filter(|folder| folder.shown > 0) {
            out.push_str("- ");
            out.push_str(&folder.folder);
            let mut between = if folder.folder.is_empty() { "" } else { ": " };
            for FileName { name, note } in folder.names.iter().flatten() {
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

/// The folder of a path, with its slash. Empty for a path with a comma, a colon or a semicolon, which would
/// be misread in a folder line.
fn parent_folder(path: &str) -> &str {
    let end = match path.rfind('/') {
        Some(slash) if slash + 1 < path.len() && !path.bytes().any(|b| matches!(b, b',' | b':' | b';')) => {
            slash + 1
        }
        _ => 0,
    };
    path.get(..end).unwrap_or_default()
}

/// The top-level folder of a folder path, with its slash.
fn top_folder(folder: &str) -> &str {
    let root = usize::from(folder.starts_with('/'));
    let end = folder.get(root..).and_then(|rest| rest.find('/')).map_or(0, |slash| root + slash + 1);
    folder.get(..end).unwrap_or_default()
}

fn split_path<'a>(path: &Cow<'a, str>, at: usize) -> (Cow<'a, str>, Cow<'a, str>) {
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
