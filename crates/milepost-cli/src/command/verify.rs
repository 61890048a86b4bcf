//! `verify`: reads everything and names what is not as it was written.

use crate::error_advice::Exit;
use milepost::{Reference, VerifyScope};
use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::present::damage::{DamageDocument, reason};
use crate::present::format;

/// Verify every checkpoint, those of a run, or one
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost verify\n  milepost verify --run nightly\n  milepost verify latest --json"
)]
pub(crate) struct VerifyArgs {
    /// The checkpoint; everything unless given
    #[arg(value_name = "REF")]
    reference: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    checked: u64,
    damaged: Vec<DamageDocument<'a>>,
}

pub(crate) fn run(args: &VerifyArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let reference = args.reference.as_deref().map(str::parse::<Reference>).transpose()?;
    let mp = context.open_existing()?;
    let scope = match (reference, context.named_run(&mp)?) {
        (Some(reference), run) => VerifyScope::Checkpoint(reference, run),
        (None, Some(run)) => VerifyScope::Run(run),
        (None, None) => VerifyScope::Store,
    };
    let mut progress = context.output.progress();
    let report = mp.verify(&scope, &mut |n| progress.at("checkpoints read", n))?;
    drop(progress);
    let checked = format::counted(report.checked, "checkpoint");
    if context.output.json {
        let damaged = DamageDocument::all(&report.damaged);
        let document = Document { schema: "milepost.verify/1", checked: report.checked, damaged };
        context.output.document(&document)?;
    } else if report.damaged.is_empty() {
        context.output.text(&format!("{checked} intact\n"))?;
    } else {
        let lines =
            report.damaged.iter().map(|d| format!("{} ({})\n", format::clean(&d.to_string()), reason(d)));
        context.output.text(&lines.collect::<String>())?;
    }
    let Some(first) = report.damaged.first() else { return Ok(()) };
    let n = format::counted(report.damaged.len() as u64, "damaged value");
    Err(CommandError::new(reason(first), format!("{n} found in {checked}"))
        .with_exit(Exit::Damaged)
        .with_hint("`milepost doctor` says what can be done"))
}
