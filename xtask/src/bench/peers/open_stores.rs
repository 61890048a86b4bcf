//! Measurements on open stores: durable saves and reads, growth to 100,000 checkpoints, and memory.

use anyhow::Result;
use serde_json::json;

use super::postgres::{MESSAGE, Messages};
use super::report::{Table, TableRow, Unit};
use super::systems::{System, Tools};
use super::worker::{SaveAll, Worker, interleave};
use crate::bench::chart::{Line, Owner, Panel};
use crate::bench::measure::{Sample, Work, folder};

/// All systems whose worker stays alive, in the order of the tables.
const ALL: [System; 11] = [
    System::Floor,
    System::Milepost,
    System::MilepostFiles,
    System::PlainSqlite,
    System::BetterSqlite,
    System::JsonFiles,
    System::Saver,
    System::LangGraphSqlite,
    System::MilepostPostgres,
    System::SaverPostgres,
    System::LangGraphPostgres,
];

const LIST: usize = 50;
/// The number of operations of a worker in each of its turns. After a turn of another process, the first operations
/// find the processor's caches cold.
const TURN: usize = 8;

/// A row without figures.
pub(super) fn empty_row(system: System) -> TableRow {
    let reference = match system.owner() {
        Owner::Milepost => Some(System::Floor),
        _ => system.reference(),
    };
    TableRow {
        name: system.name().to_owned(),
        owner: system.owner(),
        reference: reference.map(|system| system.name().to_owned()),
        cells: Vec::new(),
        note: None,
    }
}

pub(super) fn seconds(sample: &Sample) -> Option<f64> {
    Some(sample.median().as_secs_f64())
}

/// Saves of 4 KB and 64 KB; the newest state and a list of 50.
pub fn saves(tools: &Tools, is_short: bool) -> Result<Table> {
    let systems = tools.available(&ALL);
    let mut table = Table::new(
        "Durable save on an open store",
        "The median time of one save of a state of which 5% changed, of reading the newest state, and of listing the \
         newest 50 checkpoints. Each system is a process that keeps its store open and does eight operations in each turn. The state is passed as \
         JSON text, to LangGraph's savers and to MilepostSaver as the parsed objects. Every save is on disk when it \
         returns. The floor of a save is an append and an fdatasync, the floor of a read is one read of as many bytes.",
    );
    table.rows = systems.iter().map(|system| empty_row(*system)).collect();
    for (size, turns) in [(4, if is_short { 7 } else { 60 }), (64, if is_short { 2 } else { 30 })] {
        let folder = folder()?;
        let (mut workers, _places) = tools.start_all(&systems, folder.path())?;
        let mut states = States::new(size * 1024);
        // The first saves create files and prepare statements.
        for _ in 0..5 {
            let state = states.next();
            interleave(&mut workers, 1, |worker, _| worker.save("bench", &state))?;
        }
        let saved = interleave_states(&mut workers, turns, TURN, &mut states)?;
        add_column(&mut table, &format!("save, {size} KB"), &saved);
        if size == 4 {
            let latest = interleave(&mut workers, turns, |worker, _| worker.latest(TURN))?;
            add_column(&mut table, "latest, 4 KB", &latest);
            let listed = interleave(&mut workers, turns, |worker, _| worker.list(TURN, LIST))?;
            add_column(&mut table, "list of 50", &listed);
        }
        for worker in workers {
            worker.close()?;
        }
    }
    forget_list_of_floor(&mut table);
    Ok(table)
}

/// The floor has no list.
fn forget_list_of_floor(table: &mut Table) {
    let Some(column) = table.columns.iter().position(|(name, _)| name == "list of 50") else { return };
    for row in table.rows.iter_mut().filter(|row| row.owner == Owner::Floor) {
        row.cells[column] = None;
    }
}

fn add_column(table: &mut Table, name: &str, samples: &[Sample]) {
    table.columns.push((name.to_owned(), Unit::Seconds));
    for (row, sample) in table.rows.iter_mut().zip(samples) {
        row.cells.push(seconds(sample));
    }
}

/// States that change with each save.
pub(super) struct States {
    kind: Kind,
    /// The number of bytes that have changed so far.
    pub changed: usize,
}

enum Kind {
    /// 5% of the lines change.
    Lines(Work),
    /// One message is appended.
    List(Messages),
}

impl States {
    /// States of this size of which 5% change at each step.
    pub fn new(bytes: usize) -> Self {
        Self { kind: Kind::Lines(Work::new(bytes)), changed: 0 }
    }

    /// A list, empty at first, to which each step appends a message.
    pub fn growing() -> Self {
        Self { kind: Kind::List(Messages::new(0, 0)), changed: 0 }
    }

    pub fn next(&mut self) -> String {
        match &mut self.kind {
            Kind::Lines(work) => {
                self.changed += work.step(0.05);
                work.json()
            }
            Kind::List(messages) => {
                self.changed += MESSAGE;
                messages.grow();
                messages.json()
            }
        }
    }
}

/// Saves the same states with every worker, `per_turn` of them in each turn.
pub(super) fn interleave_states(
    workers: &mut [Worker],
    turns: usize,
    per_turn: usize,
    states: &mut States,
) -> Result<Vec<Sample>> {
    let (mut current, mut next) = (usize::MAX, SaveAll::new(&[]));
    interleave(workers, turns, |worker, turn| {
        if turn != current {
            let states: Vec<String> = (0..per_turn).map(|_| states.next()).collect();
            (current, next) = (turn, SaveAll::new(&states));
        }
        worker.save_all(&next)
    })
}

