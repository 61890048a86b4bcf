//! `record`: records the outcome of a command or tool, either as reported or by running the command.

use std::ffi::OsString;

use milepost::Error;
use milepost::internal::engine::OUTCOME_SUMMARY;
use milepost::model::{Outcome, OutcomeKind, OutcomeResult, ValidationError};
use serde::Serialize;

use crate::completion::Values;
use crate::context::{Context, Target};
use crate::error::CommandError;
use crate::input::Argument;
use crate::present::saved::{ChangeDocument, ChangeResult};
use crate::supervise::{self, SupervisedCommand};

/// Record the outcome of a command or tool, or run a command
///
/// With a command after --, runs it, passes its output and exit code through, and records PASS or FAIL with
/// the end of its output. Outcomes are durable when this command returns. A checkpoint contains the newest
/// 100.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost record -- make test\n  \
                        milepost record --kind tool_use --name edit --result WARN --duration-ms 120")]
pub(crate) struct RecordArgs {
    /// Kind: shell, slash_command or tool_use [default with a command: shell]
    #[arg(long, value_name = "KIND", required_unless_present = "command", add = Values::Words(OutcomeKind::NAMES))]
    pub(super) kind: Option<Argument<OutcomeKind>>,
    /// Name [default with a command: the command]
    #[arg(long, value_name = "NAME", required_unless_present = "command")]
    pub(super) name: Option<String>,
    /// Result: PASS, FAIL or WARN
    #[arg(
        long,
        value_name = "RESULT",
        required_unless_present = "command",
        conflicts_with = "command",
        add = Values::Words(OutcomeResult::NAMES)
    )]
    pub(super) result: Option<Argument<OutcomeResult>>,
    /// Duration in milliseconds
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        required_unless_present = "command",
        conflicts_with = "command"
    )]
    pub(super) duration_ms: Option<Argument<u64>>,
    /// Summary, at most 2,048 bytes [default with a command: the end of its output]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) summary: Option<String>,
    /// Reason code of the outcome
    #[arg(long, value_name = "CODE")]
    pub(super) reason_code: Option<String>,
    /// Command to run
    #[arg(value_name = "CMD", last = true)]
    pub(super) command: Vec<OsString>,
}

#[derive(Serialize)]
pub(crate) struct OutcomeFields {
    outcome: Outcome,
}

pub(crate) fn execute(args: RecordArgs, context: &Context<'_>) -> ChangeResult<OutcomeFields> {
    let kind = args.kind.clone().map(|k| k.choice("--kind", "/command_outcomes/kind")).transpose()?;
    let summary = args.summary.clone().unwrap_or_default();
    if summary.len() > OUTCOME_SUMMARY {
        let message = format!("{} bytes, over the limit of {OUTCOME_SUMMARY}", summary.len());
        let source = ValidationError { path: "/command_outcomes/summary".into(), message };
        return Err(Error::Value { name: "--summary".into(), source }.into());
    }
    if !args.command.is_empty() {
        return run_program(&args, kind, context).map_err(CommandError::into_supervisor);
    }
    let duration = args.duration_ms.unwrap_or_else(|| String::new().into());
    let result = args.result.unwrap_or_else(|| String::new().into());
    let outcome = Outcome {
        duration_ms: duration.number("--duration-ms", "/command_outcomes/duration_ms")?,
        kind: kind.unwrap_or(OutcomeKind::Shell),
        name: args.name.unwrap_or_default(),
        reason_code: args.reason_code,
        result: result.choice("--result", "/command_outcomes/result")?,
        summary,
        extra: Default::default(),
    };
    record_outcome(outcome, context)
}

fn record_outcome(outcome: Outcome, context: &Context<'_>) -> ChangeResult<OutcomeFields> {
    let applied = context.apply(vec![outcome.clone().into()], &Target::CurrentOrNew)?;
    Ok(ChangeDocument::new("milepost.record/1", &applied, OutcomeFields { outcome }))
}

/// Runs the program even if the store cannot be written. A failure to record the outcome is reported
/// afterwards.
fn run_program(
    args: &RecordArgs,
    kind: Option<OutcomeKind>,
    context: &Context<'_>,
) -> ChangeResult<OutcomeFields> {
    let allow = &context.config.redact_allow;
    let command_line = SupervisedCommand::new(&args.command, allow);
    let (ended, tail) = supervise::run_with_tail(command_line.command(), allow);
    let mut outcome = command_line.outcome(&ended, tail);
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
    let recorded = record_outcome(outcome, context);
    let ending = ended.map_err(|e| command_line.start_error(&e))?;
    if let (Err(CommandError::Library(e @ (Error::Store(_) | Error::File { .. }))), Err(exit)) =
        (&recorded, ending.pass_through())
    {
        // The program's own failure takes precedence.
        context.output.message(&format!("Warning: the outcome could not be recorded: {e}"));
        return Err(exit);
    }
    recorded.map(|document| document.with_program_exit(ending))
}
