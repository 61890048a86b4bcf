//! The result of `doctor`: problems, repairs and warnings, as JSON and text.

use milepost::internal::engine::{Diagnosis, FutureCheckpoint};
use serde::Serialize;

use super::format::{bytes, clean, counted, green, red, yellow};
use super::{Document, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.doctor/1")]
pub(crate) struct DoctorDocument {
    pub(crate) store: String,
    pub(crate) bytes: u64,
    pub(crate) checked: u64,
    pub(crate) problems: Vec<Diagnosis>,
    pub(crate) fixed: usize,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) future: Vec<FutureCheckpoint>,
    /// What Milepost cannot do on this platform.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub(crate) platform_limits: &'static [&'static str],
    /// Whether repairs were requested (`--fix`).
    #[serde(skip)]
    pub(crate) repairs: bool,
}

/// A finding that is not damage.
#[derive(Serialize)]
pub(crate) struct Warning {
    pub(crate) message: String,
    pub(crate) fix: &'static str,
}

impl Document for DoctorDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let checked = counted(self.checked, "checkpoint");
        let mut text = format!("{}, {}, {checked} checked\n", clean(&self.store), bytes(self.bytes));
        for problem in &self.problems {
            let sign = if problem.fixed { green("fixed  ") } else { red("problem") };
            text.push_str(&format!("{sign} {} ({})\n", clean(&problem.message), problem.reason_code));
            if !problem.fixed {
                text.push_str(&format!("        {}\n", clean(&problem.fix)));
            }
        }
        for warning in &self.warnings {
            let message = clean(&warning.message);
            text.push_str(&format!("{} {message}\n        {}\n", yellow("warning"), warning.fix));
        }
        for limit in self.platform_limits {
            text.push_str(&format!("note    {limit}\n"));
        }
        if self.problems.is_empty() {
            text.push_str("No problems.\n");
        }
        output.write_text(&text)
    }

    fn change(&self) -> Option<String> {
        self.repairs.then(|| format!("{} fixed", counted(self.fixed as u64, "problem")))
    }

    fn error(&self) -> Option<CommandError> {
        let open: Vec<_> = self.problems.iter().filter(|problem| !problem.fixed).collect();
        let n = counted(open.len() as u64, "problem");
        let first = open.first()?;
        Some(CommandError::new(first.reason_code, format!("{n} found")).with_exit(Exit::Damaged))
    }
}
