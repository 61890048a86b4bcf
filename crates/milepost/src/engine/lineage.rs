//! Lineage: orders listed checkpoints as a tree, by their parents. Pure. Every listed checkpoint appears in
//! the result.

use std::collections::HashMap;

use super::ListedCheckpoint;

/// The state of a checkpoint's link to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentLink {
    /// Its parent is in the list.
    Parent,
    /// It has no parent.
    Root,
    /// Its parent is not in the list.
    Missing,
    /// Its parent is itself or one of its descendants.
    Cycle,
}

/// A checkpoint's place in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct LineageRow {
    /// The index of the listed checkpoint.
    #[serde(skip)]
    pub at: usize,
    /// The number of branch points between it and the main line.
    pub depth: usize,
    /// The state of its link to its parent.
    #[serde(rename = "lineage")]
    pub parent_link: ParentLink,
}

/// Orders a list, newest first, as a tree: each checkpoint below its parent, oldest child first. A line
/// that does not branch keeps its depth.
pub fn lineage(listed: &[ListedCheckpoint]) -> Vec<LineageRow> {
    let header = |at: usize| listed.get(at).map(|one| &one.entry.header);
    let ids: HashMap<_, _> =
        listed.iter().enumerate().map(|(at, one)| (&one.entry.header.snapshot_id, at)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); listed.len()];
    let mut roots = Vec::new();
    for at in (0..listed.len()).rev() {
        match header(at).and_then(|header| header.parent.as_ref()).map(|parent| ids.get(parent)) {
            Some(Some(parent)) if *parent != at => {
                if let Some(below) = children.get_mut(*parent) {
                    below.push(at);
                }
            }
            Some(Some(_)) => roots.push((at, ParentLink::Cycle)),
            Some(None) => roots.push((at, ParentLink::Missing)),
            None => roots.push((at, ParentLink::Root)),
        }
    }
    let mut seen = vec![false; listed.len()];
    let mut rows = Vec::with_capacity(listed.len());
    for root in roots {
        walk(root, &children, &mut seen, &mut rows);
    }
    // Checkpoints that no root reaches form cycles. Each cycle starts with its oldest checkpoint.
    for at in (0..listed.len()).rev() {
        if seen.get(at) == Some(&false) {
            walk((at, ParentLink::Cycle), &children, &mut seen, &mut rows);
        }
    }
    rows
}

fn walk(root: (usize, ParentLink), children: &[Vec<usize>], seen: &mut [bool], rows: &mut Vec<LineageRow>) {
    let mut open = vec![(root.0, 0, root.1)];
    while let Some((at, depth, parent_link)) = open.pop() {
        match seen.get_mut(at) {
            Some(seen) if !*seen => *seen = true,
            _ => continue,
        }
        rows.push(LineageRow { at, depth, parent_link });
        let below = children.get(at).map(Vec::as_slice).unwrap_or_default();
        // The newest child continues the line. The other children are branches, which come first.
        for (n, child) in below.iter().rev().enumerate() {
            let depth = if n == 0 { depth } else { depth + 1 };
            open.push((*child, depth, ParentLink::Parent));
        }
    }
}
