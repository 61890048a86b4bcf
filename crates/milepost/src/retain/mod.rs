//! Retention: decides which triggers are coalesced, and which checkpoints and runs are removed. Takes headers
//! with their marks, a policy and the time; returns decisions with their reasons. Pure: must not remove
//! anything itself.

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
