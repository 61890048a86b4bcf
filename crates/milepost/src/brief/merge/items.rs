//! How each section grows: decisions accumulate and leave only where one replaces another by name, technical context is
//! known by its keys, steps are appended, files are known by their paths.

use super::super::Kind;
use super::super::artifact::Artifact;
use super::super::blocks::{Block, Grain, blocks, cells, normal, said, unmarked};
use super::list::List;

/// Adds what an update says to the lists of one section. Gives what the writer should know.
pub(super) fn accumulate(kind: Kind, lists: &mut [&mut List], content: &str) -> Vec<String> {
    let update = List::of(content);
    let mut notes = Vec::new();
    for (_, block, source) in update.entries() {
        match kind {
            Kind::Decisions => decide(lists, block, source, &mut notes),
            Kind::Technical => upsert_fact(lists, block, source),
            Kind::Artifacts => match Artifact::read(block, source) {
                Some(artifact) => upsert_artifact(lists, artifact, update.columns(), block, source),
                None => append(lists, block, source),
            },
            _ => append(lists, block, source),
        }
    }
    if kind == Kind::Decisions {
        settle(lists);
    }
    notes
}

/// What an entry says, however it is written.
fn saying(block: Block, source: &str) -> String {
    match block {
        Block::Row => normal(&cells(source).join(" ")),
        _ => normal(said(source)),
    }
}

fn is_there(lists: &[&mut List], text: &str) -> bool {
    lists.iter().any(|list| list.entries().any(|(_, block, source)| saying(block, source) == text))
}

/// Appends what is not there yet.
fn append(lists: &mut [&mut List], block: Block, source: &str) {
    if is_there(lists, &saying(block, source)) {
        return;
    }
    let Some(list) = lists.last_mut() else { return };
    match (block, list.columns()) {
        (Block::Row, Some(columns)) if columns == cells(source).len() => list.push(Block::Row, source),
        (Block::Row, _) => list.push(Block::Item, &format!("- {}", cells(source).join(" → "))),
        _ => list.push(block, source),
    }
}

/// The key of a fact: what stands before the first colon, or a row's first cell.
fn key(block: Block, source: &str) -> Option<String> {
    let text = match block {
        Block::Row => return cells(source).first().map(|cell| normal(cell)).filter(|key| !key.is_empty()),
        Block::Item => said(source),
        _ => return None,
    };
    let first = text.lines().next().unwrap_or_default();
    let (key, _) = first.split_once(": ").or_else(|| first.strip_suffix(':').map(|key| (key, "")))?;
    let key = normal(key);
    (!key.is_empty() && key.chars().count() <= 60).then_some(key)
}

fn upsert_fact(lists: &mut [&mut List], block: Block, source: &str) {
    if is_there(lists, &saying(block, source)) {
        return;
    }
    if let Some(key) = key(block, source) {
        for list in lists.iter_mut() {
            let same = |(_, other, text): &(usize, Block, &str)| {
                *other == block && self::key(*other, text).as_deref() == Some(&key)
            };
            let found = list.entries().find(same).map(|(at, ..)| at);
            if let Some(at) = found {
                list.set(at, block, source);
                return;
            }
        }
    }
    append(lists, block, source);
}

fn upsert_artifact(
    lists: &mut [&mut List],
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
                let old = Artifact::read(block, text).filter(|old| old.path == new.path)?;
                Some((at, old.into_owned()))
            };
            let Some((at, old)) = list.entries().find_map(same) else { break };
            list.remove(at);
            before = Some(old);
        }
    }
    if let Some(old) = before {
        // What was made in this work stays made in it, however often it is changed afterwards.
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
    let table = list.columns();
    let (kind, text) = match (table, block) {
        (Some(n), Block::Row) if Some(n) == columns && !own_words.is_empty() => (Block::Row, own_words),
        (Some(n), _) => (Block::Row, row(&new, n)),
        (None, Block::Item) if !own_words.is_empty() => (Block::Item, own_words),
        (None, _) => (Block::Item, new.item()),
    };
    list.push(kind, &text);
}

/// An artifact in a table of so many columns.
fn row(artifact: &Artifact<'_>, columns: usize) -> String {
    let row = artifact.row();
    if columns <= 3 { row } else { format!("{row}{}", "  |".repeat(columns - 3)) }
}

/// A decision with those it replaced: `~~old~~ → ~~older~~ → new`.
struct Chain {
    struck: Vec<String>,
    live: String,
}

