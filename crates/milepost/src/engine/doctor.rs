//! Doctor: what is wrong with a store and what can be done; with `fix`, does it.

use jiff::{SignedDuration, Timestamp};

use super::outbox::Outbox;
use super::verify::VerifyScope;
use super::{Milepost, VerifyReport};
use crate::model::{CheckpointId, RunId};
use crate::store::{Maintenance, Part, Problem, ProblemKind, RunQuery, StoreError};
use crate::{Error, ReasonCode};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Diagnosis {
    /// The word for programs.
    pub reason_code: ReasonCode,
    /// One line for people.
    pub message: String,
    /// What to do about it.
    pub fix: String,
    /// Whether it was mended now.
    pub fixed: bool,
}

/// What the doctor found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DoctorReport {
    /// What is wrong.
    pub problems: Vec<Diagnosis>,
    /// How many checkpoints were read.
    pub checked: u64,
    /// Checkpoints that are dated later than now, by more than `CLOCK_TOLERANCE`. They are intact.
    pub future: Vec<FutureCheckpoint>,
}

/// How far beyond now a checkpoint may be dated before it is named: clocks of machines differ, but not by a day.
pub const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_hours(24);

/// A checkpoint that is dated in the future: a clock was wrong when it was made, or is wrong now.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct FutureCheckpoint {
    /// Its id.
    pub snapshot_id: CheckpointId,
    /// Its run.
    pub run_id: RunId,
    /// Its number within the run.
    pub sequence: u64,
    /// The date it carries.
    pub created_at: Timestamp,
}

impl Diagnosis {
    fn new(reason_code: ReasonCode, message: String, fix: &str, fixed: bool) -> Self {
        Self { reason_code, message, fix: fix.to_owned(), fixed }
    }
}

impl DoctorReport {
    /// How many problems were mended.
    pub fn fixed(&self) -> usize {
        self.problems.iter().filter(|p| p.fixed).count()
    }
}

impl Milepost {
    /// How many writes were acknowledged and are missing from the store: its write-ahead log was damaged, or an older copy
    /// was put in its place. `doctor` with `fix` recovers what it can; after that it is 0 again.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn lost_writes(&self) -> Result<u64, Error> {
        Ok(self.store.lost_writes()?)
    }

    /// Examines the store, and mends what can be mended without losing anything.
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
            // What is still there was not mended, whatever was tried.
            left = self.store.maintain(Maintenance::Inspect)?.problems;
        }
        let named = found.problems.iter().filter(|p| p.kind == ProblemKind::Record).count();
        report.problems.extend(found.problems.into_iter().map(|p| diagnosis(p, &left, fix)));
        match self.verify(&VerifyScope::Store, progress) {
            Ok(VerifyReport { checked, damaged }) => {
                report.checked = checked;
                // Damaged records, headers and marks were named by the inspection already, unless it cannot mend them.
                let repeated = |part| {
                    matches!(part, Part::Run | Part::Wal)
                        || (named > 0 && !fix && matches!(part, Part::Header | Part::Marks))
                };
                let fix =
                    "restore this checkpoint from a backup, or delete it with its run; the others are intact";
                for damage in damaged.into_iter().filter(|d| !repeated(d.part)) {
                    let message = damage.to_string();
                    let reason = Error::Damaged(Box::new(damage)).reason();
                    report.problems.push(Diagnosis::new(reason, message, fix, false));
                }
            }
            Err(Error::Store(StoreError::Damaged(_))) if pages => return Ok(report),
            Err(e) => return Err(e),
        }
        report.future = self.future_checkpoints()?;
        Ok(report)
    }

    /// Checkpoints of all runs that are dated in the future, run by run, oldest first.
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
            let message = format!("without your signature in {}: {unsigned}", outbox.folder().display());
            let fix = "`milepost trust --outbox` shows them and asks";
            report.problems.push(Diagnosis::new(ReasonCode::StoreUntrusted, message, fix, false));
        }
        for (file, why) in &refused {
            let message = format!("{} cannot be taken in: {why}", file.display());
            let fix = "remove the file if what it holds is not needed";
            report.problems.push(Diagnosis::new(ReasonCode::CheckpointSchemaInvalid, message, fix, false));
        }
        if refused.len() + unsigned == waiting {
            return;
        }
        let message = format!("waiting in {}: {waiting}", outbox.folder().display());
        let fix = "the next command that can write the store takes in what it can; `milepost doctor --fix` names the rest";
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
        (_, true) => "`milepost doctor --fix` mends it",
        (ProblemKind::Pages, false) => {
            "`milepost doctor --fix` saves what can be read; the rest is only in a backup"
        }
        (_, false) => "nothing can be done from here",
    };
    Diagnosis::new(reason_code, problem.message, remedy, fixed)
}
