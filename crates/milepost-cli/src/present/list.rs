//! Checkpoints in a list: newest first, or as a tree.

use jiff::Timestamp;
use milepost::internal::engine::{LineageRow, ParentLink, lineage, source_details};
use milepost::store::Damage;
use milepost::{CheckpointList, ListedCheckpoint};
use serde::Serialize;

use super::damage::left_out;
use super::run::phase;
use super::table::{cell, lines, status, table};
use super::{Document, Note, Output, format};
use crate::error::Result;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.list/1")]
pub(crate) struct ListDocument {
    checkpoints: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<Damage>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    listed: ListedCheckpoint,
    #[serde(flatten)]
    node: Option<LineageRow>,
}

/// The start of a row in the tree: a branch to the right, and a sign for a parent that is missing or in a cycle.
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
    fn marks(&self) -> String {
        let marks = &self.listed.entry().marks;
        let completed = self.listed.completed().then(|| "done".to_owned());
        let pinned = marks.pinned.then(|| "pinned".to_owned());
        let tags = marks.tags.iter().map(|tag| format!("#{tag}"));
        completed.into_iter().chain(pinned).chain(tags).collect::<Vec<_>>().join(" ")
    }
}

impl ListDocument {
    pub(crate) fn new(listing: CheckpointList, tree: bool, now: Timestamp) -> Self {
        let all = listing.checkpoints;
        let row = |node: LineageRow| Some(Row { listed: all.get(node.at)?.clone(), node: Some(node) });
        let checkpoints = match tree {
            true => lineage(&all).into_iter().filter_map(row).collect(),
            false => all.into_iter().map(|listed| Row { listed, node: None }).collect(),
        };
        Self { checkpoints, damaged: listing.damaged, now }
    }
}

impl Document for ListDocument {
    fn render(&self, output: &Output) -> Result<()> {
        if self.checkpoints.is_empty() {
            output.message("no checkpoints");
            return Ok(());
        }
        let mut headings = vec!["ID", "RUN", "SAVED", "SOURCE", "STATUS", "PHASE", "MARKS", "SUMMARY"];
        let named = |row: &Row| row.listed.entry().header.imported_id().is_some();
        let has_names = self.checkpoints.iter().any(named);
        if has_names {
            headings.insert(1, "NAME");
        }
        let mut rows = table(output, &headings);
        for row in &self.checkpoints {
            let header = &row.listed.entry().header;
            let text = |value: &Option<String>| cell(value.as_deref().unwrap_or_default());
            let branch = row.node.as_ref().map(branch).unwrap_or_default();
            let mut cells = vec![
                cell(format!("{branch}{}", header.snapshot_id())),
                cell(format!("{}@{}", header.run_id(), header.sequence())),
                cell(format::ago(header.created_at(), self.now)),
                cell(source_details(row.listed.entry()).join(", ")),
                status(header.status()),
                cell(header.phase().as_ref().map(phase).unwrap_or_default()),
                cell(row.marks()),
                text(header.summary()),
            ];
            if has_names {
                cells.insert(1, text(header.imported_id()));
            }
            rows.add_row(cells);
        }
        output.write_text(&lines(&rows))
    }

    fn notes(&self) -> Vec<Note> {
        left_out(&self.damaged, "damaged row", "names what is damaged")
    }
}
