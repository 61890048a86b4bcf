//! The native module of the Python package `milepost`. Offers the library's operations with Python's types: handles,
//! frozen results and exceptions. The package in `python/milepost` adds what is more natural in Python: context
//! managers, decorators, async variants. Every function that does I/O releases the interpreter while it does.

mod engine;
mod error;
mod gate;
mod handle;
mod json;
mod results;
mod run;
mod text;
mod threads;
mod timer;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
mod _milepost {
    #[pymodule_export]
    use super::engine::Engine;
    #[pymodule_export]
    use super::gate::{after_fork_in_child, after_fork_in_parent, before_fork};
    #[pymodule_export]
    use super::json::{decode_state, encode_state};
    #[pymodule_export]
    use super::results::checkpoint::{Checkpoint, CheckpointSummary, Damage, Decision, Message, Saved, Task};
    #[pymodule_export]
    use super::results::files::{KeptFile, PlannedFile, RestorePlanData, RestoreReport, UndoPoint};
    #[pymodule_export]
    use super::results::run::RunSummary;
    #[pymodule_export]
    use super::results::search::{SearchHit, SearchResults};
    #[pymodule_export]
    use super::results::store::{SyncReport, VerifyReport};
    #[pymodule_export]
    use super::run::{RunHandle, TaskHandle};
    #[pymodule_export]
    use super::threads::{LoadedCheckpoint, ThreadEntries, ThreadEntry, Threads};
    #[pymodule_export]
    use super::timer::{TimerHandle, stop_callbacks};
}
