//! What is kept: coalescing of triggers, which checkpoints go, which runs. Pure; every decision has its reasons.
//! In: headers with their marks, a policy, the time. Out: a fold or a plan. Nothing here removes anything.

mod coalesce;
mod ended;
mod plan;
mod reason;

#[cfg(test)]
mod tests;

pub use coalesce::{Fold, Trigger, WINDOW, coalesce, fold_into};
pub use ended::RunCase;
pub use plan::{Planned, RunFacts, plan};
pub use reason::Reason;
