//! One entry of the Artifact Trail: a table row or a list item in any common notation. Parses the source of
//! an entry into path, status and change, and formats it in other notations.

use std::borrow::Cow;

use super::blocks::{Block, code_span, item_text, split_cells, split_leading_code, strip_markup};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Artifact<'a> {
    /// The path, without Markdown marks.
    pub(super) path: Cow<'a, str>,
    /// What happened to the file, in the writer's words; may be empty.
    pub(super) status: Cow<'a, str>,
    /// What changed in the file; may be empty.
    pub(super) change: Cow<'a, str>,
}

/// Statuses of files that need no further work.
const FINISHED_STATUSES: [&str; 10] = [
    "deleted",
    "removed",
    "moved",
    "renamed",
    "done",
    "completed",
    "archived",
    "merged",
    "synced",
    "deprecated",
];
const OTHER_STATUSES: [&str; 13] = [
    "created",
    "modified",
    "updated",
    "added",
    "changed",
    "new",
    "edited",
    "rewritten",
    "extended",
    "fixed",
    "wip",
    "active",
    "unchanged",
];

impl<'a> Artifact<'a> {
    /// Parses an entry; `None` if it does not name a file.
    pub(super) fn parse(block: Block, source: &'a str) -> Option<Self> {
        match block {
            Block::TableRow => Self::parse_row(source),
            Block::Item => Self::parse_item(source),
            _ => None,
        }
    }

    fn parse_row(row: &'a str) -> Option<Self> {
        let cells = split_cells(row);
        let path = strip_markup(cells.first()?);
        let status = strip_markup(cells.get(1).copied().unwrap_or_default());
        let change = match cells.get(2..).unwrap_or_default() {
            [] => Cow::Borrowed(""),
            [change] => Cow::Borrowed(*change),
            several => Cow::Owned(several.join(" | ").trim().to_owned()),
        };
        (!path.is_empty()).then_some(Self { path, status, change })
    }

    /// Parses notations such as `` `path` (created): text ``, `path - created - text` and `path: text`.
    fn parse_item(item: &'a str) -> Option<Self> {
        let text = item_text(item);
        let marked = text.strip_prefix("**").unwrap_or(text);
        let (path, rest, cut) = if marked.starts_with('`') {
            let (path, rest) = split_leading_code(marked)?;
            (path, rest, false)
        } else {
            let (word, rest) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
            let bare = word.trim_matches('*');
            let path = bare.strip_suffix([':', ',']);
            (path.unwrap_or(bare), rest, path.is_some())
        };
        if !looks_like_path(path) {
            return None;
        }
        let rest = rest.trim_start_matches('*').trim();
        let (status, change) = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((status, change)) if is_status(status) => (status.trim(), change),
            _ if cut => ("", rest),
            _ => split_status(rest),
        };
        let change = change.trim_start_matches([':', '-', '–', '—', ',', ' ']).trim();
        Some(Self { path: path.into(), status: status.into(), change: change.into() })
    }

    pub(super) fn into_owned(self) -> Artifact<'static> {
        let owned = |text: Cow<'_, str>| Cow::Owned(text.into_owned());
        Artifact { path: owned(self.path), status: owned(self.status), change: owned(self.change) }
    }

    pub(super) fn is_finished(&self) -> bool {
        first_word_is_one_of(&self.status, &FINISHED_STATUSES)
    }

    pub(super) fn is_created(&self) -> bool {
        first_word_is_one_of(&self.status, &["created", "added", "new"])
    }

    pub(super) fn is_modified(&self) -> bool {
        const MODIFIED: [&str; 7] =
            ["modified", "updated", "changed", "edited", "extended", "fixed", "rewritten"];
        first_word_is_one_of(&self.status, &MODIFIED)
    }

    /// Formats the entry as a row of a table with three columns.
    pub(super) fn to_row(&self) -> String {
        let path = code_span(&self.path).replace('|', "\\|");
        format!("| {path} | {} | {} |", self.status, self.change)
    }

    pub(super) fn to_item(&self) -> String {
        let status = if self.status.is_empty() { String::new() } else { format!(" ({})", self.status) };
        let change = if self.change.is_empty() { String::new() } else { format!(": {}", self.change) };
        format!("- {}{status}{change}", code_span(&self.path))
    }

    /// The note in its folder's line: what changed, and the status if the file is finished.
    pub(super) fn folder_note(&self) -> Cow<'a, str> {
        match (self.is_finished(), self.change.is_empty()) {
            (false, _) => self.change.clone(),
            (true, true) => self.status.clone(),
            (true, false) => Cow::Owned(format!("{}: {}", self.status, self.change)),
        }
    }

    /// Formats the entry as a list item with few tokens: path, status and change.
    pub(super) fn to_compact_line(&self) -> String {
        let mut line = String::with_capacity(self.path.len() + self.status.len() + self.change.len() + 6);
        line.push_str("- ");
        line.push_str(&inline_path(&self.path));
        if !self.status.is_empty() {
            line.push(' ');
            line.push_str(&self.status);
        }
        if !self.change.is_empty() {
            line.push_str(": ");
            line.push_str(&self.change);
        }
        line.push('\n');
        line
    }
}

