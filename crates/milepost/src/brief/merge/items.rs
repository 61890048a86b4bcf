//! Merges the entries of one section. Decisions accumulate unless one replaces another by name; technical
//! facts match by key and files by path. All other entries are appended if they are new.

use super::super::SectionKind;
use super::super::artifact::Artifact;
use super::super::blocks::{
    Block, item_text, join_words, normalize_text, split_cells, split_entries, strip_markup,
};
use super::list::EntryList;

/// Merges an update's entries into the lists of one section. Returns notes for the writer.
pub(super) fn merge_entries(kind: SectionKind, lists: &mut [&mut EntryList], content: &str) -> Vec<String> {
    let update = EntryList::parse(content);
    let mut notes = Vec::new();
    for (_, block, source) in update.entries() {
        match kind {
            SectionKind::Decisions => add_decision(lists, block, source, &mut notes),
            SectionKind::Technical => upsert_fact(lists, block, source),
            SectionKind::Artifacts => match Artifact::parse(block, source) {
                Some(artifact) => upsert_artifact(lists, artifact, update.column_count(), block, source),
                None => append_if_new(lists, block, source),
            },
            _ => append_if_new(lists, block, source),
        }
    }
    if kind == SectionKind::Decisions {
        fold_superseded_decisions(lists);
    }
    notes
}

/// An entry's text in a form that can be compared across notations.
fn comparable_text(block: Block, source: &str) -> String {
    match block {
        Block::TableRow => normalize_text(&split_cells(source).join(" ")),
        _ => normalize_text(item_text(source)),
    }
}

fn has_entry(lists: &[&mut EntryList], text: &str) -> bool {
    lists.iter().any(|list| list.entries().any(|(_, block, source)| comparable_text(block, source) == text))
}

/// Appends an entry unless it exists already.
fn append_if_new(lists: &mut [&mut EntryList], block: Block, source: &str) {
    if has_entry(lists, &comparable_text(block, source)) {
        return;
    }
    append(lists, block, source, " → ");
}

/// Appends an entry to the last list. A row that does not fit its table becomes a list item.
fn append(lists: &mut [&mut EntryList], block: Block, source: &str, separator: &str) {
    let Some(list) = lists.last_mut() else { return };
    let cells = split_cells(source);
    if block == Block::TableRow && list.column_count() != Some(cells.len()) {
        list.insert(Block::Item, &format!("- {}", cells.join(separator)));
    } else {
        list.insert(block, source);
    }
}

/// The key of a fact: the text before the first colon, or the first cell of a row.
fn fact_key(block: Block, source: &str) -> Option<String> {
    let key = match block {
        Block::TableRow => normalize_text(split_cells(source).first()?),
        Block::Item => {
            let first = item_text(source).lines().next().unwrap_or_default();
            let key = first.split_once(": ").map(|(key, _)| key).or_else(|| first.strip_suffix(':'))?;
            normalize_text(key)
        }
        _ => return None,
    };
    (!key.is_empty() && (block == Block::TableRow || key.chars().count() <= 60)).then_some(key)
}

fn upsert_fact(lists: &mut [&mut EntryList], block: Block, source: &str) {
    if has_entry(lists, &comparable_text(block, source)) {
        return;
    }
    if let Some(key) = fact_key(block, source) {
        for list in lists.iter_mut() {
            let same = |(_, other, text): &(usize, Block, &str)| {
                *other == block && fact_key(*other, text).as_deref() == Some(&key)
            };
            let found = list.entries().find(same).map(|(at, ..)| at);
            if let Some(at) = found {
                return list.replace(at, block, source);
            }
        }
    }
    append_if_new(lists, block, source);
}

fn upsert_artifact(
    lists: &mut [&mut EntryList],
    mut new: Artifact<'_>,
    columns: Option<usize>,
    block: Block,
    source: &str,
) {
    let mut own_words = source.trim_end().to_owned();
    let mut before = None;
    for list in lists.iter_mut() {
        loop {
            let same = |(at, block, text): (usize, Block, &str)| {
                let old = Artifact::parse(block, text).filter(|old| old.path == new.path)?;
                Some((at, old.into_owned()))
            };
            let Some((at, old)) = list.entries().find_map(same) else { break };
            list.remove(at);
            before = Some(old);
        }
    }
    if let Some(old) = before {
        // A file that the run created stays `created` when it is modified later.
        if old.is_created() && new.is_modified() {
            new.status = old.status;
            own_words.clear();
        }
        if new.change.is_empty() && !old.change.is_empty() && !new.is_finished() {
            new.change = old.change;
            own_words.clear();
        }
    }
    let Some(list) = lists.last_mut() else { return };
    let table = list.column_count();
    let (kind, text) = match (table, block) {
        (Some(n), Block::TableRow) if Some(n) == columns && !own_words.is_empty() => {
            (Block::TableRow, own_words)
        }
        (Some(n), _) => (Block::TableRow, artifact_row(&new, n)),
        (None, Block::Item) if !own_words.is_empty() => (Block::Item, own_words),
        (None, _) => (Block::Item, new.to_item()),
    };
    list.insert(kind, &text);
}

/// Formats an artifact as a row of a table with `columns` columns.
fn artifact_row(artifact: &Artifact<'_>, columns: usize) -> String {
    let row = artifact.to_row();
    if columns <= 3 { row } else { format!("{row}{}", "  |".repeat(columns - 3)) }
}

