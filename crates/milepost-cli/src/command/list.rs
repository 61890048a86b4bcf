//! `list`: checkpoints, newest first.

use jiff::Timestamp;
use milepost::internal::engine::{LineageRow, ParentLink, lineage, source_details};
use milepost::model::{CheckpointId, Phase, RunId, Source, Status};
use milepost::{ListQuery, ListedCheckpoint};
use serde::Serialize;

use crate::config::word;
use crate::context::Context;
use crate::error::CommandError;
use crate::present::damage::DamageDocument;
use crate::present::table::{cell, lines, status, table};
use crate::present::{format, run as runs};

/// List checkpoints, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost list\n  milepost list --run nightly --limit 0 --json\n  \
                        milepost list --incomplete --source error_boundary\n  milepost list --tree --limit 0")]
pub(crate) struct ListArgs {
    /// At most so many; 0 is all
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(super) limit: usize,
    /// Only completed ones
    #[arg(long, conflicts_with = "incomplete")]
    pub(super) completed: bool,
    /// Only those that are not completed
    #[arg(long)]
    pub(super) incomplete: bool,
    /// Only of this source: step_boundary, error_boundary, timer or manual
    #[arg(long, value_name = "S")]
    pub(super) source: Option<String>,
    /// Only of this status: in_progress, failed, completed or paused
    #[arg(long, value_name = "S")]
    pub(super) status: Option<String>,
    /// Only with this tag
    #[arg(long, value_name = "T")]
    pub(super) tag: Option<String>,
    /// Below their parents instead of newest first; lines branch to the right
    #[arg(long)]
    pub(super) tree: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    checkpoints: Vec<Row<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<DamageDocument<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    snapshot_id: &'a CheckpointId,
    run_id: &'a RunId,
    sequence: u64,
    created_at: Timestamp,
    session_id: &'a str,
    parent: Option<&'a CheckpointId>,
    source: Source,
    source_details: Vec<String>,
    status: Status,
    phase: Option<&'a Phase>,
    task_summary: Option<&'a str>,
    completed: bool,
    pinned: bool,
    tags: &'a [String],
    /// The id that its brief gives itself, or that it had where it was imported from.
    name: Option<&'a str>,
    #[serde(flatten)]
    place: Option<Place>,
}

/// Where it stands in the tree.
#[derive(Serialize)]
struct Place {
    depth: usize,
    /// `parent`, `root`, `missing` for a parent that is not in the list, `cycle`.
    lineage: &'static str,
}

impl Place {
    fn of(place: &LineageRow) -> Self {
        let lineage = match place.parent_link {
            ParentLink::Parent => "parent",
            ParentLink::Root => "root",
            ParentLink::Missing => "missing",
            ParentLink::Cycle => "cycle",
        };
        Self { depth: place.depth, lineage }
    }
}

pub(crate) fn run(args: ListArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let source = args.source.as_deref().map(|s| word(s, "--source", "/source")).transpose()?;
    let wanted = args.status.as_deref().map(|s| word(s, "--status", "/status")).transpose()?;
    let mp = context.open_existing()?;
    let hidden = match &context.config.run {
        Some(run) => {
            context.ensure_visible(&mp, run)?;
            Vec::new()
        }
        None => context.hidden_runs(&mp)?,
    };
    let mut listing = mp.list(&ListQuery {
        run: context.config.run.clone(),
        // Checkpoints that are left out take no place of others.
        limit: if hidden.is_empty() { args.limit } else { 0 },
        completed: (args.completed || args.incomplete).then_some(args.completed),
        source,
        status: wanted,
        tag: args.tag,
    })?;
    listing.checkpoints.retain(|listed| !hidden.contains(&listed.entry.header.run_id));
    if args.limit > 0 {
        listing.checkpoints.truncate(args.limit);
    }
    if !listing.damaged.is_empty() {
        let n = format::counted(listing.damaged.len() as u64, "damaged row");
        context.output.message(&format!("Warning: {n} left out; `milepost verify` names what is damaged"));
    }
    let order: Vec<(Option<LineageRow>, usize)> = match args.tree {
        true => lineage(&listing.checkpoints).into_iter().map(|place| (Some(place), place.at)).collect(),
        false => (0..listing.checkpoints.len()).map(|at| (None, at)).collect(),
    };
    if context.output.json {
        return context.output.document(&Document {
            schema: "milepost.list/1",
            checkpoints: order
                .iter()
                .filter_map(|(place, at)| Some(row(listing.checkpoints.get(*at)?, place.as_ref())))
                .collect(),
            damaged: DamageDocument::all(&listing.damaged),
        });
    }
    if listing.checkpoints.is_empty() {
        context.output.message("no checkpoints");
        return Ok(());
    }
    let mut headings = vec!["ID", "RUN", "SAVED", "SOURCE", "STATUS", "PHASE", "MARKS", "SUMMARY"];
    let named = listing.checkpoints.iter().any(|listed| listed.entry.header.imported_id.is_some());
    if named {
        headings.insert(1, "NAME");
    }
    let mut shown = table(context.output, &headings);
    let now = mp.now();
    for (place, at) in &order {
        let Some(listed) = listing.checkpoints.get(*at) else { continue };
        let header = &listed.entry.header;
        let mut cells = vec![
            cell(format!("{}{}", place.as_ref().map(branch).unwrap_or_default(), header.snapshot_id)),
            cell(format!("{}@{}", header.run_id, header.sequence)),
            cell(format::ago(header.created_at, now)),
            cell(source_details(&listed.entry).join(", ")),
            status(header.status),
            cell(header.phase.as_ref().map(runs::phase).unwrap_or_default()),
            cell(marks(listed)),
            cell(header.summary.as_deref().unwrap_or_default()),
        ];
        if named {
            cells.insert(1, cell(header.imported_id.as_deref().unwrap_or_default()));
        }
        shown.add_row(cells);
    }
    context.output.text(&lines(&shown))
}

/// How a line of the tree begins: a dot on the line, a branch to the right, and what is odd about where it begins.
fn branch(place: &LineageRow) -> String {
    let sign = match place.parent_link {
        ParentLink::Parent | ParentLink::Root => "",
        ParentLink::Missing => "… ",
        ParentLink::Cycle => "↻ ",
    };
    match place.depth {
        0 => sign.to_owned(),
        n => format!("{}└ {sign}", "│ ".repeat(n - 1)),
    }
}

fn row<'a>(listed: &'a ListedCheckpoint, place: Option<&LineageRow>) -> Row<'a> {
    let header = &listed.entry.header;
    Row {
        snapshot_id: &header.snapshot_id,
        run_id: &header.run_id,
        sequence: header.sequence,
        created_at: header.created_at,
        session_id: &header.session_id,
        parent: header.parent.as_ref(),
        source: header.source,
        source_details: source_details(&listed.entry),
        status: header.status,
        phase: header.phase.as_ref(),
        task_summary: header.summary.as_deref(),
        completed: listed.completed,
        pinned: listed.entry.marks.pinned,
        tags: &listed.entry.marks.tags,
        name: header.imported_id.as_deref(),
        place: place.map(Place::of),
    }
}

fn marks(listed: &ListedCheckpoint) -> String {
    let marks = &listed.entry.marks;
    let completed = listed.completed.then(|| "done".to_owned());
    let pinned = marks.pinned.then(|| "pinned".to_owned());
    let tags = marks.tags.iter().map(|tag| format!("#{tag}"));
    completed.into_iter().chain(pinned).chain(tags).collect::<Vec<_>>().join(" ")
}
