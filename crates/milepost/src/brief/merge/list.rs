//! A section's content as blocks that can be inserted, replaced and removed without touching the others.

use super::super::blocks::{Block, Granularity, split_blocks, split_cells};

pub(super) struct EntryList {
    pub(super) blocks: Vec<(Block, String)>,
    pub(super) changed: bool,
}

impl EntryList {
    pub(super) fn parse(content: &str) -> Self {
        let found = split_blocks(content, Granularity::Items).into_iter();
        let text = |range: std::ops::Range<usize>| content.get(range).unwrap_or_default().to_owned();
        Self { blocks: found.map(|(block, range)| (block, text(range))).collect(), changed: false }
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

    /// The blocks with content, with their positions.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, Block, &str)> {
        let all = self.blocks.iter().enumerate();
        all.filter(|(_, (block, _))| block.has_content()).map(|(i, (block, text))| (i, *block, text.as_str()))
    }

    /// Replaces an entry; the blanks at the end of the old one stay.
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

    /// Inserts an entry after the last of its kind, or else after all content.
    pub(super) fn insert(&mut self, kind: Block, text: &str) {
        let own = |block: &Block| match kind {
            Block::TableRow => matches!(block, Block::TableRow | Block::TableHead),
            kind => *block == kind,
        };
        let last = self.blocks.iter().rposition(|(block, _)| own(block));
        let text =
            format!("{}\n", if kind == Block::Item { outdent(text) } else { text.trim_end().to_owned() });
        self.changed = true;
        let at = match last {
            Some(at) => at + 1,
            None => {
                let is_content =
                    |block: &Block| !matches!(block, Block::Blank | Block::ThematicBreak | Block::Comment);
                let at = self.blocks.iter().rposition(|(block, _)| is_content(block)).map_or(0, |at| at + 1);
                if at > 0 {
                    self.blocks.insert(at, (Block::Blank, "\n".to_owned()));
                    at + 1
                } else {
                    at
                }
            }
        };
        // Text that follows something without an empty line would become part of it.
        let before = at.checked_sub(1).and_then(|before| self.blocks.get(before));
        let at = match before {
            Some((block, _)) if kind == Block::Paragraph && *block != Block::Blank => {
                self.blocks.insert(at, (Block::Blank, "\n".to_owned()));
                at + 1
            }
            _ => at,
        };
        let glued =
            self.blocks.get(at).is_some_and(|(block, _)| matches!(block, Block::Paragraph | Block::TableRow))
                || kind == Block::Paragraph
                    && self.blocks.get(at).is_some_and(|(block, _)| *block != Block::Blank);
        self.blocks.insert(at, (kind, text));
        if glued {
            self.blocks.insert(at + 1, (Block::Blank, "\n".to_owned()));
        }
    }
}

/// An item at the margin, so that it does not become part of the one before it.
fn outdent(item: &str) -> String {
    let item = item.trim_end();
    let indent = item.len() - item.trim_start().len();
    let line = |line: &str| {
        let own = line.len() - line.trim_start().len();
        line.get(own.min(indent)..).unwrap_or(line).to_owned()
    };
    item.split('\n').map(line).collect::<Vec<_>>().join("\n")
}
