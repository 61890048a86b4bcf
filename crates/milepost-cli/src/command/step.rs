//! `step`: a step of a plan begins or ends, which is a checkpoint at once.

use milepost::Error;
use milepost::model::{Invalid, StepChange, StepStatus};

use super::number;
use crate::context::Context;
use crate::failure::Failure;
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
    what: String,
    /// The step
    #[arg(value_name = "ID")]
    id: String,
    /// The plan's file
    #[arg(long, value_name = "FILE")]
    plan: Option<String>,
    /// The step's number in the plan
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    ordinal: Option<String>,
    /// What people call it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
}

pub(crate) fn run(args: StepArgs, context: &Context<'_>) -> Result<(), Failure> {
    let Some((_, status)) = VERBS.iter().find(|(word, _)| *word == args.what) else {
        let words = VERBS.map(|(word, _)| word).join(", ");
        let message = format!("{:?} is not one of {words}", args.what);
        let source = Invalid { path: "/step_state/step_status".into(), message };
        return Err(Error::Value { name: "what happens to the step".into(), source }.into());
    };
    let ordinal = args.ordinal.map(|n| number(&n, "--ordinal", "/step_state/step_ordinal")).transpose()?;
    let change =
        StepChange { plan: args.plan, ordinal, title: args.title, ..StepChange::new(args.id, *status) };
    // Only what has begun can end: for that there must be a store and a run already.
    let ends = matches!(status, StepStatus::Done | StepStatus::Failed);
    let (mp, run) = if ends {
        let mp = context.reader()?;
        let run = context.run_that_is_there(&mp)?;
        (mp, run)
    } else {
        let mp = context.writer()?;
        let run = context.run_to_write(&mp)?;
        (mp, run)
    };
    let what = serde_json::json!({ "step_id": change.id, "step_status": change.status });
    let saved = mp.apply(&run, vec![change.into()], context.plain_save())?;
    Changed { schema: "milepost.step/1", run: &run, saved: saved.as_ref(), what }.present(context.screen)
}
