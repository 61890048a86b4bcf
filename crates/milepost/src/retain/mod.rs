//! What is kept: coalescing of triggers, which checkpoints go, which runs. Pure; every decision has its reasons.
//! In: headers with their marks, a policy, the time. Out: a fold or a plan. Nothing here removes anything.

mod coalesce;
mod ended;
mod plan;
mod reason;

#[cfg(test)]
mod tests;

pub(crate) use coalesce::{CoalesceDecision, Trigger, coalesce, coalesce_into};
pub(crate) use ended::EndedRun;
pub(crate) use plan::{RetentionDecision, RunFacts, plan};
pub(crate) use reason::Reason;
