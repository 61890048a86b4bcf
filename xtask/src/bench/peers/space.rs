//! Measurements of space: bytes on disk per changed byte, and what remains after most checkpoints are deleted.

use anyhow::Result;

use super::open_stores::{States, empty_row, interleave_states};
use super::report::{Table, TableRow, Unit};
use super::systems::{System, Tools, folder_bytes};
use super::worker::interleave;
use crate::bench::chart::Owner;
use crate::bench::files::project::git;
use crate::bench::measure::folder;
use crate::bench::process::run_successfully;

const STORED: [System; 10] = [
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
/// The name of the shadow repository in the tables.
pub(super) const GIT: &str = "shadow git repository";

/// Creates the states of a case.
type NewStates = fn() -> States;

/// Bytes on disk after 1,000 saves, per byte that changed.
pub fn bytes(tools: &Tools, is_short: bool) -> Result<Table> {
    let (turns, per_turn) = if is_short { (6, 10) } else { (50, 20) };
    let saves = turns * per_turn;
    let systems = tools.available(&STORED);
    let mut table = Table::new(
        "Bytes per changed byte",
        format!(
            "{} saves of a state of which 5% change each time, at random places, and half as many saves of a list of \
             messages to which each save appends 200 bytes. The figure is the size of all files after the store was \
             closed, or the growth of the database with its indexes, divided by the bytes that changed. The shadow \
             repository is `git add -A && git commit` of the state as a file, with loose objects as git leaves them.",
            super::thousands(saves)
        ),
    );
    table.rows = systems.iter().map(|system| empty_row(*system)).collect();
    table.rows.push(git_row());
    let cases: [(&str, NewStates, usize); 3] = [
        ("4 KB", || States::new(4 * 1024), turns),
        ("64 KB", || States::new(64 * 1024), turns),
        ("growing list", States::growing, turns / 2),
    ];
    for (name, states, turns) in cases {
        table.columns.push((name.to_owned(), Unit::Factor));
        let folder = folder()?;
        let (mut workers, places) = tools.start_all(&systems, folder.path())?;
        let empty = places.iter().map(|place| tools.bytes(place)).collect::<Result<Vec<_>>>()?;
        let mut saved = states();
        interleave_states(&mut workers, turns, per_turn, &mut saved)?;
        for worker in workers {
            worker.close()?;
        }
        for ((place, empty), row) in places.iter().zip(empty).zip(&mut table.rows) {
            // The files of a new store count. A new database has 7 MB of catalogues, which do not.
            let base = if place.is_database() { empty } else { 0 };
            row.cells.push(Some((tools.bytes(place)? - base) as f64 / saved.changed as f64));
        }
        if let Some(row) = table.rows.last_mut() {
            row.cells.push(Some(git_bytes(turns * per_turn, states())?));
        }
    }
    Ok(table)
}

fn git_row() -> TableRow {
    TableRow {
        name: GIT.to_owned(),
        owner: Owner::Peer,
        reference: Some(System::Milepost.name().to_owned()),
        cells: Vec::new(),
        note: None,
    }
}

/// The size of a repository with one commit per save, per changed byte.
fn git_bytes(saves: usize, mut states: States) -> Result<f64> {
    let folder = folder()?;
    let root = folder.path().join("worktree");
    std::fs::create_dir(&root)?;
    run_successfully(git(&root).args(["init", "-q", "-b", "main"]))?;
    let empty = folder_bytes(&root)?;
    for _ in 0..saves {
        std::fs::write(root.join("state.json"), states.next())?;
        run_successfully(git(&root).args(["add", "-A"]))?;
        run_successfully(git(&root).args(["commit", "-q", "-m", "step"]))?;
    }
    let worktree = std::fs::metadata(root.join("state.json"))?.len();
    Ok((folder_bytes(&root)? - empty - worktree) as f64 / states.changed as f64)
}

const DELETED: [System; 7] = [
    System::Milepost,
    System::MilepostFiles,
    System::PlainSqlite,
    System::BetterSqlite,
    System::JsonFiles,
    System::Saver,
    System::LangGraphSqlite,
];
const THREADS: usize = 10;

/// The bytes that remain after nine tenths of the checkpoints are deleted.
pub fn deletion(tools: &Tools, is_short: bool) -> Result<Table> {
    let all = if is_short { 100 } else { 1_000 };
    let left = all / THREADS;
    let systems = tools.available(&DELETED);
    let mut table = Table::new(
        "Space after delete",
        format!(
            "{} checkpoints of 16 KB, of which 5% change each time, are saved, and all but {left} are deleted by the \
             means of each system: `milepost prune --keep-last {left}`, `DELETE` of the oldest rows, or unlinking the \
             oldest files. LangGraph's savers delete whole threads, so there are {THREADS} threads and \
             `delete_thread` deletes nine. `VACUUM` is not run, because no system runs it by itself. The last column is \
             the size of a store of the same system that never had the deleted checkpoints.",
            super::thousands(all)
        ),
    );
    table.columns = ["after the delete", "never had them"]
        .map(|name| (name.to_owned(), Unit::Bytes))
        .into_iter()
        .collect();
    for system in systems {
        let mut row = empty_row(system);
        let after = stored_bytes(tools, system, all, left)?;
        let lean = stored_bytes(tools, system, left, left)?;
        row.cells = [after, lean].map(|bytes| Some(bytes as f64)).to_vec();
        table.rows.push(row);
    }
    Ok(table)
}

/// Saves, deletes all but `left` checkpoints if there are more, closes the store and returns its size.
fn stored_bytes(tools: &Tools, system: System, saves: usize, left: usize) -> Result<u64> {
    let has_threads = matches!(system, System::Saver | System::LangGraphSqlite);
    let thread = |n: usize| if has_threads { format!("thread-{}", n / left) } else { "bench".to_owned() };
    let folder = folder()?;
    let (mut workers, places) = tools.start_all(&[system], folder.path())?;
    let mut states = States::new(16 * 1024);
    interleave(&mut workers, saves, |worker, n| worker.save(&thread(n), &states.next()))?;
    for mut worker in workers {
        if saves > left && has_threads {
            let threads: Vec<String> = (0..saves - left).step_by(left).map(thread).collect();
            worker.delete(&threads)?;
        } else if saves > left {
            worker.keep(left)?;
        }
        worker.close()?;
    }
    tools.bytes(&places[0])
}
