//! Measurement on one PostgreSQL server with fsync: lists of messages that grow with every save, in Milepost and in
//! LangGraph's saver.

use anyhow::Result;

use super::open_stores::{empty_row, seconds};
use super::report::{Table, Unit};
use super::systems::{System, Tools};
use super::worker::interleave;
use crate::bench::measure::folder;

const SYSTEMS: [System; 3] = [System::MilepostPostgres, System::SaverPostgres, System::LangGraphPostgres];
/// The length of a message.
pub(super) const MESSAGE: usize = 200;
/// The number of threads. Each is saved in turn.
const THREADS: usize = 10;

/// The time of a save, and the growth of the database per save.
pub fn lists(tools: &Tools, is_short: bool) -> Result<Table> {
    let mut table = Table::new(
        "PostgreSQL",
        format!(
            "Lists of messages on one private server with fsync, in {THREADS} threads; each save appends a message of \
             {MESSAGE} bytes. The time is the median of a save, the bytes are the growth of the database with its \
             indexes per save, without the first save of each thread and without the server's log."
        ),
    );
    let systems = tools.available(&SYSTEMS);
    let rounds = if is_short { 1 } else { 15 };
    table.rows = systems.iter().map(|system| empty_row(*system)).collect();
    for row in &mut table.rows {
        // Both forms of Milepost have the same floor, which is not a row.
        if row.name.starts_with("Milepost") {
            row.reference = None;
        }
    }
    for length in [2_000, 20_000, 200_000] {
        let folder = folder()?;
        let (mut workers, places) = tools.start_all(&systems, folder.path())?;
        let mut lists: Vec<Messages> = (0..THREADS).map(|n| Messages::new(n as u64, length)).collect();
        for (n, list) in lists.iter_mut().enumerate() {
            let state = list.json();
            interleave(&mut workers, 1, |worker, _| worker.save(&format!("thread-{n}"), &state))?;
        }
        let sizes = || places.iter().map(|place| tools.bytes(place)).collect::<Result<Vec<_>>>();
        let before = sizes()?;
        let (mut current, mut state) = (usize::MAX, String::new());
        let saves = rounds * THREADS;
        let samples = interleave(&mut workers, saves, |worker, round| {
            let thread = round % THREADS;
            if round != current {
                current = round;
                lists[thread].grow();
                state = lists[thread].json();
            }
            worker.save(&format!("thread-{thread}"), &state)
        })?;
        let after = sizes()?;
        for worker in workers {
            worker.close()?;
        }
        let name = format!("{} KB", length / 1000);
        table.columns.push((format!("{name}, time"), Unit::Seconds));
        table.columns.push((format!("{name}, bytes"), Unit::Bytes));
        for (n, row) in table.rows.iter_mut().enumerate() {
            let grown = after[n].saturating_sub(before[n]) as f64 / saves as f64;
            row.cells.extend([seconds(&samples[n]), Some(grown)]);
        }
    }
    Ok(table)
}

/// A list of messages of text that hardly compresses.
pub(super) struct Messages {
    messages: Vec<String>,
    seed: u64,
}

impl Messages {
    /// A list of this many bytes.
    pub(super) fn new(seed: u64, length: usize) -> Self {
        let mut list = Self { messages: Vec::new(), seed: (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) };
        while list.messages.len() * MESSAGE < length {
            list.grow();
        }
        list
    }

    /// Appends a message.
    pub(super) fn grow(&mut self) {
        const LETTERS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .";
        let mut text = String::with_capacity(MESSAGE);
        while text.len() < MESSAGE {
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 7;
            self.seed ^= self.seed << 17;
            text.push(char::from(LETTERS[(self.seed >> 32) as usize % LETTERS.len()]));
        }
        self.messages.push(text);
    }

    pub(super) fn json(&self) -> String {
        format!("[\"{}\"]", self.messages.join("\",\""))
    }
}
