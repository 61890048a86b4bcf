//! `criterion`: sets the status of a success criterion.

use milepost::model::{Criterion, CriterionChange, CriterionStatus};
use serde::Serialize;

use crate::completion::Values;
use crate::context::{Context, Target};
use crate::input::Argument;
use crate::present::saved::{ChangeDocument, ChangeResult};

/// Set the status of a success criterion
///
/// The change is durable when the command returns and is part of the next checkpoint.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost criterion set tests pending --subject \"all tests pass\"\n  \
                        milepost criterion set tests completed")]
pub(crate) struct CriterionArgs {
    #[command(subcommand)]
    action: CriterionAction,
}

#[derive(Debug, clap::Subcommand)]
enum CriterionAction {
    /// Set the status of a success criterion
    #[command(
        after_help = "Examples:\n  milepost criterion set tests pending --subject \"all tests pass\"\n  \
                            milepost criterion set tests completed"
    )]
    Set {
        /// Id of the criterion
        #[arg(value_name = "ID")]
        id: String,
        /// Status: pending, in_progress or completed
        #[arg(value_name = "STATUS", add = Values::Words(CriterionStatus::NAMES))]
        status: Argument<CriterionStatus>,
        /// Condition that must hold
        #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
        subject: Option<String>,
    },
}

#[derive(Serialize)]
pub(crate) struct CriterionFields {
    criterion: CriterionState,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CriterionState {
    Recorded(Criterion),
    /// A change that is waiting in the outbox.
    Queued {
        id: String,
        status: CriterionStatus,
        subject: Option<String>,
    },
}

pub(crate) fn execute(args: CriterionArgs, context: &Context<'_>) -> ChangeResult<CriterionFields> {
    let CriterionAction::Set { id, status, subject } = args.action;
    let status = status.choice("the criterion's status", "/criteria/status")?;
    let change = CriterionChange { subject: subject.clone(), ..CriterionChange::new(&id, status) };
    let applied = context.apply(vec![change.into()], &Target::CurrentOrNew)?;
    let record = applied.record();
    let recorded = record.and_then(|record| record.working().criteria().iter().find(|c| c.id == id).cloned());
    let criterion = match recorded {
        Some(criterion) => CriterionState::Recorded(criterion),
        None => CriterionState::Queued { id, status, subject },
    };
    Ok(ChangeDocument::new("milepost.criterion/1", &applied, CriterionFields { criterion }))
}
