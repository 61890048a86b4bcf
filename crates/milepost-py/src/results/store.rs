//! Reports about the whole store.

use milepost::internal::error_chain;

use super::checkpoint::Damage;
use super::{result, text};

result! {
    /// The result of a verification.
    pub(crate) struct VerifyReport shows checked, damaged {
        /// Number of checkpoints that were read.
        checked: u64,
        damaged: Vec<Damage>,
        /// Number of file contents that were read.
        files_checked: u64,
        /// Damaged or missing file contents, as text.
        damaged_files: Vec<String>,
        /// Nothing is damaged.
        is_intact: bool,
    }
}

impl From<&milepost::VerifyReport> for VerifyReport {
    fn from(report: &milepost::VerifyReport) -> Self {
        Self {
            checked: report.checked(),
            damaged: report.damaged().iter().map(Damage::from).collect(),
            files_checked: report.files_checked(),
            damaged_files: report.damaged_files().iter().map(text).collect(),
            is_intact: report.damaged().is_empty() && report.damaged_files().is_empty(),
        }
    }
}

result! {
    /// What was sent to the server of the store.
    pub(crate) struct SyncReport shows runs, checkpoints, failed {
        runs: Vec<String>,
        checkpoints: u64,
        /// Runs that someone else continued meanwhile, and the runs that the parts from this machine became.
        split: Vec<(String, String)>,
        /// Runs that stay on this machine, and why.
        failed: Vec<(String, String)>,
    }
}

impl From<&milepost::SyncReport> for SyncReport {
    fn from(report: &milepost::SyncReport) -> Self {
        Self {
            runs: report.runs().iter().map(text).collect(),
            checkpoints: report.checkpoints(),
            split: report.split().iter().map(|(from, to)| (text(from), text(to))).collect(),
            failed: report.failed().iter().map(|(run, error)| (text(run), error_chain(error))).collect(),
        }
    }
}
