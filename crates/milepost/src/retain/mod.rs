//! Retention: which triggers are coalesced, and which checkpoints and runs are removed. Pure. In: headers with their marks,
//! a policy, the time. Out: decisions, each with its reasons. Must not remove anything.

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
