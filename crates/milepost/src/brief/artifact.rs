//! One entry of the Artifact Trail: a row of a table or an item of a list, in whatever words it has.
//! In: its source. Out: path, status, what changed; whether it is finished with.

use super::blocks::{Block, cells, said, unmarked};

/// A file that was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Artifact {
    /// Its path, without marks.
    pub(super) path: String,
    /// What happened to it, in the writer's words; may be empty.
    pub(super) status: String,
    /// What changed in it; may be empty.
    pub(super) change: String,
}

/// Words for what became of a file, of which the first few mean that nobody works on it any more.
const FINISHED: [&str; 10] = [
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
const OTHER: [&str; 13] = [
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

impl Artifact {
    /// Reads an entry; `None` for what names no file.
    pub(super) fn read(block: Block, source: &str) -> Option<Self> {
        match block {
            Block::Row => Self::of_row(source),
            Block::Item => Self::of_item(source),
            _ => None,
        }
    }

    fn of_row(row: &str) -> Option<Self> {
        let cells = cells(row);
        let path = unmarked(cells.first()?);
        let cell = |n: usize| cells.get(n).map(|cell| cell.trim()).unwrap_or_default();
        (!path.is_empty()).then(|| Self {
            path,
            status: unmarked(cell(1)),
            change: cells.get(2..).unwrap_or_default().join(" | ").trim().to_owned(),
        })
    }

    /// `` `path` (created): text ``, `path - created - text`, `created: path`, `path: text` and the like.
    fn of_item(item: &str) -> Option<Self> {
        let text = said(item);
        let (path, rest) = match text.strip_prefix("**`").or_else(|| text.strip_prefix('`')) {
            Some(inside) => inside.split_once('`')?,
            None => text.split_at(text.find(char::is_whitespace).unwrap_or(text.len())),
        };
        let bare = path.trim_matches('*');
        let (path, cut) = match bare.strip_suffix([':', ',']) {
            Some(path) => (path, true),
            None => (bare, false),
        };
        if !looks_like_path(path) {
            return None;
        }
        let rest = rest.trim_start_matches(['*', '`']).trim();
        let (status, change) = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((status, change)) if is_status(status) => (status.trim(), change),
            _ if cut => ("", rest),
            _ => split_status(rest),
        };
        let change = change.trim_start_matches([':', '-', '–', '—', ',', ' ']).trim();
        Some(Self { path: path.to_owned(), status: status.to_owned(), change: change.to_owned() })
    }

    /// Whether nobody works on it any more.
    pub(super) fn is_finished(&self) -> bool {
        let first = first_word(&self.status);
        FINISHED.contains(&first.as_str())
    }

    pub(super) fn is_created(&self) -> bool {
        matches!(first_word(&self.status).as_str(), "created" | "added" | "new")
    }

    pub(super) fn is_modified(&self) -> bool {
        matches!(
            first_word(&self.status).as_str(),
            "modified" | "updated" | "changed" | "edited" | "extended" | "fixed" | "rewritten"
        )
    }

    /// As a row of a table with three columns.
    pub(super) fn row(&self) -> String {
        let path = self.path.replace('|', "\\|");
        format!("| `{path}` | {} | {} |", self.status, self.change)
    }

    /// As an item of a list.
    pub(super) fn item(&self) -> String {
        let status = if self.status.is_empty() { String::new() } else { format!(" ({})", self.status) };
        let change = if self.change.is_empty() { String::new() } else { format!(": {}", self.change) };
        format!("- `{}`{status}{change}", self.path)
    }

    /// In as few tokens as can be: the path, what happened, what changed.
    pub(super) fn dense(&self) -> String {
        let mut line = format!("- {}", self.path);
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

fn first_word(status: &str) -> String {
    let word: String =
        status.chars().skip_while(|c| !c.is_alphabetic()).take_while(|c| c.is_alphabetic()).collect();
    word.to_lowercase()
}

fn is_status(text: &str) -> bool {
    let first = first_word(text);
    FINISHED.contains(&first.as_str()) || OTHER.contains(&first.as_str())
}

fn looks_like_path(text: &str) -> bool {
    text.contains('/') || text.contains('.') && !text.ends_with('.') || text.contains('\\')
}

/// `- created - text`, `created: text`: a status in front, if there is one.
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
        let read = |block, source: &str| Artifact::read(block, source).map(|a| (a.path, a.status, a.change));
        let all = |path: &str, status: &str, change: &str| {
            Some((path.to_owned(), status.to_owned(), change.to_owned()))
        };
        assert_eq!(
            read(Block::Row, r"| `a\|b.rs` | created | x \| y |"),
            all("a|b.rs", "created", r"x \| y")
        );
        assert_eq!(read(Block::Row, "| [a.md](docs/a.md) | **done** |"), all("a.md", "done", ""));
        for item in [
            "- `src/a.rs` (created): the parser",
            "* src/a.rs - created - the parser",
            "- `src/a.rs` — created: the parser",
        ] {
            assert_eq!(read(Block::Item, item), all("src/a.rs", "created", "the parser"), "{item}");
        }
        assert_eq!(read(Block::Item, "- src/a.rs: the parser"), all("src/a.rs", "", "the parser"));
        assert_eq!(read(Block::Item, "- nothing of note"), None);
        assert!(Artifact::read(Block::Row, "| a/b | Renamed to c | |").unwrap().is_finished());
    }
}
