//! Checkpoints in a list: newest first, or as a tree.

use jiff::Timestamp;
use milepost::internal::engine::{LineageRow, ParentLink, lineage, source_details};
use milepost::model::{CheckpointId, Phase, RunId, Source, Status};
use milepost::{CheckpointList, ListedCheckpoint};
use serde::Serialize;

use super::damage::{DamageDocument, documents};
use super::run::phase;
use super::table::{cell, lines, status, table};
use super::{Document, Note, Output, format};
use crate::error::CommandError;

#[derive(Serialize)]
pub(crate) struct ListDocument {
    schema: &'static str,
    checkpoints: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DamageDocument>,
    #[serde(skip)]
    now: Timestamp,
}

#[derive(Serialize)]
struct Row {
    snapshot_id: CheckpointId,
    run_id: RunId,
    sequence: u64,
    created_at: Timestamp,
    session_id: String,
    parent: Option<CheckpointId>,
    source: Source,
    source_details: Vec<String>,
    status: Status,
    phase: Option<Phase>,
    task_summary: Option<String>,
    completed: bool,
    pinned: bool,
    tags: Vec<String>,
    /// The id that its brief gives itself, or that it had where it was imported from.
    name: Option<String>,
    #[serde(flatten)]
    place: Option<Place>,
}

/// The place of a row in the tree.
#[derive(Serialize)]
struct Place {
    depth: usize,
    /// `parent`, `root`, `missing` for a parent that is not in the list, `cycle`.
    lineage: &'static str,
}

impl From<LineageRow> for Place {
    fn from(place: LineageRow) -> Self {
        let lineage = match place.parent_link {
            ParentLink::Parent => "parent",
            ParentLink::Root => "root",
            ParentLink::Missing => "missing",
            ParentLink::Cycle => "cycle",
        };
        Self { depth: place.depth, lineage }
    }
}

impl Place {
    /// The start of its line: a branch to the right, and a sign for a parent that is missing or in a cycle.
    fn branch(&self) -> String {
        let sign = match self.lineage {
            "missing" => "… ",
            "cycle" => "↻ ",
            _ => "",
        };
        match self.depth {
            0 => sign.to_owned(),
            n => format!("{}└ {sign}", "│ ".repeat(n - 1)),
        }
    }
}

impl Row {
    fn new(listed: &ListedCheckpoint, place: Option<LineageRow>) -> Self {
        let (header, marks) = (listed.entry().header.clone(), listed.entry().marks.clone());
        Self {
            source_details: source_details(listed.entry()),
            snapshot_id: header.snapshot_id().clone(),
            run_id: header.run_id().clone(),
            sequence: header.sequence(),
            created_at: header.created_at(),
            session_id: header.session_id().clone(),
            parent: header.parent().clone(),
            source: header.source(),
            status: header.status(),
            phase: header.phase().clone(),
            task_summary: header.summary().clone(),
            completed: listed.completed(),
            pinned: marks.pinned,
            tags: marks.tags,
            name: header.imported_id().clone(),
            place: place.map(Place::from),
        }
    }

    fn marks(&self) -> String {
        let completed = self.completed.then(|| "done".to_owned());
        let pinned = self.pinned.then(|| "pinned".to_owned());
        let tags = self.tags.iter().map(|tag| format!("#{tag}"));
        completed.into_iter().chain(pinned).chain(tags).collect::<Vec<_>>().join(" ")
    }
}

impl ListDocument {
    pub(crate) fn new(listing: CheckpointList, tree: bool, now: Timestamp) -> Self {
        let all = &listing.checkpoints;
        let checkpoints = match tree {
            true => {
                let places = lineage(all).into_iter();
                places.filter_map(|place| Some(Row::new(all.get(place.at)?, Some(place)))).collect()
            }
            false => all.iter().map(|listed| Row::new(listed, None)).collect(),
        };
        Self { schema: "milepost.list/1", checkpoints, damaged: documents(&listing.damaged), now }
    }
}

impl Document for ListDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        if self.checkpoints.is_empty() {
            output.message("no checkpoints");
            return Ok(());
        }
        let mut headings = vec!["ID", "RUN", "SAVED", "SOURCE", "STATUS", "PHASE", "MARKS", "SUMMARY"];
        let named = self.checkpoints.iter().any(|row| row.name.is_some());
        if named {
            headings.insert(1, "NAME");
        }
        let mut rows = table(output, &headings);
        for row in &self.checkpoints {
            let branch = row.place.as_ref().map(Place::branch).unwrap_or_default();
            let mut cells = vec![
                cell(format!("{branch}{}", row.snapshot_id)),
                cell(format!("{}@{}", row.run_id, row.sequence)),
                cell(format::ago(row.created_at, self.now)),
                cell(row.source_details.join(", ")),
                status(row.status),
                cell(row.phase.as_ref().map(phase).unwrap_or_default()),
                cell(row.marks()),
                cell(row.task_summary.as_deref().unwrap_or_default()),
            ];
            if named {
                cells.insert(1, cell(row.name.as_deref().unwrap_or_default()));
            }
            rows.add_row(cells);
        }
        output.write_text(&lines(&rows))
    }

    fn notes(&self) -> Vec<Note> {
        if self.damaged.is_empty() {
            return Vec::new();
        }
        let n = format::counted(self.damaged.len() as u64, "damaged row");
        vec![Note::Message(format!("Warning: {n} left out; `milepost verify` names what is damaged"))]
    }
}
