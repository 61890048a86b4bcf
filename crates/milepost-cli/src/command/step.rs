//! `step`: a step of a plan begins or ends, which is a checkpoint at once.

use milepost::Error;
use milepost::model::{StepChange, StepStatus, ValidationError};

use super::number;
use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::present::saved::Changed;

/// What can happen to a step.
const VERBS: [(&str, StepStatus); 4] = [
    ("begin", StepStatus::InProgress),
    ("done", StepStatus::Done),
    ("fail", StepStatus::Failed),
    ("skip", StepStatus::Skipped),
];

/// Say that a step of a plan begins or ends, and save at once
///
/// Prints the checkpoint's id. `done` and `fail` need a step that has begun; `skip` does not. Steps may overlap.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost step begin parse --plan plan.md --ordinal 3 --title \"Parse\"\n  \
                        milepost step done parse\n  milepost step skip print"
)]
pub(crate) struct StepArgs {
    /// What happens: begin, done, fail or skip
    #[arg(value_name = "WHAT")]
    pub(super) what: String,
    /// The step
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// The plan's file
    #[arg(long, value_name = "FILE")]
    pub(super) plan: Option<String>,
    /// The step's number in the plan
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) ordinal: Option<String>,
    /// What people call it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) title: Option<String>,
}

pub(crate) fn run(args: StepArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let Some((_, status)) = VERBS.iter().find(|(word, _)| *word == args.what) else {
        let words = VERBS.map(|(word, _)| word).join(", ");
        let message = format!("\"{}\" is not one of {words}", args.what);
        let source = ValidationError { path: "/step_state/step_status".into(), message };
        return Err(Error::Value { name: "what happens to the step".into(), source }.into());
    };
    let ordinal = args.ordinal.map(|n| number(&n, "--ordinal", "/step_state/step_ordinal")).transpose()?;
    let change =
        StepChange { plan: args.plan, ordinal, title: args.title, ..StepChange::new(args.id, *status) };
    // Only what has begun can end: for that there must be a store and a run already.
    let ends = matches!(status, StepStatus::Done | StepStatus::Failed);
    let to = if ends { Target::Current } else { Target::CurrentOrNew };
    let what = serde_json::json!({ "step_id": change.id, "step_status": change.status });
    let applied = context.apply(vec![change.into()], &to)?;
    Changed { schema: "milepost.step/1", applied: &applied, what }.present(context.output)
}
