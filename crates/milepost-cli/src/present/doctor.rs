//! What `doctor` found and repaired.

use jiff::Timestamp;
use milepost::ReasonCode;
use milepost::internal::engine::{Diagnosis, DoctorReport, FutureCheckpoint};
use milepost::model::{CheckpointId, RunId};
use serde::Serialize;

use super::format::{bytes, clean, counted, green, red, yellow};
use super::{Document, Output};
use crate::error::CommandError;
use crate::error_advice::Exit;

#[derive(Serialize)]
pub(crate) struct DoctorDocument {
    schema: &'static str,
    store: String,
    bytes: u64,
    checked: u64,
    problems: Vec<Problem>,
    fixed: usize,
    warnings: Vec<Warning>,
    future: Vec<Future>,
    /// Whether it was asked to repair.
    #[serde(skip)]
    repairs: bool,
}

#[derive(Serialize)]
struct Problem {
    reason_code: ReasonCode,
    message: String,
    fix: String,
    fixed: bool,
}

impl From<Diagnosis> for Problem {
    fn from(found: Diagnosis) -> Self {
        let Diagnosis { reason_code, message, fix, fixed } = found;
        Self { reason_code, message, fix, fixed }
    }
}

/// Something to know that is no damage.
#[derive(Serialize)]
pub(crate) struct Warning {
    pub(crate) message: String,
    pub(crate) fix: &'static str,
}

/// A checkpoint that is dated in the future.
#[derive(Serialize)]
struct Future {
    snapshot_id: CheckpointId,
    run_id: RunId,
    sequence: u64,
    created_at: Timestamp,
}

impl From<FutureCheckpoint> for Future {
    fn from(one: FutureCheckpoint) -> Self {
        let FutureCheckpoint { snapshot_id, run_id, sequence, created_at } = one;
        Self { snapshot_id, run_id, sequence, created_at }
    }
}

impl DoctorDocument {
    pub(crate) fn new(
        store: String,
        bytes: u64,
        report: DoctorReport,
        warnings: Vec<Warning>,
        repairs: bool,
    ) -> Self {
        Self {
            schema: "milepost.doctor/1",
            store,
            bytes,
            checked: report.checked,
            fixed: report.fixed(),
            problems: report.problems.into_iter().map(Problem::from).collect(),
            warnings,
            future: report.future.into_iter().map(Future::from).collect(),
            repairs,
        }
    }
}

impl Document for DoctorDocument {
    fn render(&self, output: &Output) -> Result<(), CommandError> {
        let checked = counted(self.checked, "checkpoint");
        let mut text = format!("{}, {}, {checked} read\n", clean(&self.store), bytes(self.bytes));
        for problem in &self.problems {
            let sign = if problem.fixed { green("mended ") } else { red("problem") };
            text.push_str(&format!("{sign} {} ({})\n", clean(&problem.message), problem.reason_code));
            if !problem.fixed {
                text.push_str(&format!("        {}\n", clean(&problem.fix)));
            }
        }
        for warning in &self.warnings {
            let message = clean(&warning.message);
            text.push_str(&format!("{} {message}\n        {}\n", yellow("warning"), warning.fix));
        }
        if self.problems.is_empty() {
            text.push_str("No problems.\n");
        }
        output.write_text(&text)
    }

    fn change(&self) -> Option<String> {
        self.repairs.then(|| format!("{} mended", counted(self.fixed as u64, "problem")))
    }

    fn error(&self) -> Option<CommandError> {
        let open: Vec<_> = self.problems.iter().filter(|problem| !problem.fixed).collect();
        let n = counted(open.len() as u64, "problem");
        let first = open.first()?;
        Some(CommandError::new(first.reason_code, format!("{n} found")).with_exit(Exit::Damaged))
    }
}