const GROWING: [System; 7] = [
    System::Floor,
    System::Milepost,
    System::MilepostFiles,
    System::PlainSqlite,
    System::BetterSqlite,
    System::JsonFiles,
    System::LangGraphSqlite,
];
/// The file store writes and syncs one file per checkpoint, so filling it further takes too long.
const MOST_FILES: usize = 10_000;

/// Saves and reads with more and more checkpoints in one run.
pub fn growth(tools: &Tools, is_short: bool) -> Result<(Vec<Table>, Vec<Panel>)> {
    let counts: &[usize] = if is_short { &[1, 100, 1_000] } else { &[1, 1_000, 10_000, 100_000] };
    let turns = if is_short { 1 } else { 10 };
    let mut systems = tools.available(&GROWING);
    let mut tables = [
        Table::new(
            "Growth: save",
            "The median time of a save of 1 KB with more and more checkpoints in one run. The stores are filled in large \
             transactions, JSON files without syncing them. LangGraph's saver is filled through its own tables and is \
             compared with Milepost on SQLite.",
        ),
        Table::new("Growth: latest", "From the same stores: reading the newest state."),
        Table::new("Growth: list", "From the same stores: a list of the newest 50, or of the only one."),
    ];
    for table in &mut tables {
        table.rows = systems.iter().map(|system| growth_row(*system)).collect();
    }
    let mut panels = ["save", "latest", "list"].map(|name| panel(name, &systems));
    let folder = folder()?;
    let (mut workers, _places) = tools.start_all(&systems, folder.path())?;
    let mut states = States::new(1024);
    let mut present = 0;
    for &count in counts {
        if count > MOST_FILES
            && let Some(n) = systems.iter().position(|system| *system == System::MilepostFiles)
        {
            systems.remove(n);
            workers.remove(n).close()?;
        }
        let state = states.next();
        for worker in &mut workers {
            worker.fill(count - present, &state)?;
        }
        // Reads come first, because saves add checkpoints.
        let latest = interleave(&mut workers, turns, |worker, _| worker.latest(TURN))?;
        let listed = interleave(&mut workers, turns, |worker, _| worker.list(TURN, LIST.min(count)))?;
        let saved = interleave_states(&mut workers, turns, TURN, &mut states)?;
        present = count + turns * TURN;
        let samples = [saved, latest, listed];
        for ((samples, panel), table) in samples.iter().zip(&mut panels).zip(&mut tables) {
            table.columns.push((super::thousands(count), Unit::Seconds));
            for row in &mut table.rows {
                let which = systems.iter().position(|system| system.name() == row.name);
                let is_list_of_floor = row.owner == Owner::Floor && panel.heading == "list";
                let value = which.filter(|_| !is_list_of_floor).and_then(|n| seconds(&samples[n]));
                row.cells.push(value);
                if let (Some(value), Some(line)) =
                    (value, panel.lines.iter_mut().find(|line| line.name == row.name))
                {
                    line.points.push((count as f64, value * 1e3));
                }
            }
        }
    }
    for worker in workers {
        worker.close()?;
    }
    Ok((tables.into(), panels.into()))
}

/// All systems are compared with Milepost on SQLite, since no saver for LangGraph of Milepost takes part.
fn growth_row(system: System) -> TableRow {
    let mut row = empty_row(system);
    if row.owner == Owner::Peer {
        row.reference = Some(System::Milepost.name().to_owned());
    }
    if system == System::MilepostFiles {
        let most = super::thousands(MOST_FILES);
        row.note = Some(format!("measured up to {most}, because it syncs one file per checkpoint"));
    }
    row
}

fn panel(heading: &str, systems: &[System]) -> Panel {
    let line =
        |system: &System| Line { name: system.name().to_owned(), points: Vec::new(), owner: system.owner() };
    Panel { heading: heading.to_owned(), lines: systems.iter().map(line).collect() }
}

/// The memory of a process after opening its store, and its peak during many saves.
pub fn memory(tools: &Tools, is_short: bool) -> Result<Table> {
    let count = if is_short { 200 } else { 10_000 };
    let systems = tools.available(&ALL);
    let mut table = Table::new(
        "Memory",
        format!(
            "The resident memory of the process that saves, with its runtime and libraries: after opening the store, \
             and the peak during {} saves of 4 KB. Memory of a PostgreSQL server is not included.",
            super::thousands(count)
        ),
    );
    table.columns = vec![("after opening".to_owned(), Unit::Bytes), ("peak".to_owned(), Unit::Bytes)];
    let mut states = States::new(4096);
    let states: Vec<String> = (0..32).map(|_| states.next()).collect();
    let command = json!({"do": "repeat", "count": count, "states": states});
    let folder = folder()?;
    let (mut workers, _places) = tools.start_all(&systems, folder.path())?;
    for (worker, system) in workers.iter().zip(&systems) {
        let mut row = empty_row(*system);
        row.cells.push(Some(worker.memory()?.0 as f64));
        table.rows.push(row);
    }
    // All save at the same time, since no time is measured.
    for worker in &mut workers {
        worker.send(&command)?;
    }
    for (mut worker, row) in workers.into_iter().zip(&mut table.rows) {
        worker.receive()?;
        row.cells.push(Some(worker.memory()?.1 as f64));
        worker.close()?;
    }
    Ok(table)
}
