//! The content of a section as blocks that can be inserted, replaced and removed without changing the others.

use super::super::blocks::{Block, Granularity, split_blocks, split_cells};

pub(super) struct EntryList {
    pub(super) blocks: Vec<(Block, String)>,
    pub(super) changed: bool,
}

impl EntryList {
    pub(super) fn parse(content: &str) -> Self {
        let blocks = split_blocks(content, Granularity::Items).into_iter();
        Self { blocks: blocks.map(|(block, source)| (block, source.to_owned())).collect(), changed: false }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (_, block) in &self.blocks {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(block);
        }
        text
    }

    /// The blocks that have content, with their positions.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, Block, &str)> {
        let all = self.blocks.iter().enumerate();
        all.filter(|(_, (block, _))| block.has_content()).map(|(i, (block, text))| (i, *block, text.as_str()))
    }

    /// Replaces an entry but keeps the whitespace at its end.
    pub(super) fn replace(&mut self, at: usize, kind: Block, text: &str) {
        if let Some((block, old)) = self.blocks.get_mut(at) {
            let after = old.get(old.trim_end().len()..).unwrap_or_default().to_owned();
            let new = format!("{}{after}", text.trim_end());
            self.changed |= new != *old;
            (*block, *old) = (kind, new);
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        if at < self.blocks.len() {
            self.blocks.remove(at);
            self.changed = true;
        }
    }

    pub(super) fn column_count(&self) -> Option<usize> {
        let head = self.blocks.iter().find(|(block, _)| *block == Block::TableHead)?;
        Some(split_cells(head.1.lines().next()?).len())
    }

    /// Inserts an entry after the last one of its kind, or after all content if there is none.
    pub(super) fn insert(&mut self, kind: Block, text: &str) {
        let is_same = |block: Block| block == kind || kind == Block::TableRow && block == Block::TableHead;
        let is_content = |block| !matches!(block, Block::Blank | Block::ThematicBreak | Block::Comment);
        let last_same = self.blocks.iter().rposition(|(block, _)| is_same(*block));
        let last = last_same.or_else(|| self.blocks.iter().rposition(|(block, _)| is_content(*block)));
        let at = last.map_or(0, |last| last + 1);
        // Without empty lines around it, the text would become part of its neighbours.
        let blank_before = last.is_some() && (last_same.is_none() || kind == Block::Paragraph);
        let blank_after = self.blocks.get(at).is_some_and(|(next, _)| match next {
            Block::Paragraph | Block::TableRow => true,
            next => kind == Block::Paragraph && *next != Block::Blank,
        });
        let text = if kind == Block::Item { outdent(text) } else { text.trim_end().to_owned() };
        let blank = |needed: bool| needed.then(|| (Block::Blank, "\n".to_owned()));
        let new = blank(blank_before).into_iter().chain([(kind, text + "\n")]).chain(blank(blank_after));
        self.blocks.splice(at..at, new);
        self.changed = true;
    }
}

/// Removes the indentation of an item, so that it does not become part of the previous item.
fn outdent(item: &str) -> String {
    let item = item.trim_end();
    let indent = item.len() - item.trim_start().len();
    let line = |line: &str| {
        let line_indent = line.len() - line.trim_start().len();
        line.get(line_indent.min(indent)..).unwrap_or(line).to_owned()
    };
    item.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