impl Chain {
    fn of(block: Block, source: &str) -> Self {
        let text = match block {
            Block::Row => cells(source).join(" | "),
            _ => said(source).split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let mut struck = Vec::new();
        let mut rest = text.as_str();
        while let Some((old, after)) = rest.strip_prefix("~~").and_then(|inside| inside.split_once("~~")) {
            let after = after.trim_start();
            let Some(new) = ["→", "->", "=>"].iter().find_map(|arrow| after.strip_prefix(arrow)) else {
                break;
            };
            struck.push(old.trim().to_owned());
            rest = new.trim_start();
        }
        Self { struck, live: rest.to_owned() }
    }

    fn knows(&self, text: &str) -> bool {
        is_same(&self.live, text) || self.struck.iter().any(|old| is_same(old, text))
    }

    fn item(&self) -> String {
        let struck: String = self.struck.iter().map(|old| format!("~~{old}~~ → ")).collect();
        format!("- {struck}{}", self.live)
    }
}

/// Whether a decision is meant by some words: all of it, or the start of it up to the end of a word.
fn is_same(decision: &str, words: &str) -> bool {
    let (decision, words) = (normal(decision), normal(words));
    match decision.strip_prefix(&words) {
        Some("") => true,
        Some(rest) => words.chars().count() >= 8 && !rest.starts_with(char::is_alphanumeric),
        None => false,
    }
}

/// Adds a decision that nobody knows yet.
fn decide(lists: &mut [&mut List], block: Block, source: &str, notes: &mut Vec<String>) {
    let new = Chain::of(block, source);
    let chains = |lists: &[&mut List]| -> Vec<Chain> {
        lists.iter().flat_map(|list| list.entries()).map(|(_, b, text)| Chain::of(b, text)).collect()
    };
    let before = chains(lists);
    let known = |old: &Chain| {
        let same = |text: &String| normal(text) == normal(&new.live);
        let replaced = |s: &String| old.struck.iter().any(|o| is_same(o, s));
        (same(&old.live) || old.struck.iter().any(same)) && new.struck.iter().all(replaced)
    };
    if before.iter().any(known) {
        return;
    }
    let unheard = new.struck.iter().filter(|s| !before.iter().any(|old| old.knows(s)));
    notes.extend(unheard.map(|text| format!("no decision reads \"{text}\"; it is noted all the same")));
    let Some(list) = lists.last_mut() else { return };
    match (block, list.columns()) {
        (Block::Row, Some(columns)) if columns == cells(source).len() => list.push(Block::Row, source),
        (Block::Row, _) => list.push(Block::Item, &format!("- {}", cells(source).join(": "))),
        (Block::Item | Block::Code, _) => list.push(block, source),
        _ => list.push(Block::Item, &format!("- {}", source.trim().replace('\n', "\n  "))),
    }
}

/// Lets each decision that another replaces by name go into that one, in the place of the first of them.
fn settle(lists: &mut [&mut List]) {
    loop {
        let mut all = Vec::new();
        for (n, list) in lists.iter().enumerate() {
            all.extend(list.entries().map(|(at, block, text)| ((n, at), Chain::of(block, text))));
        }
        let pair = all.iter().find_map(|(new_at, new)| {
            let replaced = |(old_at, old): &&((usize, usize), Chain)| {
                let twice = old.struck.is_empty() && normal(&old.live) == normal(&new.live);
                let named = new.struck.iter().any(|s| is_same(&old.live, s))
                    && normal(&old.live) != normal(&new.live);
                old_at != new_at && (named || twice)
            };
            let (old_at, old) = all.iter().filter(|_| !new.struck.is_empty()).find(replaced)?;
            Some((*old_at, old, *new_at, new))
        });
        let Some((old_at, old, new_at, new)) = pair else { return };
        let mut struck = old.struck.clone();
        if normal(&old.live) != normal(&new.live) {
            struck.push(old.live.clone());
        }
        let more = new.struck.iter().filter(|s| !struck.iter().any(|o| is_same(o, s))).cloned();
        let more: Vec<_> = more.collect();
        struck.extend(more);
        let item = Chain { struck, live: new.live.clone() }.item() + "\n";
        let (first, last) = (old_at.min(new_at), old_at.max(new_at));
        if let Some(list) = lists.get_mut(last.0) {
            list.remove(last.1);
        }
        if let Some(list) = lists.get_mut(first.0) {
            list.set(first.1, Block::Item, &item);
        }
    }
}

/// A delta's prose as steps of its date.
pub(super) fn prose_as_steps(content: &str, when: &str) -> String {
    let mut steps = String::new();
    for (block, range) in blocks(content, Grain::Items) {
        let source = content.get(range).unwrap_or_default();
        match block {
            Block::Item | Block::Paragraph => {
                let text = said(source).split_whitespace().collect::<Vec<_>>().join(" ");
                steps.push_str(&format!("- {when} → {text}\n"));
            }
            Block::Row => steps.push_str(&format!("- {when} → {}\n", cells(source).join(" → "))),
            Block::Code => steps.push_str(source),
            _ => {}
        }
    }
    steps
}

/// A delta's table of transitions as steps.
pub(super) fn transitions_as_steps(content: &str) -> String {
    let mut steps = String::new();
    for (block, range) in blocks(content, Grain::Items) {
        let source = content.get(range).unwrap_or_default();
        match block {
            Block::Row => {
                let cells: Vec<_> = cells(source).into_iter().map(unmarked).collect();
                match cells.split_first() {
                    Some((item, rest)) => steps.push_str(&format!("- {item}: {}\n", rest.join(" → "))),
                    None => continue,
                }
            }
            Block::Item | Block::Paragraph => {
                let text = said(source).split_whitespace().collect::<Vec<_>>().join(" ");
                steps.push_str(&format!("- {text}\n"));
            }
            _ => {}
        }
    }
    steps
}
