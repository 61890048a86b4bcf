//! Doctor: examines a store and its outbox, and reports each problem with a remedy. With `fix`, repairs
//! what it can without losing data.

use jiff::{SignedDuration, Timestamp};

use super::outbox::Outbox;
use super::verify::VerifyScope;
use super::{Milepost, VerifyReport};
use crate::model::{CheckpointId, RunId};
use crate::store::{Maintenance, Part, Problem, ProblemKind, RunQuery, StoreError};
use crate::{Error, ReasonCode};

/// A problem that the doctor found.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Diagnosis {
    /// The reason code, for programs.
    pub reason_code: ReasonCode,
    /// A one-line message for people.
    pub message: String,
    /// How to fix the problem.
    pub fix: String,
    /// Whether the problem was repaired by this call.
    pub fixed: bool,
}

/// The result of an examination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoctorReport {
    /// The problems found.
    pub problems: Vec<Diagnosis>,
    /// Number of checkpoints read.
    pub checked: u64,
    /// Intact checkpoints dated in the future by more than `CLOCK_TOLERANCE`.
    pub future: Vec<FutureCheckpoint>,
}

/// How far in the future a checkpoint may be dated before it is reported. Clocks of different machines
/// differ, but not by a day.
pub const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_hours(24);

/// A checkpoint dated in the future: the clock was wrong when it was saved, or is wrong now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FutureCheckpoint {
    /// The checkpoint id.
    pub snapshot_id: CheckpointId,
    /// The run id.
    pub run_id: RunId,
    /// The sequence number within the run.
    pub sequence: u64,
    /// The recorded date.
    pub created_at: Timestamp,
}

impl Diagnosis {
    fn new(reason_code: ReasonCode, message: String, fix: &str, fixed: bool) -> Self {
        Self { reason_code, message, fix: fix.to_owned(), fixed }
    }
}

impl DoctorReport {
    /// Number of problems that were repaired.
    pub fn fixed(&self) -> usize {
        self.problems.iter().filter(|p| p.fixed).count()
    }
}

