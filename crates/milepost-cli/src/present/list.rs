//! The result of `list`: checkpoints, newest first or as a tree.

use jiff::Timestamp;
use milepost::internal::engine::{LineageRow, ParentLink, lineage, source_details};
use milepost::model::Source;
use milepost::store::Damage;
use milepost::{CheckpointList, ListedCheckpoint};
use serde::Serialize;

use super::damage::left_out;
use super::run::phase;
use super::table::{Column, Table, cell, checkpoint, numbered, status};
use super::{Document, Note, Output, format};
use crate::error::Result;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.list/1")]
pub(crate) struct ListDocument {
    checkpoints: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Damage>,
    /// Whether there are more than `--limit` allows.
    more: bool,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    listed: ListedCheckpoint,
    #[serde(flatten)]
    node: Option<LineageRow>,
    /// Number of characters of the short id that identify it.
    #[serde(skip)]
    unique: Option<usize>,
}

/// The prefix of a row in the tree: its branch, and a sign if the parent is missing or in a cycle.
fn branch(node: &LineageRow) -> String {
    let sign = match node.parent_link {
        ParentLink::Missing => "… ",
        ParentLink::Cycle => "↻ ",
        ParentLink::Parent | ParentLink::Root => "",
    };
    match node.depth {
        0 => sign.to_owned(),
        n => format!("{}└ {sign}", "│ ".repeat(n - 1)),
    }
}

impl Row {
    /// The sources and reasons. A reason says more than `manual`, which is then omitted.
    fn source(&self) -> String {
        let mut details = source_details(self.listed.entry());
        if details.len() > 1 {
            details.retain(|detail| detail != Source::Manual.as_str());
        }
        details.join(", ")
    }

    fn marks(&self) -> String {
        let marks = &self.listed.entry().marks;
        let completed = self.listed.completed().then(|| "done".to_owned());
        let pinned = marks.pinned.then(|| "pinned".to_owned());
        let tags = marks.tags.iter().map(|tag| format!("#{tag}"));
        completed.into_iter().chain(pinned).chain(tags).collect::<Vec<_>>().join(" ")
    }
}

impl ListDocument {
    /// Creates a list. `unique` has the number of identifying characters of each short id.
    pub(crate) fn new(
        listing: CheckpointList,
        unique: &[Option<usize>],
        more: bool,
        tree: bool,
        now: Timestamp,
    ) -> Self {
        let all = listing.checkpoints;
        let row = |at: usize, node| {
            let unique = unique.get(at).copied().flatten();
            Some(Row { listed: all.get(at)?.clone(), node, unique })
        };
        let checkpoints = match tree {
            true => lineage(&all).into_iter().filter_map(|node| row(node.at, Some(node))).collect(),
            false => (0..all.len()).filter_map(|at| row(at, None)).collect(),
        };
        Self { checkpoints, damaged: listing.damaged, more, now }
    }
}

impl Document for ListDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.checkpoints.is_empty() {
            output.message("No checkpoints.");
            return Ok(());
        }
        let mut table = Table::new(
            output,
            &[
                Column::new("ID"),
                Column::text("NAME", 12).optional(2),
                Column::text("RUN", 12),
                Column::new("SAVED"),
                Column::new("STATUS"),
                Column::text("PHASE", 8).optional(3),
                Column::text("SOURCE", 12).optional(1),
                Column::text("MARKS", 10).optional(4),
                Column::text("SUMMARY", 20),
            ],
        );
        for row in &self.checkpoints {
            let header = &row.listed.entry().header;
            let text = |value: &Option<String>| cell(value.as_deref().unwrap_or_default());
            let branch = row.node.as_ref().map(branch).unwrap_or_default();
            table.add_row([
                checkpoint(header.snapshot_id(), row.unique).behind(&branch),
                text(header.imported_id()),
                numbered(header.run_id(), header.sequence()),
                cell(format::ago(header.created_at(), self.now)),
                status(header.status()),
                cell(header.phase().as_ref().map(phase).unwrap_or_default()),
                cell(row.source()),
                cell(row.marks()),
                text(&header.summary().clone().or_else(|| row.listed.about().clone())),
            ]);
        }
        output.write_text(&table.lines())?;
        if self.more {
            let n = self.checkpoints.len();
            output.message(&format!("Showing the newest {n}; `milepost list --limit 0` shows all"));
        }
        Ok(())
    }

    fn notes(&self) -> Vec<Note> {
        left_out(&self.damaged, "damaged row", "lists the damage")
    }
}
