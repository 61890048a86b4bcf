//! Runs in groups: live, open, stopped, ended. In: records of runs. Out: each run with the decision about resuming it.
//! Reads no document and changes nothing.

use std::time::Duration;

use super::{Milepost, RunSummary};
use crate::model::{RunId, Status};
use crate::resume::{ResumeDecision, RunState};
use crate::{Error, clock};

/// How long a failed run counts as stopped, and not as ended.
const RECENT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A run, and whether it may be continued.
#[derive(Debug, Clone)]
pub struct AssessedRun {
    /// The run.
    pub summary: RunSummary,
    /// Whether it may be continued, as far as its record says; `None` for a damaged record.
    pub decision: Option<ResumeDecision>,
    /// The run that continues it.
    pub claimed_by: Option<RunId>,
}

/// Runs in groups, in each the last written first.
#[derive(Debug, Clone, Default)]
pub struct RunGroups {
    /// The owner lives.
    pub live: Vec<AssessedRun>,
    /// Nobody owns it, and it has not ended.
    pub open: Vec<AssessedRun>,
    /// It was interrupted, or its record is damaged.
    pub stopped: Vec<AssessedRun>,
    /// It has ended, is continued by another, or was dismissed.
    pub ended: Vec<AssessedRun>,
}

impl Milepost {
    /// Groups every run that is to be shown.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn run_groups(&self, shown: impl Fn(&RunId) -> bool) -> Result<RunGroups, Error> {
        let mut groups = RunGroups::default();
        for summary in self.runs(&super::RunsQuery::default())? {
            if !shown(&summary.run_id) {
                continue;
            }
            let (decision, claimed_by) = match &summary.record {
                Ok(record) => {
                    let (decision, claimed_by) = self.decide_by_record(&summary, record)?;
                    (Some(decision), claimed_by)
                }
                Err(_) => (None, None),
            };
            let run = AssessedRun { summary, decision, claimed_by };
            self.group_of(&mut groups, &run).push(run);
        }
        Ok(groups)
    }

    fn group_of<'g>(&self, groups: &'g mut RunGroups, run: &AssessedRun) -> &'g mut Vec<AssessedRun> {
        let record = run.summary.intact();
        let handled = run.claimed_by.is_some() || record.is_some_and(|record| record.dismissed);
        let long_ago = record.is_some_and(|record| {
            let age = clock::age(record.updated_at, self.now());
            record.status == Status::Failed && age.is_some_and(|age| age > RECENT)
        });
        match run.decision.map(|decision| decision.run_state) {
            None => &mut groups.stopped,
            Some(RunState::Active | RunState::Waiting | RunState::Stalled | RunState::Unseen) => {
                &mut groups.live
            }
            Some(RunState::Ended) => &mut groups.ended,
            Some(_) if handled || long_ago => &mut groups.ended,
            Some(RunState::Stopped) => &mut groups.stopped,
            Some(RunState::Open) => &mut groups.open,
        }
    }
}