/// A path for running text; formatted as a code span if it contains a backtick.
pub(super) fn inline_path(path: &str) -> Cow<'_, str> {
    if path.contains('`') { Cow::Owned(code_span(path)) } else { Cow::Borrowed(path) }
}

/// Whether the first word of a status is one of `words`, ignoring case.
fn first_word_is_one_of(status: &str, words: &[&str]) -> bool {
    let mut parts = status.split(|c: char| !c.is_alphabetic());
    let first = parts.find(|part| !part.is_empty());
    first.is_some_and(|word| words.iter().any(|one| one.eq_ignore_ascii_case(word)))
}

fn is_status(text: &str) -> bool {
    first_word_is_one_of(text, &FINISHED_STATUSES) || first_word_is_one_of(text, &OTHER_STATUSES)
}

fn looks_like_path(text: &str) -> bool {
    text.contains('/') || text.contains('.') && !text.ends_with('.') || text.contains('\\')
}

/// Splits off a leading status, as in `- created - text` or `created: text`; empty if there is none.
fn split_status(rest: &str) -> (&str, &str) {
    let rest = rest.trim_start_matches(['-', '–', '—', ':', ' ']);
    let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (word, after) = rest.split_at(end);
    if is_status(word) && (after.is_empty() || after.starts_with([' ', ':', ',', '-'])) {
        (word, after)
    } else {
        ("", rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_many_words() {
        let read = |block, source| Artifact::parse(block, source).map(|a| (a.path, a.status, a.change));
        let all = |path, status, change| Some((Cow::from(path), Cow::from(status), Cow::from(change)));
        assert_eq!(
            read(Block::TableRow, r"| `a\|b.rs` | created | x \| y |"),
            all("a|b.rs", "created", r"x \| y")
        );
        assert_eq!(read(Block::TableRow, "| [a.md](docs/a.md) | **done** |"), all("a.md", "done", ""));
        for item in [
            "- `src/a.rs` (created): the parser",
            "* src/a.rs - created - the parser",
            "- `src/a.rs` — created: the parser",
        ] {
            assert_eq!(read(Block::Item, item), all("src/a.rs", "created", "the parser"), "{item}");
        }
        assert_eq!(read(Block::Item, "- src/a.rs: the parser"), all("src/a.rs", "", "the parser"));
        assert_eq!(read(Block::Item, "- ``a`b.rs`` (created): x"), all("a`b.rs", "created", "x"));
        assert_eq!(read(Block::TableRow, "| `` `a.rs `` | created | x |"), all("`a.rs", "created", "x"));
        assert_eq!(read(Block::Item, "- nothing of note"), None);
        assert!(Artifact::parse(Block::TableRow, "| a/b | Renamed to c | |").unwrap().is_finished());
    }

    #[test]
    fn any_name_of_a_file_is_read_as_it_was_written() {
        for path in
            ["a.rs", "a`b.rs", "`a.rs`", "``.x``", "a|`b|.rs", " a b.rs ", "a`` `b.rs", "x.rs:", "a\\|b.rs"]
        {
            let written =
                Artifact { path: path.into(), status: "created".into(), change: "a `mark` in it".into() };
            let (row, item) = (written.to_row(), written.to_item());
            assert_eq!(Artifact::parse(Block::TableRow, &row).unwrap(), written, "{row}");
            assert_eq!(Artifact::parse(Block::Item, &item).unwrap(), written, "{item}");
        }
    }
}
