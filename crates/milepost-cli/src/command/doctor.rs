//! `doctor`: reports problems with the store and how to fix them. With `--fix`, repairs them.

use milepost::Error;
use milepost::internal::engine::{Diagnosis, DoctorReport, FutureCheckpoint};
use milepost::store::StoreError;

use crate::context::Context;
use crate::error::Result;
use crate::hook::failures;
use crate::present::doctor::{DoctorDocument, Warning};
use crate::present::format;

/// Find problems with the store, and repair them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost doctor\n  milepost doctor --fix")]
pub(crate) struct DoctorArgs {
    /// Repair everything that can be repaired without losing data
    #[arg(long)]
    fix: bool,
}

pub(crate) fn execute(args: DoctorArgs, context: &Context<'_>) -> Result<DoctorDocument> {
    let unknown = context.config.warnings.iter();
    let mut warnings: Vec<_> =
        unknown.map(|w| Warning { message: w.clone(), fix: "correct the key, or remove it" }).collect();
    let failed = failures::read(&context.config.project());
    if let Some(last) = failed.last() {
        let n = format::counted(failed.len() as u64, "hook failure");
        let message = format!("{n}, the last from {}: {}", last.agent, last.message);
        let fix = match args.fix {
            true => "cleared; it appears again if the cause persists",
            false => "fix the cause, then run `milepost doctor --fix` to clear this",
        };
        warnings.push(Warning { message, fix });
        if args.fix {
            failures::clear(&context.config.project());
        }
    }
    let mut bytes = 0;
    let report = match context.open_read_only() {
        Ok(mp) => {
            let info = mp.store().info()?;
            bytes = info.bytes();
            warnings.extend(info.warning().clone().map(|message| Warning {
                message,
                fix: "use a store on a local disk: set it with --store or in milepost.toml",
            }));
            let most = context.config.retain.store_limits.max_bytes;
            if most > 0 && bytes > most && context.config.server.is_none() {
                let message =
                    format!("the store uses {}, more than {}", format::bytes(bytes), format::bytes(most));
                warnings.push(Warning {
                    message,
                    fix: "run `milepost prune` to reduce the oldest ended runs, or `milepost delete RUN` to remove \
                          one; retain.max_store in milepost.toml sets the limit",
                });
            }
            let mut progress = context.output.progress();
            let outbox = context.outbox();
            mp.doctor(args.fix, outbox.as_ref(), &mut |n| progress.at("checkpoints read", n))
                .or_else(unreadable)?
        }
        Err(e) => unreadable(e)?,
    };
    warnings.extend(dated_in_future(&report.future));
    Ok(DoctorDocument {
        store: context.url().to_string(),
        bytes,
        checked: report.checked,
        fixed: report.fixed(),
        problems: report.problems,
        warnings,
        future: report.future,
        platform_limits: PLATFORM_LIMITS,
        repairs: args.fix,
    })
}

/// What Milepost cannot do here. The complete list is in docs/limits.md.
const PLATFORM_LIMITS: &[&str] = if cfg!(windows) {
    &[
        "Windows: Milepost's files are as private as the folder they are in",
        "Windows: `restore` creates no symbolic links, and whether a file is executable is not recorded",
        "Windows: after a power failure, a file that was just created or replaced may be missing",
        "Windows: only `run --log FILE` keeps the end of a command's output in a file",
    ]
} else if cfg!(target_os = "linux") {
    &[]
} else {
    &["durations use the wall clock, because this system has no id of its boot"]
};

/// Warns about checkpoints that are dated in the future, and names the first few.
fn dated_in_future(future: &[FutureCheckpoint]) -> Option<Warning> {
    const NAMED: usize = 5;
    let name = |one: &FutureCheckpoint| {
        format!("{} ({}@{}, {:.0})", one.snapshot_id, one.run_id, one.sequence, one.created_at)
    };
    let mut names: Vec<_> = future.iter().take(NAMED).map(name).collect();
    if future.len() > NAMED {
        names.push(format!("and {} more: --json lists all", future.len() - NAMED));
    }
    let verb = if future.len() == 1 { "is" } else { "are" };
    let n = format::counted(future.len() as u64, "checkpoint");
    (!future.is_empty()).then(|| Warning {
        message: format!("{n} {verb} dated more than a day in the future: {}", names.join(", ")),
        fix: "check the clock of this machine and of the one that created them; the checkpoints are intact, and \
              retention uses the order in which they were written",
    })
}

/// Reports a store that is too damaged to open or read as a problem, instead of failing.
fn unreadable(e: Error) -> Result<DoctorReport, Error> {
    match &e {
        Error::Store(StoreError::Damaged(damage)) => Ok(DoctorReport {
            problems: vec![Diagnosis {
                reason_code: e.reason(),
                message: damage.to_string(),
                fix: "copy the file and its -wal file to a safe place, then restore a backup; without one, \
                      `sqlite3 FILE .recover` extracts what is still readable"
                    .into(),
                fixed: false,
            }],
            ..DoctorReport::default()
        }),
        _ => Err(e),
    }
}
