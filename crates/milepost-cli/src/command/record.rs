//! `record`: how a command or tool ended, told or found out by running it.

use std::ffi::OsString;

use milepost::Error;
use milepost::internal::engine::OUTCOME_SUMMARY;
use milepost::model::{Outcome, OutcomeKind, OutcomeResult, ValidationError};

use super::number;
use crate::config::word;
use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::present::saved::Changed;
use crate::supervise::{self, Attempt};

/// Record how a command or tool ended, or run one and record it
///
/// With a command behind --, runs it, passes its output and exit code through, and records PASS or FAIL with the end of
/// its output. Outcomes are durable when this returns, and part of the next checkpoint, which holds the newest 100.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost record -- make test\n  \
                        milepost record --kind tool_use --name edit --result WARN --duration-ms 120 --summary \"2 hunks\"")]
pub(crate) struct RecordArgs {
    /// What it is: shell, slash_command or tool_use [default with a command: shell]
    #[arg(long, value_name = "K", required_unless_present = "command")]
    pub(super) kind: Option<String>,
    /// Its name [default with a command: the command]
    #[arg(long, value_name = "N", required_unless_present = "command")]
    pub(super) name: Option<String>,
    /// How it ended: PASS, FAIL or WARN
    #[arg(long, value_name = "R", required_unless_present = "command", conflicts_with = "command")]
    pub(super) result: Option<String>,
    /// How long it took
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub(super) duration_ms: Option<String>,
    /// What it did, in at most 2,048 bytes [default with a command: the end of its output]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) summary: Option<String>,
    /// Why it ended so
    #[arg(long, value_name = "C")]
    pub(super) reason_code: Option<String>,
    /// The command to run
    #[arg(value_name = "CMD", last = true)]
    pub(super) command: Vec<OsString>,
}

pub(crate) fn run(args: RecordArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let kind = args.kind.as_deref().map(|k| word(k, "--kind", "/command_outcomes/kind")).transpose()?;
    let summary = args.summary.clone().unwrap_or_default();
    if summary.len() > OUTCOME_SUMMARY {
        let message = format!("{} bytes, over the limit of {OUTCOME_SUMMARY}", summary.len());
        let source = ValidationError { path: "/command_outcomes/summary".into(), message };
        return Err(Error::Value { name: "--summary".into(), source }.into());
    }
    if !args.command.is_empty() {
        return execute(&args, kind, context).map_err(CommandError::into_supervisor);
    }
    let result = args.result.as_deref().unwrap_or_default();
    let outcome = Outcome {
        duration_ms: number(
            args.duration_ms.as_deref().unwrap_or_default(),
            "--duration-ms",
            "/command_outcomes/duration_ms",
        )?,
        kind: kind.unwrap_or(OutcomeKind::Shell),
        name: args.name.unwrap_or_default(),
        reason_code: args.reason_code,
        result: word::<OutcomeResult>(result, "--result", "/command_outcomes/result")?,
        summary,
        extra: Default::default(),
    };
    keep(outcome, context, |changed| changed.present(context.output))
}

fn keep(
    outcome: Outcome,
    context: &Context<'_>,
    present: impl Fn(&Changed<'_, serde_json::Value>) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let what = serde_json::json!({ "outcome": &outcome });
    let applied = context.apply(vec![outcome.into()], &Target::CurrentOrNew)?;
    present(&Changed { schema: "milepost.record/1", applied: &applied, what })
}

/// The command runs whatever the store says; that its outcome could not be kept is said afterwards.
fn execute(args: &RecordArgs, kind: Option<OutcomeKind>, context: &Context<'_>) -> Result<(), CommandError> {
    let allow = &context.config.redact_allow;
    let attempt = Attempt::new(&args.command, allow);
    let (ended, tail) = supervise::run_with_tail(attempt.command(), allow);
    let mut outcome = attempt.outcome(&ended, tail);
    outcome.kind = kind.unwrap_or(outcome.kind);
    if let Some(name) = &args.name {
        outcome.name.clone_from(name);
    }
    if let Some(summary) = &args.summary {
        outcome.summary.clone_from(summary);
    }
    if args.reason_code.is_some() {
        outcome.reason_code.clone_from(&args.reason_code);
    }
    let kept = keep(outcome, context, |changed| {
        changed.present_aside(context.output);
        Ok(())
    });
    let ending = ended.map_err(|e| attempt.failure(&e))?;
    if let Err(CommandError::Library(e @ (Error::Store(_) | Error::File { .. }))) = &kept
        && !ending.passed()
    {
        // The command's own failure is the one to look at first.
        context.output.message(&format!("Warning: its outcome could not be recorded: {e}"));
        return ending.pass_through();
    }
    kept?;
    ending.pass_through()
}
