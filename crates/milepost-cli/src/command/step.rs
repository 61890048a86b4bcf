//! `step`: records the start or end of a plan step, and saves a checkpoint.

use milepost::Error;
use milepost::model::{StepChange, StepStatus, ValidationError};
use serde::Serialize;

use crate::completion::Values;
use crate::context::{Context, Target};
use crate::input::Argument;
use crate::present::saved::{ChangeDocument, ChangeResult};

/// The verbs of the command and the status that each one sets.
const VERBS: [(&str, StepStatus); 4] = [
    ("begin", StepStatus::InProgress),
    ("done", StepStatus::Done),
    ("fail", StepStatus::Failed),
    ("skip", StepStatus::Skipped),
];

/// Record the start or end of a plan step, and save
///
/// Prints the checkpoint's id. `done` and `fail` need a step that has begun; `skip` does not. Steps may
/// overlap.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost step begin parse --plan plan.md --ordinal 3 --title \"Parse\"\n  \
                        milepost step done parse\n  milepost step skip print"
)]
pub(crate) struct StepArgs {
    /// Change to record: begin, done, fail or skip
    #[arg(value_name = "CHANGE", add = Values::Words(&["begin", "done", "fail", "skip"]))]
    pub(super) what: Argument<StepStatus>,
    /// Id of the step
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// Plan file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) plan: Option<String>,
    /// Number of the step in the plan
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) ordinal: Option<Argument<u64>>,
    /// Title of the step
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) title: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct StepFields {
    step_id: String,
    step_status: StepStatus,
}

fn parse_status(what: Argument<StepStatus>) -> Result<StepStatus, Error> {
    let text = match what {
        Argument::Value(status) => return Ok(status),
        Argument::Text(text) => text,
    };
    VERBS.iter().find(|(word, _)| *word == text).map(|(_, status)| *status).ok_or_else(|| {
        let message = format!("\"{text}\" is not one of {}", VERBS.map(|(word, _)| word).join(", "));
        let source = ValidationError { path: "/step_state/step_status".into(), message };
        Error::Value { name: "the change of the step".into(), source }
    })
}

pub(crate) fn execute(args: StepArgs, context: &Context<'_>) -> ChangeResult<StepFields> {
    let status = parse_status(args.what)?;
    let ordinal = args.ordinal.map(|n| n.number("--ordinal", "/step_state/step_ordinal")).transpose()?;
    let change =
        StepChange { plan: args.plan, ordinal, title: args.title, ..StepChange::new(args.id, status) };
    // A step can end only after it has begun, so the store and the run must already exist.
    let ends = matches!(status, StepStatus::Done | StepStatus::Failed);
    let to = if ends { Target::Current } else { Target::CurrentOrNew };
    let fields = StepFields { step_id: change.id.clone(), step_status: change.status };
    let applied = context.apply(vec![change.into()], &to)?;
    Ok(ChangeDocument::new("milepost.step/1", &applied, fields))
}
