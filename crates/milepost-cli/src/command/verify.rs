//! `verify`: reads everything and names what is not as it was written.

use milepost::Exit;
use milepost::engine::{Reference, Scope};
use serde::Serialize;

use crate::context::Context;
use crate::failure::Failure;
use crate::present::damage::{DamageDocument, reason};
use crate::present::words;

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

pub(crate) fn run(args: &VerifyArgs, context: &Context<'_>) -> Result<(), Failure> {
    let reference = args.reference.as_deref().map(str::parse::<Reference>).transpose()?;
    let mp = context.reader()?;
    let scope = match (reference, context.known_run(&mp)?) {
        (Some(reference), run) => Scope::Checkpoint(reference, run),
        (None, Some(run)) => Scope::Run(run),
        (None, None) => Scope::Store,
    };
    let mut progress = context.screen.progress();
    let report = mp.verify(&scope, &mut |n| progress.at("checkpoints read", n))?;
    drop(progress);
    let checked = words::counted(report.checked, "checkpoint");
    if context.screen.json {
        let damaged = DamageDocument::all(&report.damaged);
        let document = Document { schema: "milepost.verify/1", checked: report.checked, damaged };
        context.screen.document(&document)?;
    } else if report.damaged.is_empty() {
        context.screen.text(&format!("{checked} intact\n"))?;
    } else {
        let lines =
            report.damaged.iter().map(|d| format!("{} ({})\n", words::clean(&d.to_string()), reason(d)));
        context.screen.text(&lines.collect::<String>())?;
    }
    let Some(first) = report.damaged.first() else { return Ok(()) };
    let n = words::counted(report.damaged.len() as u64, "damaged value");
    Err(Failure::told(reason(first), format!("{n} found in {checked}"))
        .exits(Exit::Damaged)
        .hint("`milepost doctor` says what can be done"))
}