/// A decision and the ones it replaced, oldest first: `~~oldest~~ → ~~older~~ → current`.
struct DecisionChain {
    superseded: Vec<String>,
    current: String,
}

impl DecisionChain {
    fn parse(block: Block, source: &str) -> Self {
        let text = match block {
            Block::TableRow => split_cells(source).join(" | "),
            _ => join_words(item_text(source)),
        };
        let mut superseded = Vec::new();
        let mut rest = text.as_str();
        while let Some((old, after)) = rest.strip_prefix("~~").and_then(|inside| inside.split_once("~~")) {
            let after = after.trim_start();
            let Some(new) = ["→", "->", "=>"].iter().find_map(|arrow| after.strip_prefix(arrow)) else {
                break;
            };
            superseded.push(old.trim().to_owned());
            rest = new.trim_start();
        }
        Self { superseded, current: rest.to_owned() }
    }

    fn mentions(&self, text: &str) -> bool {
        refers_to(&self.current, text) || self.superseded.iter().any(|old| refers_to(old, text))
    }

    fn to_item(&self) -> String {
        let superseded: String = self.superseded.iter().map(|old| format!("~~{old}~~ → ")).collect();
        format!("- {superseded}{}", self.current)
    }
}

/// Whether words refer to a decision: they are its full text, or a prefix that ends at a word boundary.
fn refers_to(decision: &str, words: &str) -> bool {
    let (decision, words) = (normalize_text(decision), normalize_text(words));
    match decision.strip_prefix(&words) {
        Some("") => true,
        Some(rest) => words.chars().count() >= 8 && !rest.starts_with(char::is_alphanumeric),
        None => false,
    }
}

/// Adds a decision unless it is already present.
fn add_decision(lists: &mut [&mut EntryList], block: Block, source: &str, notes: &mut Vec<String>) {
    let new = DecisionChain::parse(block, source);
    let entries = lists.iter().flat_map(|list| list.entries());
    let before: Vec<_> = entries.map(|(_, block, text)| DecisionChain::parse(block, text)).collect();
    let known = |old: &DecisionChain| {
        let same = |text: &String| normalize_text(text) == normalize_text(&new.current);
        let replaced = |s: &String| old.superseded.iter().any(|o| refers_to(o, s));
        (same(&old.current) || old.superseded.iter().any(same)) && new.superseded.iter().all(replaced)
    };
    if before.iter().any(known) {
        return;
    }
    let unknown = new.superseded.iter().filter(|s| !before.iter().any(|old| old.mentions(s)));
    notes.extend(unknown.map(|text| format!("has no entry \"{text}\"; the new decision was added anyway")));
    match block {
        Block::Paragraph => {
            append(lists, Block::Item, &format!("- {}", source.trim().replace('\n', "\n  ")), ": ");
        }
        _ => append(lists, block, source, ": "),
    }
}

/// Folds each replaced decision into the one that replaces it, at the position of the earlier one.
fn fold_superseded_decisions(lists: &mut [&mut EntryList]) {
    loop {
        let mut all = Vec::new();
        for (n, list) in lists.iter().enumerate() {
            all.extend(list.entries().map(|(at, block, text)| ((n, at), DecisionChain::parse(block, text))));
        }
        let pair = all.iter().find_map(|(new_at, new)| {
            let replaced = |(old_at, old): &&((usize, usize), DecisionChain)| {
                let twice =
                    old.superseded.is_empty() && normalize_text(&old.current) == normalize_text(&new.current);
                let named = new.superseded.iter().any(|s| refers_to(&old.current, s))
                    && normalize_text(&old.current) != normalize_text(&new.current);
                old_at != new_at && (named || twice)
            };
            let (old_at, old) = all.iter().filter(|_| !new.superseded.is_empty()).find(replaced)?;
            Some((*old_at, old, *new_at, new))
        });
        let Some((old_at, old, new_at, new)) = pair else { return };
        let mut superseded = old.superseded.clone();
        if normalize_text(&old.current) != normalize_text(&new.current) {
            superseded.push(old.current.clone());
        }
        let more = new.superseded.iter().filter(|s| !superseded.iter().any(|o| refers_to(o, s))).cloned();
        let more: Vec<_> = more.collect();
        superseded.extend(more);
        let item = DecisionChain { superseded, current: new.current.clone() }.to_item() + "\n";
        let (first, last) = (old_at.min(new_at), old_at.max(new_at));
        if let Some(list) = lists.get_mut(last.0) {
            list.remove(last.1);
        }
        if let Some(list) = lists.get_mut(first.0) {
            list.replace(first.1, Block::Item, &item);
        }
    }
}

/// Converts a delta's prose to steps that start with its date.
pub(super) fn prose_as_steps(content: &str, when: &str) -> String {
    let step = |(block, source)| match block {
        Block::TableRow => format!("- {when} → {}\n", split_cells(source).join(" → ")),
        Block::Code => source.to_owned(),
        _ => format!("- {when} → {}\n", join_words(item_text(source))),
    };
    split_entries(content).map(step).collect()
}

/// Converts a delta's table of transitions to steps.
pub(super) fn transitions_as_steps(content: &str) -> String {
    let step = |(block, source)| match block {
        Block::TableRow => {
            let cells: Vec<_> = split_cells(source).into_iter().map(strip_markup).collect();
            cells.split_first().map(|(item, rest)| format!("- {item}: {}\n", rest.join(" → ")))
        }
        Block::Code => None,
        _ => Some(format!("- {}\n", join_words(item_text(source)))),
    };
    split_entries(content).filter_map(step).collect()
}
