//! What is kept: coalescing of triggers, and which checkpoints go. Pure; every decision has its reasons.
//! In: headers with their marks, a policy, the time. Out: a fold or a plan. Nothing here removes anything.

mod coalesce;
mod plan;

pub use coalesce::{Fold, Trigger, WINDOW, coalesce, fold_into};
pub use plan::{Planned, Reason, RunFacts, plan};
