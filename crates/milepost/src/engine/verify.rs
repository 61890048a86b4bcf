//! Verify: reads everything in its scope and reports what is damaged. Changes nothing.

use super::Milepost;
use super::lookup::PAGE;
use super::reference::Reference;
use crate::Error;
use crate::model::{BlobId, RunId};
use crate::store::{CheckpointFilter, Damage, EventQuery, HeaderQuery, LOSS_CAUSES, Part, Row, RunQuery};
use derive_getters::Getters;

/// What to verify.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifyScope {
    /// The whole store.
    Store,
    /// One run.
    Run(RunId),
    /// One checkpoint.
    Checkpoint(Reference, Option<RunId>),
}

/// The result of a verification.
#[derive(Getters, Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct VerifyReport {
    /// Number of checkpoints read.
    pub(crate) checked: u64,
    /// The damage found.
    pub(crate) damaged: Vec<Damage>,
    /// Number of file contents read.
    pub(crate) files_checked: u64,
    /// Damaged or missing file contents, and the files that they belong to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) damaged_files: Vec<DamagedFile>,
}

/// A damaged or missing file content.
#[derive(Getters, Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct DamagedFile {
    /// The content.
    pub(crate) blob: BlobId,
    /// What is wrong with it.
    pub(crate) problem: String,
    /// The files that have this content: checkpoint and path. At most 20 of them.
    pub(crate) affected: Vec<(String, String)>,
    /// Number of affected files.
    pub(crate) affected_count: u64,
}

impl std::fmt::Display for DamagedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem)?;
        for (n, (checkpoint, path)) in self.affected.iter().enumerate() {
            write!(f, "{} {path} in {checkpoint}", if n == 0 { "; affects" } else { "," })?;
        }
        match self.affected_count - self.affected.len() as u64 {
            0 if self.affected.is_empty() => f.write_str("; no checkpoint refers to it"),
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Milepost {
    /// Verifies the given scope. `progress` is called with the number of checkpoints read so far.
    pub fn verify(&self, scope: &VerifyScope, progress: &mut dyn FnMut(u64)) -> Result<VerifyReport, Error> {
        let mut report = VerifyReport::default();
        match scope {
            VerifyScope::Checkpoint(reference, run) => {
                // Look it up again if it was removed in the meantime: `latest` then names another
                // checkpoint.
                while !self.verify_row(self.locate(reference, run.as_ref())?, &mut report)? {}
                let entry = self.find(reference, run.as_ref());
                self.verify_files(Some(entry.into_iter().collect()), &mut report)?;
            }
            VerifyScope::Run(run) => {
                self.stored_run(run)?;
                self.verify_run(run, &mut report, progress)?;
                let rows = self.rows(HeaderQuery::default().run(run), PAGE);
                let entries = rows.filter_map(|row| row.ok().and_then(Row::intact)).collect();
                self.verify_files(Some(entries), &mut report)?;
            }
            VerifyScope::Store => {
                for row in self.store.runs(&RunQuery::default())? {
                    self.verify_run(&row.run_id, &mut report, progress)?;
                }
                let stray = HeaderQuery::default().find(CheckpointFilter::Orphaned);
                for row in self.store.headers(&stray)? {
                    self.verify_row(row, &mut report)?;
                }
                self.verify_files(None, &mut report)?;
                // A store may report damage that concerns events and attachments with both.
                for damage in self.store.events(&EventQuery::default())?.damaged {
                    if !report.damaged.contains(&damage) {
                        report.damaged.push(damage);
                    }
                }
                let lost = self.store.lost_writes()?;
                if lost > 0 {
                    let found = format!("{lost} missing ({LOSS_CAUSES})");
                    report.damaged.push(Damage::integrity(Part::Wal, "every acknowledged write", found));
                }
            }
        }
        Ok(report)
    }

    fn verify_run(
        &self,
        run: &RunId,
        report: &mut VerifyReport,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        if let Some(state) = self.store.run(run)? {
            report.damaged.extend(state.row.record.err());
            report.damaged.extend(state.damaged);
        }
        report.damaged.extend(self.store.messages(run)?.into_iter().filter_map(Result::err));
        report.damaged.extend(self.store.attachments(run, None)?.into_iter().filter_map(Result::err));
        for row in self.rows(HeaderQuery::default().run(run), PAGE) {
            self.verify_row(row?, report)?;
            progress(report.checked);
        }
        Ok(())
    }

    /// Verifies a row and counts it. Returns false for a checkpoint that was removed since it was listed.
    fn verify_row(&self, row: Row, report: &mut VerifyReport) -> Result<bool, Error> {
        match self.read_row(row) {
            Ok(None) => return Ok(false),
            Ok(Some((entry, verified))) => {
                let header = &entry.header;
                let fits = verified.body().is_ok_and(|body| {
                    body.run_id == header.run_id
                        && body.sequence == header.sequence
                        && body.snapshot_id == header.snapshot_id
                });
                if !fits {
                    let damage =
                        Damage::integrity(Part::Body, "the checkpoint named in its header", "another one");
                    let damage = damage.at(Some(&header.run_id), Some(header.sequence));
                    report.damaged.push(damage.named(Some(header.snapshot_id.clone())));
                }
            }
            Err(Error::Damaged(damage)) => report.damaged.push(*damage),
            Err(e) => return Err(e),
        }
        report.checked += 1;
        Ok(true)
    }
}