impl Milepost {
    /// Number of acknowledged writes that are missing from the store, because its write-ahead log was
    /// damaged or an older copy replaced the database. `doctor` with `fix` recovers what it can; the number
    /// is 0 afterwards.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn lost_writes(&self) -> Result<u64, Error> {
        Ok(self.store.lost_writes()?)
    }

    /// Examines the store. With `fix`, repairs what can be repaired without losing data.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn doctor(
        &self,
        fix: bool,
        outbox: Option<&Outbox>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<DoctorReport, Error> {
        let mut report = DoctorReport::default();
        if let Some(outbox) = outbox {
            self.examine_outbox(fix, outbox, &mut report);
        }
        let found = self.store.maintain(if fix { Maintenance::Repair } else { Maintenance::Inspect })?;
        let pages = found.problems.iter().any(|p| p.kind == ProblemKind::Pages);
        if pages && !fix {
            report.problems.extend(found.problems.into_iter().map(|p| diagnosis(p, &[], fix)));
            return Ok(report);
        }
        let mut left = Vec::new();
        if fix {
            for row in self.store.runs(&RunQuery::default())? {
                if row.record.is_err() {
                    self.rebuild_record(&row.run_id)?;
                }
            }
            // Problems that are still present were not repaired.
            left = self.store.maintain(Maintenance::Inspect)?.problems;
        }
        let named = found.problems.iter().filter(|p| p.kind == ProblemKind::Record).count();
        report.problems.extend(found.problems.into_iter().map(|p| diagnosis(p, &left, fix)));
        match self.verify(&VerifyScope::Store, progress) {
            Ok(VerifyReport { checked, damaged, damaged_files, .. }) => {
                report.checked = checked;
                // The inspection above has already reported damaged records and lost writes. Without `fix`,
                // it has also reported damaged headers and marks.
                let repeated = |part| {
                    matches!(part, Part::Run | Part::Wal)
                        || (named > 0 && !fix && matches!(part, Part::Header | Part::Marks))
                };
                let fix = "restore this checkpoint from a backup, or delete its run; checkpoints not listed here are intact";
                for damage in damaged.into_iter().filter(|d| !repeated(d.part)) {
                    let message = damage.to_string();
                    let reason = Error::Damaged(Box::new(damage)).reason();
                    report.problems.push(Diagnosis::new(reason, message, fix, false));
                }
                for file in damaged_files {
                    let fix =
                        "checkpoints and all other files are intact; a new checkpoint stores the file again";
                    let reason = ReasonCode::CheckpointIntegrityMismatch;
                    report.problems.push(Diagnosis::new(reason, file.to_string(), fix, false));
                }
            }
            Err(Error::Store(StoreError::Damaged(_))) if pages => return Ok(report),
            Err(e) => return Err(e),
        }
        report.future = self.future_checkpoints()?;
        Ok(report)
    }

    /// Checkpoints dated in the future, run by run, oldest first.
    fn future_checkpoints(&self) -> Result<Vec<FutureCheckpoint>, Error> {
        let limit = self.now().saturating_add(CLOCK_TOLERANCE).unwrap_or(Timestamp::MAX);
        let mut future = Vec::new();
        for row in self.store.runs(&RunQuery::default())? {
            for entry in self.entries(&row.run_id) {
                let header = entry?.header;
                if header.created_at > limit {
                    future.push(FutureCheckpoint {
                        snapshot_id: header.snapshot_id,
                        run_id: header.run_id,
                        sequence: header.sequence,
                        created_at: header.created_at,
                    });
                }
            }
        }
        Ok(future)
    }

    fn examine_outbox(&self, fix: bool, outbox: &Outbox, report: &mut DoctorReport) {
        let waiting = outbox.waiting().unwrap_or_default().len();
        if waiting == 0 {
            return;
        }
        let taken = if fix { outbox.deliver(self) } else { Ok(super::outbox::DeliveryReport::default()) };
        let fixed = taken.as_ref().is_ok_and(|report| report.saved.len() == waiting);
        let (refused, unsigned) =
            taken.map(|report| (report.refused, report.unsigned.len())).unwrap_or_default();
        if unsigned > 0 {
            let message =
                format!("saves in {} without your signature: {unsigned}", outbox.folder().display());
            let fix = "run `milepost trust --outbox` to review and accept them";
            report.problems.push(Diagnosis::new(ReasonCode::StoreUntrusted, message, fix, false));
        }
        for (file, why) in &refused {
            let message = format!("{} cannot be saved to the store: {why}", file.display());
            let fix = "remove the file if you do not need its content";
            report.problems.push(Diagnosis::new(ReasonCode::CheckpointSchemaInvalid, message, fix, false));
        }
        if refused.len() + unsigned == waiting {
            return;
        }
        let message = format!("saves waiting in {}: {waiting}", outbox.folder().display());
        let fix = "the next command that can write to the store saves them; `milepost doctor --fix` lists those that cannot be saved";
        report.problems.push(Diagnosis::new(ReasonCode::CheckpointAtomicWriteFailed, message, fix, fixed));
    }
}

fn diagnosis(problem: Problem, left: &[Problem], fix: bool) -> Diagnosis {
    let fixed = fix && problem.repairable && !left.contains(&problem);
    let reason_code = match problem.kind {
        ProblemKind::StrayFile | ProblemKind::Orphan => ReasonCode::CheckpointAtomicWriteFailed,
        ProblemKind::Derived | ProblemKind::Record | ProblemKind::Pages | ProblemKind::Lost => {
            ReasonCode::CheckpointIntegrityMismatch
        }
    };
    let remedy = match (problem.kind, problem.repairable) {
        (_, true) => "run `milepost doctor --fix` to repair this",
        (ProblemKind::Pages, false) => {
            "run `milepost doctor --fix` to recover what can be read; restore the rest from a backup"
        }
        (_, false) => "Milepost cannot repair this",
    };
    Diagnosis::new(reason_code, problem.message, remedy, fixed)
}
